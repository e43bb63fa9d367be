"""The part of a batch that one of several processes has, and how it sees the whole.

All processes know which samples every batch has, and which of their views: a seed fixes it. Each
takes a run of the samples, so the rows of a view that it has follow each other too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from viewgap.nn.dropout import RowPlaces
from viewgap.nn.reduce import Reducer
from viewgap.training.epoch_index import Layout, Mask, SampledBatches

if TYPE_CHECKING:
    from viewgap.training.batch import Batch


def part_of(batches: SampledBatches, reducer: Reducer) -> SampledBatches:
    """The samples of these batches that this process has: of B, those from B·r/W on."""
    sizes = batches.is_sample.sum(axis=1)
    starts, stops = _cut(sizes, reducer)
    width = max(1, int((stops - starts).max()))
    places = starts[:, None] + np.arange(width)
    exists = places < stops[:, None]
    t, at = np.arange(len(sizes))[:, None], np.where(exists, places, 0)
    source = None if batches.source is None else batches.source[t, at]
    return SampledBatches(
        np.where(exists, batches.rows[t, at], -1),
        batches.observed[t, at] & exists[:, :, None],
        batches.visible[t, at] & exists[:, :, None],
        source,
    )


def _cut(sizes: np.ndarray, reducer: Reducer) -> tuple[np.ndarray, np.ndarray]:
    return sizes * reducer.rank // reducer.count, sizes * (reducer.rank + 1) // reducer.count


class BatchShare:
    """Which samples of a batch this process has, and where its rows are among those of all.

    Parameters
    ----------
    batch : SampledBatches
        The whole batch, alone.
    layout : Layout
        What the network asks for.
    reducer : Reducer
        Which process this is, and how to add up over all of them.
    """

    def __init__(self, batch: SampledBatches, layout: Layout, reducer: Reducer) -> None:
        self.size = int(batch.is_sample.sum())
        start, stop = _cut(np.array([self.size]), reducer)
        self.start, self.stop = int(start[0]), int(stop[0])
        self.rows = torch.from_numpy(batch.rows[0, : self.size])
        self.visible: Mask = batch.visible[0, : self.size]
        self.reducer = reducer
        self.make_whole: Callable[[], Batch] | None = None
        self._batch, self._layout = batch, layout

    @property
    def samples(self) -> RowPlaces:
        """Of one row for every sample."""
        return RowPlaces(torch.arange(self.start, self.stop), self.size)

    def view(self, view: int) -> RowPlaces:
        """Of the rows of a view."""
        if self._layout.rows == "dense":
            return self.samples
        seen = self.visible[:, view]
        before, own = int(seen[: self.start].sum()), int(seen[self.start : self.stop].sum())
        total = int(seen.sum())
        places = torch.arange(before, before + own)
        if self._layout.folded:  # the row that stands for the missing ones comes last
            places, total = torch.cat([places, torch.tensor([total])]), total + 1
        return RowPlaces(places, total)

    def views(self) -> RowPlaces:
        """Of the rows of all views, one view after the other."""
        places, total = [], 0
        for view in range(self.visible.shape[1]):
            own = self.view(view)
            assert own.places is not None  # noqa: S101  (`view` gives them)
            places.append(own.places + total)
            total += own.total
        return RowPlaces(torch.cat(places), total)

    def pairs(self, target: int) -> RowPlaces:
        """Of the pairs that a view is decoded from."""
        if self._layout.norm_rows != "observed":
            return self.view(target) if self._layout.folded else self.samples
        mask = self._batch.pair_mask(target, self._layout.pairs)[0, :, : self.size]
        number = mask.ravel().cumsum().reshape(mask.shape) - 1
        own = slice(self.start, self.stop)
        return RowPlaces(torch.from_numpy(number[:, own][mask[:, own]]), int(mask.sum()))

    # ------------------------------------------------------------------ values

    def gather(self, values: Tensor, dim: int) -> Tensor:
        """Values of the samples of all processes, in the order of the batch; with gradient."""
        before, after = list(values.shape), list(values.shape)
        before[dim], after[dim] = self.start, self.size - self.stop
        whole = torch.cat([values.new_zeros(before), values, values.new_zeros(after)], dim=dim)
        return self.reducer.sum(whole)

    def gather_rows(self, values: Tensor) -> Tensor:
        """Values of the rows of all views, (ΣR, ...), of all processes; no gradient."""
        rows = self.views()
        assert rows.places is not None  # noqa: S101  (`views` gives them)
        whole = values.new_zeros(rows.total, *values.shape[1:])
        whole[rows.places.to(values.device)] = values.detach()
        return self.reducer.sum(whole)
