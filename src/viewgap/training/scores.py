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

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from viewgap.data.labels import Labels, SparseLabels
from viewgap.metrics.evaluation import field_metrics
from viewgap.metrics.prediction import Prediction
from viewgap.metrics.streams import MetricStream

Score = Callable[[NDArray[np.floating]], float]
"""Of probabilities (n, c); higher is better."""

BlockScore = Callable[[Iterable[NDArray[np.floating]]], float]
"""Of the probabilities of some rows after the others, all of them in their order."""

_RANKING = ("AP", "1-RL", "AUC")
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
    return _weighted(field_metrics(truth, probabilities, _RANKING), weights)


def _weighted(values: dict[str, float], weights: Sequence[float]) -> float:
    # Undefined where every negative is the first of its row: nothing could be worse.
    values["AUC"] = 0.0 if np.isnan(values["AUC"]) else values["AUC"]
    return sum(w * v for w, v in zip(weights, values.values(), strict=True)) / sum(weights)


def _log_loss_score(
    positive: NDArray[np.bool_],
    negative: NDArray[np.bool_],
    decided: NDArray[np.intp],
    probabilities: NDArray[np.floating],
) -> float:
    likelihood = _likelihood(positive, negative, decided, probabilities)
    return float(likelihood / (np.count_nonzero(positive) + np.count_nonzero(negative)))


def _likelihood(
    positive: NDArray[np.bool_],
    negative: NDArray[np.bool_],
    decided: NDArray[np.intp],
    probabilities: NDArray[np.floating],
) -> float:
    decided_proba = np.asarray(probabilities, dtype=np.float64)[:, decided]
    decided_proba = decided_proba.clip(_PROB_EPS, 1.0 - _PROB_EPS)
    found = np.log(decided_proba[positive]).sum() + np.log1p(-decided_proba[negative]).sum()
    return float(found)


# ---------------------------------------------------------------------- block by block


def choose_block_score(labels: SparseLabels, weights: Sequence[float]) -> BlockScore | None:
    """The same of labels that are too many to be looked at at once."""
    positives, negatives = labels.row_counts()
    if ((positives > 0) & (negatives > 0)).any():
        return partial(_ranking_of_blocks, labels, weights)
    count = labels.positive_counts()
    decided = np.flatnonzero((count > 0) & (labels.observed_counts() > count))
    return partial(_log_loss_of_blocks, labels, decided) if decided.size else None


def _ranking_of_blocks(
    labels: SparseLabels, weights: Sequence[float], blocks: Iterable[NDArray[np.floating]]
) -> float:
    stream, start = MetricStream("field", bins=0, names=_RANKING), 0
    for probabilities in blocks:
        rows = np.arange(start, start + len(probabilities))
        start += len(rows)
        stream.add_rows(Prediction.of(labels.rows_as_float(rows), probabilities, "field"))
    return _weighted(stream.rows, weights)


def _log_loss_of_blocks(
    labels: SparseLabels, decided: NDArray[np.intp], blocks: Iterable[NDArray[np.floating]]
) -> float:
    likelihood, count, start = 0.0, 0, 0
    for probabilities in blocks:
        values, observed = labels.dense_rows(np.arange(start, start + len(probabilities)))
        start += len(probabilities)
        positive = values[:, decided] > 0
        negative = observed[:, decided] & ~positive
        likelihood += _likelihood(positive, negative, decided, probabilities)
        count += int(np.count_nonzero(positive) + np.count_nonzero(negative))
    return likelihood / count
