"""How the columns of a view are prepared before they are standardised: as counts, by rank, or not.

Chosen per view, on the rows of the fit. Every row is prepared for itself, so that its bits do not
depend on the rows it is read with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import ndtr, ndtri

from viewgap.data.rows import values as values_module
from viewgap.data.rows.values import (
    LARGEST,
    Rows,
    Stored,
    is_sparse,
    row_chunks,
    split_sparse,
    without_missing_values,
)

Block = NDArray[Any]
Numbers = NDArray[np.float64]

FEWEST_COUNTS = 16  # columns; a handful of whole numbers are ages or ratings, not a histogram
KNOTS = 128  # quantiles per column
SAMPLE_ROWS = 20_000  # quantiles of more rows than this would hardly differ
_PIECE = 1 << 15  # values prepared at once: what is needed in between stays in the cache
_LARGEST_LOG = 88.0  # expm1 of it lies just below LARGEST


class Plain:
    """Columns as they are."""

    kind: ClassVar[str] = "plain"

    def apply(self, values: Block, out: Block) -> Block:
        """Return the prepared rows (b, d): these ones, or `out` with the result written to it."""
        return values

    def invert(self, values: Block) -> Block:
        """Return rows (b, d) in the units of the data."""
        return values

    def apply_sparse(self, selected: Stored) -> tuple[Stored, Numbers]:
        """Return prepared rows of a CSR array, less what a zero becomes (d,), and the latter."""
        return selected, np.zeros(selected.shape[1])

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """What has to be kept besides the kind, as named arrays."""
        return {}


class Counts:
    """Histograms and term counts: log1p, then every row divided by its Euclidean length.

    Anything below 0 counts as 0, and a row of zeros stays one. `length` is the median length of
    the training rows: what a row has lost, and what `invert` gives it back.
    """

    kind: ClassVar[str] = "counts"

    def __init__(self, length: float) -> None:
        if not 0 < length < np.inf:
            raise ValueError(f"the length of a row of counts must be above 0, found {length}")
        self.length = length

    def apply(self, values: Block, out: Block) -> Block:
        """Return `out` with the prepared rows (b, d) written to it."""
        out[:] = 0.0
        for part in _pieces(values.shape):
            block = values[part].astype(np.float32, copy=False)
            rows, columns = np.nonzero(block > 0)
            logs = _logs(block[rows, columns])
            out[part][rows, columns] = logs / _lengths(logs, rows, len(block))[rows]
        return out

    def invert(self, values: Block) -> Block:
        """Return rows (b, d) of counts, of the median length."""
        logs = np.clip(values.astype(np.float64) * self.length, 0.0, _LARGEST_LOG)
        return np.expm1(logs).astype(values.dtype)

    def apply_sparse(self, selected: Stored) -> tuple[Stored, Numbers]:
        """Return prepared rows of a CSR array, less what a zero becomes (d,), and the latter."""
        rows = np.repeat(np.arange(selected.shape[0]), np.diff(selected.indptr))
        logs = _logs(np.maximum(selected.data, 0))
        lengths = _lengths(logs, rows, selected.shape[0])
        unit = logs / np.where(lengths > 0, lengths, 1.0)[rows]
        return _like(selected, unit), np.zeros(selected.shape[1])

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """What has to be kept besides the kind, as named arrays."""
        return {"length": np.array([self.length])}


class Ranks:
    """Every column by its empirical distribution function, as quantiles of a standard normal.

    The function is linear between the knots; equal knots jump, and the value itself gets the middle
    of the jump. Values beyond the ends count as the ends, and a constant column becomes 0 whatever
    it holds. `knots` (d, q) are values of the `rows` rows of the fit in rising order, at evenly
    spaced ranks from the smallest to the largest. Values are taken as float32, as the knots are:
    the same number must be the same knot, however precisely it was read.
    """

    kind: ClassVar[str] = "rank"

    def __init__(self, knots: NDArray[np.float32], rows: int) -> None:
        d, q = knots.shape
        if not 1 <= q <= KNOTS or not q <= rows < 2**31:
            raise ValueError(f"{q} knots of {rows} rows: expected 1 to {KNOTS}, and as many rows")
        if not (np.abs(knots) <= LARGEST).all() or (knots[:, 1:] < knots[:, :-1]).any():
            raise ValueError("the knots of a column must be finite and in rising order")
        self.knots, self.rows = knots, rows
        # The share of rows below the middle of a knot's own row; it never reaches 0 or 1.
        shares = (spaced_ranks(rows, q) + 0.5) / rows
        self._shares = np.append(shares, shares[-1])
        self._half = 1 << (q - 1).bit_length() >> 1  # first step of a search by halving
        self._stride = 2 * max(1, self._half) + 1
        table = np.full((d, self._stride), np.inf, dtype=np.float32)
        table[:, :q] = knots
        self._table = table.reshape(-1)
        first = np.zeros((d, self._stride), dtype=np.uint8)  # the first of the knots equal to one
        new = knots[:, 1:] > knots[:, :-1]
        own = np.arange(1, q, dtype=np.uint8)
        first[:, 1:q] = np.maximum.accumulate(np.where(new, own, np.uint8(0)), axis=1)
        self._first = first.reshape(-1)
        self._constant = knots[:, 0] == knots[:, -1]
        self._of_zero = self._quantiles(np.zeros(d, dtype=np.float32), np.arange(d))

    def apply(self, values: Block, out: Block) -> Block:
        """Return `out` with the prepared rows (b, d) written to it."""
        for part in _pieces(values.shape):
            block = np.ascontiguousarray(values[part], dtype=np.float32)
            if 2 * np.count_nonzero(block) > block.size:
                columns = np.tile(np.arange(block.shape[1]), len(block))
                out[part] = self._quantiles(block.reshape(-1), columns).reshape(block.shape)
            else:  # the same numbers for less work
                rows, columns = np.nonzero(block)
                out[part] = self._of_zero
                out[part][rows, columns] = self._quantiles(block[rows, columns], columns)
        return out

    def _quantiles(self, x: NDArray[np.float32], columns: Rows) -> Numbers:
        """Return the normal quantiles (k,) of values (k,) of these columns."""
        table, shares = self._table, self._shares
        start = columns * self._stride
        position, step = start.copy(), self._half
        while step:  # to the last knot that is not above x, if there is one
            position += step * (table.take(position + step, mode="clip") <= x)
            step >>= 1
        below = table.take(position, mode="clip").astype(np.float64)
        gap = table.take(position + 1, mode="clip") - below  # infinite past the last knot
        gap[gap == 0] = 1.0  # x lies below equal first knots
        fraction = np.clip((x - below) / gap, 0.0, 1.0)
        knot = position - start
        low = shares.take(knot, mode="clip")
        share = low + fraction * (shares.take(knot + 1, mode="clip") - low)
        hit = np.flatnonzero(x == below)
        share[hit] = 0.5 * (low[hit] + shares.take(self._first.take(position[hit])))
        if self._constant.any():
            share[self._constant.take(columns)] = 0.5
        return ndtri(share)  # type: ignore[no-any-return]

    def invert(self, values: Block) -> Block:
        """Return rows (b, d) in the units of the data, within the range of the knots."""
        result = np.empty_like(values)
        low, high = self._shares[0], self._shares[-1]
        for part in _pieces(values.shape):
            share = np.clip(ndtr(values[part].astype(np.float64)), low, high)
            knot = np.searchsorted(self._shares[:-2], share, side="right") - 1
            knot = np.maximum(knot, 0)
            gap = self._shares[knot + 1] - self._shares[knot]
            position = knot + np.arange(values.shape[1]) * self._stride
            below = self._table[position].astype(np.float64)
            above = np.minimum(self._table[position + 1], self.knots[:, -1])
            fraction = (share - self._shares[knot]) / np.where(gap > 0, gap, 1.0)
            result[part] = (1.0 - fraction) * below + fraction * above
        return result

    def apply_sparse(self, selected: Stored) -> tuple[Stored, Numbers]:
        """Return prepared rows of a CSR array, less what a zero becomes (d,), and the latter."""
        data = np.empty(len(selected.data))
        for part in row_chunks(len(data), 64):
            columns = selected.indices[part].astype(np.intp)
            found = self._quantiles(selected.data[part].astype(np.float32), columns)
            data[part] = found - self._of_zero[columns]
        return _like(selected, data), self._of_zero

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """What has to be kept besides the kind, as named arrays."""
        return {"knots": self.knots, "rows": np.array([self.rows], dtype=np.int64)}


Features = Plain | Counts | Ranks
KINDS = (Plain.kind, Counts.kind, Ranks.kind)  # a model file has the position: never reorder
PARTS: Mapping[str, tuple[str, ...]] = {
    Plain.kind: (),
    Counts.kind: ("length",),
    Ranks.kind: ("knots", "rows"),
}


def restore(kind: str, arrays: Mapping[str, NDArray[Any]], width: int) -> Features:
    """Return the features that `to_arrays` described, of a view with `width` columns."""
    if kind == Plain.kind:
        return Plain()
    (number,) = arrays[PARTS[kind][-1]].reshape(-1).tolist()
    if kind == Counts.kind:
        return Counts(float(number))
    knots = np.asarray(arrays["knots"], dtype=np.float32)
    if knots.ndim != 2 or len(knots) != width:
        raise ValueError(f"the knots have the shape {knots.shape}, the view {width} columns")
    if not isinstance(number, int):
        raise ValueError(f"the number of rows must be whole, found {number}")
    return Ranks(knots, number)


# ---------------------------------------------------------------------- choosing and fitting


def choose(stored: Stored, positions: Rows, gaps: bool = False) -> Features:
    """Return the features that suit these rows of a view, and nothing else of it is looked at.

    `gaps`: single values may be missing (NaN); they are left out.
    """
    if not len(positions) or not stored.shape[1]:
        return Plain()
    if _are_counts(stored, positions, gaps):
        return Counts(_median_length(stored, positions, gaps))
    return _fit_ranks(stored, positions, gaps)


def _are_counts(stored: Stored, positions: Rows, gaps: bool) -> bool:
    """Whether all is whole and not negative, half of it zero, and there are enough columns."""
    width = stored.shape[1]
    if width < FEWEST_COUNTS:
        return False
    nonzero, total = 0, width * len(positions)
    for block in _read(stored, positions):
        if gaps:
            block, missing = _without_gaps(block)
            total -= missing
        values = block.data if is_sparse(block) else block
        if not hold_counts(values):
            return False
        nonzero += int(np.count_nonzero(values))
    return bool(2 * nonzero <= total)


def hold_counts(values: NDArray[Any]) -> bool:
    """Whether all of these values are whole and not negative."""
    if values.size and values.min() < 0:
        return False
    return not (values.dtype.kind == "f" and (values != np.floor(values)).any())


def _median_length(stored: Stored, positions: Rows, gaps: bool) -> float:
    """Median over the rows that are not all zero; 1 if all of them are."""
    lengths = []
    for block in _read(stored, positions, bytes_per_value=32):
        if gaps:
            block, _ = _without_gaps(block)
        lengths.append(row_lengths(block))
    return middle_length(lengths)


def row_lengths(block: Any) -> Numbers:
    """Return the Euclidean length (b,) of the logarithms of rows of counts."""
    rows, _ = block.nonzero()
    values = block.data[block.data != 0] if is_sparse(block) else block[block != 0]
    return _lengths(_logs(values), rows, block.shape[0])


def middle_length(lengths: Sequence[Numbers]) -> float:
    """Return the median of the lengths above 0; 1 if there are none."""
    positive = np.concatenate(lengths)
    positive = positive[positive > 0]
    return float(np.median(positive)) if len(positive) else 1.0


def _without_gaps(block: Any) -> tuple[Any, int]:
    """Return rows with zeros for missing values, and the number of these."""
    if is_sparse(block):
        kept, rows, _ = split_sparse(block)
        return kept, len(rows)
    kept, missing = without_missing_values(block)
    return kept, 0 if missing is None else int(missing.sum())


def _fit_ranks(stored: Stored, positions: Rows, gaps: bool) -> Ranks:
    if len(positions) > SAMPLE_ROWS:
        positions = positions[np.linspace(0, len(positions) - 1, SAMPLE_ROWS).astype(np.intp)]
    ranks = spaced_ranks(len(positions), min(KNOTS, len(positions)))
    sorted_values = _sparse_order_statistics if is_sparse(stored) else _order_statistics
    return ranks_of_knots(sorted_values(stored, positions, ranks, gaps), len(positions))


def ranks_of_knots(knots: NDArray[np.float32], rows: int) -> Ranks:
    """Return the features of columns with these values (d, q) at evenly spaced ranks."""
    spread = knots[:, -1].astype(np.float64) - knots[:, 0]
    limits = np.finfo(np.float32)
    # Below the resolution of float32 there is only rounding, and ranks would blow it up.
    middle = knots[:, knots.shape[1] // 2]
    flat = (spread <= 2 * limits.eps * np.abs(middle)) | (spread < limits.tiny)
    knots[flat] = middle[flat, None]
    return Ranks(knots, rows)


def spaced_ranks(rows: int, q: int) -> Rows:
    """Return q evenly spaced ranks in a column of so many sorted rows, both ends included."""
    return np.rint(np.linspace(0, rows - 1, q)).astype(np.intp)


def ranks_among(ranks: Rows, rows: int, counts: Rows) -> Rows:
    """Return the same ranks (d, q) in columns of which only `counts` (d,) of the rows are there.

    Where a column has fewer values than ranks, neighbouring ranks share one: as with equal
    values, its quantile is then the middle of their range.
    """
    last = np.maximum(counts - 1, 0)[:, None]
    return np.rint(ranks * (last / max(rows - 1, 1))).astype(np.intp)


def _order_statistics(
    stored: Stored, positions: Rows, ranks: Rows, gaps: bool
) -> NDArray[np.float32]:
    """Return the values (d, q) at these ranks of the sorted columns, some columns at a time."""
    width, n = stored.shape[1], len(positions)
    knots = np.empty((width, len(ranks)), dtype=np.float32)
    step = max(1, 4 * values_module.CHUNK_BYTES // (4 * n))
    for start in range(0, width, step):
        columns = slice(start, min(start + step, width))
        sample = np.empty((columns.stop - start, n), dtype=np.float32)
        done = 0
        for block in _read(stored, positions):
            sample[:, done : done + len(block)] = block[:, columns].T
            done += len(block)
        sample.sort(axis=1)  # NaN last
        if gaps:
            counts = n - np.isnan(sample).sum(axis=1)
            taken = np.take_along_axis(sample, ranks_among(ranks, n, counts), axis=1)
            knots[columns] = np.where(counts[:, None] > 0, taken, np.float32(0))
        else:
            knots[columns] = sample[:, ranks]
    return knots


def _sparse_order_statistics(
    stored: Stored, positions: Rows, ranks: Rows, gaps: bool
) -> NDArray[np.float32]:
    """Return the same of a CSR array. Only what is stored is sorted: zeros lie in between."""
    selected, width, n = stored[positions], stored.shape[1], len(positions)
    counts = np.full(width, n)
    if gaps:
        selected, _, columns = split_sparse(selected)
        counts -= np.bincount(columns, minlength=width)
        ranks = ranks_among(ranks, n, counts)
    data = selected.data.astype(np.float32)
    data = data[np.lexsort((data, selected.indices))]
    filled = np.bincount(selected.indices, minlength=width)[:, None]
    negative = np.bincount(selected.indices[selected.data < 0], minlength=width)[:, None]
    start = np.cumsum(filled, axis=0) - filled
    zeros = counts[:, None] - filled
    past = (ranks >= negative + zeros) & (filled > 0)
    index = start + ranks - np.where(past, zeros, 0)
    stated = past | (ranks < negative)
    knots = np.zeros((width, ranks.shape[-1]), dtype=np.float32)
    knots[stated] = data[index[stated]]
    return knots


# ---------------------------------------------------------------------- parts


def _read(stored: Stored, positions: Rows, bytes_per_value: int = 8) -> Iterator[Any]:
    """Read the rows chunk by chunk; chunks of a CSR array are CSR arrays."""
    for part in row_chunks(len(positions), stored.shape[1] * bytes_per_value):
        yield stored[positions[part]]


def _pieces(shape: tuple[int, ...]) -> Iterator[slice]:
    step = max(1, _PIECE // max(1, shape[1]))
    for start in range(0, shape[0], step):
        yield slice(start, start + step)


def _logs(counts: NDArray[Any]) -> Numbers:
    """Return log1p; of numbers as float32 has them, whose squares never vanish in float64."""
    return np.log1p(counts.astype(np.float32).astype(np.float64))


def _lengths(logs: Numbers, rows: Rows, n: int) -> Numbers:
    """Return Euclidean lengths (n,); summed in the order of the columns, whatever else is there."""
    return np.sqrt(np.bincount(rows, weights=np.square(logs), minlength=n))


def _like(selected: Stored, data: Numbers) -> Stored:
    """Return a CSR array with other data at the same positions."""
    parts = (data, selected.indices, selected.indptr)
    return sparse.csr_array(parts, shape=selected.shape, copy=False)
