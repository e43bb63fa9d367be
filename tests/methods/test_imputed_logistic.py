"""Logistic regression against scikit-learn on data imputed and scaled by hand."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from viewgap.data.viewset import ViewSet
from viewgap.errors import ViewgapWarning
from viewgap.methods.imputed_logistic import ImputedLogistic, _rotate


@pytest.mark.parametrize("views", [["narrow"], ["narrow", "wide"]])
def test_equals_scikit_learn(small: Any, views: Any) -> None:
    # with "wide" there are more columns than rows, and the fit happens in the rows' own space
    seen = small.observed[:, : len(views)]
    rows = np.flatnonzero(seen.any(axis=1))
    X = np.hstack([*(small.standardised(name)[rows] for name in views), seen[rows]])
    given = ViewSet({name: small.blocks[name][rows] for name in views}, observed=seen[rows])
    model = ImputedLogistic(C=0.3).fit(given, small.Y[rows])
    found = model.predict_proba(given)
    for label in range(3):
        known = ~np.isnan(small.Y[rows, label])
        exact = LogisticRegression(C=0.3, tol=1e-8, max_iter=5000)
        exact.fit(X[known], small.Y[rows][known, label])
        expected = exact.predict_proba(X)[:, 1]
        np.testing.assert_allclose(found[:, label], expected, rtol=0, atol=2e-3)


def test_rotation_keeps_all_products() -> None:
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(10, 25))
    inputs[7] = inputs[3] + inputs[4]
    coordinates, back = _rotate(inputs)
    assert back is not None
    assert coordinates.shape == (10, 9)
    np.testing.assert_allclose(coordinates @ back.T, inputs, atol=1e-10)
    np.testing.assert_allclose(back.T @ back, np.eye(9), atol=1e-10)
    same, nothing = _rotate(inputs.T)
    assert same is not None
    assert nothing is None


def test_labels_with_one_value_keep_it(small: Any) -> None:
    Y = small.Y.copy()
    Y[:, 0] = np.where(np.isnan(Y[:, 0]), np.nan, 1.0)
    Y[:, 1] = 0.0
    found = ImputedLogistic().fit(small.views, Y).predict_proba(small.views)
    np.testing.assert_array_equal(found[:, 0], 1.0)
    np.testing.assert_array_equal(found[:, 1], 0.0)


def test_the_indicator_of_a_missing_view_is_used() -> None:
    rng = np.random.default_rng(0)
    observed = np.ones((200, 2), dtype=bool)
    observed[:, 1] = rng.random(200) < 0.5
    views = ViewSet(
        {"a": rng.normal(size=(200, 3)), "b": rng.normal(size=(200, 3))}, observed=observed
    )
    Y = observed[:, [1]].astype(float)
    found = ImputedLogistic(C=10.0).fit(views, Y).predict_proba(views)
    assert ((found > 0.5) == Y).all()


def test_too_few_iterations_are_told_once(small: Any) -> None:
    with pytest.warns(ViewgapWarning, match="3 of 3 labels .* max_iter"):
        ImputedLogistic(C=10.0, max_iter=1).fit(small.views, small.Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ImputedLogistic().fit(small.views, small.Y)
