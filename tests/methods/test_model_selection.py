"""scikit-learn's model selection on data with both gaps, in worker processes too."""

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, KFold

import viewgap
from viewgap.data.viewset import ViewSet


@pytest.fixture
def incomplete() -> tuple[ViewSet, np.ndarray]:
    # Little noise: the weaker penalty is better by .12, not by a hair.
    data = viewgap.load_dataset("synthetic", n_samples=150, noise=0.1, seed=0)
    return viewgap.amputate(data.views, data.labels, view_rate=0.3, label_rate=0.3, seed=0)


@pytest.mark.parametrize("n_jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_grid_search(incomplete: tuple[ViewSet, np.ndarray], n_jobs: int) -> None:
    views, labels = incomplete
    grid = {"C": [1e-6, 0.05]}
    search = GridSearchCV(viewgap.ImputedLogistic(), grid, cv=KFold(3), n_jobs=n_jobs)
    search.fit(views, labels)
    assert search.best_params_ == {"C": 0.05}
    assert search.predict_proba(views[:4]).shape == (4, labels.shape[1])
