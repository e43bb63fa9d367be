"""Views and columns: widths, gaps, scales, and columns that say nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from viewgap.data.viewset import ViewSet
from viewgap.errors import counted, first_few, parameter
from viewgap.inspection.columns import Columns
from viewgap.inspection.findings import Finding, Severity, named

if TYPE_CHECKING:
    import pandas as pd

HALF = 0.5
LARGE = 1e15
"""Values from here on lose precision when they are multiplied in float32."""


def view_table(views: ViewSet, summaries: Sequence[Columns]) -> pd.DataFrame:
    """A line per view. `typical_scale` is the middle standard deviation of its varying columns."""
    import pandas as pd

    lines: list[dict[str, Any]] = []
    for j, columns in enumerate(summaries):
        present = int(views.observed[:, j].sum())
        varying = columns.std[columns.std > 0]
        values = int(columns.count.sum())
        lines.append(
            {
                "view": columns.view,
                "columns": len(columns.names),
                "samples": present,
                "share": present / max(1, len(views)),
                "missing_values": int(columns.missing.sum()),
                "kind": _kind(columns),
                "constant": int(columns.constant.sum()),
                "empty": int(columns.empty.sum()) if present else 0,
                "duplicated": int((columns.duplicate_of >= 0).sum()),
                "smallest": float(np.nanmin(columns.low)) if values else np.nan,
                "largest": float(np.nanmax(columns.high)) if values else np.nan,
                "typical_scale": float(np.median(varying)) if len(varying) else np.nan,
                "scale_ratio": float(varying.max() / varying.min()) if len(varying) else np.nan,
            }
        )
    return pd.DataFrame(lines)


def _kind(columns: Columns) -> str:
    """What the values of a view are."""
    held = ~columns.empty
    if not held.any():
        return "nothing"
    if not columns.whole[held].all():
        return "real numbers"
    low, high = columns.low[held].min(), columns.high[held].max()
    if low >= 0 and high <= 1:
        return "0 and 1"
    return "counts" if low >= 0 else "whole numbers"


def column_table(summaries: Sequence[Columns]) -> pd.DataFrame:
    """A line per column of every view."""
    import pandas as pd

    parts = [
        pd.DataFrame(
            {
                "view": columns.view,
                "column": list(columns.names),
                "values": columns.count,
                "missing": columns.missing,
                "mean": columns.mean,
                "std": columns.std,
                "smallest": columns.low,
                "median": columns.median,
                "largest": columns.high,
                "constant": columns.constant,
                "duplicate_of": _partner_names(columns),
            }
        )
        for columns in summaries
    ]
    return pd.concat(parts, ignore_index=True)


def _partner_names(columns: Columns) -> list[str | None]:
    return [None if k < 0 else columns.names[k] for k in columns.duplicate_of]


def column_findings(views: ViewSet, summaries: Sequence[Columns]) -> Iterator[Finding]:
    """Columns that are empty, constant, repeated, mostly missing or of an extreme size."""
    for j, columns in enumerate(summaries):
        if views.observed[:, j].any():
            yield from _strange_columns(columns)
            yield from _missing_values(views, columns)


def _strange_columns(columns: Columns) -> Iterator[Finding]:
    mostly_missing = columns.missing > HALF * (columns.count + columns.missing)
    judged: list[tuple[NDArray[np.bool_], Severity, str, str, str]] = [
        (
            *(columns.empty, "warning", "empty_columns", "without any value"),
            "they are left out of account; take them out of the table",
        ),
        (
            *(columns.constant, "note", "constant_columns", "with one value only"),
            "they tell nothing, and are set to 0 when views are scaled",
        ),
        (
            *(columns.duplicate_of >= 0, "note", "duplicated_columns"),
            "with the values of another column of this view",
            "they count twice in distances and penalties: keep one of each",
        ),
        (
            *(~columns.empty & mostly_missing, "note", "mostly_missing_columns"),
            "with more than half of the values missing",
            _what_nan_means(),
        ),
        (
            np.maximum(np.abs(columns.low), np.abs(columns.high)) >= LARGE,
            *("warning", "huge_values", f"with values of {LARGE:g} and more"),
            "they lose precision when they are multiplied: rescale them",
        ),
    ]
    for which, severity, kind, text, remedy in judged:
        names = [columns.names[k] for k in np.flatnonzero(which)]
        if names:
            what = f"view {columns.view!r}: {counted(len(names), 'column')} {text}"
            shown = f"{what}: {first_few(names)}"
            yield Finding(severity, kind, shown, remedy, view=columns.view, columns=named(names))


def _what_nan_means() -> str:
    return (
        "models fill them with the mean of the column in the training data "
        f"({parameter('nan', 'mean')})"
    )


def _missing_values(views: ViewSet, columns: Columns) -> Iterator[Finding]:
    number = int(columns.missing[~columns.empty].sum())
    if number:
        n_samples = int((views.count_missing_values(columns.view) > 0).sum())
        yield Finding(
            "note",
            "missing_values",
            f"view {columns.view!r}: {counted(number, 'single value')} missing in "
            f"{counted(n_samples, 'sample')} with the view",
            f"{_what_nan_means()}; {parameter('nan', 'missing_view')} drops the view for these "
            "samples instead",
            view=columns.view,
        )
