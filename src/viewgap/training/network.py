"""What the loop asks of a network: named loss terms in training, probabilities otherwise."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from viewgap.nn.mlp import Dropout
from viewgap.training.batches import Batch, BatchSource
from viewgap.training.plan import Layout


class DeepNetwork(nn.Module, ABC):
    """Base of the networks that `training.loop` can train."""

    @property
    def layout(self) -> Layout:
        """What its batches are to hold in training."""
        return Layout()

    @abstractmethod
    def loss_terms(self, batch: Batch) -> dict[str, Tensor]:
        """Named scalars, weights included; their sum is minimised."""

    @abstractmethod
    def predict_batch(self, batch: Batch) -> Tensor:
        """Probabilities (B, c) in evaluation mode."""

    def begin_epoch(self) -> None:
        """Called before every pass over the training rows."""

    @property
    def size(self) -> int:
        """Number of parameters."""
        return sum(parameter.numel() for parameter in self.parameters())

    @property
    def work(self) -> int:
        """About how many numbers a step goes through besides its rows."""
        return self.size

    @property
    def finishes_epochs(self) -> bool:
        """Whether `finish_epoch` has anything to do."""
        return False

    def finish_epoch(self, source: BatchSource) -> None:
        """Called in evaluation mode after every pass, with the training rows."""

    def epoch_facts(self) -> dict[str, float]:
        """Numbers worth keeping in the history of the fit, besides the loss terms."""
        return {}

    def use_noise(self, noise: torch.Generator) -> None:
        """Draw dropout masks from `noise`, a generator on the network's device."""
        for module in self.modules():
            if isinstance(module, Dropout):
                module.generator = noise
