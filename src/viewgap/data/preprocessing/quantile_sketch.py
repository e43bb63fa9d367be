"""Quantiles of the columns of a long table in one pass, with a bound on their error.

Rows are collected in buffers of k. Two full buffers become one: their values are sorted together,
column by column, and every second one is kept, which then stands for twice as many rows (Munro and
Paterson 1980; Manku, Rajagopalan and Lindsay 1998). A value that stands for w rows moves no rank by
more than w when it is thrown away, so that the error is known, whatever order the rows come in.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_BYTES = 256 * 2**20
MOST_ROWS = 4096
FEWEST_ROWS = 64

Rows = NDArray[np.intp]


class QuantileSketch:
    """Approximate order statistics of every column of rows that are added block by block.

    Missing values (NaN) come after all others. The smallest and the largest value are exact. With
    about as many rows as `n_rows` says, the buffers take at most `MOST_BYTES`; `buffer_rows` is
    their length k, by the memory if None.

    Examples
    --------
    >>> sketch = QuantileSketch(1, 1000, buffer_rows=100)
    >>> sketch.add(np.arange(1000.0).reshape(-1, 1))
    >>> sketch.rank_error
    13.0
    >>> sketch.at(np.array([0, 500, 999]))
    array([[  0., 499., 999.]], dtype=float32)
    """

    def __init__(self, width: int, n_rows: int, buffer_rows: int | None = None) -> None:
        if buffer_rows is None:
            levels = 3 + max(0, int(np.log2(max(1, n_rows) / FEWEST_ROWS)))
            fits = MOST_BYTES // max(1, 4 * width * levels)
            buffer_rows = min(MOST_ROWS, max(FEWEST_ROWS, fits))
        self.buffer_rows = 2 * max(1, buffer_rows // 2)  # two buffers have a middle
        self.n_rows = 0
        self.count = np.zeros(width, dtype=np.int64)
        """Values of every column that are not missing, (d,)."""
        self.rank_error = 0.0
        """By how many rows a rank may be off, at most."""
        self._new = np.empty((width, self.buffer_rows), dtype=np.float32)
        self._filled = 0
        self._full: list[NDArray[np.float32] | None] = []  # sorted; number h stands for 2^h rows
        self._from_second = False
        self._low = np.full(width, np.nan, dtype=np.float32)
        self._high = np.full(width, np.nan, dtype=np.float32)

    def add(self, rows: NDArray[Any]) -> None:
        """Add rows (b, d)."""
        if not len(rows):
            return
        values = rows.astype(np.float32, copy=False)
        self.n_rows += len(rows)
        self.count += len(rows) - np.isnan(values).sum(axis=0)
        self._low = np.fmin(self._low, np.fmin.reduce(values, axis=0))
        self._high = np.fmax(self._high, np.fmax.reduce(values, axis=0))
        done = 0
        while done < len(values):
            part = values[done : done + self.buffer_rows - self._filled]
            self._new[:, self._filled : self._filled + len(part)] = part.T
            self._filled += len(part)
            done += len(part)
            if self._filled == self.buffer_rows:
                self._put(np.sort(self._new, axis=1))
                self._filled = 0

    def _put(self, buffer: NDArray[np.float32]) -> None:
        """Keep a full buffer; two that stand for as many rows become one that stands for twice."""
        level = 0
        while level < len(self._full) and self._full[level] is not None:
            both = np.concatenate([self._full[level], buffer], axis=1)
            both.sort(axis=1)
            # In turns, so that what is lost at one end is not lost there every time.
            buffer = np.ascontiguousarray(both[:, int(self._from_second) :: 2])
            self._from_second = not self._from_second
            self._full[level] = None
            self.rank_error += 2.0**level
            level += 1
        if level == len(self._full):
            self._full.append(None)
        self._full[level] = buffer

    def parts(self) -> Iterator[tuple[float, NDArray[np.float32]]]:
        """How many rows each value stands for, and the values, (d, b) each."""
        if self._filled:
            yield 1.0, self._new[:, : self._filled]
        for level, buffer in enumerate(self._full):
            if buffer is not None:
                yield 2.0**level, buffer

    def at(self, ranks: Rows) -> NDArray[np.float32]:
        """Values (d, q) at these ranks of the sorted columns, 0 the smallest.

        `ranks` is (q,), or (d, q) with ranks of its own for every column. NaN where a rank lies
        behind the values that a column has.
        """
        width = len(self._low)
        weights = np.concatenate([np.full(v.shape[1], w) for w, v in self.parts()])
        wanted = np.broadcast_to(ranks, (width, ranks.shape[-1]))
        result = np.empty(wanted.shape, dtype=np.float32)
        for column in range(width):
            values = np.concatenate([own[column] for _, own in self.parts()])
            order = np.argsort(values, kind="stable")
            below = np.cumsum(weights[order])
            found = np.searchsorted(below, wanted[column], side="right")
            result[column] = values[order[np.minimum(found, len(order) - 1)]]
        # A rank near an end may have found a missing value: there is one that is not.
        last = self.count[:, None] - 1
        inside = wanted <= last
        result = np.where(inside & np.isnan(result), self._high[:, None], result)
        result = np.where(wanted == 0, self._low[:, None], result)
        result = np.where(wanted == last, self._high[:, None], result)
        return np.where(inside, result, np.float32(np.nan))
