"""Several SCSD networks in one: trained side by side on the same batches, they vote together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from viewgap.methods.scsd.network import SCSDNetwork
from viewgap.methods.scsd.settings import SCSDSettings
from viewgap.nn.voting import Votes
from viewgap.training.batches import Batch
from viewgap.training.epoch_index import Layout
from viewgap.training.network import DeepNetwork


class SCSDCommittee(DeepNetwork):
    """Members that differ in their start and their dropout, and one pooled vote.

    What a view says is the mean of what the members say of it; the views are then pooled by
    `votes`. Early stopping looks at the vote, which is steadier than any member.
    """

    def __init__(
        self,
        dims: Sequence[int],
        label_correlation: Tensor,
        settings: SCSDSettings,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        members = [
            SCSDNetwork(dims, label_correlation, settings, generator)
            for _ in range(settings.n_networks)
        ]
        self.members = cast("Sequence[SCSDNetwork]", nn.ModuleList(members))
        self.votes = Votes(len(dims), len(label_correlation))

    @property
    def layout(self) -> Layout:
        """That of every member."""
        return self.members[0].layout

    @property
    def work(self) -> int:
        """That of all members."""
        return sum(member.work for member in self.members)

    def loss_terms(self, batch: Batch) -> dict[str, Tensor]:
        """The terms of SCSD, averaged over the members: no member sees another."""
        terms = [member.loss_terms(batch) for member in self.members]
        return {name: torch.stack([own[name] for own in terms]).mean() for name in terms[0]}

    def view_predictions(self, batch: Batch) -> Tensor:
        """P^v of every view, (m, B, c), averaged over the members."""
        answers = [member.classify(batch, member.encode(batch)[0]) for member in self.members]
        return torch.stack(answers).mean(dim=0)

    def predict_batch(self, batch: Batch) -> Tensor:
        """The pooled vote, (B, c)."""
        fused: Tensor = self.votes(self.view_predictions(batch), batch.observed)
        return fused

    def begin_epoch(self) -> None:
        """See `SCSDNetwork`."""
        for member in self.members:
            member.begin_epoch()

    def epoch_facts(self) -> dict[str, float]:
        """Means over the members."""
        facts = [member.epoch_facts() for member in self.members]
        return {name: sum(own[name] for own in facts) / len(facts) for name in facts[0]}
