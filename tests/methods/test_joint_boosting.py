"""Gradient boosting on all views side by side."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

import viewgap
from viewgap.ensemble import estimator
from viewgap.model_file import load_model, save_model


def make_data(n: int = 500) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """A label that neither view tells, but both together; a third of the rows lack the second."""
    rng = np.random.default_rng(0)
    views = {"a": rng.normal(size=(n, 3)), "b": rng.normal(size=(n, 2))}
    Y = np.column_stack([views["a"][:, 0] * views["b"][:, 0] > 0, views["a"][:, 1] > 0])
    views["b"][::3] = np.nan
    return views, Y.astype(float)


def test_what_two_views_tell_together_is_learned() -> None:
    views, Y = make_data()
    both = ~np.isnan(views["b"][:, 0])
    together, alone = (
        roc_auc_score(
            Y[both, 0],
            kind(n_estimators=60, random_state=0).fit(views, Y).out_of_fold_proba_[both, 0],
        )
        for kind in (viewgap.JointBoosting, viewgap.GradientBoosting)
    )
    assert together > 0.75
    assert alone < 0.65  # 0.5 but for chance


def test_a_view_that_no_training_row_lacks_may_be_missing_in_prediction(tmp_path: Any) -> None:
    rng = np.random.default_rng(0)
    views = {"a": rng.normal(size=(300, 3)), "b": rng.normal(size=(300, 2))}
    Y = (views["a"][:, :1] + 2 * views["b"][:, :1] > 0).astype(float)
    model = viewgap.JointBoosting(n_estimators=40, random_state=0).fit(views, Y)
    alone = model.predict_proba({"a": views["a"], "b": None})[:, 0]
    full = model.predict_proba(views)[:, 0]
    # Less is known without the view that tells most, and the answer says so.
    assert np.abs(alone - 0.5).mean() < np.abs(full - 0.5).mean()
    save_model(model, tmp_path / "model")
    np.testing.assert_array_equal(load_model(tmp_path / "model").predict_proba(views)[:, 0], full)


def test_hidden_rows_keep_a_view_and_say_what_is_missing() -> None:
    views, Y = make_data(60)
    model = viewgap.JointBoosting(n_estimators=2, random_state=0).fit(views, Y)
    inputs = model._inputs(viewgap.ViewSet(views), 0, np.arange(60))
    hidden = model._with_views_hidden(inputs, 3)
    before, after = inputs[:, 5:] > 0, hidden[:, 5:] > 0
    assert after.any(axis=1).all()
    assert not (after & ~before).any()
    assert (after != before).any()
    columns = np.repeat(after, (3, 2), axis=1)
    np.testing.assert_array_equal(hidden[:, :5], np.where(columns, inputs[:, :5], 0))


@pytest.mark.parametrize(("columns", "used"), [(8, 8), (20, 10), (500, 150), (6000, 300)])
def test_trees_have_enough_columns_and_not_too_many(columns: int, used: int) -> None:
    assert viewgap.JointBoosting()._share_of_columns(columns) * columns == pytest.approx(used)


def test_a_single_view_is_left_to_gradient_boosting(monkeypatch: pytest.MonkeyPatch) -> None:
    small = {"joint_boosting": {"n_estimators": 2}, "late_fusion_ridge": {}}
    monkeypatch.setattr(estimator, "DEFAULT", small)
    views, Y = make_data(40)
    for given, note in (({"a": views["a"]}, "left out: there is one view only"), (views, "")):
        lines = viewgap.Ensemble(random_state=0).fit(given, Y).leaderboard_.set_index("method")
        assert lines.note["joint_boosting"] == note
