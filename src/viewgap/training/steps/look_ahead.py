"""What the coming epochs will need, known before they come: a seed fixes all their batches.

A recorded step has one shape. If batches that need more room came up later, it would have to be
recorded again, some fifteen times in a fit; and an index made between two epochs keeps a GPU
waiting. Both draw from copies of the fit's generator: a fit is what it would be without them.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from viewgap.training.batches.epoch_index import Capacity, EpochIndex
from viewgap.training.batches.sampled import Layout, sample_batches
from viewgap.training.batches.source import BatchSource
from viewgap.training.fit_state import FitState
from viewgap.training.settings import TrainingSettings

_MOST_EPOCHS = 150  # more than most fits have
_MOST_ENTRIES = (
    4_000_000  # entries (row, view) looked at, about 0.1 s; of a large set, fewer epochs
)


def capacities_ahead(
    source: BatchSource,
    layout: Layout,
    settings: TrainingSettings,
    order: torch.Generator,
    epochs: int,
) -> list[Capacity]:
    """Room for the batches of the coming epochs, as far as it is worth looking.

    One capacity, or one for every network of a committee that has batches of its own.

    Parameters
    ----------
    source : BatchSource
        The training rows; no value is read.
    layout : Layout
        What the network asks for.
    settings : TrainingSettings
        How batches are made.
    order : torch.Generator
        What they are drawn from, as it is before the next epoch; it is left as it is.
    epochs : int
        How many epochs there can be.
    """
    order, seen = _copied(order), 0
    capacities: list[Capacity] = []
    for _ in range(max(1, min(epochs, _MOST_EPOCHS))):
        batches = _batches(source, settings, order)
        capacities = capacities or [Capacity() for _ in batches]
        for own, capacity in zip(batches, capacities, strict=True):
            sampled = sample_batches(own, source.observed, layout, order)
            capacity.make_room(sampled, layout, source.runtime.reducer)
        seen += len(batches) * source.observed.size
        if seen >= _MOST_ENTRIES:
            break
    return capacities


class NextEpoch:
    """The indices of the coming epoch, if nothing else draws from the generator till then."""

    def __init__(
        self,
        source: BatchSource,
        state: FitState,
        settings: TrainingSettings,
        capacities: Sequence[Capacity],
    ) -> None:
        order, layout = _copied(state.order), state.network.layout
        self._batches = _batches(source, settings, order)
        self._before = order.get_state()
        self._indices = source.training_indices(self._batches, layout, order, capacities)
        self._after = order.get_state()

    def take(
        self, batches: Sequence[Sequence[Tensor]], order: torch.Generator
    ) -> list[EpochIndex] | None:
        """The indices of these batches, with the generator moved on; None if of others."""
        if not torch.equal(order.get_state(), self._before):
            return None
        given, known = ([rows for own in some for rows in own] for some in (batches, self._batches))
        if len(given) != len(known) or not all(map(torch.equal, given, known)):
            return None
        order.set_state(self._after)
        return self._indices


def _batches(
    source: BatchSource, settings: TrainingSettings, order: torch.Generator
) -> Sequence[Sequence[Tensor]]:
    """As the training loop draws them."""
    return source.batches_of_epoch(settings.batch_size, order if settings.shuffle else None)


def _copied(generator: torch.Generator) -> torch.Generator:
    copied = torch.Generator()
    copied.set_state(generator.get_state())
    return copied
