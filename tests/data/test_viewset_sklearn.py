"""ViewSet inside scikit-learn's model selection."""

from typing import Any, Self

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    cross_val_predict,
    cross_val_score,
    train_test_split,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import _safe_indexing, check_array, resample

from viewgap.data.viewset import ViewSet


class MeanOfViewA(BaseEstimator):  # type: ignore[misc]
    """Predicts Y as a line through the mean of view a, where it is observed."""

    def __init__(self, factor: float = 1.0) -> None:
        self.factor = factor

    def fit(self, X: ViewSet, y: Any) -> Self:
        assert isinstance(X, ViewSet)
        self.seen_ = X.sample_ids.tolist()
        self.n_features_in_ = X.shape[1]
        return self

    def predict(self, X: ViewSet) -> Any:
        return self.factor * X.rows("a", dtype=np.float64).mean(axis=1, keepdims=True)

    def score(self, X: ViewSet, y: Any) -> float:
        return -float(np.abs(self.predict(X) - y)[X.observed[:, 0]].mean())


@pytest.fixture
def views() -> ViewSet:
    rng = np.random.default_rng(0)
    arrays = {"a": rng.normal(size=(30, 4)), "b": rng.normal(size=(30, 2))}
    return ViewSet(arrays, observed=rng.random((30, 2)) < 0.7)


@pytest.fixture
def target(views: ViewSet) -> Any:
    return 2.0 * np.asarray(views.stored("a")).mean(axis=1, keepdims=True)


def test_grid_search_finds_the_factor(views: ViewSet, target: Any) -> None:
    search = GridSearchCV(MeanOfViewA(), {"factor": [1.0, 2.0, 3.0]}, cv=KFold(3))
    search.fit(views, target)
    assert search.best_params_ == {"factor": 2.0}
    assert search.best_score_ == pytest.approx(0.0)
    assert search.best_estimator_.seen_ == list(range(30))
    assert search.predict(views[:4]).shape == (4, 1)


def test_cross_val_score_and_predict(views: ViewSet, target: Any) -> None:
    assert cross_val_score(MeanOfViewA(2.0), views, target, cv=KFold(3)) == pytest.approx([0, 0, 0])
    found = cross_val_predict(
        MeanOfViewA(2.0), views, target, cv=KFold(3, shuffle=True, random_state=1)
    )
    assert np.array_equal(found, MeanOfViewA(2.0).predict(views))


def test_train_test_split(views: ViewSet, target: Any) -> None:
    first, second, first_y, second_y = train_test_split(views, target, test_size=10, random_state=0)
    assert (len(first), len(second)) == (20, 10)
    assert sorted([*first.sample_ids, *second.sample_ids]) == list(range(30))
    assert np.array_equal(first_y, target[first.sample_ids])
    assert np.array_equal(second_y, target[second.sample_ids])


def test_safe_indexing_and_resample(views: ViewSet) -> None:
    assert _safe_indexing(views, [3, 1]).sample_ids.tolist() == [3, 1]
    assert _safe_indexing(views, np.arange(30) < 2).sample_ids.tolist() == [0, 1]
    assert _safe_indexing(views, slice(2, 4)).sample_ids.tolist() == [2, 3]
    assert len(resample(views, n_samples=50, random_state=0)) == 50


def test_check_array_and_pipeline(views: ViewSet) -> None:
    found = check_array(views, ensure_all_finite="allow-nan")
    assert np.array_equal(found, views.to_array(), equal_nan=True)
    assert np.isnan(found[~views.observed[:, 0], :4]).all()
    pipeline = make_pipeline(FunctionTransformer(), MeanOfViewA())
    assert pipeline.fit(views, None).predict(views).shape == (30, 1)
