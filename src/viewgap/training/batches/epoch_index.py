"""Which rows every batch of an epoch reads, decided on the host before the epoch begins.

An index is made for all batches of an epoch at once, either exact, or of one shape that rows of
weight zero fill up, for the recorded steps of a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from torch import Tensor

from viewgap.nn.reduce import LOCAL, Reducer
from viewgap.training.batches.index import BatchIndex, PairIndex, Room, Stacked, ViewIndex
from viewgap.training.batches.sampled import Layout, Rows, SampledBatches, part_of
from viewgap.training.batches.share import index_share

Weights = NDArray[np.float64]

_ROUND_UP = 16  # fixed shapes grow in steps of this many rows: a tile of the matrix units


@dataclass
class Capacity:
    """How many samples, rows of each view and pairs of each decoded view a fixed shape holds.

    `whole`: that of all processes, where several share the batches.
    """

    views: list[int] = field(default_factory=list)
    pairs: list[int] = field(default_factory=list)
    samples: int = 0
    whole: Capacity | None = None

    def make_room(self, batches: SampledBatches, layout: Layout, reducer: Reducer = LOCAL) -> bool:
        """Hold these batches, or the part of this process; True if the shape had to change."""
        before = self.shape
        if reducer is not LOCAL:
            self.whole = self.whole or Capacity()
            self.whole.make_room(batches, layout)
            batches = part_of(batches, reducer)
        self.grow(batches.most_rows(), batches.most_pairs(layout), batches.rows.shape[1])
        return self.shape != before

    def grow(self, views: Sequence[int], pairs: Sequence[int], samples: int = 0) -> bool:
        """Make room for these numbers; True if the shape had to change."""
        before = self.shape
        # The first batches set it; those of networks that leave rows out may be longer later.
        self.samples = _room([self.samples], [samples])[0] if self.samples else samples
        self.views, self.pairs = _room(self.views, views), _room(self.pairs, pairs)
        return self.shape != before

    @property
    def shape(self) -> tuple[tuple[int, ...], ...]:
        """The numbers themselves, to tell whether they have changed."""
        own = (self.samples,), tuple(self.views), tuple(self.pairs)
        return own if self.whole is None else own + self.whole.shape


def _room(have: list[int], need: Sequence[int]) -> list[int]:
    if not need:
        return have
    pairs = zip(have or [0] * len(need), need, strict=True)
    return [old if old >= n else -(-n // _ROUND_UP) * _ROUND_UP for old, n in pairs]


class EpochIndex:
    """The index of T batches; `batch(t)` is that of one.

    `arrays` is the same with the arrays of all batches; what several pairs have in common is one
    array. `reshaped`: whether the capacity had to grow for these batches.

    Parameters
    ----------
    batches : SampledBatches
        Which samples, and which of their views.
    blank : sequence of int
        A row number of every view in which that view is missing, and so all zero.
    layout : Layout
        What the network asks for.
    capacity : Capacity, optional
        The fixed shape, which grows if it has to; None = every batch as long as its rows.
    dtype : float32 or float64
        Number format of the weights.
    reducer : Reducer
        Which process this is: of several that share the batches, an index is that of its part, and
        says where in the whole that is.
    """

    def __init__(
        self,
        batches: SampledBatches,
        blank: Sequence[int],
        layout: Layout,
        capacity: Capacity | None = None,
        dtype: DTypeLike = np.float64,
        reducer: Reducer = LOCAL,
    ) -> None:
        whole, batches = batches, batches if reducer is LOCAL else part_of(batches, reducer)
        self._blank, self._layout = blank, layout
        self._dtype = np.dtype(dtype)
        self._is_fixed = capacity is not None
        self._counts = batches.visible.sum(axis=1)  # (T, m)
        self.n_batches, self._width, self._n_views = batches.visible.shape
        self.reshaped = capacity is not None and capacity.make_room(whole, layout, reducer)
        self._room = capacity or Capacity(
            batches.most_rows(), batches.most_pairs(layout), self._width
        )
        self._width = self._room.samples
        self._batches = batches = batches.padded(self._width)
        self._sizes = batches.is_sample.sum(axis=1)
        self._rows = np.where(batches.is_sample, batches.rows, 0)
        self.arrays = self._index_samples()
        if layout.rows == "dense":
            entry_rows, n_rows = self._dense_entry_rows()
        else:
            entry_rows, n_rows = self._index_views()
        if layout.pairs != "none":
            self._index_pairs(entry_rows, n_rows)
        self._rooms: Sequence[Room] = ()
        if reducer is not LOCAL:
            share, self._rooms = index_share(
                whole, batches, layout, reducer, self._room, self._stack
            )
            self.arrays.share = share

    def batch(self, t: int) -> BatchIndex[Tensor]:
        """The index of batch t, exact or of the fixed shape."""
        index = self.arrays.map(lambda stacked: stacked.of_batch(t))
        if index.share is not None:
            index.share.room = self._rooms[t]
        return index

    def leaves(self) -> list[Stacked]:
        """All arrays, each once, in an order that depends on the layout only."""
        leaves: list[Stacked] = []
        self.arrays.map(leaves.append)
        return leaves

    # ------------------------------------------------------------------ building

    def _stack(
        self, values: NDArray[Any], lengths: NDArray[np.int64] | None, axis: int = -1
    ) -> Stacked:
        if values.dtype.kind == "f":
            values = values.astype(self._dtype, copy=False)
        return Stacked(values, None if self._is_fixed else lengths, axis)

    def _index_samples(self) -> BatchIndex[Stacked]:
        is_sample = self._batches.is_sample.astype(np.float64)
        return BatchIndex(
            self._stack(self._rows, self._sizes),
            self._stack(self._batches.visible, self._sizes, axis=0),
            self._stack(self._sizes.astype(np.float64), None),
            self._stack(is_sample, None) if self._is_fixed else None,
        )

    def _dense_entry_rows(self) -> tuple[Rows, Rows]:
        """The row of every visible entry (T, B, m), and the number of rows (T,)."""
        width = np.full(self.n_batches, self._width) if self._is_fixed else self._sizes
        starts = width[:, None] * np.arange(self._n_views)
        n_rows = width * self._n_views
        entry_rows = starts[:, None, :] + np.arange(self._width)[None, :, None]
        return np.where(self._batches.visible, entry_rows, n_rows[:, None, None]), n_rows

    def _index_views(self) -> tuple[Rows, Rows]:
        """Add the packed rows of every view; returns the same as `_dense_entry_rows`."""
        visible, counts = self._batches.visible, self._counts
        extra = int(self._layout.folded)
        room = np.array(self._room.views) + extra
        lengths = np.broadcast_to(room, counts.shape) if self._is_fixed else counts + extra
        ends = lengths.cumsum(axis=1)
        stride = np.full(self.n_batches, self._width) if self._is_fixed else self._sizes
        entry_rows = np.broadcast_to(ends[:, -1][:, None, None], visible.shape).copy()
        for v in range(self._n_views):
            t, b = np.nonzero(visible[:, :, v])
            rank = visible[:, :, v].cumsum(axis=1)[t, b] - 1
            entry_rows[t, b, v] = (ends[:, v] - lengths[:, v])[t] + rank
            rows = np.full((self.n_batches, room[v]), self._blank[v], dtype=np.int64)
            rows[t, rank] = self._rows[t, b]
            entry = np.repeat((self._n_views * stride)[:, None], room[v], axis=1)
            entry[t, rank] = v * stride[t] + b
            index = ViewIndex(self._stack(rows, lengths[:, v]), self._stack(entry, lengths[:, v]))
            if self._is_fixed or extra:
                weight = np.zeros((self.n_batches, room[v]), dtype=np.float64)
                weight[t, rank] = 1.0
                index.row_weight = index.norm_weight = self._stack(weight, lengths[:, v])
                if extra:
                    weight = weight.copy()
                    weight[np.arange(self.n_batches), counts[:, v]] = self._sizes - counts[:, v]
                    index.norm_weight = self._stack(weight, lengths[:, v])
            self.arrays.views.append(index)
        by_view = np.ascontiguousarray(entry_rows.transpose(0, 2, 1))
        self.arrays.entry_rows = self._stack(by_view, stride)
        return entry_rows, ends[:, -1]

    def _index_pairs(self, entry_rows: Rows, n_rows: Rows) -> None:
        """Add what every view is decoded from."""
        everything = list(range(self._n_views))
        if self._layout.norm_rows == "observed":
            pairs = [self._packed_pairs(j, entry_rows, n_rows) for j in everything]
        elif self._layout.pairs == "own":
            pairs = [self._grouped_pairs([j], [j], entry_rows, n_rows)[0] for j in everything]
        else:
            pairs = self._grouped_pairs(everything, everything, entry_rows, n_rows)
        self.arrays.pairs = pairs

    def _pair_weight(self) -> Weights:
        """1 / number of views that a view of the sample is decoded from, (T, B)."""
        if self._batches.source is not None:
            return np.ones(self._batches.rows.shape)
        counts: Weights = np.maximum(self._batches.visible.sum(axis=2), 1).astype(np.float64)
        return 1.0 / counts

    def _packed_pairs(self, j: int, entry_rows: Rows, n_rows: Rows) -> PairIndex[Stacked]:
        """Only the pairs that count."""
        mask = self._batches.pair_mask(j, self._layout.pairs)
        t, v, b = np.nonzero(mask)
        flat = mask.reshape(self.n_batches, -1)
        rank = (flat.cumsum(axis=1).reshape(mask.shape) - 1)[t, v, b]
        lengths = flat.sum(axis=1)
        shape = (self.n_batches, self._room.pairs[j])
        source = np.repeat(n_rows[:, None], shape[1], axis=1)
        target = np.full(shape, self._blank[j], dtype=np.int64)
        weight = np.zeros(shape, dtype=np.float64)
        source[t, rank] = entry_rows[t, b, v]
        target[t, rank] = self._rows[t, b]
        weight[t, rank] = self._pair_weight()[t, b]
        counts = (weight > 0).astype(np.float64)
        return PairIndex(
            self._stack(source, lengths),
            self._back(source, n_rows, lengths),
            self._stack(target, lengths),
            self._stack(weight, lengths),
            self._stack(counts, lengths) if self._is_fixed else None,
        )

    def _back(self, source: Rows, n_rows: Rows, lengths: NDArray[np.int64]) -> Stacked:
        """Which pair each code is in: the inverse of `source`."""
        width = np.full(self.n_batches, source.shape[-1]) if self._is_fixed else lengths
        groups = source.shape[1] if source.ndim == 3 else 1
        rows = source.reshape(self.n_batches, groups, -1)
        t, g, pair = np.nonzero(rows < n_rows[:, None, None])
        back = np.repeat((width * groups)[:, None], int(n_rows.max()), axis=1)
        back[t, rows[t, g, pair]] = g * width[t] + pair
        return self._stack(back, n_rows)

    def _grouped_pairs(
        self, sources: list[int], targets: list[int], entry_rows: Rows, n_rows: Rows
    ) -> list[PairIndex[Stacked]]:
        """One group of rows per source view, normalised on its own, missing samples included.

        All targets have the same pairs here, only their weights differ: 0 where there is no such
        view to compare with.
        """
        folded, visible, counts = self._layout.folded, self._batches.visible, self._counts
        width = max(self._room.views) + 1 if folded else self._width
        shape = (self.n_batches, len(sources), width)
        source = np.broadcast_to(n_rows[:, None, None], shape).copy()
        target = np.zeros(shape, dtype=np.int64)
        norm_weight = np.zeros(shape)
        weights = [np.zeros(shape) for _ in targets]
        for g, v in enumerate(sources):
            t, b = np.nonzero(visible[:, :, v] if folded else self._batches.is_sample)
            at = visible[:, :, v].cumsum(axis=1)[t, b] - 1 if folded else b
            source[t, g, at] = entry_rows[t, b, v]
            target[t, g, at] = self._rows[t, b]
            norm_weight[t, g, at] = 1.0
            if folded:
                missing = self._sizes - counts[:, v]
                norm_weight[np.arange(self.n_batches), g, counts[:, v]] = missing
            of_pair = self._pair_weight()[t, b] * visible[t, b, v]
            for j, weight in zip(targets, weights, strict=True):
                weight[t, g, at] = of_pair * self._batches.observed[t, b, j]
        lengths = counts.max(axis=1) + 1 if folded else self._sizes
        needs_weight = folded or self._is_fixed
        common = (
            self._stack(source, lengths),
            self._back(source, n_rows, lengths),
            self._stack(target, lengths),
        )
        norms = self._stack(norm_weight, lengths) if needs_weight else None
        return [PairIndex(*common, self._stack(weight, lengths), norms) for weight in weights]
