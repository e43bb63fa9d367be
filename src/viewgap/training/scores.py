"""The validation score: what a fit is stopped by, and which epoch's weights are kept.

It must say something about the data at hand, whatever a network predicts; so it is chosen by the
observed labels of the validation rows, once per fit:

- some row has an observed positive and an observed negative: the weighted mean of AP, 1-RL and AUC
  (variant `field`, as in the released codes), which look at the order of labels inside a row;
- no row has, as with a single label: minus the mean log-loss over the labels that were observed
  with both values, which looks at rows of one label (at most 0, higher is better);
- no label was observed with both values: there is no score.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from viewgap.data.labels import Labels
from viewgap.metrics.evaluation import field_metrics

Score = Callable[[NDArray[np.floating]], float]
"""Of probabilities (n, c); higher is better."""

_PROB_EPS = 1e-7  # a sure and wrong answer costs about 16, not everything


def choose_score(labels: Labels, weights: Sequence[float]) -> Score | None:
    """The score for these validation labels, or None if they decide nothing.

    `weights`: of AP, 1-RL and AUC.
    """
    positive = labels.values.astype(np.bool_)
    negative = labels.observed & ~positive
    if (positive.any(axis=1) & negative.any(axis=1)).any():
        return partial(_ranking_score, labels.as_float(), weights)
    decided = np.flatnonzero(positive.any(axis=0) & negative.any(axis=0))
    if decided.size:
        return partial(_log_loss_score, positive[:, decided], negative[:, decided], decided)
    return None


def _ranking_score(
    truth: NDArray[np.float64], weights: Sequence[float], probabilities: NDArray[np.floating]
) -> float:
    values = field_metrics(truth, probabilities, ("AP", "1-RL", "AUC"))
    # Undefined where every negative is the first of its row: nothing could be worse.
    values["AUC"] = 0.0 if np.isnan(values["AUC"]) else values["AUC"]
    return sum(w * v for w, v in zip(weights, values.values(), strict=True)) / sum(weights)


def _log_loss_score(
    positive: NDArray[np.bool_],
    negative: NDArray[np.bool_],
    decided: NDArray[np.intp],
    probabilities: NDArray[np.floating],
) -> float:
    decided_proba = np.asarray(probabilities, dtype=np.float64)[:, decided]
    decided_proba = decided_proba.clip(_PROB_EPS, 1.0 - _PROB_EPS)
    likelihood = np.log(decided_proba[positive]).sum() + np.log1p(-decided_proba[negative]).sum()
    return float(likelihood / (np.count_nonzero(positive) + np.count_nonzero(negative)))
