"""Missing views and labels, for every method: never read, never in the way, never silent."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from viewgap.data.viewset import ViewSet
from viewgap.errors import EmptyRowsError, ViewError, ViewgapWarning


def test_values_under_the_mask_are_never_read(
    make: Any, problem: Any, fitted: Any, other: Any, tools: Any
) -> None:
    def spoiled(part: Any) -> Any:
        blocks = {name: block.copy() for name, block in part.blocks.items()}
        for j, block in enumerate(blocks.values()):
            block[~part.observed[:, j]] = tools.garbage(block[~part.observed[:, j]].shape)
        return ViewSet(blocks, observed=part.observed)

    model = make().fit(spoiled(problem), problem.Y)
    assert tools.bits(model) == tools.bits(fitted)
    np.testing.assert_array_equal(
        model.predict_proba(spoiled(other)), fitted.predict_proba(other.views())
    )


@pytest.mark.base_class
def test_training_samples_without_views_are_refused_by_id(make: Any, problem: Any) -> None:
    observed = problem.observed.copy()
    observed[[4, 9]] = False
    ids = [f"s{i}" for i in range(len(observed))]
    views = ViewSet(problem.blocks, observed=observed, sample_ids=ids)
    with pytest.raises(EmptyRowsError, match="s4, s9"):
        make().fit(views, problem.Y)
    nothing = ViewSet(problem.blocks, observed=np.zeros_like(observed))
    with pytest.raises(EmptyRowsError):
        make().fit(nothing, problem.Y)


@pytest.mark.base_class
def test_training_samples_without_views_can_be_left_out(
    make: Any, problem: Any, tools: Any
) -> None:
    observed = problem.observed.copy()
    observed[[4, 9]] = False
    rest = np.delete(np.arange(len(observed)), [4, 9])
    expected = make(on_empty="prior").fit(problem.views(rest), problem.Y[rest])
    with pytest.warns(ViewgapWarning, match="2 samples without any view"):
        found = make(on_empty="prior").fit(ViewSet(problem.blocks, observed=observed), problem.Y)
    assert tools.bits(found) == tools.bits(expected)
    with (
        pytest.warns(ViewgapWarning, match="without any view"),
        pytest.raises(EmptyRowsError, match="nothing to learn"),
    ):
        make(on_empty="prior").fit(
            ViewSet(problem.blocks, observed=np.zeros_like(observed)), problem.Y
        )


@pytest.mark.base_class
def test_samples_without_views_at_prediction(
    make: Any, problem: Any, fitted: Any, other: Any
) -> None:
    observed = other.observed.copy()
    observed[3] = False
    views = ViewSet(other.blocks, observed=observed)
    with pytest.raises(EmptyRowsError, match="on_empty='prior'"):
        fitted.predict_proba(views)
    model = make(on_empty="prior").fit(problem.views(), problem.Y)
    with pytest.warns(ViewgapWarning, match="label frequencies"):
        found = model.predict_proba(views)
    np.testing.assert_array_equal(found[3], model.label_frequency_)
    rest = np.delete(np.arange(len(observed)), 3)
    expected = fitted.predict_proba(views[rest])
    np.testing.assert_allclose(found[rest], expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("view", [0, 1, 2])
def test_a_view_may_be_absent_from_a_whole_prediction(fitted: Any, other: Any, view: Any) -> None:
    observed = np.ones_like(other.observed)
    observed[:, view] = False
    found = fitted.predict_proba(ViewSet(other.blocks, observed=observed))
    assert np.isfinite(found).all()


@pytest.mark.base_class
def test_a_view_without_any_training_row_is_refused(make: Any, problem: Any) -> None:
    observed = problem.observed.copy()
    observed[:, 1] = False
    observed[:, 0] = True
    with pytest.raises(ViewError, match="'shape' is missing for every training sample"):
        make().fit(ViewSet(problem.blocks, observed=observed), problem.Y)


def test_a_view_with_one_training_row(make: Any, problem: Any, other: Any) -> None:
    observed = problem.observed.copy()
    observed[:, 1] = False
    observed[:, 0] = True
    observed[5, 1] = True
    model = make().fit(ViewSet(problem.blocks, observed=observed), problem.Y)
    assert np.isfinite(model.predict_proba(other.views())).all()


def test_a_label_never_observed_has_no_answer(make: Any, problem: Any, other: Any) -> None:
    Y = problem.Y.copy()
    Y[:, 2] = np.nan
    with pytest.warns(ViewgapWarning, match=r"never observed in training \(label2\)"):
        model = make().fit(problem.views(), Y)
    found = model.predict_proba(other.views())
    np.testing.assert_array_equal(np.isnan(found).any(axis=0), [False, False, True, False])
    assert np.isnan(found[:, 2]).all()
    for own in getattr(model, "predict_views", lambda _: {})(other.views()).values():
        np.testing.assert_array_equal(np.isnan(own).all(axis=0), [False, False, True, False])
    np.testing.assert_array_equal(model.predict(other.views())[:, 2], 0)
    assert 0 <= model.score(other.views(), other.Y) <= 1


def test_no_label_observed_at_all(make: Any, problem: Any, other: Any) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ViewgapWarning)
        model = make().fit(problem.views(), np.full_like(problem.Y, np.nan))
    messages = [str(w.message) for w in caught if issubclass(w.category, ViewgapWarning)]
    assert "4 labels were never observed" in messages[0]
    # What stops early has nothing to stop by, and says so.
    assert all("early stopping is off" in message for message in messages[1:])
    assert len(messages) == 1 + ("patience" in make.known)
    assert np.isnan(model.predict_proba(other.views())).all()


@pytest.mark.base_class
@pytest.mark.filterwarnings("ignore:early stopping is off")
def test_labels_that_are_never_absent_are_told_of(make: Any, problem: Any) -> None:
    Y = np.where(problem.Y == 1, 1.0, np.nan)  # as where absent labels were left blank
    with pytest.warns(ViewgapWarning, match="no label is 0 in any sample.*write 0: blank"):
        make().fit(problem.views(), Y)


def test_labels_with_one_value_only(make: Any, problem: Any, other: Any) -> None:
    Y = problem.Y.copy()
    Y[:, 0] = np.where(np.isnan(Y[:, 0]), np.nan, 0.0)
    Y[:, 3] = 1.0
    Y[::3] = np.nan  # samples without any observed label
    found = make().fit(problem.views(), Y).predict_proba(other.views())
    assert ((found >= 0) & (found <= 1)).all()


def test_a_label_observed_once(make: Any, problem: Any, other: Any) -> None:
    Y = problem.Y.copy()
    Y[:, 1] = np.nan
    Y[8, 1] = 1.0
    found = make().fit(problem.views(), Y).predict_proba(other.views())
    assert ((found >= 0) & (found <= 1)).all()


@pytest.mark.parametrize("n", [33, 65])  # the latter where half of the rows are left out
def test_a_last_batch_of_one_is_no_obstacle(make: Any, other: Any, tools: Any, n: Any) -> None:
    problem = tools.make_problem(n, seed=2)
    model = make().fit(problem.views(), problem.Y, validation=(other.views(), other.Y))
    assert np.isfinite(model.predict_proba(problem.views())).all()


def test_validation_with_absent_views_and_unobserved_labels(
    make: Any, problem: Any, other: Any
) -> None:
    observed = other.observed.copy()
    observed[0] = False
    observed[:, 1] = False
    observed[1:, 0] = True
    labels = other.Y.copy()
    labels[:, 2] = np.nan
    held = (ViewSet(other.blocks, observed=observed), labels)
    model = make().fit(problem.views(), problem.Y, validation=held)
    assert np.isfinite(model.predict_proba(other.views())).all()
