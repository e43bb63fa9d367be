"""Whether what is missing tells a label: one cross-validated AUC per label, from the gaps alone.

Features of a sample are which views it has and the share of missing values in each of them. A
ridge regression on four fifths of the samples orders the last fifth, five times; the AUC counts
ordered pairs of a positive and a negative within each fifth, and its interval is that of Hanley
and McNeil. That the gaps say nothing at all is tested by the score statistic of the regression,
which needs no model, with Holm's correction for the number of labels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from viewgap.bench.analyse.statistics import holm
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
_FEWEST_GAPS = 10  # samples that a feature must tell from the others
_RIDGE = 1.0
_NORMAL = 1.96


@dataclass(frozen=True)
class LabelFromGaps:
    """What the gaps tell about a label; the view is the one whose absence matters most.

    `frequency_with` and `frequency_without`: share of positives among the samples that have this
    view and those that do not.
    """

    label: str
    auc: float
    auc_low: float
    auc_high: float
    p_value: float
    predicts: bool
    view: str
    frequency_with: float
    frequency_without: float


def labels_from_gaps(views: ViewSet, labels: Labels) -> list[LabelFromGaps]:
    """Judge every label with enough positives and negatives; none if nothing is missing."""
    rows = _chosen_rows(len(views))
    features = gap_features(views)[rows]
    usual = np.median(features, axis=0)
    features = features[:, (features != usual).sum(axis=0) >= _FEWEST_GAPS]
    values, observed = labels.values[rows].astype(np.float64), labels.observed[rows]
    positive = (observed & (values > 0)).sum(axis=0)
    enough = np.flatnonzero((positive >= FEWEST) & (observed.sum(axis=0) - positive >= FEWEST))
    if not features.shape[1] or not len(enough):
        return []
    scores, folds = out_of_fold_scores(features, values[:, enough], observed[:, enough])
    tests = [association(features[observed[:, j]], values[observed[:, j], j]) for j in enough]
    found = []
    for k, (j, p_value) in enumerate(zip(enough, holm(tests), strict=True)):
        auc, low, high = pooled_auc(scores[:, k], values[:, j], observed[:, j], folds)
        predicts = bool(p_value < ALPHA and low > 0.5 and auc >= TELLING_AUC)
        view = _strongest_view(views, rows, values[:, j], observed[:, j])
        found.append(LabelFromGaps(labels.names[j], auc, low, high, p_value, predicts, *view))
    return found


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


def association(features: Numbers, values: Numbers) -> float:
    """p-value of no association between features (n, p) and a label (n,), by the score test.

    The covariance of the sums over positives is that of a random permutation of the label.
    """
    n, mean = len(values), values.mean()
    centred = features - features.mean(axis=0)
    sums = centred.T @ (values - mean)
    covariance = centred.T @ centred * (mean * (1 - mean) * n / max(1, n - 1))
    sizes, directions = np.linalg.eigh(covariance)
    kept = sizes > 1e-9 * max(sizes.max(initial=0.0), 1e-300)
    statistic = np.square(directions[:, kept].T @ sums) / sizes[kept]
    return float(chdtrc(kept.sum(), statistic.sum())) if kept.any() else 1.0


def pooled_auc(
    scores: Numbers, values: Numbers, observed: NDArray[np.bool_], folds: NDArray[np.intp]
) -> tuple[float, float, float]:
    """AUC over the pairs within folds, and its 95 % interval."""
    from scipy.stats import rankdata

    wins, pairs = 0.0, 0.0
    for fold in range(FOLDS):
        part = observed & (folds == fold)
        positive = values[part] > 0
        n_positive, n_negative = int(positive.sum()), int((~positive).sum())
        if n_positive and n_negative:
            ranks = rankdata(scores[part])
            wins += float(ranks[positive].sum()) - n_positive * (n_positive + 1) / 2
            pairs += n_positive * n_negative
    auc = wins / pairs if pairs else 0.5
    n_positive = int((values[observed] > 0).sum())
    error = _hanley_mcneil(auc, n_positive, int(observed.sum()) - n_positive)
    return auc, max(0.0, auc - _NORMAL * error), min(1.0, auc + _NORMAL * error)


def _hanley_mcneil(auc: float, n_positive: int, n_negative: int) -> float:
    """Standard error of an AUC."""
    both_positive, both_negative = auc / (2 - auc), 2 * auc**2 / (1 + auc)
    variance = auc * (1 - auc)
    variance += (n_positive - 1) * (both_positive - auc**2)
    variance += (n_negative - 1) * (both_negative - auc**2)
    return float(np.sqrt(max(variance, 0.0) / max(1, n_positive * n_negative)))


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
