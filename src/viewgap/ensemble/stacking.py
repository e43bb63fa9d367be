"""Stacking: one weight per method, learned from out-of-fold probabilities.

The log-odds of the methods are added up,

    logit p_j = b_j + Σ_k w_k logit p_kj,

with a weight w_k > 0 per method and a shift b_j per label. Both are maximum a posteriori estimates
on the observed label entries: log w_k is drawn towards log 1/K, the plain mean, and b_j towards 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from viewgap.data.labels import Labels

Floats = NDArray[np.float64]

_PROB_EPS = 1e-4  # probabilities are clipped to [eps, 1 - eps]; a forest may say 0 and be wrong
_WEIGHT_STD = 0.3  # of log w: with little data the methods count alike
_SHIFT_STD = 0.3  # as labels may be shifted by the pooling of views
_ITERATIONS = 500


@dataclass(frozen=True, eq=False)
class Stacking:
    """Shape: weights (K,), shift (c,)."""

    weights: Floats
    shift: Floats

    @classmethod
    def fit(cls, probabilities: Floats, labels: Labels) -> Stacking:
        """Fit on out-of-fold probabilities (K, n, c); NaN where a label was never observed."""
        scores = log_odds(probabilities)
        observed = labels.observed & np.isfinite(scores).all(axis=0)
        scores = np.where(observed, scores, 0.0)
        positive = labels.values.astype(np.float64) * observed
        n_methods, n_labels = len(scores), scores.shape[2]
        centre = -np.log(n_methods)

        def negative_log_posterior(x: Any) -> tuple[float, Any]:
            log_weights, shift = x[:n_methods], x[n_methods:]
            weights = np.exp(log_weights)
            total = np.tensordot(weights, scores, axes=1) + shift
            gap = (_sigmoid(total) - positive) * observed
            loss = np.sum((np.logaddexp(0.0, total) - positive * total) * observed)
            away = (log_weights - centre) / _WEIGHT_STD
            loss += 0.5 * (away @ away + shift @ shift / _SHIFT_STD**2)
            slopes = weights * np.einsum("nc,knc->k", gap, scores) + away / _WEIGHT_STD
            return float(loss), np.concatenate([slopes, gap.sum(axis=0) + shift / _SHIFT_STD**2])

        start = np.concatenate([np.full(n_methods, centre), np.zeros(n_labels)])
        found = minimize(
            negative_log_posterior,
            start,
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": _ITERATIONS},
        ).x
        return cls(np.exp(found[:n_methods]), found[n_methods:])

    def __call__(self, probabilities: Floats) -> Floats:
        """Stacked probabilities (n, c) of those of the methods, (K, n, c), row by row."""
        total: Floats = np.tile(self.shift, (probabilities.shape[1], 1))
        for weight, own in zip(self.weights, probabilities, strict=True):
            total += weight * log_odds(own)
        return _sigmoid(total)

    @property
    def shares(self) -> Floats:
        """The weights, divided by their sum."""
        total: Floats = self.weights / self.weights.sum()
        return total


def log_odds(probabilities: Floats) -> Floats:
    """logit p, bounded."""
    bounded = np.clip(probabilities, _PROB_EPS, 1.0 - _PROB_EPS)
    return np.log(bounded) - np.log1p(-bounded)


def _sigmoid(scores: Floats) -> Floats:
    result: Floats = 1.0 / (1.0 + np.exp(-scores))
    return result
