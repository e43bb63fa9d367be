"""Ridge per view and label against the closed form, written down plainly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from viewgap.data.labels import Labels
from viewgap.methods.late_fusion_ridge import LateFusionRidge
from viewgap.methods.late_fusion_ridge.solver import solve_ridge
from viewgap.methods.linalg.blocks import soft_clip


def naive(X: Any, y: Any, ridge: Any) -> Any:
    """Weights and intercept of one label: the augmented normal equations, intercept free."""
    design = np.hstack([X, np.ones((len(X), 1))])
    penalty = ridge * np.diag([1.0] * X.shape[1] + [0.0])
    return np.linalg.solve(design.T @ design + penalty, design.T @ y)


def test_predictions_equal_the_closed_form(small: Any) -> None:
    penalty = 0.7
    model = LateFusionRidge(penalties=[penalty]).fit(small.views, small.Y)
    total, count = np.zeros(small.Y.shape), np.zeros((60, 1))
    for j, name in enumerate(small.blocks):
        X, seen = small.standardised(name), small.observed[:, j]
        for label in range(3):
            rows = seen & ~np.isnan(small.Y[:, label])
            solution = naive(X[rows], small.Y[rows, label], penalty * X.shape[1])
            total[seen, label] += X[seen] @ solution[:-1] + solution[-1]
        count[seen] += 1
    expected = soft_clip(total / count)
    np.testing.assert_allclose(model.predict_proba(small.views), expected, rtol=0, atol=2e-6)


@pytest.mark.parametrize("columns", [3, 20, 50])
@pytest.mark.parametrize("masks", ["different", "shared", "complete", "few"])
def test_solver_equals_the_closed_form(columns: int, masks: str) -> None:
    rng = np.random.default_rng(columns)
    block = rng.normal(size=(20, columns))
    values = rng.random((20, 5)) < 0.4
    share = 0.2 if masks == "few" else 0.7
    seen = rng.random((20, 5)) < share
    if masks == "shared":
        seen[:, [0, 3]] = seen[:, [1]]
    if masks == "complete":
        seen[:] = True
    seen[:, 4] = False
    labels = Labels(values.astype(np.uint8), seen, tuple("abcde"))
    penalties = [0.01, 1.0, 30.0]
    solutions = solve_ridge(block, labels, penalties, np.full(5, 0.25))
    assert len(solutions) == 3
    for penalty, (weights, intercepts) in zip(penalties, solutions, strict=True):
        for label in range(4):
            rows = seen[:, label]
            expected = naive(block[rows], values[rows, label], penalty * columns)
            np.testing.assert_allclose(weights[:, label], expected[:-1], atol=1e-9)
            np.testing.assert_allclose(intercepts[label], expected[-1], atol=1e-9)
        np.testing.assert_array_equal(weights[:, 4], 0)
        assert intercepts[4] == 0.25


def test_the_penalty_is_chosen_where_it_fits_best(small: Any) -> None:
    rng = np.random.default_rng(1)
    X = {"a": rng.normal(size=(80, 30))}
    noise, truth = rng.random((80, 4)) < 0.5, X["a"][:, :4] > 0
    for Y, expected in ((noise, 1000.0), (truth, 0.001)):
        penalties = (0.001, 1000.0)
        held = ({"a": X["a"][60:]}, Y[60:])
        model = LateFusionRidge(penalties=penalties).fit(
            {"a": X["a"][:60]}, Y[:60], validation=held
        )
        assert model.penalties_ == {"a": expected}
    inside = LateFusionRidge(penalties=(0.001, 1000.0), random_state=0).fit(X, noise)
    assert inside.penalties_ == {"a": 1000.0}


def test_the_final_fit_uses_all_rows(small: Any) -> None:
    chosen = LateFusionRidge(random_state=0).fit(small.views, small.Y)
    for j, name in enumerate(small.blocks):
        fixed = LateFusionRidge(penalties=[chosen.penalties_[name]]).fit(small.views, small.Y)
        np.testing.assert_array_equal(fixed._weights[j], chosen._weights[j])


@given(st.lists(st.floats(-3, 1.2), min_size=2, max_size=20))
def test_soft_clip_keeps_the_order_and_the_middle(scores: Any) -> None:
    scores = np.sort(np.array(scores))
    found = soft_clip(scores)
    assert ((found >= 0) & (found <= 1)).all()
    assert (np.diff(found)[np.diff(scores) > 1e-9] > 0).all()
    middle = (scores >= 0.01) & (scores <= 0.99)
    np.testing.assert_array_equal(found[middle], scores[middle])
