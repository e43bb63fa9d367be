"""Shuffling by blocks, for rows on disk: what lies together there is read together.

An order in which every row may follow every other one costs a read per row. Here the rows are cut
into blocks that lie together, the blocks are drawn at random, and the rows of some blocks that
follow each other, a window, are shuffled. A window as long as the data is an order like any other.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from viewgap.data.viewset import ViewSet

WINDOW_BYTES = 32 << 20
"""Prepared rows of a window, where nobody says how many rows it has."""
BLOCKS_PER_WINDOW = 64
FEWEST_PER_WINDOW = 4

Rows = NDArray[np.int64]


class RowBlocks:
    """Blocks of rows that lie together on disk.

    Parameters
    ----------
    place : array of shape (n,)
        Where each row lies; any numbers that grow with the place.
    window_rows : int
        Rows that are shuffled together.
    chunk_rows : int
        Rows that can only be read together: a block has no fewer, where a window has some of them.
    """

    def __init__(self, place: NDArray[np.intp], window_rows: int, chunk_rows: int = 1) -> None:
        n = len(place)
        self.window_rows = max(1, min(n, window_rows))
        fewest = min(chunk_rows, self.window_rows // FEWEST_PER_WINDOW)
        self.block_rows = max(-(-self.window_rows // BLOCKS_PER_WINDOW), fewest)
        self.blocks_per_window = -(-self.window_rows // self.block_rows)
        self.count = -(-n // self.block_rows)
        self._n = n
        is_sorted = n < 2 or bool((place[1:] > place[:-1]).all())
        # Rows in the order in which they lie there, and where in it each row is; None: as counted.
        self._rows = None if is_sorted else np.argsort(place, kind="stable")
        self._rank: NDArray[np.intp] | None = None
        if self._rows is not None:
            self._rank = np.empty(n, dtype=np.intp)
            self._rank[self._rows] = np.arange(n)

    @classmethod
    def of(cls, views: ViewSet, window_rows: int, row_bytes: int) -> RowBlocks | None:
        """The blocks of views on disk; None where none is there. `window_rows`: 0 = by memory."""
        on_disk = [name for name in views.names if views.is_on_disk(name)]
        if not on_disk:
            return None
        _, place = views.locate(on_disk[0], np.arange(len(views)))
        chunk_rows = max(views.chunk_rows(name) for name in on_disk)
        return cls(place, window_rows or max(1, WINDOW_BYTES // max(1, row_bytes)), chunk_rows)

    @property
    def is_everything(self) -> bool:
        """Whether one window holds all rows."""
        return self.window_rows >= self._n

    def order(self, generator: torch.Generator) -> Tensor:
        """All rows, by blocks in random order whose rows are shuffled window by window."""
        if self.is_everything:
            return torch.randperm(self._n, generator=generator)
        blocks = torch.randperm(self.count, generator=generator).numpy()
        places = (blocks[:, None] * self.block_rows + np.arange(self.block_rows)).reshape(-1)
        order = torch.from_numpy(places[places < self._n])
        for window in order.split(self.block_rows * self.blocks_per_window):
            window.copy_(window[torch.randperm(len(window), generator=generator)])
        return order if self._rows is None else torch.from_numpy(self._rows[order.numpy()])

    def numbers(self, rows: Rows) -> tuple[Rows, Rows]:
        """The number of each row's block, and which of its rows it is."""
        place = rows if self._rank is None else self._rank[rows]
        return np.divmod(place, self.block_rows)

    def rows(self, block: int) -> Rows:
        """The rows of a block, in the order in which they lie there."""
        places = np.arange(block * self.block_rows, min(self._n, (block + 1) * self.block_rows))
        return places if self._rows is None else self._rows[places]


class BlockCache:
    """Prepared rows of the blocks that were read last; as many as a window and a half has.

    Parameters
    ----------
    blocks : RowBlocks
        The blocks.
    read : callable
        `read(view, rows)`: prepared rows of a view, (b, d).
    """

    def __init__(self, blocks: RowBlocks, read: Callable[[int, Rows], NDArray[Any]]) -> None:
        self._blocks, self._read = blocks, read
        self._kept: dict[int, OrderedDict[int, NDArray[Any]]] = {}

    def read(self, view: int, rows: Rows) -> NDArray[Any]:
        """The same rows as `read` gives, (b, d); a block is read when a row of it is wanted."""
        numbers, places = self._blocks.numbers(rows)
        order = np.argsort(numbers, kind="stable")
        numbers, places = numbers[order], places[order]
        starts = np.flatnonzero(np.append(True, numbers[1:] != numbers[:-1]))
        result: NDArray[Any] | None = None
        for start, stop in zip(starts, np.append(starts[1:], len(rows)), strict=True):
            block = self._block(view, int(numbers[start]))
            if result is None:
                result = np.empty((len(rows), block.shape[1]), dtype=block.dtype)
            result[order[start:stop]] = block[places[start:stop]]
        assert result is not None  # noqa: S101  (a batch has rows)
        return result

    def _block(self, view: int, number: int) -> NDArray[Any]:
        kept = self._kept.setdefault(view, OrderedDict())
        if number in kept:
            kept.move_to_end(number)
            return kept[number]
        most = 2 + 3 * self._blocks.blocks_per_window // 2
        while len(kept) >= most:
            kept.popitem(last=False)
        kept[number] = self._read(view, self._blocks.rows(number))
        return kept[number]
