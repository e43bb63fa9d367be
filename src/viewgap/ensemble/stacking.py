"""Stacking: one weight per method, learned from out-of-fold probabilities.

The log-odds of the methods are added up,

    logit p = b + Σ_k w_k (logit p_k - b),

with the log-odds b of the frequency of the label and a weight w_k > 0 per method: the maximum a
posteriori estimate on the observed label entries, where log w_k is drawn towards log 1/K, the plain
mean. What is weighted is how far a method goes from the frequency: the weight of one that stays
too close to it, such as the mean of ridge regressions of views, can be more than one without making
rare labels rarer. No shift per label is learned: from few positives it disturbs the order of the
labels of a sample.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from viewgap.data.labels import Labels

Floats = NDArray[np.float64]

_PROB_EPS = 1e-4  # probabilities are clipped to [eps, 1 - eps]; a forest may say 0 and be wrong
_WEIGHT_STD = 1.0  # of log w, see `benchmarks.stacking`: with little data the methods count alike
_FARTHEST = 10.0  # of log w from its centre: no step of the search leaves floating point


@dataclass(frozen=True, eq=False)
class Stacking:
    """Shape: weights (K,), shift (c,), which is (1 - Σ w) b; zero in models of earlier versions."""

    weights: Floats
    shift: Floats | float = 0.0

    @classmethod
    def fit(cls, probabilities: Floats, labels: Labels) -> Stacking:
        """Fit on out-of-fold probabilities (K, n, c); NaN where a label was never observed."""
        known = labels.observed & np.isfinite(probabilities).all(axis=0)
        positive = labels.values[known].astype(np.float64)
        frequency = _frequency_odds(labels)
        base = np.broadcast_to(frequency, known.shape)[known]
        scores = log_odds(probabilities[:, known]) - base
        centre = -np.log(len(scores))

        def negative_log_posterior(log_weights: Floats) -> tuple[float, Floats]:
            weights = np.exp(log_weights)
            total = base + _weighted_sum(weights, scores)
            gap = expit(total) - positive
            away = (log_weights - centre) / _WEIGHT_STD
            loss = np.sum(np.logaddexp(0.0, total) - positive * total) + 0.5 * np.sum(away**2)
            slopes = np.array([np.sum(gap * own) for own in scores])
            return float(loss), weights * slopes + away / _WEIGHT_STD

        start = np.full(len(scores), centre)
        bounds = [(centre - _FARTHEST, centre + _FARTHEST)] * len(scores)
        found = minimize(negative_log_posterior, start, jac=True, method="L-BFGS-B", bounds=bounds)
        weights = np.exp(found.x)
        return cls(weights, (1.0 - weights.sum()) * frequency)

    def __call__(self, probabilities: Floats) -> Floats:
        """Stacked probabilities (n, c) of those of the methods, (K, n, c), row by row."""
        result: Floats = expit(_weighted_sum(self.weights, log_odds(probabilities)) + self.shift)
        return result

    @property
    def shares(self) -> Floats:
        """The weights, divided by their sum."""
        total: Floats = self.weights / self.weights.sum()
        return total


def log_odds(probabilities: Floats) -> Floats:
    """logit p, bounded."""
    bounded = np.clip(probabilities, _PROB_EPS, 1.0 - _PROB_EPS)
    result: Floats = np.log(bounded) - np.log1p(-bounded)
    return result


def _frequency_odds(labels: Labels) -> Floats:
    """Log-odds (c,) of the frequencies of the labels, half an entry of each kind added."""
    positive = (labels.observed & (labels.values == 1)).sum(axis=0) + 0.5
    negative = (labels.observed & (labels.values == 0)).sum(axis=0) + 0.5
    result: Floats = np.log(positive) - np.log(negative)
    return result


def _weighted_sum(weights: Floats, scores: Floats) -> Floats:
    """Σ_k w_k s_k, one after the other: the bits of a matrix product depend on its shape."""
    total = np.zeros(scores.shape[1:])
    for weight, own in zip(weights, scores, strict=True):
        total += weight * own
    return total
