"""The loss of a sample as a sum over its labels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MEASURES = ("average_precision", "brier", "log_loss")
_PROB_EPS = 1e-6
_ENTRIES_AT_ONCE = 1 << 20


def label_losses(measure: str, truth: Floats, probabilities: Floats) -> Floats:
    """What every label adds to the loss of its sample, (n, c).

    The loss is minus the average precision of a sample (`clean` variant), or the mean over its
    observed labels of the squared error (`brier`) or of the log loss, which is at most 13.8. NaN
    where a label was not observed, and in all of a row without a loss: one without an observed
    label or, for average precision, without a positive one.
    """
    observed = ~np.isnan(truth)
    if measure == "average_precision":
        return _precisions(truth, probabilities, observed)
    if measure == "brier":
        losses = (truth - probabilities) ** 2
    else:
        bounded = np.clip(probabilities, _PROB_EPS, 1.0 - _PROB_EPS)
        losses = -np.where(truth == 1, np.log(bounded), np.log1p(-bounded))
    losses = losses / np.maximum(observed.sum(axis=1, keepdims=True), 1)
    return np.where(observed, losses, np.nan)


def _precisions(truth: Floats, probabilities: Floats, observed: NDArray[np.bool_]) -> Floats:
    """Minus the precision at every positive label over their number; 0 for negative labels."""
    positive = truth == 1
    number = positive.sum(axis=1)
    losses = np.where(observed & (number > 0)[:, None], 0.0, np.nan)
    row, column = np.nonzero(positive)
    step = max(1, _ENTRIES_AT_ONCE // max(1, truth.shape[1]))
    for start in range(0, len(row), step):
        i, j = row[start : start + step], column[start : start + step]
        above = (probabilities[i] >= probabilities[i, j][:, None]) & observed[i]
        precision = (above & positive[i]).sum(axis=1) / above.sum(axis=1)
        losses[i, j] = -precision / number[i]
    return losses
