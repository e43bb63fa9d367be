"""Batch normalisation with weighted rows."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from viewgap.nn.kernels import kernels_for
from viewgap.nn.linear import Linear, in_equal_blocks
from viewgap.nn.reduce import LOCAL, Reducer


class RowNorm(nn.Module):
    """Batch normalisation over the rows that count.

    As `BatchNorm1d`, with two additions: rows of weight 0 leave the statistics alone, and a batch
    may consist of several groups of rows that are normalised separately (as if the layer had been
    called once per group, in order).

    Shape: x (R, F) with weight (R,), or x (G, R, F) with weight (G, R); weight None counts all.
    """

    running_mean: Tensor
    running_var: Tensor
    over_rows: ClassVar[bool] = True  # of a batch, which processes may share

    def __init__(self, features: int, momentum: float = 0.1, eps: float = 1e-5) -> None:
        super().__init__()
        self.momentum = momentum
        self.eps = eps
        self.reducer: Reducer = LOCAL
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.register_buffer("running_mean", torch.zeros(features))
        self.register_buffer("running_var", torch.ones(features))

    def forward(self, x: Tensor, weight: Tensor | None = None) -> Tensor:
        """Normalise by the batch in training, by the running statistics otherwise."""
        if not self.training:
            return self._scale(x, self.running_mean, self.running_var)
        if self._is_plain(x, weight):
            return F.batch_norm(
                x,
                self.running_mean,
                self.running_var,
                self.weight,
                self.bias,
                training=True,
                momentum=self.momentum,
                eps=self.eps,
            )
        if weight is None and self.reducer is LOCAL and x.dim() == 3 and x.shape[1] > 1:
            return self._normalise_groups(x)
        count, mean, variance = self._statistics(x, weight)
        unbiased = variance * (count / (count - 1).clamp(min=1.0)).unsqueeze(-1)
        self._update_running(count, mean.detach(), unbiased.detach())
        # A view that no row of the batch has leaves nothing to normalise by; its rows do not
        # count anywhere, but they must stay finite.
        none = count.unsqueeze(-1) == 0
        mean = torch.where(none, self.running_mean, mean)
        variance = torch.where(none, self.running_var, variance)
        return self._scale(x, mean.unsqueeze(-2), variance.unsqueeze(-2))

    def _is_plain(self, x: Tensor, weight: Tensor | None) -> bool:
        """Whether PyTorch's fused kernel computes the same: all rows, one group, one process."""
        return weight is None and x.dim() == 2 and len(x) > 1 and self.reducer is LOCAL

    def _normalise_groups(self, x: Tensor) -> Tensor:
        """Groups side by side as columns: one call of the fused kernel for all of them."""
        groups, rows, features = x.shape
        mean, unbiased = x.new_zeros(groups * features), x.new_zeros(groups * features)
        flat = F.batch_norm(
            x.transpose(0, 1).reshape(rows, groups * features),
            mean,
            unbiased,
            self.weight.repeat(groups),
            self.bias.repeat(groups),
            training=True,
            momentum=1.0,  # leaves this batch's statistics in `mean` and `unbiased`
            eps=self.eps,
        )
        count = x.new_full((groups,), rows)
        shape = (groups, features)
        self._update_running(count, mean.view(shape), unbiased.view(shape))
        return flat.view(rows, groups, features).transpose(0, 1)

    def _statistics(self, x: Tensor, weight: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Count (G?,), mean and biased variance (G?, F) over the rows that count."""
        if weight is None:
            weight = x.new_ones(x.shape[:-1])
        rows = weight.unsqueeze(-1)
        count = weight.sum(dim=-1)
        divisor = count.clamp(min=1.0).unsqueeze(-1)
        mean = (rows * x).sum(dim=-2) / divisor
        centred = x - mean.unsqueeze(-2)
        variance = (rows * centred.square()).sum(dim=-2) / divisor
        if self.reducer is LOCAL:
            return count, mean, variance
        return self._joined(count, mean, variance)

    def _joined(
        self, count: Tensor, mean: Tensor, variance: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The same over the rows of all processes, by one message.

        Squares are around the mean of each process, and no digits cancel: the variance is that
        within the processes and that of their means.
        """
        every = self.reducer.gather(torch.cat([count.unsqueeze(-1), mean, variance], dim=-1))
        counts, means, variances = every.split([1, mean.shape[-1], mean.shape[-1]], dim=-1)
        total = counts.sum(dim=0)
        share = counts / total.clamp(min=1.0)
        together = (share * means).sum(dim=0)
        apart = variances + (means - together).square()
        return total.squeeze(-1), together, (share * apart).sum(dim=0)

    @torch.no_grad()
    def _update_running(self, count: Tensor, mean: Tensor, unbiased: Tensor) -> None:
        """Move the running statistics; groups in their order, those of fewer than two rows not."""
        step = self.momentum * (count.reshape(-1) > 1).to(mean.dtype)
        # One step per group, r <- (1-step)·r + step·s, written out: what group g adds is shrunk by
        # every later group.
        kept = torch.flip(torch.cumprod(torch.flip(1 - step, [0]), dim=0), [0])
        share = (step * kept / (1 - step)).unsqueeze(-1)
        # `data`: the fused kernel keeps the statistics for its gradient, which does not read them;
        # autograd would refuse it after a further call of the same layer in the same step.
        for running, new in ((self.running_mean.data, mean), (self.running_var.data, unbiased)):
            added = (share * new.reshape(-1, new.shape[-1])).sum(dim=0)
            running.mul_(kept[0]).add_(added)

    def _scale(self, x: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        factor = self.weight * torch.rsqrt(variance + self.eps)
        return torch.addcmul(self.bias - mean * factor, x, factor)


class BlockNorm(RowNorm):
    """`RowNorm` that uses torch's fused kernel where rows are evaluated in equal blocks.

    It is one kernel instead of six. It rounds differently in the last bit, which can choose another
    code; validation and prediction by batch keep the rounding of `RowNorm`.
    """

    def forward(self, x: Tensor, weight: Tensor | None = None) -> Tensor:
        """Normalise by the batch in training, by the running statistics otherwise."""
        if self.training or not in_equal_blocks():
            return super().forward(x, weight)
        running = (self.running_mean, self.running_var)
        return F.batch_norm(x, *running, self.weight, self.bias, eps=self.eps)


class SetNorm(RowNorm):
    """Normalisation over rows that are always all there, such as one row for every label.

    Their statistics are known in evaluation too, where running ones would lag behind.
    """

    over_rows: ClassVar[bool] = False

    def forward(self, x: Tensor, weight: Tensor | None = None) -> Tensor:
        """Normalise by these rows, in training and in evaluation."""
        if self.training:
            return super().forward(x, weight)
        _, mean, variance = self._statistics(x, weight)
        return self._scale(x, mean.unsqueeze(-2), variance.unsqueeze(-2))


def linear_norm(
    linear: Linear, norm: RowNorm, x: Tensor, weight: Tensor | None, gelu: bool = False
) -> Tensor:
    """norm(linear(x)), and with `gelu` GELU of it.

    On a GPU, training on one process, all after the product is one kernel.
    """
    kernels = kernels_for(x, "norm") if norm.training and norm.reducer is LOCAL else None
    if kernels is None or not 0 < x.shape[-2] <= kernels.MOST_ROWS:
        result = norm(linear(x), weight)
        return F.gelu(result) if gelu else result
    running = (norm.running_mean, norm.running_var)
    fused: Tensor = kernels.FusedNorm.apply(
        linear.product(x),
        linear.bias,
        weight,
        norm.weight,
        norm.bias,
        *running,
        norm.momentum,
        norm.eps,
        gelu,
    )
    return fused
