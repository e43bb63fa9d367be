"""Codes that are Gaussians with independent coordinates: fusing, comparing and drawing from them.

A Gaussian is a mean and a variance of the same shape, (..., F).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from viewgap.nn.dropout import RandomModule
from viewgap.nn.linear import Linear, make_linear
from viewgap.nn.reduce import LOCAL, Reducer, weighted_mean

_PRECISION_EPS = 1e-5
_KL_EPS = 1e-12


class GaussianHead(nn.Module):
    """A mean and, through softplus, a variance, side by side. Shape: (..., inputs) -> (..., 2F)."""

    def __init__(self, inputs: int, size: int, generator: torch.Generator) -> None:
        super().__init__()
        self.mean = make_linear(inputs, size, generator)
        self.variance = make_linear(inputs, size, generator)

    def forward(self, x: Tensor) -> Tensor:
        """`chunk(2, dim=-1)` of the result gives mean and variance."""
        return torch.cat([self.mean(x), F.softplus(self.variance(x))], dim=-1)


class MeanOfDraws(RandomModule):
    """The mean of `count` reparameterised draws: mean + √(variance / count) · N(0, 1)."""

    def __init__(self, count: int = 1) -> None:
        super().__init__()
        self.scale = 1.0 / math.sqrt(count)

    def forward(self, mean: Tensor, variance: Tensor) -> Tensor:
        """Shape: (..., F) twice -> (..., F). In evaluation mode, too: the caller decides."""
        noise = self._draw(
            mean.shape, lambda shape: mean.new_empty(shape).normal_(generator=self.generator)
        )
        # The root of a variance that was rounded to 0 has no gradient.
        return mean + variance.clamp(min=_KL_EPS).sqrt() * noise * self.scale


def product_of_experts(mean: Tensor, variance: Tensor, observed: Tensor) -> tuple[Tensor, Tensor]:
    """Fuse the Gaussians of the views that a sample has with a standard normal prior.

    Precisions add up: T = 1/(1+ε) + Σ_v W_v / (s_v + ε); the variance is 1 / (T + ε), the mean
    Σ_v W_v μ_v / (s_v + ε) / (T + ε).

    Shape: mean and variance (m, B, F), finite where a view is missing; observed (B, m) -> (B, F)
    twice.
    """
    has_view = observed.T.unsqueeze(-1).to(mean.dtype)
    precision = has_view / (variance + _PRECISION_EPS)
    fused = 1.0 / (precision.sum(dim=0) + 1.0 / (1.0 + _PRECISION_EPS) + _PRECISION_EPS)
    return (mean * precision).sum(dim=0) * fused, fused


def gaussian_kl(mean: Tensor, variance: Tensor, other_mean: Tensor, other: Tensor) -> Tensor:
    """KL(N(mean, variance) ‖ N(other_mean, other)) of every coordinate; all broadcast."""
    other = other + _KL_EPS
    ratio = (variance + _KL_EPS) / other
    return 0.5 * (ratio - ratio.log() + (mean - other_mean).square() / other - 1.0)


def kl_to_standard_normal(mean: Tensor, variance: Tensor) -> Tensor:
    """KL(N(mean, variance) ‖ N(0, 1)) of every coordinate."""
    return gaussian_kl(mean, variance, torch.zeros_like(mean), torch.ones_like(mean))


def coherence_loss(
    mean: Tensor, variance: Tensor, fused_mean: Tensor, fused: Tensor, observed: Tensor
) -> Tensor:
    """How far the fused Gaussian is from that of a view: mean over coordinates and observed views.

    Σ_iv W_iv mean_d KL(N(μ_i, s_i) ‖ N(μ_i^v, s_i^v)) / ΣW.
    Shape: mean and variance (m, B, F), fused_mean and fused (B, F), observed (B, m) -> ().
    """
    has_view = observed.T
    # A missing view has variance 0 here; its terms do not count, but they must stay finite.
    safe = torch.where(has_view.unsqueeze(-1), variance, torch.ones_like(variance))
    terms = gaussian_kl(fused_mean, fused, mean, safe).mean(dim=-1)
    return weighted_mean(terms, has_view.to(terms.dtype))


class MutualInformation(nn.Module):
    r"""vCLUB: an upper bound of the mutual information of two codes s and p.

    A network φ guesses p from s as a Gaussian :math:`q_\phi(p \mid s)`. The bound

    .. math:: \hat I = \frac1N \sum_i \Big[ \log q_\phi(p_i \mid s_i)
              - \frac1N \sum_j \log q_\phi(p_j \mid s_i) \Big]

    is minimised by the encoders, with φ as it is; φ is fitted by maximum likelihood, with the codes
    as they are. Both are terms of one loss: what one of them is not to change is detached in it.
    Reference: Cheng et al., ICML 2020.
    """

    def __init__(self, size: int, generator: torch.Generator) -> None:
        super().__init__()
        self.hidden = make_linear(size, size, generator)
        self.head = GaussianHead(size, size, generator)

    def guess(self, s: Tensor, frozen: bool = False) -> tuple[Tensor, Tensor]:
        """Mean and variance of q_φ(p | s). `frozen`: no gradient for φ. Shape: (R, F) -> (R, F)."""
        hidden = F.gelu(_apply(self.hidden, s, frozen))
        variance = F.softplus(_apply(self.head.variance, hidden, frozen))
        return _apply(self.head.mean, hidden, frozen), variance + _PRECISION_EPS

    def misfit(self, s: Tensor, p: Tensor, weight: Tensor, reducer: Reducer = LOCAL) -> Tensor:
        """−log q_φ(p | s) up to a constant: mean over rows that count and coordinates. Trains φ.

        Shape: s and p (R, F), weight (R,) -> ().
        """
        mean, variance = self.guess(s.detach())
        terms = 0.5 * ((p.detach() - mean).square() / variance + variance.log())
        return weighted_mean(terms.mean(dim=-1), weight, reducer)

    def bound(self, s: Tensor, p: Tensor, weight: Tensor, reducer: Reducer = LOCAL) -> Tensor:
        """Î per coordinate, at least 0. Trains s and p.

        The mean over j needs no pairs: mean_j (p_j − μ_i)² is the variance of p plus the squared
        distance of its mean from μ_i, and the logarithms of the variances cancel.
        Shape: s and p (R, F), weight (R,) -> ().
        """
        mean, variance = self.guess(s, frozen=True)
        rows = weight.unsqueeze(-1)
        count = reducer.sum(weight.sum()).clamp(min=1.0)
        centre = reducer.sum((rows * p).sum(dim=0)) / count
        spread = reducer.sum((rows * (p - centre).square()).sum(dim=0)) / count
        apart = spread + (centre - mean).square()
        terms = 0.5 * (apart - (p - mean).square()) / variance
        return weighted_mean(terms.mean(dim=-1), weight, reducer).clamp(min=0.0)


def _apply(layer: Linear, x: Tensor, frozen: bool) -> Tensor:
    if frozen:
        return F.linear(x, layer.weight.detach(), layer.bias.detach())
    result: Tensor = layer(x)
    return result
