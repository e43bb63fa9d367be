"""The ensemble as a whole: weights, leaderboard, strange data, saved models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import viewgap
from viewgap.data.viewset import ViewSet
from viewgap.ensemble import estimator
from viewgap.ensemble.stacking import Stacking
from viewgap.errors import SettingError

PAIR = ("late_fusion_ridge", "extra_trees")


def test_the_answer_is_that_of_the_stacked_members(tools: Any) -> None:
    views, Y = tools.make_data()
    model = tools.make(*PAIR, "scsd").fit(views, Y)
    weights = np.array(list(model.weights_.values()))
    answers = [member.predict_proba(views) for member in model.members_.values()]
    stacking = Stacking(weights, model._stacking.shift)
    np.testing.assert_allclose(model.predict_proba(views), stacking(np.stack(answers)), atol=1e-12)
    assert list(model.weights_) == list(model.members_)
    assert sum(model.view_weights_.values()) == pytest.approx(1.0)


def test_the_leaderboard_shows_what_members_bring(tools: Any) -> None:
    views, Y = tools.make_data(120)
    model = tools.make(*PAIR, "gradient_boosting").fit(views, Y)
    board = model.leaderboard_
    assert list(board.columns) == ["method", "score", "spread", "weight", "seconds", "note"]
    assert board["method"][0] == "ensemble"
    assert set(board["method"]) == {"ensemble", *PAIR, "gradient_boosting"}
    assert board["score"][1:].is_monotonic_decreasing
    assert board["weight"][1:].sum() == pytest.approx(1.0)
    expected = viewgap.evaluate(Y, model.out_of_fold_proba_)["AP"]
    assert board["score"][0] == pytest.approx(expected)
    assert (board["spread"] > 0).all()
    assert board["seconds"][0] >= board["seconds"][1:].sum()


def test_a_member_without_weight_is_dropped_and_said(
    tools: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(estimator, "_SMALLEST_SHARE", 0.5)
    views, Y = tools.make_data(300)
    model = tools.make("late_fusion_ridge", "label_frequency").fit(views, Y)
    assert list(model.members_) == ["late_fusion_ridge"]
    line = model.leaderboard_.set_index("method").loc["label_frequency"]
    assert line["weight"] == 0.0
    assert line["note"] == "left out: less than 50% of the weights"
    assert np.isfinite(line["score"])


def test_validation_rows_count_too(tools: Any) -> None:
    views, Y = tools.make_data()
    more, Z = tools.make_data(40, seed=1)
    model = tools.make(*PAIR).fit(views, Y, validation=(more, Z))
    assert model.out_of_fold_proba_.shape == Y.shape
    assert model.weights_ != tools.make(*PAIR).fit(views, Y).weights_


@pytest.mark.filterwarnings("ignore::viewgap.errors.ViewgapWarning")
@pytest.mark.parametrize("members", [PAIR, ("scsd",), ("late_fusion_ridge", "random_forest")])
def test_strange_data(tools: Any, members: tuple[str, ...]) -> None:
    """Labels never observed or with one value, a view of one row, missing cells, empty rows."""
    rng = np.random.default_rng(0)
    views, Y = tools.make_data(50)
    a = np.array(views.rows("a"))
    a[rng.random(a.shape) < 0.1] = np.nan
    b = np.array(views.rows("b"))
    observed = np.column_stack([np.arange(50) != 4, np.arange(50) == 1])
    Y[:, 0], Y[:, 1] = np.nan, 1.0
    X = ViewSet({"a": a, "b": b}, observed)
    model = tools.make(*members, on_empty="prior").fit(X, Y)
    found = model.predict_proba(X)
    assert np.isnan(found[:, 0]).all()
    assert np.isfinite(found[:, 1:]).all()
    assert (found[:, 1] > 0.5).all()
    assert model.out_of_fold_proba_.shape == (49, 3)


@pytest.mark.parametrize("n", [1, 2, 7])
@pytest.mark.filterwarnings("ignore")
def test_few_rows(tools: Any, n: int) -> None:
    views, Y = tools.make_data(n)
    Y = np.nan_to_num(Y)
    if not views.observed[:, 1].any():
        views = ViewSet({"a": views.rows("a")})
    model = tools.make(*PAIR, "scsd").fit(views, Y)
    assert np.isfinite(model.predict_proba(views)).all()


def test_one_label(tools: Any) -> None:
    views, Y = tools.make_data()
    y = np.where(np.nan_to_num(Y[:, 0]) > 0, "yes", "no")
    model = tools.make(*PAIR).fit(views, y)
    assert model.predict_proba(views).shape == (60, 2)
    assert set(model.predict(views)) <= {"yes", "no"}
    assert model.out_of_fold_proba_.shape == (60, 1)
    assert model.members_["extra_trees"].predict_proba(views).shape == (60, 2)


def test_unlabelled_samples_are_refused(tools: Any) -> None:
    views, Y = tools.make_data()
    with pytest.raises(SettingError, match="unlabelled"):
        tools.make(*PAIR).fit(views, Y, X_unlabeled=views)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (["ensemble"], "an ensemble cannot be its own member"),
        (["no_such_method"], "unknown method 'no_such_method'"),
        ({"extra_trees": {"n_trees": 5}}, "methods: extra_trees: .*n_trees"),
        ({"extra_trees": {"n_estimators": -5}}, "methods: extra_trees: n_estimators must be"),
    ],
)
def test_wrong_members_are_refused_before_the_data_is_looked_at(wrong: Any, words: str) -> None:
    with pytest.raises(SettingError, match=words):
        viewgap.Ensemble(methods=wrong).fit(None, None)


def test_members_follow_the_seed_and_differ_in_it(tools: Any) -> None:
    views, Y = tools.make_data()
    first, again = (tools.make(*PAIR).fit(views, Y) for _ in range(2))
    np.testing.assert_array_equal(first.predict_proba(views), again.predict_proba(views))
    other = clone(first).set_params(random_state=1).fit(views, Y)
    assert (other.predict_proba(views) != first.predict_proba(views)).any()
    seeds = {member.random_state for member in first.members_.values()}
    assert len(seeds) == 2


def test_single_views_are_answered_alone(tools: Any) -> None:
    views, Y = tools.make_data()
    model = tools.make(*PAIR).fit(views, Y)
    found = model.predict_views(views)
    assert list(found) == ["a", "b"]
    alone = np.zeros((60, 2), dtype=bool)
    alone[:, 0] = True
    np.testing.assert_allclose(
        found["a"], model.predict_proba(views.with_observed(alone)), atol=1e-12
    )
    np.testing.assert_array_equal(np.isnan(found["b"]).all(axis=1), ~views.observed[:, 1])


def test_a_saved_ensemble_answers_alike(tools: Any, tmp_path: Path) -> None:
    views, Y = tools.make_data()
    X = np.hstack(
        [np.where(views.observed[:, [j]], views.rows(n), np.nan) for j, n in enumerate("ab")]
    )
    columns = {"a": slice(0, 4), "b": slice(4, 7)}
    model = tools.make(*PAIR, "scsd", "random_forest", views=columns).fit(X, Y)
    viewgap.save_model(model, tmp_path / "model")
    loaded: Any = viewgap.load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert loaded.weights_ == model.weights_
    assert loaded.view_weights_ == model.view_weights_
    assert loaded.get_params() == model.get_params()
    for name, member in model.members_.items():
        own = loaded.members_[name].predict_proba(X)
        np.testing.assert_array_equal(own, member.predict_proba(X))
    told, known = loaded.leaderboard_.drop(columns="seconds"), model.leaderboard_
    assert told.equals(known.drop(columns="seconds"))
    assert loaded.leaderboard_["seconds"].isna().all()


def test_progress_is_shown_on_stderr(tools: Any, capsys: pytest.CaptureFixture[str]) -> None:
    views, Y = tools.make_data()
    tools.make(*PAIR, verbose=True).fit(views, Y)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "fitting late_fusion_ridge" in printed.err
    assert "fitting extra_trees" in printed.err
