"""The Parameters and Attributes sections of a method's docstring, from what its code declares.

Each setting and attribute is described once, by a `Doc` in its annotation; here the descriptions
become sections in the style of numpydoc, with the values of the profiles.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from viewgap.constraints import Choice, Constraint, OrNone, descriptions
from viewgap.parameters import setting_docs

_WIDTH = 96
_FIRST_SECTION = re.compile(r"^[A-Z]\w+\n-{3,}$", re.MULTILINE)


def with_sections(
    kind: type[Any], constraints: Mapping[str, Constraint], profiles: Mapping[str, list[Any]]
) -> str | None:
    """Return the docstring of a method with its parameters and attributes.

    Parameters
    ----------
    kind : type
        The class, with a docstring and a constructor of its own.
    constraints : mapping of str to Constraint
        What each parameter may be.
    profiles : mapping of str to list
        Settings of every profile, for data of several sizes.

    Returns
    -------
    str or None
        The docstring; None if the class has none.
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
    types = get_type_hints(kind.__init__)
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
