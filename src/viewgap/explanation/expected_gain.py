"""Ridge regression of a gain on probabilities, with its penalty chosen by leave-one-out errors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_PENALTIES = 10.0 ** np.arange(-1, 5)  # times the number of rows
_FEWEST_ROWS = 20
_PROB_EPS = 1e-3  # log-odds beyond +-7 say nothing more about what is gained


@dataclass(frozen=True)
class ExpectedGain:
    """The gain that probabilities make expect: a mean, and a slope if it foretells other rows.

    A constant is one of the candidates, so that rows that do not foretell each other give all
    samples the same expectation.

    Attributes
    ----------
    n_rows : int
        How many rows were learned from.
    mean : float
        Mean gain.
    centre, spread, slope : array of shape (f,)
        Mean, scale and weight of the features; a slope of zeros is the constant.
    """

    n_rows: int
    mean: float
    centre: Floats
    spread: Floats
    slope: Floats

    @classmethod
    def fit(cls, probabilities: Floats, gain: Floats) -> ExpectedGain:
        """Learn from probabilities (n, c) and gains (n,)."""
        x = _features(probabilities)
        centre, spread = x.mean(axis=0), x.std(axis=0)
        spread = np.where(spread > 1e-9, spread, np.inf)  # a constant feature has no say
        slope = np.zeros(x.shape[1])
        if len(gain) >= _FEWEST_ROWS:
            slope = _best_slope((x - centre) / spread, gain - gain.mean())
        return cls(len(gain), float(gain.mean()), centre, spread, slope)

    def predict(self, probabilities: Floats) -> Floats:
        """Expected gains (n,) of probabilities (n, c)."""
        x = (_features(probabilities) - self.centre) / self.spread
        return np.asarray(self.mean + x @ self.slope)


def _features(probabilities: Floats) -> Floats:
    """Log-odds and p(1 - p) of every label, and the mean of the latter."""
    bounded = np.clip(probabilities, _PROB_EPS, 1.0 - _PROB_EPS)
    unsure = bounded * (1.0 - bounded)
    return np.hstack([np.log(bounded / (1.0 - bounded)), unsure, unsure.mean(axis=1)[:, None]])


def _best_slope(x: Floats, y: Floats) -> Floats:
    """Slope of the ridge with the least leave-one-out error; zeros if the mean alone has less."""
    n = len(y)
    left, values, right = np.linalg.svd(x, full_matrices=False)
    turned = left.T @ y
    best, slope = float(np.mean((y * n / (n - 1)) ** 2)), np.zeros(x.shape[1])
    for penalty in _PENALTIES * n:
        kept = values**2 / (values**2 + penalty)
        leverage = (left**2) @ kept + 1.0 / n
        errors = (y - left @ (kept * turned)) / (1.0 - leverage)
        error = float(np.mean(errors**2))
        if error < best:
            best, slope = error, right.T @ (values / (values**2 + penalty) * turned)
    return slope
