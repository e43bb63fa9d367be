"""A finding: what would go wrong or is suspicious, where, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from viewgap.errors import printable

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
MOST_NAMED = 20
"""How many columns, labels or ids a finding names; its text has their number."""


@dataclass(frozen=True)
class Finding:
    """One thing worth knowing about data.

    Parameters
    ----------
    severity : {"error", "warning", "note"}
        `error`: `fit` refuses the data as it is; `warning`: a model or its scores may be wrong;
        `note`: what will be done about something, or what is good to know.
    kind : str
        A fixed name, such as `"constant_columns"`.
    text : str
        What was found.
    remedy : str
        What to do, or what viewgap does about it.
    view : str, optional
        The view that it is about.
    columns, labels, ids : tuple of str
        Columns of the view, labels and samples that it is about: the first 20.
    """

    severity: Severity
    kind: str
    text: str
    remedy: str
    view: str | None = None
    columns: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(self).items()
        }

    def __str__(self) -> str:
        return printable(f"{self.severity}: {self.text}; {self.remedy}")


def named(items: Iterable[object]) -> tuple[str, ...]:
    """The first names of many, as text."""
    return tuple(str(item) for _, item in zip(range(MOST_NAMED), items, strict=False))


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Errors first, then warnings, then notes; otherwise as they were found."""
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))
