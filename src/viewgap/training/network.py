"""What the loop asks of a network: named loss terms in training, probabilities otherwise."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from viewgap.nn.mlp import Dropout
from viewgap.training.batches import Batch, BatchSource


class DeepNetwork(nn.Module, ABC):
    """Base of the networks that `training.loop` can train."""

    choices: torch.Generator

    @abstractmethod
    def loss_terms(self, batch: Batch) -> dict[str, Tensor]:
        """Named scalars, weights included; their sum is minimised."""

    @abstractmethod
    def predict_batch(self, batch: Batch) -> Tensor:
        """Probabilities (B, c) in evaluation mode."""

    def begin_epoch(self) -> None:
        """Called before every pass over the training rows."""

    def finish_epoch(self, source: BatchSource) -> None:
        """Called in evaluation mode after every pass, with the training rows."""

    def epoch_facts(self) -> dict[str, float]:
        """Numbers worth keeping in the history of the fit, besides the loss terms."""
        return {}

    def use_noise(self, noise: torch.Generator, choices: torch.Generator) -> None:
        """Draw dropout masks from `noise` (on the device), choices about rows from `choices`."""
        self.choices = choices
        for module in self.modules():
            if isinstance(module, Dropout):
                module.generator = noise
