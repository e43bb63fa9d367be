"""Parameters of a method: stored, checked, taken under old names too, and documented.

Each parameter and fitted attribute is declared once, with its type, constraint and `Doc`. The
descriptions become sections of the class docstring in the style of numpydoc, with the values of the
profiles.
"""

from __future__ import annotations

import functools
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, Self, Union, get_args, get_origin, get_type_hints

import numpy as np
from sklearn.base import BaseEstimator

from viewgap.constraints import (
    Choice,
    Columns,
    Constraint,
    Doc,
    OrNone,
    RandomState,
    declared,
    descriptions,
)
from viewgap.deprecation import current_names
from viewgap.methods.estimator.notebook import NotebookCard
from viewgap.parameters import Seed, check_parameters, setting_docs

_WIDTH = 96
_FIRST_SECTION = re.compile(r"^[A-Z]\w+\n-{3,}$", re.MULTILINE)


class ParametrisedEstimator(NotebookCard, BaseEstimator):  # type: ignore[misc]
    """Base of all methods, as far as parameters go. The constructor only stores them."""

    random_state: Annotated[
        Seed,
        RandomState(),
        Doc(
            "An int fixes every bit of a fit on the CPU; a RandomState or Generator is drawn from, "
            "as in scikit-learn."
        ),
    ]
    views: Annotated[
        Mapping[str, Any] | None,
        Columns(),
        Doc("`{name: columns}` of every view, where X comes as one 2-D array or DataFrame."),
    ]
    nan: Annotated[
        str,
        Choice("mean", "error", "missing_view"),
        Doc(
            "What a NaN in an observed row means: a value to fill with the mean of its column in "
            "the training data (after preparation of the features), an error, or that the view is "
            "missing for this sample."
        ),
    ]
    on_empty: Annotated[
        str,
        Choice("error", "prior"),
        Doc(
            "Samples without any view: an error, or left out of `fit` and answered with the label "
            "frequencies in prediction."
        ),
    ]

    def __init_subclass__(cls, **options: Any) -> None:
        """Complete signature and docstring of a method, and let it take old names too."""
        super().__init_subclass__(**options)
        if "__init__" in vars(cls):
            setattr(cls, "__init__", _completed(cls.__init__))  # noqa: B010
            cls.__doc__ = with_sections(cls, cls._constraints(), cls._profile_trials())

    def _store_parameters(self, parameters: Mapping[str, Any]) -> None:
        """Keep the arguments of the constructor (its `locals()`) as they are."""
        defaults, shared = self._get_param_defaults(), parameters.get("shared", {})
        for name in shared:
            if name not in defaults:
                place = f"{type(self).__name__}.__init__()"
                raise TypeError(f"{place} got an unexpected keyword argument {name!r}")
        for name, default in defaults.items():
            setattr(self, name, {**parameters, **shared}.get(name, default))

    @classmethod
    def _get_param_defaults(cls) -> dict[str, Any]:
        return {name: p.default for name, p in inspect.signature(cls).parameters.items()}

    def _changed_params(self) -> dict[str, Any]:
        """The parameters that are not at their defaults."""
        defaults, given = self._get_param_defaults(), self.get_params(deep=False)
        return {name: value for name, value in given.items() if _differs(value, defaults[name])}

    @classmethod
    def _profile_trials(cls) -> dict[str, list[Any]]:
        """Settings of every profile for data of several sizes."""
        return {}

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name, as in scikit-learn; old names of parameters are taken too."""
        super().set_params(**current_names(params, self._get_param_names()))
        return self

    @classmethod
    def _constraints(cls) -> Mapping[str, Constraint]:
        """What every parameter may be."""
        return declared(cls)

    def _check_parameters(self) -> None:
        """Refuse wrong types and values; needs no data, and is the first thing that `fit` does."""
        check_parameters(self.get_params(deep=False), type(self)._constraints())


def _differs(value: Any, default: Any) -> bool:
    """Whether a parameter is not its default; arrays and the like are compared by identity."""
    plain = (str, int, float, bool, type(None), tuple)
    return value != default if isinstance(value, plain) else value is not default


# ---------------------------------------------------------------------- constructors


@dataclass(frozen=True)
class Default:
    """What a parameter of a TypedDict is where it is not passed: `Annotated[str, Default("auto")]`.

    Without it, that is None.
    """

    value: Any


_BEFORE_OWN = ("profile", "random_state", "device", "precision")


def _completed(written: Callable[..., None]) -> Callable[..., None]:
    """The constructor with `**shared: Unpack[...]` spelled out, which takes old names too."""

    @functools.wraps(written)
    def __init__(self: Any, *args: Any, **parameters: Any) -> None:  # noqa: N807
        written(self, *args, **current_names(parameters, self._get_param_names(), stacklevel=2))

    if "shared" in written.__annotations__:
        (stated,) = get_args(get_type_hints(written)["shared"])
        own = {name: kind for name, kind in written.__annotations__.items() if name != "shared"}
        setattr(__init__, "__signature__", _spelled_out(written, stated))  # noqa: B010
        __init__.__annotations__ = own | get_type_hints(stated)
    return __init__


def _spelled_out(written: Callable[..., None], stated: Any) -> inspect.Signature:
    """The signature that users see: shared parameters stand around a method's own."""
    signature = inspect.signature(written)
    instance, *own = [p for name, p in signature.parameters.items() if name != "shared"]
    shared = {name: _keyword(stated, name) for name in stated.__annotations__}
    first = [shared.pop(name) for name in _BEFORE_OWN]
    return signature.replace(parameters=[instance, *first, *own, *shared.values()])


def _keyword(stated: Any, name: str) -> inspect.Parameter:
    """A parameter that a TypedDict states, with its type in the words of the source."""
    kind = get_type_hints(stated, include_extras=True)[name]
    mark = next((item for item in get_args(kind) if isinstance(item, Default)), None)
    if mark is None:
        default, text = None, stated.__annotations__[name].__forward_arg__
    else:
        default, text = mark.value, inspect.formatannotation(get_args(kind)[0])
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=text)


# ---------------------------------------------------------------------- docstrings


def with_sections(
    kind: type[Any], constraints: Mapping[str, Constraint], profiles: Mapping[str, list[Any]]
) -> str | None:
    """Return the docstring of a method with its parameters and attributes; None if it has none.

    `profiles` are the settings of every profile, for data of several sizes.
    """
    if kind.__doc__ is None:
        return None
    written = inspect.cleandoc(kind.__doc__)
    first = _FIRST_SECTION.search(written)
    at = first.start() if first else len(written)
    sections = [*_parameters(kind, constraints, profiles), *_attributes(kind)]
    return "\n".join([written[:at].rstrip(), "", *sections, written[at:]]).rstrip() + "\n"


def _parameters(
    kind: type[Any], constraints: Mapping[str, Constraint], profiles: Mapping[str, list[Any]]
) -> Iterator[str]:
    texts = descriptions(kind) | setting_docs(getattr(kind, "settings_type", object))
    types = get_type_hints(kind) | get_type_hints(kind.__init__)
    yield from ("Parameters", "----------")
    for name, parameter in inspect.signature(kind).parameters.items():
        values = _values(name, profiles)
        default = "optional" if values else f"default={parameter.default!r}"
        yield f"{name} : {_choices(constraints.get(name)) or _type(types[name])}, {default}"
        yield from _indented(f"{texts.get(name, '')} {values}".strip())
    yield ""


def _attributes(kind: type[Any]) -> Iterator[str]:
    types = get_type_hints(kind)
    yield from ("Attributes", "----------")
    for name, text in descriptions(kind).items():
        if not name.endswith("_"):
            continue
        yield f"{name} : {_type(types[name])}"
        yield from _indented(text)
    yield ""


def _values(name: str, profiles: Mapping[str, list[Any]]) -> str:
    """What the profiles set: `Default: 128; paper: 256.`"""
    shown = {}
    for profile, trials in profiles.items():
        if not hasattr(trials[0], name):
            return ""
        values = {repr(getattr(settings, name)) for settings in trials}
        shown[profile] = values.pop() if len(values) == 1 else "by the size of the data"
    if len(set(shown.values())) == 1:
        return f"Default: {shown.popitem()[1]}."
    text = "; ".join(f"{profile}: {value}" for profile, value in shown.items())
    return text[:1].upper() + text[1:] + "." if text else ""


def _choices(constraint: Constraint | None) -> str:
    if isinstance(constraint, OrNone):
        constraint = constraint.kind
    words = constraint.words if isinstance(constraint, Choice) else ()
    return f"{{{', '.join(map(repr, words))}}}" if words else ""


def _type(annotation: Any) -> str:
    """The name of a type as numpydoc writes it: `sequence of int`, `dict of str to float`."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        return " or ".join(_type(part) for part in parts if part is not type(None))
    if origin is np.ndarray:
        return "ndarray"
    inner = list(dict.fromkeys(_type(part) for part in parts if part is not ...))
    name = getattr(origin or annotation, "__name__", "object")
    name = {"Any": "object", "Sequence": "sequence", "Mapping": "mapping"}.get(name, name)
    return f"{name} of {' to '.join(inner)}" if inner else name


def _indented(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent="    ", subsequent_indent="    ")
