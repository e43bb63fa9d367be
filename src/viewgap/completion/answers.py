"""Out-of-fold answers for all views of a sample, and for each of its views alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone

from viewgap.data.viewset import ViewSet
from viewgap.model_selection import cross_val_predict

Floats = NDArray[np.float64]
Folds = list[tuple[NDArray[np.intp], NDArray[np.intp]]]

PROB_EPS = 1e-6


@dataclass(frozen=True)
class FixedFolds:
    """A splitter of scikit-learn that yields folds which are known already."""

    folds: Folds

    def split(self, X: Any = None, y: Any = None, groups: Any = None) -> Folds:
        """Return the folds."""
        return self.folds

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return how many there are."""
        return len(self.folds)


class ByView(BaseEstimator):  # type: ignore[misc]
    """Answers with all views of a sample, and then with each of them alone, side by side."""

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X: ViewSet, y: Floats) -> ByView:
        """Fit a copy of the estimator."""
        self.estimator_ = clone(self.estimator).fit(X, y)
        return self

    def predict_proba(self, X: ViewSet) -> Floats:
        """Return probabilities (n, (1 + m) c); NaN where a sample does not have the view."""
        whole = np.asarray(self.estimator_.predict_proba(X), dtype=np.float64)
        return np.hstack([whole, *self._alone(X, whole)])

    def _alone(self, X: ViewSet, whole: Floats) -> Iterator[Floats]:
        several = X.observed.sum(axis=1) > 1
        for j in range(X.n_views):
            result = np.where(X.observed[:, [j]], whole, np.nan)
            rows = np.flatnonzero(X.observed[:, j] & several)
            if len(rows):
                shown = np.zeros((len(rows), X.n_views), dtype=np.bool_)
                shown[:, j] = True
                result[rows] = self.estimator_.predict_proba(X[rows].with_observed(shown))
            yield result


def out_of_fold(
    estimators: Sequence[Any], X: ViewSet, y: Floats, folds: Sequence[Folds], n_jobs: int | None
) -> tuple[Floats, Floats]:
    """Mean answers of several methods and repetitions of the folds, by log-odds.

    Probabilities (n, c), and those of each view alone (n, m, c).
    """
    answers = [
        cross_val_predict(ByView(estimator), X, y, cv=FixedFolds(own), n_jobs=n_jobs)
        for estimator in estimators
        for own in folds
    ]
    pooled = answers[0] if len(answers) == 1 else expit(np.mean([log_odds(p) for p in answers], 0))
    whole, alone = np.split(pooled, [y.shape[1]], axis=1)
    return whole, alone.reshape(len(y), X.n_views, y.shape[1])


def log_odds(probability: Any) -> Any:
    """Log-odds; probabilities within 1e-6 of 0 and 1 are moved there."""
    bounded = np.clip(probability, PROB_EPS, 1.0 - PROB_EPS)
    return np.log(bounded) - np.log1p(-bounded)


def expit(odds: Any) -> Any:
    """Probability of log-odds."""
    return 1.0 / (1.0 + np.exp(-odds))


def counts_in_training(observed: Any, folds: Sequence[Folds]) -> NDArray[np.intp]:
    """(n, c) in how many samples the models that answer an entry have seen something at least.

    `observed` (n, c) says where it is to be seen.
    """
    least = np.full(observed.shape, len(observed), dtype=np.intp)
    for own in folds:
        for train, test in own:
            least[test] = np.minimum(least[test], observed[train].sum(axis=0))
    return least
