"""The part of a batch that one of several processes has, and how it sees the whole.

All processes know which samples every batch has, and which of their views: a seed fixes it. Each
takes a run of the samples, so the rows of a view that it has follow each other too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from viewgap.nn.dropout import RowPlaces
from viewgap.nn.reduce import Reducer
from viewgap.training.batches.index import Room, ShareIndex, Stacked
from viewgap.training.batches.sampled import Layout, Rows, SampledBatches, part_limits

if TYPE_CHECKING:
    from viewgap.training.batches.batch import Batch
    from viewgap.training.batches.epoch_index import Capacity


class Stack(Protocol):
    """Makes an array of all batches, of which each uses so much, if shapes are not fixed."""

    def __call__(self, values: NDArray[Any], lengths: Rows | None, axis: int = -1) -> Stacked:
        """See `Stacked`."""


def index_share(
    whole: SampledBatches,
    part: SampledBatches,
    layout: Layout,
    reducer: Reducer,
    capacity: Capacity,
    stack: Stack,
) -> tuple[ShareIndex[Stacked], Sequence[Room]]:
    """Where the part is in the whole of every batch, and how much room the whole ones have.

    `part`: as wide as `capacity`, whose `whole` is None for exact shapes.
    """
    fixed = capacity.whole
    starts, stops = part_limits(whole, reducer)
    if fixed is not None:
        whole = whole.padded(fixed.samples)
    count, width = whole.rows.shape
    sizes = whole.is_sample.sum(axis=1)
    rooms = _rooms(whole, layout, fixed)

    places = starts[:, None] + np.arange(part.rows.shape[1])
    past = np.array([room.samples for room in rooms])[:, None]
    share = ShareIndex(
        stack(np.where(whole.is_sample, whole.rows, 0), sizes),
        stack(whole.visible, sizes, axis=0),
        stack(sizes.astype(np.float64), None),
        stack(np.where(places < stops[:, None], places, past), stops - starts),
        rooms[0],
        None if fixed is None else stack(whole.is_sample.astype(np.float64), None),
    )
    if layout.rows == "packed":
        before = np.zeros((count, width + 1, whole.visible.shape[2]), dtype=np.int64)
        whole.visible.cumsum(axis=1, out=before[:, 1:])
        own, first = part.visible.sum(axis=1), before[np.arange(count), starts]
        for v, length in enumerate(capacity.views):
            places = first[:, v, None] + np.arange(length + layout.folded)
            past = np.array([room.views[v] for room in rooms])[:, None]
            places = np.where(places < (first + own)[:, v, None], places, past)
            if layout.folded:  # the row that stands for the missing ones comes last
                places[np.arange(count), own[:, v]] = before[:, -1, v]
            share.views.append(stack(places, own[:, v] + layout.folded))
    for j, length in enumerate(capacity.pairs):
        of_all, mine = whole.pair_mask(j, layout.pairs), part.pair_mask(j, layout.pairs)
        t, views, b = np.nonzero(mine)
        places = np.repeat([[room.pairs[j]] for room in rooms], length, axis=1)
        places[t, _numbered(mine)[t, views, b]] = _numbered(of_all)[t, views, starts[t] + b]
        share.pairs.append(stack(places, mine.sum(axis=(1, 2))))
    return share, rooms


def _rooms(whole: SampledBatches, layout: Layout, fixed: Capacity | None) -> list[Room]:
    """That of every batch; of a fixed shape all have the same."""
    count, extra = len(whole.rows), int(layout.folded)
    if fixed is not None:
        return [Room(fixed.samples, [n + extra for n in fixed.views], fixed.pairs)] * count
    has_pairs = bool(whole.most_pairs(layout))
    targets = range(whole.visible.shape[2]) if has_pairs else ()
    pairs = [whole.pair_mask(j, layout.pairs).sum(axis=(1, 2)).tolist() for j in targets]
    views = (whole.visible.sum(axis=1) + extra).tolist()
    sizes = whole.is_sample.sum(axis=1).tolist()
    return [Room(sizes[t], views[t], [own[t] for own in pairs]) for t in range(count)]


def _numbered(mask: NDArray[np.bool_]) -> Rows:
    """The number of every true entry among those of its batch, in their order."""
    flat: Rows = mask.reshape(len(mask), -1).cumsum(axis=1) - 1
    return flat.reshape(mask.shape)


class BatchShare:
    """Which samples of a batch this process has, and where its rows are among those of all.

    Parameters
    ----------
    index : ShareIndex
        Where they are.
    reducer : Reducer
        Which process this is, and how to add up over all of them.
    make_whole : callable
        Makes the batch of all samples.
    """

    def __init__(
        self, index: ShareIndex[Tensor], reducer: Reducer, make_whole: Callable[[], Batch]
    ) -> None:
        self.reducer = reducer
        self._index, self._make_whole = index, make_whole

    @cached_property
    def whole(self) -> Batch:
        """The batch of all samples, without the rows of their views."""
        return self._make_whole()

    @property
    def samples(self) -> RowPlaces:
        """Of one row for every sample."""
        return RowPlaces(self._index.samples, self._index.room.samples)

    def view(self, view: int) -> RowPlaces:
        """Of the rows of a view."""
        if not self._index.views:
            return self.samples
        return RowPlaces(self._index.views[view], self._index.room.views[view])

    def views(self) -> RowPlaces:
        """Of the rows of all views, one view after the other."""
        every = [self.view(view) for view in range(self._index.visible.shape[1])]
        total, before, places = sum(own.total for own in every), 0, []
        for own in every:
            is_row = own.places < own.total
            places.append(torch.where(is_row, own.places + before, total))
            before += own.total
        return RowPlaces(torch.cat(places), total)

    def pairs(self, target: int) -> RowPlaces:
        """Of the pairs that a view is decoded from."""
        if not self._index.pairs:
            return self.view(target)
        return RowPlaces(self._index.pairs[target], self._index.room.pairs[target])

    # ------------------------------------------------------------------ values

    def own(self, values: Tensor) -> Tensor:
        """Values of the samples of this process from those of all, (B, ...)."""
        return self.samples.of(values, 0)

    def gather(self, values: Tensor, dim: int) -> Tensor:
        """Values of the samples of all processes, in the order of the batch; with gradient."""
        return self.reducer.sum(self.samples.among_all(values, dim))

    def gather_rows(self, values: Tensor) -> Tensor:
        """Values of the rows of all views, (ΣR, ...), of all processes; no gradient."""
        return self.reducer.sum(self.views().among_all(values.detach(), 0))
