"""Columns of whole numbers that measure nothing: dates written as 20240131, numbers of samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from viewgap.data.viewset import ViewSet
from viewgap.errors import counted
from viewgap.inspection.columns import Columns, sample_rows
from viewgap.inspection.findings import Finding, named

_FIRST_DATE, _LAST_DATE = 19000101, 21001231
_FEWEST_DATES = 5  # of random numbers, 4 in 100 have a month and a day
_FEWEST_NUMBERED = 10
_MOST_READ = 200  # columns of a view whose values are looked at


def disguised_findings(views: ViewSet, summaries: Sequence[Columns]) -> Iterator[Finding]:
    """Dates that would count as numbers, and columns that number the samples."""
    for columns in summaries:
        yield from _dates(views, columns)
        yield from _numbered(views, columns)


def _dates(views: ViewSet, columns: Columns) -> Iterator[Finding]:
    in_range = (columns.low >= _FIRST_DATE) & (columns.high <= _LAST_DATE)
    found = [
        k
        for k in np.flatnonzero(columns.whole & in_range)[:_MOST_READ]
        if _are_dates(views, columns, k)
    ]
    if found:
        first = found[0]
        yield Finding(
            "warning",
            "dates_as_numbers",
            f"view {columns.view!r}: {counted(len(found), 'column')} of dates written as whole "
            f"numbers; first: {columns.names[first]!r}, {columns.low[first]:.0f} to "
            f"{columns.high[first]:.0f}",
            "write a number that grows evenly, such as days since the first visit: from 20240131 "
            "to 20240201 is one day, and counts as 70",
            view=columns.view,
            columns=named(columns.names[k] for k in found),
        )


def _are_dates(views: ViewSet, columns: Columns, column: int) -> bool:
    values = np.unique(_values(views, columns, column))
    month, day = values // 100 % 100, values % 100
    valid = (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
    return len(values) >= _FEWEST_DATES and bool(valid.all())


def _numbered(views: ViewSet, columns: Columns) -> Iterator[Finding]:
    """Columns with each number of a range once; not where the whole view holds ranks."""
    span = columns.high - columns.low + 1
    could_be = columns.whole & (columns.count >= _FEWEST_NUMBERED) & (span == columns.count)
    found = [
        k
        for k in np.flatnonzero(could_be)[:_MOST_READ]
        if len(np.unique(_values(views, columns, k, all_rows=True))) == columns.count[k]
    ]
    if found and (len(found) == 1 or 2 * len(found) < len(columns.names)):
        first = found[0]
        yield Finding(
            "note",
            "numbered_samples",
            f"view {columns.view!r}: {counted(len(found), 'column')} with every number of a range "
            f"once; first: {columns.names[first]!r}, {columns.low[first]:.0f} to "
            f"{columns.high[first]:.0f}",
            "if it numbers the rows or the samples, leave it out: it measures nothing, and tells "
            "the labels where samples are sorted by them",
            view=columns.view,
            columns=named(columns.names[k] for k in found),
        )


def _values(
    views: ViewSet, columns: Columns, column: int, all_rows: bool = False
) -> NDArray[np.float64]:
    """The observed values of a column, of a sample of the rows or of all."""
    rows = np.flatnonzero(views.observed[:, views.names.index(columns.view)])
    if not all_rows:
        rows = sample_rows(rows, len(columns.names))
    own = views.select_columns(columns.view, [column])
    values = own.rows(columns.view, rows, dtype=np.float64)[:, 0]
    return np.asarray(values[~np.isnan(values)])
