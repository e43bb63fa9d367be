"""What the columns held in training: smallest, largest and mean value, and values far from that.

A value far outside of what a column held in training (another unit, a code for "unknown", a typing
error) gets as confident an answer as any other. `ColumnRanges.farthest` finds it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viewgap.data.rows.values import Rows, is_sparse, row_chunks, split_sparse
from viewgap.data.viewset import ViewSet

Numbers = NDArray[np.float64]

FAR = 50.0
"""How many units (see `ColumnRange`) outside of the training values a value counts as far off.

Chosen so that seven real data sets, among them term counts and colour histograms with 4,096 mostly
empty bins, are silent under random splits with 5 to 70 % training rows (largest factor: 22, by
`python -m benchmarks.evidence far_values`).
"""


@dataclass(frozen=True, eq=False)
class ColumnRange:
    """Smallest, largest and mean value (d,) of every column of a view, over its observed values.

    Distances from a range are measured in units: its width, at least the middle width among the
    columns of the view that are not constant, and for constant columns at least 1 and their value
    (the first 1 of an indicator is nothing unusual). Columns that were never negative, such as
    counts and histograms, have long tails upwards: there the unit is the geometric mean of that and
    the largest width in the view.
    """

    low: Numbers
    high: Numbers
    mean: Numbers

    @cached_property
    def _units(self) -> tuple[Numbers, Numbers]:
        """Units below and above the range, (d,) each."""
        width = self.high - self.low
        varying = width[width > 0]
        size = np.maximum(np.abs(self.low), np.abs(self.high))
        # Models read float32: what it cannot tell apart is no distance.
        below = np.maximum(width, np.finfo(np.float32).eps * size)
        below = np.maximum(below, np.median(varying) if len(varying) else 0.0)
        below = np.where(width > 0, below, np.maximum(np.maximum(below, size), 1.0))
        widest = np.maximum(below, width.max(initial=0.0))
        return below, np.where(self.low >= 0, np.sqrt(below) * np.sqrt(widest), below)

    @cached_property
    def limits(self) -> tuple[Numbers, Numbers]:
        """Values (d,) below and above which a value is far off."""
        below, above = self._units
        return self.low - FAR * below, self.high + FAR * above

    def factors(self, values: NDArray[Any], columns: Any) -> Numbers:
        """How many units values (k,) of these columns (k,) are outside of the range; 0 inside."""
        below, above = self._units
        precise = values.astype(np.float64)
        low, high = (self.low[columns] - precise) / below[columns], precise - self.high[columns]
        return np.asarray(np.maximum(np.maximum(low, high / above[columns]), 0.0))


@dataclass(frozen=True)
class FarValue:
    """The value that is farthest off, among `n_values` of them in `n_samples` samples."""

    view: str
    column: int
    row: int
    value: float
    low: float
    high: float
    factor: float
    n_values: int
    n_samples: int


@dataclass(frozen=True, eq=False)
class ColumnRanges:
    """The ranges of all views, in their order. `never`: columns without a value, by view."""

    views: list[ColumnRange]
    never: dict[str, Rows]

    @classmethod
    def fit(cls, views: ViewSet) -> ColumnRanges:
        """Look at all observed values once, in chunks."""
        ranges, never = [], {}
        for name in views.names:
            column_range, count = fit_view(views, name)
            ranges.append(column_range)
            if not count.all():
                never[name] = np.flatnonzero(count == 0)
        return cls(ranges, never)

    def farthest(self, views: ViewSet) -> FarValue | None:
        """Return the value farthest outside of its column's range; None if none is far off.

        All observed values are looked at once, in chunks; zeros that a sparse view does not store
        are never far off.
        """
        worst: FarValue | None = None
        n_values, affected = 0, np.zeros(len(views), dtype=np.bool_)
        for name, fitted in zip(views.names, self.views, strict=True):
            for rows, block in _read(views, name):
                where, columns = _far_values(block, fitted)
                if not len(where):
                    continue
                values = block[where, columns]
                factors = fitted.factors(np.asarray(values), columns)
                n_values += len(where)
                affected[rows[where]] = True
                at = int(factors.argmax())
                if worst is None or factors[at] > worst.factor:
                    column = int(columns[at])
                    low, high = float(fitted.low[column]), float(fitted.high[column])
                    row, value = int(rows[where[at]]), float(values[at])
                    worst = FarValue(name, column, row, value, low, high, float(factors[at]), 0, 0)
        if worst is None:
            return None
        return replace(worst, n_values=n_values, n_samples=int(affected.sum()))

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Everything a model file keeps: one array (3, d) per view."""
        return {f"{j}": np.stack([r.low, r.high, r.mean]) for j, r in enumerate(self.views)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], dims: Sequence[int]) -> ColumnRanges:
        """Restore what `to_arrays` gave; ValueError if it does not fit views of these columns."""
        if set(arrays) != {str(j) for j in range(len(dims))}:
            raise ValueError(f"expected column ranges of {len(dims)} views, found {len(arrays)}")
        ranges = []
        for j, dim in enumerate(dims):
            stored = arrays[str(j)]
            if stored.dtype != np.float64 or stored.shape != (3, dim):
                raise ValueError(
                    f"the column ranges of view {j} must be float64 of shape {(3, dim)}, "
                    f"found {stored.dtype} of shape {stored.shape}"
                )
            low, high, mean = stored
            if (low > high).any():
                raise ValueError(f"the column ranges of view {j} are not in order")
            ranges.append(ColumnRange(low, high, mean))
        return cls(ranges, {})


# ---------------------------------------------------------------------- chunks


def _read(views: ViewSet, name: str) -> Iterator[tuple[Rows, Any]]:
    """Observed rows of a view and their numbers, chunk by chunk; a CSR array in CSR arrays."""
    rows = np.flatnonzero(views.observed[:, views.names.index(name)])
    stored, positions = views.locate(name, rows)
    width = stored.shape[1] * stored.dtype.itemsize
    if is_sparse(stored):
        width = 16 * (1 + len(stored.data) // max(1, stored.shape[0]))
    for part in row_chunks(len(rows), width):
        wanted = positions[part]
        first, last = int(wanted[0]), int(wanted[-1])
        together = last - first + 1 == len(wanted) and bool((np.diff(wanted) == 1).all())
        yield rows[part], stored[first : last + 1] if together else stored[wanted]


def _far_values(block: Any, fitted: ColumnRange) -> tuple[Rows, Rows]:
    """Rows and columns of the values of a block that are far off."""
    lower, upper = fitted.limits
    if is_sparse(block):
        columns = block.indices
        far = np.flatnonzero((block.data < lower[columns]) | (block.data > upper[columns]))
        rows = np.repeat(np.arange(block.shape[0]), np.diff(block.indptr))
        return rows[far], columns[far].astype(np.intp)
    low, high = _ends(block)
    columns = np.flatnonzero((low < lower) | (high > upper))
    if not len(columns):
        return columns, columns
    part = block[:, columns]
    rows, far = np.nonzero((part < lower[columns]) | (part > upper[columns]))
    return rows, columns[far]


def _ends(block: NDArray[Any]) -> tuple[Numbers, Numbers]:
    """Smallest and largest value (d,) of every column; NaN only where there is nothing else."""
    low, high = block.min(axis=0), block.max(axis=0)
    if block.dtype.kind == "f" and np.isnan(low).any():
        low, high = np.fmin.reduce(block, axis=0), np.fmax.reduce(block, axis=0)
    return low.astype(np.float64), high.astype(np.float64)


def fit_view(views: ViewSet, name: str) -> tuple[ColumnRange, NDArray[np.int64]]:
    """Range of every column of a view, and how many values each has, in one pass of chunks."""
    width = views.dims[views.names.index(name)]
    low, high = np.full(width, np.inf), np.full(width, -np.inf)
    total, count = np.zeros(width), np.zeros(width, dtype=np.int64)
    summary = _sparse_summary if views.is_sparse(name) else _dense_summary
    for _, block in _read(views, name):
        smallest, largest, added, values = summary(block)
        low, high = np.fmin(low, smallest), np.fmax(high, largest)
        total += added
        count += values
    low, high = np.where(count > 0, low, 0.0), np.where(count > 0, high, 0.0)
    # Rounding must not carry the mean of a constant column out of its range.
    mean = np.clip(total / np.maximum(count, 1), low, high)
    return ColumnRange(low, high, mean), count


Summary = tuple[Numbers, Numbers, Numbers, Any]


def _dense_summary(block: NDArray[Any]) -> Summary:
    """Ends, sum and number of the values of every column."""
    low, high = _ends(block)
    total = block.sum(axis=0, dtype=np.float64)
    if block.dtype.kind != "f" or not np.isnan(total).any():
        return low, high, total, len(block)
    missing = np.isnan(block)
    total = np.where(missing, 0.0, block).sum(axis=0, dtype=np.float64)
    return low, high, total, len(block) - missing.sum(axis=0)


def _sparse_summary(block: Any) -> Summary:
    """The same of a CSR array: zeros that are not stored count."""
    kept, _, gone = split_sparse(block)
    width = block.shape[1]
    count = block.shape[0] - np.bincount(gone, minlength=width)
    by_column = kept.tocsc()
    stored = np.diff(by_column.indptr)
    filled = np.flatnonzero(stored)
    low, high, total = np.zeros(width), np.zeros(width), np.zeros(width)
    if len(filled):
        starts, data = by_column.indptr[filled], by_column.data
        low[filled] = np.minimum.reduceat(data, starts)
        high[filled] = np.maximum.reduceat(data, starts)
        total[filled] = np.add.reduceat(data.astype(np.float64), starts)
    with_zeros = stored < count
    low[with_zeros] = np.minimum(low[with_zeros], 0.0)
    high[with_zeros] = np.maximum(high[with_zeros], 0.0)
    never = count == 0
    low[never] = high[never] = np.nan
    return low, high, total, count
