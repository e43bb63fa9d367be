"""Whether what is missing tells a label: one cross-validated AUC per label, from the gaps alone.

Features of a sample are which views it has and the share of missing values in each of them. A
ridge regression on four fifths of the samples orders the last fifth, five times; the AUC counts
ordered pairs of a positive and a negative within each fifth. If the gaps say nothing, labels are
exchangeable within a fifth, so the variance of each count is that of the Mann-Whitney statistic
with ties: that gives the range of chance and a p-value, corrected for the number of labels (Holm).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr
from scipy.stats import rankdata

from viewgap.data.labels import Labels
from viewgap.data.viewset import ViewSet

Numbers = NDArray[np.float64]

FOLDS = 5
FEWEST = 8
"""Positives and negatives that a label needs to be judged."""
MOST_ROWS = 50_000
ALPHA = 0.01
TELLING_AUC = 0.6
"""A label is warned of from this AUC on, if chance is excluded."""
_RIDGE = 1.0
_CHANCE = 1.96


@dataclass(frozen=True)
class LabelFromGaps:
    """What the gaps tell about a label; the view is the one whose absence matters most.

    `frequency_with` and `frequency_without`: share of positives among the samples that have this
    view and those that do not.
    """

    label: str
    auc: float
    chance_low: float
    chance_high: float
    p_value: float
    predicts: bool
    view: str
    frequency_with: float
    frequency_without: float


def labels_from_gaps(views: ViewSet, labels: Labels) -> list[LabelFromGaps]:
    """Judge every label with enough positives and negatives; none if nothing is missing."""
    rows = _chosen_rows(len(views))
    features = gap_features(views)[rows]
    features = features[:, features.std(axis=0) > 0]
    if not features.shape[1]:
        return []
    values, observed = labels.values[rows].astype(np.float64), labels.observed[rows]
    positive = (observed & (values > 0)).sum(axis=0)
    enough = np.flatnonzero((positive >= FEWEST) & (observed.sum(axis=0) - positive >= FEWEST))
    if not len(enough):
        return []
    scores, folds = out_of_fold_scores(features, values[:, enough], observed[:, enough])
    tests = [
        pooled_auc(scores[:, k], values[:, j], observed[:, j], folds) for k, j in enumerate(enough)
    ]
    adjusted = holm([p_value for _, _, p_value in tests])
    return [
        LabelFromGaps(
            labels.names[j],
            auc,
            0.5 - _CHANCE * spread,
            0.5 + _CHANCE * spread,
            p_value,
            bool(p_value < ALPHA and auc >= TELLING_AUC),
            *_strongest_view(views, rows, values[:, j], observed[:, j]),
        )
        for j, (auc, spread, _), p_value in zip(enough, tests, adjusted, strict=True)
    ]


def gap_features(views: ViewSet) -> Numbers:
    """(n, 2 m): whether a view is observed, and the share of its values that are missing."""
    shares = [
        views.count_missing_values(name) / max(1, width)
        for name, width in zip(views.names, views.dims, strict=True)
    ]
    return np.column_stack([views.observed.astype(np.float64), *shares])


def _chosen_rows(n: int) -> NDArray[np.intp]:
    """Rows in a random order, which also deals them to the folds; a part of very many."""
    order = np.random.Generator(np.random.Philox(0)).permutation(n)
    return order[:MOST_ROWS]


def out_of_fold_scores(
    features: Numbers, values: Numbers, observed: NDArray[np.bool_]
) -> tuple[Numbers, NDArray[np.intp]]:
    """Scores (n, c) of every row by regressions on the other folds, and the folds (n,)."""
    n, width = features.shape
    known = observed.astype(np.float64)
    folds = np.arange(n) % FOLDS
    x = np.column_stack([np.ones(n), (features - features.mean(axis=0)) / features.std(axis=0)])
    products = (x[:, :, None] * x[:, None, :]).reshape(n, -1)
    parts = [folds == fold for fold in range(FOLDS)]
    squares = np.stack([known[part].T @ products[part] for part in parts])
    targets = np.stack([(known * values)[part].T @ x[part] for part in parts])
    scores = np.empty(values.shape)
    penalty = _RIDGE * np.diag([1e-9] + [1.0] * width)
    for fold, part in enumerate(parts):
        left = (squares.sum(axis=0) - squares[fold]).reshape(-1, width + 1, width + 1)
        right = targets.sum(axis=0) - targets[fold]
        weights = np.linalg.solve(left + penalty, right[:, :, None])[:, :, 0]
        # Samples with the same gaps must tie: rounding of products may not order them.
        scores[part] = np.round(x[part, 1:] @ weights[:, 1:].T, 9)
    return scores, folds


def pooled_auc(
    scores: Numbers, values: Numbers, observed: NDArray[np.bool_], folds: NDArray[np.intp]
) -> tuple[float, float, float]:
    """AUC over the pairs within folds, its standard deviation by chance, and a one-sided p."""
    wins, pairs, variance = 0.0, 0.0, 0.0
    for fold in range(FOLDS):
        part = observed & (folds == fold)
        positive = values[part] > 0
        n_positive, n_negative = int(positive.sum()), int((~positive).sum())
        if not n_positive or not n_negative:
            continue
        ranks = rankdata(scores[part])
        wins += ranks[positive].sum() - n_positive * (n_positive + 1) / 2
        pairs += n_positive * n_negative
        variance += _mann_whitney_variance(ranks, n_positive, n_negative)
    if not pairs:
        return 0.5, 0.0, 1.0
    auc, spread = wins / pairs, float(np.sqrt(variance)) / pairs
    return auc, spread, float(ndtr(-(auc - 0.5) / spread)) if spread else 1.0


def _mann_whitney_variance(ranks: Numbers, n_positive: int, n_negative: int) -> float:
    """Variance of the number of ordered pairs if labels are exchangeable, with ties."""
    n = n_positive + n_negative
    _, ties = np.unique(ranks, return_counts=True)
    tied = float((ties.astype(np.float64) ** 3 - ties).sum()) / (n * (n - 1))
    return n_positive * n_negative / 12 * (n + 1 - tied)


def holm(p_values: list[float]) -> list[float]:
    """Holm's correction for many tests."""
    order = np.argsort(p_values, kind="stable")
    left = len(p_values) - np.arange(len(p_values))
    raised = np.maximum.accumulate(np.asarray(p_values)[order] * left)
    result = np.empty(len(p_values))
    result[order] = np.minimum(raised, 1.0)
    return [float(value) for value in result]


def _strongest_view(
    views: ViewSet, rows: NDArray[np.intp], values: Numbers, observed: NDArray[np.bool_]
) -> tuple[str, float, float]:
    """The view whose absence goes with the largest standardised difference of a label."""
    best = ("", float("nan"), float("nan"))
    largest = -1.0
    truth = values[observed]
    for j, name in enumerate(views.names):
        present = views.observed[rows, j][observed]
        if present.all() or not present.any():
            continue
        with_view, without = float(truth[present].mean()), float(truth[~present].mean())
        strength = abs(with_view - without) / np.sqrt(1 / present.sum() + 1 / (~present).sum())
        if strength > largest:
            largest, best = strength, (name, with_view, without)
    return best
