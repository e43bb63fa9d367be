"""The index of a long epoch, made part by part: memory for some batches, however many there are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import overload

from torch import Tensor

from viewgap.training.batches.epoch_index import EpochIndex
from viewgap.training.batches.index import BatchIndex
from viewgap.training.batches.sampled import SampledBatches, some_of

PART_ENTRIES = 1 << 18
"""Entries (sample, view) that are indexed at a time; an index takes some hundred bytes for each."""


class EpochParts(Sequence[BatchIndex[Tensor]]):
    """The indices of T batches, of which those of some batches are in memory.

    Which rows and views each batch has was drawn for all of them before: an index is the same
    whichever others are made with it. Batches are cheapest in their order.

    Parameters
    ----------
    batches : SampledBatches
        Which samples, and which of their views.
    make : callable
        Makes an `EpochIndex` of some of the batches.
    """

    def __init__(
        self, batches: SampledBatches, make: Callable[[SampledBatches], EpochIndex]
    ) -> None:
        n_batches, width, n_views = batches.visible.shape
        self._batches, self._make = batches, make
        self._step = max(1, PART_ENTRIES // max(1, width * n_views))
        self._part: tuple[int, EpochIndex] | None = None
        self.n_batches = int(n_batches)

    def batch(self, t: int) -> BatchIndex[Tensor]:
        """The index of batch t."""
        number, place = divmod(t, self._step)
        # Read once: another thread may be about to put another part there.
        part = self._part
        if part is None or part[0] != number:
            start = number * self._step
            part = self._part = (number, self._make(some_of(self._batches, start, self._step)))
        return part[1].batch(place)

    def __len__(self) -> int:
        return self.n_batches

    def __iter__(self) -> Iterator[BatchIndex[Tensor]]:
        return map(self.batch, range(self.n_batches))

    @overload
    def __getitem__(self, t: int) -> BatchIndex[Tensor]: ...
    @overload
    def __getitem__(self, t: slice) -> Sequence[BatchIndex[Tensor]]: ...
    def __getitem__(self, t: int | slice) -> BatchIndex[Tensor] | Sequence[BatchIndex[Tensor]]:
        wanted = range(self.n_batches)[t]
        return self.batch(wanted) if isinstance(wanted, int) else [self.batch(i) for i in wanted]
