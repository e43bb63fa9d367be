"""Log-odds pooling: the predictions of single views combined, with weights fitted on held-out rows.

The evidence of view v for label j is its log-odds beyond the prior, logit p_vj − π_j, with π_j the
log-odds of the label in the training rows. The evidence of the observed views is added up:

    logit p_j = π_j + b_j + s · Σ_v w_v (logit p_vj − π_j) / (Σ_v w_v)^γ

with a weight w per view and a shift b per label. γ = 1 is the mean: views are fully redundant.
γ = 0 is the sum: views are independent given the label. A mean of probabilities, the alternative,
is underconfident where views agree, and a label that every view underrates stays underrated.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from viewgap.nn.pooling_posterior import PROB_EPS, PoolingPosterior

_MAX_ROWS = 4096
_MAX_ENTRIES = 2_000_000  # rows x labels; an iteration keeps several copies of them for each view
_PSEUDO_COUNT = 5.0  # label entries by which rare labels are drawn towards the frequency of all


class LogOddsPooling(nn.Module):
    """Pooled evidence of the views (see the module); the mean of the log-odds before `fit`.

    `threshold` (c,) is kept with it: the probability from which on a label is predicted. Computes
    in the number format of the predictions.

    Shape: predictions (m, B, c) in [0, 1], anything where a view is missing; observed (B, m) bool
    -> (B, c). A sample without views gets the prior.
    """

    weight: Tensor
    slope: Tensor
    power: Tensor
    prior: Tensor
    shift: Tensor
    threshold: Tensor

    def __init__(self, n_views: int, n_labels: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.ones(n_views))
        self.register_buffer("slope", torch.ones(()))
        self.register_buffer("power", torch.ones(()))
        self.register_buffer("prior", torch.zeros(n_labels))
        self.register_buffer("shift", torch.zeros(n_labels))
        self.register_buffer("threshold", torch.full((n_labels,), 0.5))

    def forward(self, predictions: Tensor, observed: Tensor) -> Tensor:
        """Pooled probabilities."""
        prior, shift = self.prior.to(predictions.dtype), self.shift.to(predictions.dtype)
        evidence = (log_odds(own) - prior for own in predictions)
        pooled = pooled_evidence(evidence, observed, self.weight, self.power)
        return torch.sigmoid(prior + shift + self.slope * pooled)

    def view_weights(self, observed: Tensor) -> Tensor:
        """Share of every view in the evidence, zero where it is missing. Shape: (B, m)."""
        own = self.weight * observed
        return own / own.sum(dim=-1, keepdim=True).clamp(min=torch.finfo(own.dtype).tiny)

    @torch.no_grad()
    def fit(self, held_out: HeldOut, counts: LabelCounts) -> None:
        """Set all numbers to their maximum a posteriori estimates on held-out rows."""
        self.prior.copy_(counts.log_odds())
        held_out = held_out.at_most(most_rows(len(self.prior)))
        posterior = PoolingPosterior(
            log_odds(held_out.predictions.double().cpu()) - counts.log_odds().cpu(),
            held_out.observed.cpu(),
            held_out.labels.cpu(),
            held_out.label_mask.cpu(),
            counts.log_odds().cpu(),
            counts.frequency().cpu(),
            counts.observed.cpu(),
        )
        found = posterior.maximise()
        self.weight.copy_(found.weight)
        self.slope.copy_(found.slope)
        self.power.copy_(found.power)
        self.shift.copy_(found.shift)


def most_rows(n_labels: int) -> int:
    """Rows that a pooling is fitted on at most, so that their entries fit into memory."""
    return min(_MAX_ROWS, max(1, _MAX_ENTRIES // n_labels))


@dataclass(frozen=True)
class HeldOut:
    """Rows that were not trained on.

    Shape: predictions (m, n, c), observed (n, m) bool, labels and label_mask (n, c).
    """

    predictions: Tensor
    observed: Tensor
    labels: Tensor
    label_mask: Tensor

    def __len__(self) -> int:
        return len(self.observed)

    def at_most(self, rows: int) -> HeldOut:
        """Evenly spaced rows, not more than this."""
        if len(self) <= rows:
            return self
        kept = torch.linspace(0, len(self) - 1, rows).long()
        parts = (self.observed, self.labels, self.label_mask)
        return HeldOut(self.predictions[:, kept], *(part[kept] for part in parts))


@dataclass(frozen=True)
class LabelCounts:
    """Positive and observed entries of every label in the training rows.

    Shape: positives (c,), observed (c,).
    """

    positives: Tensor
    observed: Tensor

    @classmethod
    def of(cls, labels: Tensor, observed: Tensor) -> LabelCounts:
        """Count. Shape: labels (n, c), anything where not observed; observed (n, c) bool."""
        return cls((labels.bool() & observed).sum(dim=0), observed.sum(dim=0))

    def frequency(self) -> Tensor:
        """Smoothed frequency of every label, (c,), never 0 or 1."""
        positives, observed = self.positives.double(), self.observed.double()
        overall = (positives.sum() + 0.5) / (observed.sum() + 1.0)
        return (positives + _PSEUDO_COUNT * overall) / (observed + _PSEUDO_COUNT)

    def log_odds(self) -> Tensor:
        """π, (c,)."""
        return torch.logit(self.frequency())


def log_odds(probability: Tensor) -> Tensor:
    """logit p, bounded."""
    bounded = probability.clamp(PROB_EPS, 1.0 - PROB_EPS)
    return bounded.log() - (1.0 - bounded).log()


def pooled_evidence(
    evidence: Iterable[Tensor], observed: Tensor, weight: Tensor, power: Tensor
) -> Tensor:
    """Σ_v w_v e_v / (Σ_v w_v)^γ over the observed views of a sample; 0 without any.

    Shape: evidence m times (B, c), observed (B, m) bool, weight (m,), power () -> (B, c).
    """
    # One view after the other: a sample's sum must not depend on how many samples there are.
    total = torch.zeros(())
    count = torch.zeros(())
    for own, is_observed, w in zip(evidence, observed.unbind(1), weight.unbind(), strict=True):
        total = total + w * torch.where(is_observed.unsqueeze(-1), own, 0.0)
        count = count + w * is_observed.to(own.dtype)
    count = torch.where(count > 0, count, torch.ones_like(count))
    return total / count.pow(power).unsqueeze(-1)
