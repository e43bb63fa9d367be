"""Scores with 95 % intervals: samples are drawn anew, observed label entries only.

A draw is a weight per sample (how often it was drawn), so that scores of a draw are weighted means
and weighted AUCs, and the same draws serve two predictions whose difference is wanted.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viewgap.metrics import Prediction
from viewgap.strict_json import plain

Floats = NDArray[np.float64]

N_DRAWS = 500
FEWEST_ROWS = 10
"""Below so many samples that a score is defined on, no interval is given."""
METRICS = {"AP": "average precision", "macro AUC": "macro AUC"}


@dataclass(frozen=True)
class Estimate:
    """A score, its 95 % interval (None: too few samples) and the samples that it is about."""

    value: float
    low: float | None
    high: float | None
    n_samples: int

    @classmethod
    def of(cls, value: float, draws: Floats, n_samples: int) -> Estimate:
        """Take the middle 95 % of the draws in which the score is defined."""
        known = draws[~np.isnan(draws)]
        if np.isnan(value) or n_samples < FEWEST_ROWS or len(known) < len(draws) / 2:
            return cls(value, None, None, n_samples)
        low, high = np.quantile(known, [0.025, 0.975])
        return cls(value, float(low), float(high), n_samples)

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return dict(plain(asdict(self)))


def draw_weights(n_samples: int, random_state: int = 0, n_draws: int = N_DRAWS) -> NDArray[Any]:
    """How often each of the samples was drawn, (draws, n)."""
    rng = np.random.default_rng(random_state)
    share = np.full(n_samples, 1 / max(1, n_samples))
    return rng.multinomial(n_samples, share, size=n_draws).astype(np.float32)


def sample_precision(truth: Floats, scores: Floats) -> Floats:
    """Average precision of every sample (n,), NaN without an observed positive label."""
    prediction = Prediction.of(truth, scores)
    ranks = prediction.ranks
    found = ranks.row_sum(ranks.hits_worst / ranks.worst) / np.maximum(ranks.positives, 1)
    per_row = np.full(len(truth), np.nan)
    counted = (~np.isnan(truth) & ~np.isnan(scores)).any(axis=1)
    per_row[counted] = np.where(ranks.positives > 0, found, np.nan)
    return per_row


def weighted_auc(truth: Floats, scores: Floats, weights: NDArray[Any]) -> Floats:
    """ROC-AUC of one label under each of the weights (draws, n), ties one half: (draws,)."""
    known = ~np.isnan(truth) & ~np.isnan(scores)
    order = np.flatnonzero(known)[np.argsort(scores[known], kind="stable")]
    is_one, drawn = truth[order] == 1, weights[:, order].astype(np.float64)
    starts = np.flatnonzero(np.diff(scores[order], prepend=np.nan) != 0)  # equal scores together
    if not len(order):
        return np.full(len(weights), np.nan)
    ones = np.add.reduceat(drawn * is_one, starts, axis=1)
    zeros = np.add.reduceat(drawn * ~is_one, starts, axis=1)
    below = np.cumsum(zeros, axis=1) - zeros / 2
    pairs = ones.sum(axis=1) * zeros.sum(axis=1)
    right = (ones * below).sum(axis=1)
    found = np.full(len(weights), np.nan)
    np.divide(right, pairs, out=found, where=pairs > 0)
    return found


@dataclass(frozen=True)
class Draws:
    """A score of the data as it is, first, and of every draw after it; `n_samples` define it."""

    values: Floats
    n_samples: int

    def estimate(self) -> Estimate:
        """The score with its interval."""
        return Estimate.of(float(self.values[0]), self.values[1:], self.n_samples)

    def minus(self, other: Draws) -> Estimate:
        """The difference of two scores over the same draws, with its interval."""
        gap = self.values - other.values
        return Estimate.of(float(gap[0]), gap[1:], min(self.n_samples, other.n_samples))


def score_draws(metric: str, truth: Floats, scores: Floats, weights: NDArray[Any]) -> Draws:
    """A metric of `METRICS` on the data and on every draw of its samples."""
    all_rows = np.vstack([np.ones((1, len(truth)), dtype=weights.dtype), weights])
    if metric == "AP":
        return _precision_draws(sample_precision(truth, scores), all_rows)
    return _mean_auc(auc_draws(truth, scores, all_rows), truth, scores)


def auc_draws(truth: Floats, scores: Floats, weights: NDArray[Any]) -> Floats:
    """AUC of every label under every weight, (draws, c)."""
    columns = [weighted_auc(truth[:, j], scores[:, j], weights) for j in range(truth.shape[1])]
    return np.column_stack(columns)


def _precision_draws(per_row: Floats, weights: NDArray[Any]) -> Draws:
    known = ~np.isnan(per_row)
    used = weights[:, known].astype(np.float64)
    total = used.sum(axis=1)
    empty = np.full(len(weights), np.nan)
    means = np.divide(used @ per_row[known], total, out=empty, where=total > 0)
    return Draws(means, int(known.sum()))


def _mean_auc(by_label: Floats, truth: Floats, scores: Floats) -> Draws:
    """Mean over labels; a draw that leaves a label without one class leaves the label out."""
    known = ~np.isnan(by_label)
    count = known.sum(axis=1)
    total = np.where(known, by_label, 0.0).sum(axis=1)
    means = np.divide(total, count, out=np.full(len(count), np.nan), where=count > 0)
    defined = known[0]
    rows = (~np.isnan(truth[:, defined]) & ~np.isnan(scores[:, defined])).any(axis=1)
    return Draws(means, int(rows.sum()))


def main_metric(n_labels: int) -> str:
    """Average precision ranks the labels of a sample: of one label it says nothing."""
    return "AP" if n_labels > 1 else "macro AUC"


def as_text(estimate: Estimate, signed: bool = False) -> str:
    """`0.812 (0.790 to 0.834)`; a dash where it is not defined."""
    if np.isnan(estimate.value):
        return "–"
    form = "{:+.3f}" if signed else "{:.3f}"
    text = form.format(estimate.value)
    if estimate.low is None or estimate.high is None:
        return text
    return f"{text} ({form.format(estimate.low)} to {form.format(estimate.high)})"
