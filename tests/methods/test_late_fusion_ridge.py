"""Ridge per view and label against the closed form, written down plainly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import viewgap
from viewgap.data.labels import Labels
from viewgap.data.splits import cross_fit_parts
from viewgap.data.validation import as_labels
from viewgap.errors import ViewgapWarning
from viewgap.methods.fitting.pooling import fit_pooling, pooled
from viewgap.methods.late_fusion_ridge import LateFusionRidge
from viewgap.methods.late_fusion_ridge.pooling import N_PARTS
from viewgap.methods.late_fusion_ridge.solver import solve_ridge
from viewgap.methods.linalg.blocks import soft_clip
from viewgap.nn.pooling import LogOddsPooling


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


# ---------------------------------------------------------------------- pooling="log_odds"


def test_the_pooling_is_learned_from_answers_out_of_fold(small: Any) -> None:
    """Written down plainly: regressions without each part answer it, in standardised columns."""
    penalty = 0.7
    rng = np.random.default_rng(3)
    rng.permutation(60)  # the rows that choose the penalty are drawn first
    labels = as_labels(small.Y, small.views)
    parts = cross_fit_parts(small.views, labels, N_PARTS, rng)
    scores, new = np.full((2, 2, *small.Y.shape), np.nan)
    for j, name in enumerate(small.blocks):
        X, seen = small.standardised(name), small.observed[:, j]
        for label in range(3):
            known = seen & ~np.isnan(small.Y[:, label])
            for part in range(N_PARTS):
                inside, rows = seen & (parts == part), known & (parts != part)
                found = naive(X[rows], small.Y[rows, label], penalty * X.shape[1])
                scores[j, inside, label] = X[inside] @ found[:-1] + found[-1]
            found = naive(X[known], small.Y[known, label], penalty * X.shape[1])
            new[j, seen, label] = X[seen] @ found[:-1] + found[-1]
    pooling = LogOddsPooling(2, 3)
    fit_pooling(pooling, soft_clip(scores), labels, labels)
    model = LateFusionRidge(penalties=[penalty], pooling="log_odds", random_state=3)
    model.fit(small.views, small.Y)
    expected = pooled(pooling, soft_clip(new))
    np.testing.assert_allclose(model.predict_proba(small.views), expected, rtol=0, atol=1e-4)


def test_pooling_leaves_the_regressions_as_they_are(small: Any) -> None:
    plain = LateFusionRidge(random_state=0).fit(small.views, small.Y)
    own = LateFusionRidge(random_state=0, pooling="log_odds").fit(small.views, small.Y)
    assert own.penalties_ == plain.penalties_
    for first, second in zip(plain._weights, own._weights, strict=True):
        np.testing.assert_array_equal(first, second)
    with_rows = own.fit(small.views, small.Y, validation=(small.views[:20], small.Y[:20]))
    assert np.isfinite(with_rows.predict_proba(small.views)).all()


def test_a_pooled_model_is_read_as_it_was(small: Any, tmp_path: Path) -> None:
    model = LateFusionRidge(random_state=0, pooling="log_odds").fit(small.views, small.Y)
    viewgap.save_model(model, tmp_path / "model")
    again = viewgap.load_model(tmp_path / "model")
    expected = model.predict_proba(small.views)
    np.testing.assert_array_equal(again.predict_proba(small.views), expected)
    single = np.vstack([again.predict_proba(small.views[[row]]) for row in range(60)])
    np.testing.assert_array_equal(single, expected)


def test_labels_with_one_value_and_labels_nobody_knows(small: Any) -> None:
    Y = np.hstack([small.Y, np.ones((60, 1)), np.full((60, 1), np.nan)])
    model = LateFusionRidge(random_state=0, pooling="log_odds")
    with pytest.warns(ViewgapWarning, match="never observed"):
        model.fit(small.views, Y)
    found = model.predict_proba(small.views)
    assert (found[:, 3] == 1).all()
    assert np.isnan(found[:, 4]).all()


def test_views_that_agree_are_believed_more() -> None:
    rng = np.random.default_rng(0)
    truth = (rng.random((200, 4)) < 0.5).astype(float)
    X = {f"v{j}": truth @ rng.normal(size=(4, 8)) + rng.normal(size=(200, 8)) for j in range(4)}
    likelihood = {}
    for pooling in ("mean", "log_odds"):
        model = LateFusionRidge(random_state=0, pooling=pooling)
        model.fit({name: view[:100] for name, view in X.items()}, truth[:100])
        found = model.predict_proba({name: view[100:] for name, view in X.items()})
        likelihood[pooling] = -np.log(np.where(truth[100:] == 1, found, 1 - found)).mean()
    assert likelihood["log_odds"] < 0.8 * likelihood["mean"]
