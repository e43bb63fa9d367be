"""Views as witnesses: how much the evidence of each counts, learned on held-out rows.

What view v says of label j beyond what is known anyway is its evidence, logit p_vj − π_j, with π_j
the log-odds of the label among the training rows. The evidence of a sample's views is added up:

    logit p_j = π_j + b_j + s · Σ_v w_v (logit p_vj − π_j) / (Σ_v w_v)^γ

with a weight w per view and a shift b per label. γ = 1 takes the mean, as if all views said the
same thing; γ = 0 takes the sum, as if each had seen something of its own. Averaged probabilities,
the alternative, are too timid: views that agree should be believed more than each of them, and a
label that every view underrates stays underrated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

LEAST = 1e-6  # a probability of 0 or 1 is the end of an argument, not evidence without bounds
_MOST_ROWS = 4096
_MOST_CELLS = 2_000_000  # of all rows and labels; an iteration keeps several copies of each view's
_ITERATIONS = 200
_EXTRA_CELLS = 5.0  # with which frequencies of rare labels are drawn towards that of all labels
# Standard deviations before anything was seen. A view may well count half or twice as much as
# another. Labels are shifted together by any amount, each apart from the others by a little.
_WEIGHT_SPREAD, _SLOPE_SPREAD, _POWER_SPREAD, _COMMON_SPREAD, _OWN_SPREAD = 0.5, 0.5, 0.5, 2.0, 0.3
_USUAL_POWER = 0.75  # views share some of what they have seen, but not all


class Votes(nn.Module):
    """The pooled evidence; the mean of the log-odds until `learn` is called.

    `threshold` (c,) is kept with it: above which probability a label is decided to be there.

    Shape: predictions (m, B, c) in [0, 1], anything where a view is missing; observed (B, m) bool
    -> (B, c). A sample without views gets what is known of the labels without it.
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
        """See the module."""
        evidence = log_odds(predictions) - self.prior
        pooled = pooled_evidence(evidence, observed, self.weight, self.power)
        return torch.sigmoid(self.prior + self.shift + self.slope * pooled)

    def shares(self) -> Tensor:
        """What each view's evidence counts where all are there, (m,), adding up to one."""
        return self.weight / self.weight.sum()

    @torch.no_grad()
    def learn(self, held_out: HeldOut, known: Known) -> None:
        """Set all numbers to the most probable ones, given held-out rows."""
        self.prior.copy_(known.log_odds())
        held_out = held_out.at_most(min(_MOST_ROWS, max(1, _MOST_CELLS // len(self.prior))))
        for buffer, value in zip(
            (self.weight, self.slope, self.power, self.shift),
            _most_probable(held_out, known),
            strict=True,
        ):
            buffer.copy_(value)


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
class Known:
    """What the training labels say: in how many observed cells each occurs, and how many there are.

    Shape: positives (c,), count (c,).
    """

    positives: Tensor
    count: Tensor

    @classmethod
    def of(cls, labels: Tensor, observed: Tensor) -> Known:
        """Counted. Shape: labels (n, c), anything where not observed; observed (n, c) bool."""
        return cls((labels.bool() & observed).sum(dim=0), observed.sum(dim=0))

    def frequency(self) -> Tensor:
        """How often each label is to be expected, (c,), never 0 or 1."""
        positives, count = self.positives.double(), self.count.double()
        usual = (positives.sum() + 0.5) / (count.sum() + 1.0)
        return (positives + _EXTRA_CELLS * usual) / (count + _EXTRA_CELLS)

    def log_odds(self) -> Tensor:
        """π, (c,)."""
        return torch.logit(self.frequency())


def log_odds(probability: Tensor) -> Tensor:
    """logit p, bounded."""
    bounded = probability.clamp(LEAST, 1.0 - LEAST)
    return bounded.log() - (1.0 - bounded).log()


def pooled_evidence(evidence: Tensor, observed: Tensor, weight: Tensor, power: Tensor) -> Tensor:
    """Σ_v w_v e_v / (Σ_v w_v)^γ over the views a sample has; 0 without any.

    Shape: evidence (m, B, c), observed (B, m) bool, weight (m,), power () -> (B, c).
    """
    # One view after the other: a sample's sum must not depend on how many samples there are.
    total = torch.zeros_like(evidence[0])
    votes = torch.zeros_like(total[:, 0])
    for view, own in enumerate(evidence):
        seen = observed[:, view]
        total = total + weight[view] * torch.where(seen.unsqueeze(-1), own, own.new_zeros(()))
        votes = votes + weight[view] * seen.to(own.dtype)
    votes = torch.where(votes > 0, votes, torch.ones_like(votes))
    return total / votes.pow(power).unsqueeze(-1)


def _most_probable(held_out: HeldOut, known: Known) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """w, s, γ and b that maximise likelihood times prior, in float64.

    Two kinds of evidence: the labels of the held-out rows, and the frequencies of the training
    labels, which the mean prediction should meet as closely as two samples of these sizes do.
    """
    prior, frequency = known.log_odds().cpu(), known.frequency().cpu()
    evidence = log_odds(held_out.predictions.double().cpu()) - prior
    observed, mask = held_out.observed.cpu(), held_out.label_mask.double().cpu()
    labels = torch.where(mask > 0, held_out.labels.double().cpu(), 0.0)
    count = known.count.double().cpu()
    compared = count / (1.0 + count / len(held_out))
    log_weight = torch.zeros(len(evidence), dtype=torch.float64, requires_grad=True)
    start = (0.0, _USUAL_POWER, 0.0)
    log_slope, power, common = (torch.tensor(v).double().requires_grad_() for v in start)
    own = torch.zeros(len(prior), dtype=torch.float64, requires_grad=True)
    spreads = (
        (log_weight, _WEIGHT_SPREAD),
        (log_slope, _SLOPE_SPREAD),
        (common, _COMMON_SPREAD),
        (own, _OWN_SPREAD),
    )
    optimiser = torch.optim.LBFGS(
        [log_weight, log_slope, power, common, own],
        max_iter=_ITERATIONS,
        tolerance_change=1e-10,
        line_search_fn="strong_wolfe",
    )

    def negative_log_posterior() -> float:
        optimiser.zero_grad()
        pooled = pooled_evidence(evidence, observed, log_weight.exp(), power)
        scores = prior + common + own + log_slope.exp() * pooled
        cells = F.binary_cross_entropy_with_logits(scores, labels, reduction="none")
        expected = torch.sigmoid(scores).mean(dim=0).clamp(LEAST, 1.0 - LEAST)
        met = F.binary_cross_entropy(expected, frequency, reduction="none")
        unlikely = sum((value / spread).square().sum() for value, spread in spreads)
        unlikely = unlikely + ((power - _USUAL_POWER) / _POWER_SPREAD).square()
        total = (cells * mask).sum() + (compared * met).sum() + unlikely / 2
        total.backward()
        return float(total.detach())

    with torch.enable_grad():
        optimiser.step(negative_log_posterior)
    found = (log_weight.exp(), log_slope.exp(), power, common + own)
    return cast("tuple[Tensor, Tensor, Tensor, Tensor]", tuple(value.detach() for value in found))
