"""One pass over a view: count, mean, spread, ends and hash of every column, and hashes of rows.

Rows are read in blocks, so that a view may be larger than memory; nothing compares columns with
columns. Medians come from up to `SAMPLE_VALUES` values of evenly spaced rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from viewgap.data.preprocessing import ColumnRange
from viewgap.data.rows.values import row_chunks
from viewgap.data.viewset import ViewSet
from viewgap.inspection.hashing import Hashes, groups_of_equal, mixed, multipliers

Numbers = NDArray[np.float64]
Rows = NDArray[np.intp]

SAMPLE_VALUES = 2**25
FEWEST_SAMPLED, MOST_SAMPLED = 256, 5000
_ROW_KEY, _COLUMN_KEY = 1, 2
# A normal distribution has this ratio of standard deviation and median absolute deviation.
_MAD = 1.4826
_OUTERMOST = 0.01


@dataclass(eq=False)
class Columns:
    """What the columns of one view hold, an entry per column unless said otherwise.

    `mean`, `low`, `high` and the medians are NaN for a column without values. `low_row` and
    `high_row` are the samples with the smallest and the largest value; `middle_range` is that of
    all but the outermost hundredth of the values at each end. `row_hash` (n,) has an entry per
    sample, 0 where the view is missing.
    """

    view: str
    names: tuple[str, ...]
    count: Rows
    missing: Rows
    mean: Numbers
    std: Numbers
    low: Numbers
    high: Numbers
    low_row: Rows
    high_row: Rows
    whole: NDArray[np.bool_]
    median: Numbers
    scale: Numbers
    middle_range: ColumnRange
    repeated_end: Rows
    hashes: Hashes
    row_hash: Hashes

    @property
    def empty(self) -> NDArray[np.bool_]:
        """Columns without any value."""
        return np.asarray(self.count == 0)

    @property
    def constant(self) -> NDArray[np.bool_]:
        """Columns with one value only."""
        return np.asarray((self.count > 0) & (self.low == self.high))

    @property
    def duplicate_of(self) -> Rows:
        """The first column with the same values, -1 where a column is its first or says nothing."""
        first = groups_of_equal(self.hashes)
        varies = ~self.constant & ~self.empty
        return np.where((first < np.arange(len(first))) & varies, first, -1)


def column_names(views: ViewSet, name: str) -> tuple[str, ...]:
    """Names of the columns of a view; 0, 1, 2, ... where it came without."""
    names = views.feature_names[name]
    width = views.dims[views.names.index(name)]
    return tuple(map(str, range(width) if names is None else names))


def read_columns(views: ViewSet, name: str) -> Columns:
    """Look at the observed rows of a view, once for the moments and once for the medians."""
    j = views.names.index(name)
    rows, width = np.flatnonzero(views.observed[:, j]), views.dims[j]
    moments = _Moments(width, len(views))
    for part, block in _blocks(views, name, rows):
        moments.add(part, block)
    robust = _robust(views, name, rows)
    held = moments.count > 0
    return Columns(
        name,
        column_names(views, name),
        moments.count,
        len(rows) - moments.count,
        np.where(held, moments.mean, np.nan),
        np.sqrt(moments.squares / np.maximum(moments.count, 1)),
        np.where(held, moments.low, np.nan),
        np.where(held, moments.high, np.nan),
        moments.low_row,
        moments.high_row,
        moments.whole & held,
        robust.median,
        robust.scale,
        ColumnRange(robust.low, robust.high, robust.median),
        robust.repeated_end,
        moments.hashes,
        moments.row_hash,
    )


def _blocks(views: ViewSet, name: str, rows: Rows) -> Iterator[tuple[Rows, Numbers]]:
    """The observed rows in float64, some at a time; several copies of a block are alive at once."""
    width = views.dims[views.names.index(name)]
    for part in row_chunks(len(rows), 8 * max(1, width)):
        yield rows[part], views.rows(name, rows[part], dtype=np.float64)


class _Moments:
    """Running statistics of columns (d,) and hashes of all n samples."""

    def __init__(self, width: int, n: int) -> None:
        self.count: Rows = np.zeros(width, dtype=np.intp)
        self.mean, self.squares = np.zeros(width), np.zeros(width)
        self.low, self.high = np.full(width, np.inf), np.full(width, -np.inf)
        self.low_row: Rows = np.full(width, -1, dtype=np.intp)
        self.high_row: Rows = np.full(width, -1, dtype=np.intp)
        self.whole = np.ones(width, dtype=np.bool_)
        self.hashes: Hashes = np.zeros(width, dtype=np.uint64)
        self.row_hash: Hashes = np.zeros(n, dtype=np.uint64)
        self._of_columns = multipliers(width, _COLUMN_KEY)
        self._of_rows = multipliers(n, _ROW_KEY)

    def add(self, rows: Rows, block: Numbers) -> None:
        """Take these samples in, whose values are `block` (b, d)."""
        bits = mixed(block)
        self.hashes += (bits * self._of_rows[rows, None]).sum(axis=0, dtype=np.uint64)
        self.row_hash[rows] = (bits * self._of_columns).sum(axis=1, dtype=np.uint64)
        del bits
        missing = np.isnan(block)
        some_missing = bool(missing.any())
        self._add_ends(rows, block, missing if some_missing else None)
        count = len(block) - missing.sum(axis=0)
        if some_missing:
            block = np.where(missing, 0.0, block)
        self.whole &= (block == np.floor(block)).all(axis=0)
        mean = block.sum(axis=0) / np.maximum(count, 1)
        block -= mean
        if some_missing:
            block[missing] = 0.0
        total = np.maximum(self.count + count, 1)
        gap = np.where(count > 0, mean - self.mean, 0.0)
        self.squares += np.einsum("ij,ij->j", block, block)
        self.squares += np.square(gap) * (self.count * (count / total))
        self.mean += gap * count / total
        self.count += count

    def _add_ends(self, rows: Rows, block: Numbers, missing: NDArray[np.bool_] | None) -> None:
        every = np.arange(block.shape[1])
        for ends, where, worst, find in (
            (self.low, self.low_row, np.inf, np.argmin),
            (self.high, self.high_row, -np.inf, np.argmax),
        ):
            filled = block if missing is None else np.where(missing, worst, block)
            at = find(filled, axis=0)
            found = filled[at, every]
            better = found < ends if worst > 0 else found > ends
            ends[better] = found[better]
            where[better] = rows[at[better]]


def sample_rows(rows: Rows, width: int, most: int = MOST_SAMPLED) -> Rows:
    """Evenly spaced rows, few enough that their values fit into `SAMPLE_VALUES`."""
    limit = min(most, max(FEWEST_SAMPLED, SAMPLE_VALUES // max(1, width)))
    if len(rows) <= limit:
        return rows
    return rows[np.linspace(0, len(rows) - 1, limit).astype(np.intp)]


class _Robust(NamedTuple):
    """Median, scale, ends without the outermost values, and how often a remote end occurs."""

    median: Numbers
    scale: Numbers
    low: Numbers
    high: Numbers
    repeated_end: Rows


def _robust(views: ViewSet, name: str, rows: Rows) -> _Robust:
    """What single values do not change, column by column, from a sample of the rows.

    The scale is the median absolute deviation times 1.4826. Where more than half of the values are
    equal (counts, indicators), it is that of the other values around their median, and the median
    is theirs too; NaN where nothing is left to judge by.
    """
    width = views.dims[views.names.index(name)]
    median, scale, low, high = (np.full(width, np.nan) for _ in range(4))
    repeated = np.zeros(width, dtype=np.intp)
    chosen = sample_rows(rows, width)
    if not len(chosen) or not width:
        return _Robust(median, scale, low, high, repeated)
    sample = views.rows(name, chosen)
    step = max(1, 2**20 // len(chosen))
    for start in range(0, width, step):
        part = slice(start, start + step)
        ordered = np.sort(sample[:, part].T, axis=1).astype(np.float64)  # NaN last
        median[part], scale[part] = _median_and_scale(ordered)
        low[part], high[part] = _trimmed_ends(ordered)
        repeated[part] = _repeated_ends(ordered)
        for k in np.flatnonzero(scale[part] == 0):
            median[start + k], scale[start + k] = _of_the_others(ordered[k], median[start + k])
    return _Robust(median, scale, low, high, repeated)


def _median_and_scale(ordered: Numbers) -> tuple[Numbers, Numbers]:
    """Of sorted rows (k, n), NaN last."""
    count = ordered.shape[1] - np.isnan(ordered).sum(axis=1)
    median = _middle(ordered, count)
    deviation = np.sort(np.abs(ordered - median[:, None]), axis=1)
    scale = _MAD * _middle(deviation, count)
    # Models read float32: what it cannot tell apart is no spread.
    scale[scale <= np.finfo(np.float32).eps * np.abs(median)] = 0.0
    return median, scale


def _trimmed_ends(ordered: Numbers) -> tuple[Numbers, Numbers]:
    """Smallest and largest value of sorted rows (k, n) without the outermost hundredth."""
    every = np.arange(len(ordered))
    count = ordered.shape[1] - np.isnan(ordered).sum(axis=1)
    cut = np.minimum(np.ceil(_OUTERMOST * count).astype(np.intp), np.maximum(count - 1, 0) // 2)
    return ordered[every, cut], ordered[every, np.maximum(count - 1, 0) - cut]


def _middle(ordered: Numbers, count: Rows) -> Numbers:
    every, last = np.arange(len(ordered)), np.maximum(count - 1, 0)
    return np.asarray(0.5 * (ordered[every, last // 2] + ordered[every, (last + 1) // 2]))


_FEWEST_OTHERS = 20


def _of_the_others(ordered: Numbers, common: float) -> tuple[float, float]:
    """Median and scale of the values that are not the common one."""
    others = ordered[(ordered != common) & ~np.isnan(ordered)]
    if len(others) < _FEWEST_OTHERS:
        return common, np.nan
    median, scale = _median_and_scale(others[None])
    return (float(median[0]), float(scale[0])) if scale[0] > 0 else (common, np.nan)


_FEWEST_DISTINCT, _REMOTE = 10, 3.0


def _repeated_ends(ordered: Numbers) -> Rows:
    """How often the largest or smallest value of sorted rows (k, n) occurs, if it is remote.

    Remote: three times as far from the next value as all others are from each other. Two or more
    equal ones look like a code for "unknown". 0 where neither end is; columns with fewer than ten
    other values are counts or categories and are not judged.
    """
    result = np.zeros(len(ordered), dtype=np.intp)
    count = ordered.shape[1] - np.isnan(ordered).sum(axis=1)
    judged = np.flatnonzero(count > _FEWEST_DISTINCT)
    for sign in (1, -1):
        for k in judged:
            values = ordered[k, : count[k]] if sign > 0 else -ordered[k, : count[k]][::-1]
            if values[-1] != values[-2]:
                continue
            others = values[: np.searchsorted(values, values[-1])]
            span = _REMOTE * (others[-1] - others[0]) if len(others) else np.inf
            if len(others) < _FEWEST_DISTINCT or values[-1] - others[-1] <= span:
                continue
            if (np.diff(others) > 0).sum() >= _FEWEST_DISTINCT - 1:
                result[k] = len(values) - len(others)
    return result
