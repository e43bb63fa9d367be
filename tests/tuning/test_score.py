"""Scores of trials: predictions out of fold, by naive loops, and the error of a difference."""

from __future__ import annotations

import numpy as np
import pytest

import viewgap
from viewgap.data.splits import cross_fit_parts
from viewgap.data.validation import as_labels, as_viewset
from viewgap.errors import SettingError
from viewgap.interruption import OutOfTimeError
from viewgap.tuning import score
from viewgap.tuning.score import (
    Answers,
    Data,
    choose_metric,
    cross_fitted,
    difference_error,
    measure,
)

Xy = tuple[dict[str, np.ndarray], np.ndarray]


def checked(data: Xy) -> Data:
    views = as_viewset(data[0])
    return Data(views, as_labels(data[1], views))


def test_answers_are_those_of_a_loop_over_parts(data: Xy) -> None:
    rows, steps = checked(data), []
    model = viewgap.LateFusionRidge(random_state=0)
    found = cross_fitted(model, rows, "AP", lambda value, step: steps.append((step, value)))
    parts = cross_fit_parts(rows.views, rows.labels, 5, np.random.default_rng(0))
    for part in range(5):
        inside, outside = parts == part, parts != part
        own = viewgap.LateFusionRidge(random_state=0).fit(rows.views[outside], data[1][outside])
        np.testing.assert_array_equal(
            found.probabilities[inside], own.predict_proba(rows.views[inside])
        )
        np.testing.assert_array_equal(found.decisions[inside], own.predict(rows.views[inside]) == 1)
    assert [step for step, _ in steps] == [1, 2, 3, 4, 5]
    assert steps[-1][1] == measure("AP", rows.labels, found).value
    assert steps[-1][1] == viewgap.evaluate(data[1], found.probabilities)["AP"]


def test_a_cross_fitted_method_is_fitted_once(data: Xy) -> None:
    rows = checked(data)
    model = viewgap.ExtraTrees(n_estimators=3, random_state=0, n_jobs=1)
    found = cross_fitted(model, rows, "AP", score._ignore)
    again = viewgap.ExtraTrees(n_estimators=3, random_state=0, n_jobs=1).fit(*data)
    np.testing.assert_array_equal(found.probabilities, again.out_of_fold_proba_)


def test_networks_report_their_epochs(data: Xy) -> None:
    settings = {"max_epochs": 4, "n_networks": 2, "cross_fit": True, "device": "cpu"}
    model = viewgap.DICNet(**settings, embedding=8, random_state=0)
    steps: list[int] = []
    cross_fitted(model, checked(data), "AP", lambda value, step: steps.append(step))
    assert steps == [1, 2, 3, 4]
    assert model.out_of_fold_proba_.shape == (60, 3)
    assert np.isfinite(model.out_of_fold_proba_).all()

    def give_up(value: float, step: int) -> None:
        if step == 2:
            raise StopIteration

    model = viewgap.DICNet(**settings, embedding=8, random_state=0)
    with pytest.raises(StopIteration):
        cross_fitted(model, checked(data), "AP", give_up)
    with pytest.raises(OutOfTimeError):
        cross_fitted(model, checked(data), "AP", score._ignore, deadline=0.0)


def test_error_of_a_difference_is_the_jackknife() -> None:
    """Of means over blocks of one size it is the standard error of the mean."""
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(2, 20, 7))  # blocks x rows
    left_out = [[np.delete(own, b, axis=0).mean() for b in range(20)] for own in (first, second)]
    blocks = (first - second).mean(axis=1)
    assert difference_error(*left_out) == pytest.approx(blocks.std(ddof=1) / np.sqrt(20))
    assert np.isnan(difference_error([1.0, np.nan], [1.0, 1.0]))


def test_metric_is_chosen_by_the_labels(data: Xy) -> None:
    rows = checked(data)
    assert choose_metric(rows.labels, None) == "AP"
    one = as_labels(data[1][:, :1], rows.views)
    assert choose_metric(one, None) == "macro AUC"
    with pytest.raises(SettingError, match=r"metric must be one of AP.*found 'accuracy'"):
        choose_metric(one, "accuracy")
    with pytest.raises(SettingError, match="AP compares the labels of a sample"):
        choose_metric(one, "AP")
    none = as_labels(np.zeros((60, 1)), rows.views)
    answers = Answers(np.full((60, 1), 0.5), np.zeros((60, 1), dtype=bool))
    with pytest.raises(SettingError, match="macro AUC is not defined"):
        measure("macro AUC", none, answers)
