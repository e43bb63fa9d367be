"""One file per method. A file put here is found by the command line, the benchmark and the tests.

`names()` lists the methods without importing them, so that `viewgap --help` never imports torch.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from typing import TYPE_CHECKING

from viewgap.errors import SettingError

if TYPE_CHECKING:
    from viewgap.methods.base import MultiViewClassifier

_NOT_METHODS = {"base", "deep"}


def names() -> list[str]:
    """Names of all methods: the names of the modules and packages in this folder."""
    found = (module.name for module in pkgutil.iter_modules(__path__))
    return sorted(name for name in found if name not in _NOT_METHODS and not name.startswith("_"))


def get(name: str) -> type[MultiViewClassifier]:
    """Return the class of a method by its name."""
    from viewgap.methods.base import MultiViewClassifier

    if name not in names():
        raise SettingError(f"unknown method {name!r}; available: {', '.join(names())}")
    module = importlib.import_module(f"{__name__}.{name}")
    classes = [
        member
        for _, member in inspect.getmembers(module, inspect.isclass)
        if issubclass(member, MultiViewClassifier) and _is_in(member, module.__name__)
    ]
    if len(classes) != 1:
        raise TypeError(f"{module.__name__} must define exactly one method, found {len(classes)}")
    return classes[0]


def _is_in(member: type, module: str) -> bool:
    """Whether a class is defined in a module, or in a module of this package."""
    return f"{member.__module__}.".startswith(f"{module}.")
