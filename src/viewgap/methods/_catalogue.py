"""What there is to say about every method: one row each, for the command line and the README."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, fields

from viewgap import methods
from viewgap.constraints import descriptions
from viewgap.errors import SettingError, ViewgapWarning
from viewgap.methods._settings import DeepSettings
from viewgap.methods.base import MultiViewClassifier
from viewgap.methods.deep import DeepClassifier

_COMMON = {*descriptions(DeepClassifier), *(f.name for f in fields(DeepSettings))}
_SHOWN = 5


@dataclass(frozen=True)
class Entry:
    """One method. `parameters`: its own, without those that all methods or all networks have."""

    method: str
    class_name: str
    summary: str
    reference: str
    year: int | None
    parameters: tuple[str, ...]
    profiles: tuple[str, ...]
    certainty: str
    semi_supervised: bool


def catalogue() -> Iterator[Entry]:
    """All methods, in the order of their names. Imports every one of them."""
    for name in methods.names():
        try:
            kind = methods.get(name)
        except SettingError as error:  # a method of another package that cannot be imported
            warnings.warn(str(error), ViewgapWarning, stacklevel=2)
            continue
        year = re.search(r"(19|20)\d\d$", kind.reference)
        known = kind._get_param_names()
        yield Entry(
            method=name,
            class_name=kind.__name__,
            summary=kind.summary,
            reference=kind.reference,
            year=int(year[0]) if year else None,
            parameters=tuple(p for p in known if p not in _COMMON),
            profiles=_profiles(kind),
            certainty=kind.certainty or "baseline",
            semi_supervised=kind.semi_supervised,
        )


def _profiles(kind: type[MultiViewClassifier]) -> tuple[str, ...]:
    return ("default", "paper") if "profile" in kind._get_param_names() else ("default",)


def as_markdown() -> str:
    """The table of the README."""
    lines = ["| name | idea | paper | own parameters | written from |", "|---|---|---|---|---|"]
    for entry in catalogue():
        shown = ", ".join(f"`{name}`" for name in entry.parameters[:_SHOWN])
        more = ", ..." if len(entry.parameters) > _SHOWN else ""
        cells = (f"`{entry.method}`", entry.summary, entry.reference, shown + more, entry.certainty)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"
