"""Networks that keep training samples, from which they complete others in prediction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from viewgap.training.batches.source import BatchSource
from viewgap.training.network import RowwiseNetwork

_ROWS = 512  # of the references encoded at once


class ReferencedNetwork(RowwiseNetwork):
    """Base of these networks: which samples are kept, and their codes, (m, kept, F) with a mask."""

    reference_codes: Tensor
    reference_observed: Tensor

    def _make_room(self, n_views: int, kept: int, size: int, generator: torch.Generator) -> None:
        """Buffers of a fixed size, which model files are checked against; unused rows: no view."""
        self.register_buffer("reference_codes", torch.zeros(n_views, kept, size))
        self.register_buffer("reference_observed", torch.zeros(kept, n_views, dtype=torch.bool))
        self._seed = int(torch.randint(2**31, (), generator=generator, device="cpu"))
        self._references: Sequence[Any] = []

    @property
    def finishes_epochs(self) -> bool:
        """See `DeepNetwork`: predictions are completed from reference samples."""
        return True

    def finish_epoch(self, source: BatchSource) -> None:
        """Encode the references by the weights of now, for validation and what is kept."""
        start = 0
        # Chosen in the first call and kept: later ones may be replayed, without the host.
        self._references = self._references or self._choose_references(source)
        for batch in map(source.assemble, self._references):
            rows = slice(start, start + len(batch))
            self.reference_codes[:, rows] = batch.stack(torch.cat(self.encode(batch)))
            self.reference_observed[rows] = batch.observed
            start += len(batch)

    def _choose_references(self, source: BatchSource) -> Sequence[Any]:
        """Batches of training rows, drawn by the seed; nothing is hidden from them."""
        kept, draw = len(self.reference_observed), torch.Generator().manual_seed(self._seed)
        rows = torch.randperm(len(source), generator=draw)[:kept].sort().values
        return source.batch_indices(rows.split(_ROWS), replace(self.layout, view_dropout=0.0))

    def end_training(self) -> None:
        """The training rows are not needed any more."""
        self._references = []
