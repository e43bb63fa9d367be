"""Which methods there are: those of viewgap, and those that other packages bring.

A method of viewgap is a module or package beside this file that defines one subclass of
`MultiViewClassifier`. Another package adds one by an entry point of the group `viewgap.methods`::

    [project.entry-points."viewgap.methods"]
    my_method = "my_package.my_module:MyMethod"

Names are found without importing any method, so that `viewgap --help` never imports torch.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

import viewgap.methods as package
from viewgap.deprecation import current_names
from viewgap.errors import SettingError

if TYPE_CHECKING:
    from viewgap.methods.base import MultiViewClassifier

GROUP = "viewgap.methods"
_SHARED = {"estimator", "fitting", "linalg", "networks", "trees"}
_NOT_METHODS = {"base", "catalogue", "deep", "profiled", "registry", *_SHARED}
_ELSEWHERE = {"ensemble": "viewgap.ensemble"}  # made of methods, so not beside them


def names() -> list[str]:
    """Return the names of all methods, in their order."""
    return sorted({*builtin_names(), *_plugins(tuple(sys.path))})


def builtin_names() -> list[str]:
    """Return the names of viewgap's own methods: modules and packages in this folder, ensemble."""
    modules = (module.name for module in pkgutil.iter_modules(package.__path__))
    beside = [name for name in modules if name not in _NOT_METHODS]
    return sorted([*beside, *_ELSEWHERE])


def module_of(name: str) -> str:
    """Return the name of the module or package of one of viewgap's own methods."""
    return _ELSEWHERE.get(name, f"{package.__name__}.{name}")


def get(name: str) -> type[MultiViewClassifier]:
    """Return the class of a method by its name.

    SettingError if there is no such method, or the package that brings it cannot be imported.
    """
    if name in builtin_names():
        return _defined_in(module_of(name))
    plugin = _plugins(tuple(sys.path)).get(name)
    if plugin is None:
        raise SettingError(f"unknown method {name!r}; available: {', '.join(names())}")
    return _loaded(plugin)


def restore_method(name: Any, params: Mapping[str, Any], device: str | None) -> MultiViewClassifier:
    """An unfitted method from a model file, by name and parameters; ValueError for what none has.

    `device` takes the place of the stored one.
    """
    if name not in names():
        raise ValueError(f"there is no method {str(name)[:60]!r} in this viewgap")
    kind = get(name)
    known = set(kind._get_param_names())
    params = current_names(params, known, warn=False)
    unknown = set(params) - known
    if unknown:
        raise ValueError(f"{kind.__name__} has no parameter {str(min(unknown))[:60]!r}")
    if device is not None and "device" in known:
        params["device"] = device
    model = kind(**params)
    model._check_parameters()
    return model


def name_of(kind: type[Any]) -> str | None:
    """Return the name under which `get` gives this class; None if there is none."""
    for name, module in _ELSEWHERE.items():
        if f"{kind.__module__}.".startswith(f"{module}."):
            return name if get(name) is kind else None
    prefix = f"{package.__name__}."
    if kind.__module__.startswith(prefix):
        name = kind.__module__.removeprefix(prefix).partition(".")[0]
        return name if name in builtin_names() and get(name) is kind else None
    plugins = _plugins(tuple(sys.path)).items()
    alike = [name for name, plugin in plugins if plugin.attr == kind.__qualname__]
    return next((name for name in alike if get(name) is kind), None)


def by_class_name(class_name: str) -> type[MultiViewClassifier] | None:
    """Return the built-in method with this class name: LateFusionRidge is late_fusion_ridge."""
    for name in builtin_names():
        if name.replace("_", "") == class_name.lower():
            kind = get(name)
            return kind if kind.__name__ == class_name else None
    return None


@cache
def _plugins(path: tuple[str, ...]) -> dict[str, EntryPoint]:
    """Methods of other packages on this `sys.path`; none takes the name of one of viewgap's."""
    own = builtin_names()
    return {entry.name: entry for entry in entry_points(group=GROUP) if entry.name not in own}


def _loaded(plugin: EntryPoint) -> type[MultiViewClassifier]:
    from viewgap.methods.base import MultiViewClassifier

    try:
        kind = plugin.load()
    except Exception as error:  # whatever happens when another package is imported
        raise SettingError(
            f"the method {plugin.name!r} ({plugin.value}) cannot be imported: "
            f"{type(error).__name__}: {error}"
        ) from error
    if not (isinstance(kind, type) and issubclass(kind, MultiViewClassifier)):
        raise SettingError(
            f"the method {plugin.name!r} ({plugin.value}) is no subclass of MultiViewClassifier"
        )
    return kind


def _defined_in(module_name: str) -> type[MultiViewClassifier]:
    from viewgap.methods.base import MultiViewClassifier

    module = importlib.import_module(module_name)
    classes = [
        member
        for _, member in inspect.getmembers(module, inspect.isclass)
        if issubclass(member, MultiViewClassifier)
        and f"{member.__module__}.".startswith(f"{module_name}.")
    ]
    if len(classes) != 1:
        raise TypeError(f"{module_name} must define exactly one method, found {len(classes)}")
    return classes[0]
