"""Values far from all others of their column, by robust z, and codes for "unknown"."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from viewgap.data.preprocessing.column_ranges import FAR
from viewgap.data.viewset import ViewSet
from viewgap.errors import counted
from viewgap.inspection.columns import Columns
from viewgap.inspection.findings import Finding, named

if TYPE_CHECKING:
    import pandas as pd

LISTED_PER_VIEW = 5
FEWEST_VALUES = 20
_LISTED_FROM = 6.0


def robust_z(columns: Columns) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Largest robust z of every column and the sample that has it; NaN where none is judged."""
    with np.errstate(invalid="ignore", divide="ignore"):
        below = (columns.median - columns.low) / columns.scale
        above = (columns.high - columns.median) / columns.scale
    lower = below > above
    z = np.where(lower, below, above)
    z[columns.count < FEWEST_VALUES] = np.nan
    return z, np.where(lower, columns.low_row, columns.high_row)


def outlier_table(views: ViewSet, summaries: Sequence[Columns]) -> pd.DataFrame:
    """The columns with the most remote value, a few of each view, farthest first."""
    import pandas as pd

    lines: list[tuple[Any, ...]] = []
    for columns in summaries:
        z, rows = robust_z(columns)
        order = np.argsort(-np.where(np.isnan(z), -1.0, z), kind="stable")[:LISTED_PER_VIEW]
        for k in order[z[order] >= _LISTED_FROM]:
            low = rows[k] == columns.low_row[k]
            value = columns.low[k] if low else columns.high[k]
            sample = views.sample_ids[rows[k]]
            place = (columns.view, columns.names[k], str(sample))
            lines.append((*place, value, columns.median[k], columns.scale[k], z[k]))
    names = ["view", "column", "sample", "value", "median", "scale", "robust_z"]
    table = pd.DataFrame(lines, columns=names)
    return table.sort_values("robust_z", ascending=False, kind="stable", ignore_index=True)


def outlier_findings(views: ViewSet, summaries: Sequence[Columns]) -> Iterator[Finding]:
    """Views with remote values, and with codes for "unknown"."""
    for columns in summaries:
        coded = np.flatnonzero(columns.repeated_end)
        if len(coded):
            yield _code_finding(columns, coded)
        factor, rows = far_off(columns)
        far = np.flatnonzero((factor >= FAR) & (columns.repeated_end == 0))
        if len(far):
            yield _far_finding(views, columns, far[np.argsort(-factor[far], kind="stable")], rows)


def far_off(columns: Columns) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """How far the ends of a column are from its middle range, and the samples that have them.

    In the units of `data.column_ranges`, which a model uses for values far outside of those of its
    training: long tails of counts and histograms are nothing unusual there.
    """
    every = np.arange(len(columns.names))
    with np.errstate(invalid="ignore"):
        below = columns.middle_range.factors(columns.low, every)
        above = columns.middle_range.factors(columns.high, every)
    lower = below > above
    factor = np.nan_to_num(np.where(lower, below, above))
    factor[columns.count < FEWEST_VALUES] = 0.0
    return factor, np.where(lower, columns.low_row, columns.high_row)


def _far_finding(
    views: ViewSet, columns: Columns, far: NDArray[np.intp], rows: NDArray[np.intp]
) -> Finding:
    first, row = far[0], rows[far[0]]
    value = columns.low[first] if row == columns.low_row[first] else columns.high[first]
    usual = columns.middle_range
    return Finding(
        "warning",
        "outliers",
        f"view {columns.view!r}: {counted(len(far), 'column')} with a value far from all others; "
        f"the farthest: {columns.names[first]!r}, sample {views.sample_ids[row]!s}: {value:g}, "
        f"where 98 % of the values are {usual.low[first]:g} to {usual.high[first]:g}",
        "check units, decimal points, and codes for values that were not measured",
        view=columns.view,
        columns=named(columns.names[k] for k in far),
        ids=named(dict.fromkeys(str(views.sample_ids[rows[k]]) for k in far)),
    )


def _code_finding(columns: Columns, coded: NDArray[np.intp]) -> Finding:
    first = coded[0]
    high_side = columns.high[first] - columns.median[first]
    low_side = columns.median[first] - columns.low[first]
    value = columns.high[first] if high_side > low_side else columns.low[first]
    times = columns.repeated_end[first]
    return Finding(
        "warning",
        "code_for_unknown",
        f"view {columns.view!r}: {counted(len(coded), 'column')} with the same remote value in "
        f"several samples, as a code for unknown would be; first: {columns.names[first]!r}, "
        f"{value:g} in {times} or more samples",
        "if it stands for a value that was not measured, put NaN there (a blank in a file)",
        view=columns.view,
        columns=named(columns.names[k] for k in coded),
    )
