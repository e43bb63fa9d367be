"""What measuring each of several views is expected to save: linear functions of probabilities.

Two ways to learn a slope per label are tried: a ridge regression of the gain of a sample on all
probabilities, and the gain on each label regressed on the probability of that label alone, which
takes fewer samples where there are many labels. Whichever foretells samples left out best is kept,
if it does so by more than two standard errors: else the mean gain is expected for everybody.

What all views have in common, above all the loss before, and what each gains more or less than
the mean of them, are learned apart. The first is the larger by far and ranks nothing; learned
together, its noise, which differs from view to view, would decide the ranking.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Slopes = tuple[Floats, Floats]  # squared errors of rows left out (n, t), slopes (c, t)

_RIDGE = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)  # times the number of labels
_PER_LABEL = (10.0, 30.0, 100.0, 300.0, 1000.0)
_FEWEST_ROWS = 20
_MOST_LEVERAGE = 0.99
_SURE = 2.0  # standard errors


@dataclass(frozen=True)
class ExpectedGains:
    """Gains of k views that the probabilities of a sample make expect.

    Attributes
    ----------
    mean : array of shape (k,)
        Mean gain of each view; NaN where no row told.
    n_rows : array of int of shape (k,)
        How many rows told.
    centre : array of shape (c,)
        Mean probabilities.
    slopes : array of shape (c, k)
        Zeros where probabilities foretell nothing.
    """

    mean: Floats
    n_rows: NDArray[np.int64]
    centre: Floats
    slopes: Floats

    @classmethod
    def fit(cls, probabilities: Floats, gains: Floats) -> ExpectedGains:
        """Learn from probabilities (n, c) and gains (n, c, k).

        Gains of labels add up to that of a row; they are NaN for labels that were not observed,
        and for all labels where a row does not tell about the view.
        """
        told = np.asarray(~np.isnan(gains).all(axis=1))  # (n, k)
        total = np.where(told, np.nansum(gains, axis=1), 0.0)
        count = told.sum(axis=0)
        mean = np.where(count > 0, total.sum(axis=0) / np.maximum(count, 1), np.nan)
        slopes = np.zeros(gains.shape[1:])
        known = count > 0
        rows = np.asarray(told[:, known].all(axis=1) & known.any())
        if rows.sum() >= _FEWEST_ROWS:
            own = gains[rows][:, :, known]
            common = own.mean(axis=2, keepdims=True)
            found = _best_slopes(probabilities[rows], np.concatenate([common, own - common], 2))
            slopes[:, known] = found[:, :1] + found[:, 1:]
        centre = probabilities[rows if rows.any() else slice(None)].mean(axis=0)
        return cls(mean, count, centre, slopes)

    def predict(self, probabilities: Floats) -> Floats:
        """Expected gains (n, k) of probabilities (n, c)."""
        return np.asarray(self.mean + (probabilities - self.centre) @ self.slopes)


def _best_slopes(x: Floats, parts: Floats) -> Floats:
    """Slopes (c, t) with the least leave-one-out error, or zeros; `parts` (n, c, t)."""
    n, slopes = len(x), np.zeros(parts.shape[1:])
    if not x.std(axis=0).max() > 0:
        return slopes
    target = np.nansum(parts, axis=1)
    constant = ((target - target.mean(axis=0)) * n / (n - 1)) ** 2
    least, errors = constant.mean(axis=0), constant.copy()
    for left_out, found in (*_ridge_slopes(x, target), *_label_slopes(x, parts)):
        better = left_out.mean(axis=0) < least
        least = np.where(better, left_out.mean(axis=0), least)
        errors[:, better], slopes[:, better] = left_out[:, better], found[:, better]
    saved = constant - errors
    slopes[:, saved.mean(axis=0) <= _SURE * saved.std(axis=0, ddof=1) / np.sqrt(n)] = 0.0
    return slopes


def _ridge_slopes(x: Floats, target: Floats) -> Iterator[Slopes]:
    """Ridge regressions of targets (n, t) on all columns of x (n, c)."""
    n, c = x.shape
    scale = np.sqrt(x.var(axis=0).mean())  # of all labels: rare ones, that vary little, count less
    left, values, right = np.linalg.svd((x - x.mean(axis=0)) / scale, full_matrices=False)
    y = target - target.mean(axis=0)
    turned = left.T @ y
    for penalty in _RIDGE:
        shrunk = values**2 + penalty * c
        kept = values**2 / shrunk
        leverage = (left**2) @ kept + 1.0 / n
        errors = (y - left @ (kept[:, None] * turned)) / (1.0 - leverage)[:, None]
        yield errors**2, right.T @ ((values / shrunk)[:, None] * turned) / scale


def _label_slopes(x: Floats, parts: Floats) -> Iterator[Slopes]:
    """Regressions of what every label gains, (n, c, t), on the probability of that label."""
    observed = ~np.isnan(parts[:, :, 0])
    count = np.maximum(observed.sum(axis=0), 1)
    scale = x[observed].std()
    if not scale > 0:
        return
    centred = np.where(observed, (x - (x * observed).sum(axis=0) / count) / scale, 0.0)
    y = np.where(observed[:, :, None], parts, 0.0)
    y = np.where(observed[:, :, None], y - y.sum(axis=0) / count[:, None], 0.0)
    squares, products = (centred**2).sum(axis=0), np.einsum("nc,nct->ct", centred, y)
    for penalty in _PER_LABEL:
        slopes = products / (squares + penalty)[:, None]
        leverage = np.minimum(centred**2 / (squares + penalty) + 1.0 / count, _MOST_LEVERAGE)
        weight = observed / (1.0 - leverage)
        errors = np.einsum("nct,nc->nt", y, weight) - (centred * weight) @ slopes
        yield errors**2, slopes / scale
