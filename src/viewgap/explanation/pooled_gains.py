r"""What views gain over all patterns, which the means of single patterns are drawn towards.

A pattern of views may have few samples that tell about it, and the mean gains over these are then
mostly chance. What a view gains is much the same whichever views are there already, so that the
mean of a pattern p is taken as far from the mean of all patterns as it is surely there:

.. math:: \hat g_{vp} = \bar g_v + \frac{\tau^2}{\tau^2 + s_{vp}^2} \bar d_{vp}

The deviation d of a sample is its gain in the pattern less its own mean gain over patterns, so that
samples are compared with themselves; s is its standard error, and :math:`\tau^2` the variance of
the true deviations, of all views together (method of moments).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from viewgap.explanation.shapley import all_subsets

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

_MOST_WHOLE = 6
_N_ORDERS = 16


def pooled_patterns(n_views: int) -> Mask:
    """The patterns (s, m) to pool: all of up to 6 views, else those along 16 random orders."""
    if n_views <= _MOST_WHOLE:
        return all_subsets(n_views)[1:]
    rng = np.random.default_rng(0)
    orders = [rng.permutation(n_views) for _ in range(_N_ORDERS)]
    ranks = np.stack([np.argsort(order) for order in orders])
    shown = [ranks < size for size in range(1, n_views + 1)]
    return np.unique(np.concatenate(shown), axis=0)


@dataclass(frozen=True)
class PooledGains:
    """Gains of m views by n samples, over many patterns.

    Attributes
    ----------
    mean : array of shape (m,)
        Mean gain of each view over samples and patterns; NaN where none tells.
    of_sample : array of shape (n, m)
        Mean gain of each view by a sample over its patterns; NaN with fewer than two of them.
    variance : float
        Variance of the true deviations between patterns.
    """

    mean: Floats
    of_sample: Floats
    variance: float

    @classmethod
    def fit(cls, losses: Floats, patterns: Mask, observed: Mask) -> PooledGains:
        """Pool losses (n, s) of samples when the views of each pattern (s, m) are shown.

        `observed` (n, m) says which views a sample has; it tells about patterns of these only.
        """
        n, m = observed.shape
        mean, of_sample = np.full(m, np.nan), np.full((n, m), np.nan)
        place = {pattern.tobytes(): number for number, pattern in enumerate(patterns)}
        able = np.all(observed[:, None, :] | ~patterns[None], axis=2)
        deviations = []
        for view in range(m):
            both = patterns | (np.arange(m) == view)
            after = np.array([place.get(own.tobytes(), -1) for own in both])
            pairs = np.flatnonzero(~patterns[:, view] & (after >= 0))
            gains = losses[:, pairs] - losses[:, after[pairs]]
            gains = np.where(able[:, after[pairs]], gains, np.nan)
            count = (~np.isnan(gains)).sum(axis=1)
            if count.any():
                mean[view] = np.nanmean(gains)
            several = count > 1
            of_sample[several, view] = np.nanmean(gains[several], axis=1)
            deviations.append(gains - of_sample[:, [view]])
        return cls(mean, of_sample, _variance(np.concatenate(deviations, axis=1)))

    def drawn(self, view: int, rows: NDArray[np.intp], gains: Floats) -> float:
        """The mean gain of a view in a pattern, by the gains of rows, drawn to that of all."""
        deviations = gains - self.of_sample[rows, view]
        deviations = deviations[~np.isnan(deviations)]
        if len(deviations) < 2:
            return float(self.mean[view])
        total = self.variance + deviations.var(ddof=1) / len(deviations)
        share = self.variance / total if total > 0 else 0.0
        return float(self.mean[view] + share * deviations.mean())


def _variance(deviations: Floats) -> float:
    """Variance between columns (a view in a pattern) beyond that of their means."""
    count = (~np.isnan(deviations)).sum(axis=0)
    deviations, count = deviations[:, count > 1], count[count > 1]
    if not len(count):
        return 0.0
    means = np.nanmean(deviations, axis=0)
    errors = np.nanvar(deviations, axis=0, ddof=1) / count
    return max(0.0, float(np.average(means**2 - errors, weights=count)))
