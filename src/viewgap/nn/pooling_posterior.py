"""The numbers of log-odds pooling, fitted on held-out rows: maximum a posteriori by Newton steps.

The likelihood has two parts: the labels of the held-out rows, and the label frequencies of the
training rows, which the mean prediction should meet as closely as two samples of these sizes. In
the letters of `nn.pooling`, with s_ij the score of sample i and label j, q_ij its pooled evidence
and C_i = Σ_v w_v over its observed views:

    s_ij = π_j + b_j + s · q_ij,    q_ij = Σ_v w_v e_vij / C_i^γ,    b_j = common + own_j

A shift of its own moves one label only, so that all but m + 3 rows of the curvature are diagonal,
and a Newton step costs little more than a gradient, of which an optimiser that knows nothing else
takes some hundred.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

PROB_EPS = (
    1e-6  # probabilities are clipped to [PROB_EPS, 1 - PROB_EPS], so that log-odds are finite
)
# Standard deviations of the Gaussian priors. A view may well count half or twice as much as
# another. Labels are shifted together by any amount, each apart from the others by a little.
_WEIGHT_STD, _SLOPE_STD, _POWER_STD, _COMMON_STD, _OWN_STD = 0.5, 0.5, 0.5, 2.0, 0.3
_POWER_MEAN = 0.75  # views share some information, but not all
_MOST_STEPS = 100
_MOST_HALVINGS = 30
_CLOSE = 1e-12  # expected gain of a step, relative to the value, below which there is nothing left
_CHUNK = 1 << 17  # entries (row, label) whose derivatives are kept at once


class PoolingNumbers(NamedTuple):
    """w (m,), s (), γ () and b (c,)."""

    weight: Tensor
    slope: Tensor
    power: Tensor
    shift: Tensor


class _Scores(NamedTuple):
    """Scores and pooled evidence (n, c), and by sample C and C^-γ (n,)."""

    scores: Tensor
    pooled: Tensor
    total_weight: Tensor
    root: Tensor


class PoolingPosterior:
    """Held-out evidence, labels and label frequencies; everything is computed in float64.

    Parameters: log w (m,), log s, γ, common and own shifts (c,), in one vector of m + 3 + c.

    Shape: evidence (m, n, c), anything where a view is missing; observed (n, m) bool; labels and
    label_mask (n, c); prior, frequency and n_training, the observed training entries, (c,).
    """

    def __init__(
        self,
        evidence: Tensor,
        observed: Tensor,
        labels: Tensor,
        label_mask: Tensor,
        prior: Tensor,
        frequency: Tensor,
        n_training: Tensor,
    ) -> None:
        there = observed.T.unsqueeze(-1)
        self.evidence = torch.where(there, evidence.double(), 0.0).contiguous()
        self.observed = observed.double()
        self.label_mask = label_mask.double()
        self.labels = torch.where(self.label_mask > 0, labels.double(), 0.0)
        self.prior, self.frequency = prior.double(), frequency.double()
        # How much the frequencies of the training rows count beside this many rows, (c,).
        self._compared = n_training.double() / (1.0 + n_training.double() / len(observed))
        self._n_views = len(evidence)
        m = self._n_views
        self._centre = torch.zeros(m + 3 + len(prior), dtype=torch.float64)
        self._centre[m + 1] = _POWER_MEAN
        self._spread = torch.full_like(self._centre, _OWN_STD)
        self._spread[:m] = _WEIGHT_STD
        self._spread[m], self._spread[m + 1], self._spread[m + 2] = (
            _SLOPE_STD,
            _POWER_STD,
            _COMMON_STD,
        )

    @torch.no_grad()
    def maximise(self) -> PoolingNumbers:
        """The numbers of the highest posterior, by Newton steps that are halved until they gain."""
        theta = self._centre.clone()
        value = self.value(theta)
        for _ in range(_MOST_STEPS):
            gradient, step = self._newton_step(theta)
            gain = float(gradient @ step)  # twice what a step is expected to gain
            if gain <= _CLOSE * max(abs(value), 1.0):
                break
            share, moved = 1.0, self.value(theta - step)
            for _ in range(_MOST_HALVINGS):
                if moved <= value - 1e-4 * share * gain:
                    break
                share /= 2
                moved = self.value(theta - share * step)
            if not moved < value:
                break  # rounding hides what is left to gain
            theta, value = theta - share * step, moved
        return self._numbers(theta)

    def value(self, theta: Tensor) -> float:
        """Minus the log posterior, up to a constant; infinite where numbers are too large for it.

        A first step from where a network has hardly learned anything can go that far.
        """
        scores = self._score(theta).scores
        if not bool(scores.isfinite().all()):
            return math.inf
        entries = F.binary_cross_entropy_with_logits(
            scores, self.labels, self.label_mask, reduction="sum"
        )
        expected = torch.sigmoid(scores).mean(dim=0).clamp(PROB_EPS, 1.0 - PROB_EPS)
        met = F.binary_cross_entropy(expected, self.frequency, reduction="none")
        penalty = ((theta - self._centre) / self._spread).square().sum() / 2
        return float(entries + self._compared @ met + penalty)

    # ------------------------------------------------------------------ parts

    def _numbers(self, theta: Tensor) -> PoolingNumbers:
        m = self._n_views
        shift = theta[m + 2] + theta[m + 3 :]
        return PoolingNumbers(theta[:m].exp(), theta[m].exp(), theta[m + 1], shift)

    def _score(self, theta: Tensor) -> _Scores:
        weight, slope, power, shift = self._numbers(theta)
        count = self.observed @ weight
        count = torch.where(count > 0, count, 1.0)
        root = count.pow(-power)
        total = (weight @ self.evidence.flatten(1)).view(self.labels.shape)
        pooled = total * root.unsqueeze(1)
        return _Scores(self.prior + shift + slope * pooled, pooled, count, root)

    def _newton_step(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        """The gradient of `value`, and the step to its minimum as far as curvature tells, (p,).

        Curvature is that of the likelihood in the scores, taken along the scores' own slopes
        (Gauss-Newton): never negative, and exact where scores are linear in the parameters.
        """
        now, m = self._score(theta), self._n_views
        p = torch.sigmoid(now.scores)
        slope_p = p * (1.0 - p)
        mean, n = p.mean(dim=0), len(p)
        inside = (mean > PROB_EPS) & (mean < 1.0 - PROB_EPS)  # beyond, `value` does not change
        expected = mean.clamp(PROB_EPS, 1.0 - PROB_EPS)
        weight = torch.where(inside, self._compared, 0.0)
        pull = weight * (expected - self.frequency) / (expected * (1.0 - expected))
        bend = weight * (
            self.frequency / expected.square() + (1.0 - self.frequency) / (1.0 - expected).square()
        )
        slopes = self.label_mask * (p - self.labels) + slope_p * (pull / n)
        curvature = self.label_mask * slope_p
        spread = self._spread
        gradient = (theta - self._centre) / spread.square()
        common = torch.zeros(m + 3, m + 3, dtype=torch.float64)
        mixed = torch.zeros(m + 3, len(self.prior), dtype=torch.float64)
        reached = torch.zeros_like(mixed)  # how the mean prediction of each label moves
        for rows, moves in self._moves(theta, now):
            gradient[: m + 3] += moves.flatten(1) @ slopes[rows].flatten()
            weighted = moves * curvature[rows]
            common += weighted.flatten(1) @ moves.flatten(1).T
            mixed += weighted.sum(dim=1)
            reached += (moves * slope_p[rows]).sum(dim=1) / n
        alone = slope_p.sum(dim=0) / n
        gradient[m + 3 :] += slopes.sum(dim=0)
        common += (reached * bend) @ reached.T + spread[: m + 3].square().reciprocal().diag()
        mixed += reached * bend * alone
        own = curvature.sum(dim=0) + bend * alone.square() + spread[m + 3 :].square().reciprocal()
        return gradient, _solve(common, mixed, own, gradient)

    def _moves(self, theta: Tensor, now: _Scores) -> Iterator[tuple[slice, Tensor]]:
        """∂s_ij of log w, log s, γ and the common shift, (m + 3, rows, c), some rows at a time."""
        weight, slope, power, _ = self._numbers(theta)
        n, c = self.labels.shape
        step = max(1, _CHUNK // max(1, c))
        for start in range(0, n, step):
            rows = slice(start, min(start + step, n))
            pooled = slope * now.pooled[rows]
            moves = torch.empty(self._n_views + 3, *pooled.shape, dtype=torch.float64)
            by_view = weight * self.observed[rows] * (power / now.total_weight[rows]).unsqueeze(1)
            for v, w in enumerate(weight.unbind()):
                evidence = self.evidence[v, rows] * (slope * w * now.root[rows]).unsqueeze(1)
                torch.sub(evidence, by_view[:, v : v + 1] * pooled, out=moves[v])
            moves[-3] = pooled
            torch.mul(pooled, -now.total_weight[rows].log().unsqueeze(1), out=moves[-2])
            moves[-1] = 1.0
            yield rows, moves


def _solve(common: Tensor, mixed: Tensor, own: Tensor, gradient: Tensor) -> Tensor:
    """The solution x of [[common, mixed], [mixedᵀ, diag(own)]] x = gradient."""
    split = len(common)
    first, rest = gradient[:split], gradient[split:]
    scaled = mixed / own
    reduced = torch.linalg.solve(common - scaled @ mixed.T, first - scaled @ rest)
    return torch.cat([reduced, (rest - mixed.T @ reduced) / own])
