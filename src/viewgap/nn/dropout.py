"""Modules that draw from a random generator of their own: dropout, hidden columns."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class RandomModule(nn.Module):
    """A module that draws from a generator of its own, so that a seed fixes the whole fit."""

    generator: torch.Generator | None = None


class Dropout(RandomModule):
    """Dropout with masks from the module's own generator."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        """Shape: any."""
        if not self.training or self.rate == 0.0:
            return x
        return x * self._kept(x)

    def _kept(self, x: Tensor) -> Tensor:
        """1 / (1 − rate) for what stays, else 0."""
        share = 1.0 - self.rate
        if x.is_cuda:
            return torch.empty_like(x).bernoulli_(share, generator=self.generator).div_(share)
        # On a CPU `bernoulli_` takes four times as long as this.
        draws = torch.rand(x.shape, generator=self.generator)
        return (draws < share).to(x.dtype).div_(share)


class ColumnMask(RandomModule):
    """Sets the same number of columns of every row to 0 in training, drawn for each row.

    Unlike dropout, what is left is not scaled up. Shape: (R, d) -> (R, d).
    """

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share

    def forward(self, x: Tensor) -> Tensor:
        """`int(share · d)` columns of every row are hidden."""
        hidden = int(self.share * x.shape[-1])
        if not self.training or hidden == 0:
            return x
        draws = torch.rand(x.shape, generator=self.generator, device=x.device)
        limit = draws.kthvalue(hidden, dim=-1, keepdim=True).values
        return x * (draws > limit)
