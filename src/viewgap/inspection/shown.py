"""Tables of an inspection as people read them: headings, what to know, numbers as text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from viewgap.notebook import number_text

if TYPE_CHECKING:
    import pandas as pd

    from viewgap.inspection.inspection import Inspection

MOST_LINES = 200

TITLES = {
    "views": ("Views", "Scales are standard deviations; every view is scaled before it is used."),
    "samples": ("Samples", ""),
    "patterns": ("Patterns of views", "Samples by the views that they have."),
    "pairs": ("Pairs of views", "Samples that have both views of a pair."),
    "labels": ("Labels", ""),
    "missingness": (
        "Labels told by what is missing",
        "Cross-validated AUC of every label from the gaps alone, with its 95 % interval; p-values "
        "of no association are corrected for the number of labels (Holm).",
    ),
    "copies": (
        "Columns in two views",
        "Columns that another view has too, up to scale, on samples that have both views.",
    ),
    "duplicates": ("Samples that occur more than once", "Same values in the same views."),
    "outliers": (
        "Most remote values",
        "Robust z: distance from the median in units of the median absolute deviation.",
    ),
}
_SHARES = {"share", "share_of_either", "frequency", "frequency_with", "frequency_without"}


@dataclass(frozen=True)
class ShownTable:
    """A table of texts. `numeric` says which columns are numbers; `left_out` counts lines."""

    name: str
    title: str
    note: str
    columns: tuple[str, ...]
    numeric: tuple[bool, ...]
    lines: list[tuple[str, ...]]
    left_out: int


def shown_tables(inspection: Inspection, most: int = MOST_LINES) -> list[ShownTable]:
    """The tables that have lines, each with at most so many."""
    return [
        _shown(name, table, most) for name, table in inspection.tables.items() if len(table) > 0
    ]


def _shown(name: str, table: pd.DataFrame, most: int) -> ShownTable:
    if name == "missingness":
        table = table.sort_values("auc", ascending=False, kind="stable")
    first = table.iloc[:most]
    columns = [str(column) for column in first.columns]
    texts = [[_text(column, value) for value in first[column]] for column in first.columns]
    title, note = TITLES[name]
    return ShownTable(
        name,
        title,
        note,
        tuple(column.replace("_", " ") for column in columns),
        tuple(np.issubdtype(kind, np.number) for kind in map(_kind, first.dtypes)),
        list(zip(*texts, strict=True)),
        len(table) - len(first),
    )


def _kind(dtype: Any) -> Any:
    return dtype if isinstance(dtype, np.dtype) else np.dtype(object)


def _text(column: Any, value: Any) -> str:
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, tuple):
        return " + ".join(plain) or "none"
    if isinstance(plain, float) and plain == plain and column in _SHARES:
        return f"{100 * plain:.1f} %"
    return number_text(plain)
