"""How much out-of-fold answers speak against observed labels, comparable from label to label.

For an observed entry, let p be the out-of-fold probability of the *other* value and f the share of
the samples observed with it. What speaks against the entry is

    p / (1 - p)  /  sqrt(f / (1 - f)),

the geometric mean of the plain odds of the other value and of how much they exceed the odds by
chance. Plain odds would flag every positive entry of a rare label, and odds beside those by chance
every entry that a label's model is a little better than chance at; `benchmarks/label_errors.py`
compares them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from viewgap.completion.answers import log_odds

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

LEAST_Z = 2.0
"""Standard deviations by which a label's positives must be ranked above its negatives."""


def expected(truth: Floats) -> Floats:
    """(c,) probability of every label by chance, its frequency; NaN if never observed."""
    count = (~np.isnan(truth)).sum(axis=0)
    result = np.full(truth.shape[1], np.nan)
    np.divide(np.nansum(truth, axis=0), count, out=result, where=count > 0)
    return result


def judged_labels(probabilities: Floats, truth: Floats) -> Bools:
    """(c,) labels whose out-of-fold answers tell their positives from their negatives.

    Of the others, every positive entry would look wrong.
    """
    usable = ~np.isnan(truth) & ~np.isnan(probabilities)
    columns = zip(probabilities.T, truth.T, usable.T, strict=True)
    found = [separation(p[rows], own[rows] == 1) >= LEAST_Z for p, own, rows in columns]
    return np.array(found, dtype=np.bool_)


def separation(scores: Floats, positive: Bools) -> float:
    """Standard deviations by which positives rank above negatives (Mann and Whitney's test)."""
    from scipy.stats import rankdata

    n_positive = int(positive.sum())
    n_negative = len(positive) - n_positive
    if not n_positive or not n_negative:
        return -np.inf
    above = rankdata(scores)[positive].sum() - n_positive * (n_positive + 1) / 2
    pairs = n_positive * n_negative
    spread = (pairs * (len(positive) + 1) / 12) ** 0.5
    return float((above - pairs / 2) / spread)


def suspicion(probabilities: Floats, truth: Floats) -> Floats:
    """(n, c) odds against the observed value as above; NaN where it was not observed."""
    away = np.where(truth == 1, -1.0, 1.0)
    odds, chance = log_odds(probabilities), log_odds(expected(truth))
    return np.where(np.isnan(truth), np.nan, np.exp(away * (odds - chance / 2)))
