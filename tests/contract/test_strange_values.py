"""Values that make no sense: told or refused by every method, never answered in silence."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from viewgap.data.viewset import ViewSet
from viewgap.errors import RunError, ViewError, ViewgapError, ViewgapWarning
from viewgap.model_file import load_model, save_model

pytestmark = pytest.mark.base_class


def spoiled(part: Any, value: float) -> ViewSet:
    blocks = {name: block.copy() for name, block in part.blocks.items()}
    row = int(np.flatnonzero(part.observed[:, 1])[2])
    blocks["shape"][row, 3] = value
    ids = [f"s{i}" for i in range(len(part.Y))]
    return ViewSet(blocks, observed=part.observed, sample_ids=ids)


def test_a_value_far_outside_is_told_once_with_its_place(
    fitted: Any, other: Any, tmp_path: Any
) -> None:
    if not fitted.reads_values:
        pytest.skip("reads no values")
    row = int(np.flatnonzero(other.observed[:, 1])[2])
    save_model(fitted, tmp_path / "model")
    message = rf"1 values in 1 samples .*view 'shape', column 3, sample id s{row}: 1e\+06, .*factor"
    for model in (fitted, load_model(tmp_path / "model")):
        for call in (model.predict_proba, model.predict):
            with pytest.warns(ViewgapWarning, match=message) as told:
                call(spoiled(other, 1e6))
            assert len(told) == 1
            assert told[0].filename == __file__


def test_ordinary_values_are_not_told_of(fitted: Any, problem: Any, other: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted.predict_proba(problem.views())
        fitted.predict_proba(other.views())


def test_column_names_are_told(make: Any, problem: Any) -> None:
    pandas = pytest.importorskip("pandas")
    if not make().reads_values:
        pytest.skip("reads no values")
    frames = {
        name: pandas.DataFrame(block).add_prefix(f"{name} ")
        for name, block in problem.blocks.items()
    }
    model = make().fit(frames, pandas.DataFrame(problem.Y))
    frames["text"].loc[5, "text 4"] = -1e9
    with pytest.warns(
        ViewgapWarning, match=r"view 'text', column 4 \('text 4'\), sample id 5: -1e"
    ):
        model.predict_proba(frames)


@pytest.mark.filterwarnings("ignore::viewgap.errors.ViewgapWarning")
@pytest.mark.parametrize("value", [1e20, 1e30, 1.6e38, -1.6e38])
def test_answers_are_probabilities_or_an_error_that_names_sample_and_view(
    fitted: Any, other: Any, value: float
) -> None:
    row = int(np.flatnonzero(other.observed[:, 1])[2])
    message, found = "", np.zeros(0)
    try:
        found = fitted.predict_proba(spoiled(other, value))
    except ViewError as error:
        message = str(error)
    assert ((found >= 0) & (found <= 1)).all()
    assert len(found) or f"sample id s{row}, " in message
    assert len(found) or "view 'shape', column 3;" in message


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("scale", [1e-30, 1e20, 1e30, 1e37])
def test_extreme_training_values_end_in_numbers_or_a_typed_error(
    make: Any, problem: Any, scale: float
) -> None:
    views = ViewSet({n: b * scale for n, b in problem.blocks.items()}, problem.observed)
    try:
        found = make().fit(views, problem.Y).predict_proba(views)
    except ViewgapError:
        return
    assert ((found >= 0) & (found <= 1)).all()


def test_a_fit_that_ends_in_nan_is_not_a_model(
    make: Any, problem: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make()
    kind = type(model)
    state = kind._get_state

    def broken(self: Any) -> Any:
        found = state(self)
        found.arrays["weights"] = np.array([1.0, np.nan])
        return found

    monkeypatch.setattr(kind, "_get_state", broken)
    with pytest.raises(RunError, match="'weights' holds NaN"):
        model.fit(problem.views(), problem.Y)
    with pytest.raises(ViewgapError, match="not fitted"):
        model.predict_proba(problem.views())


def test_nan_answers_are_refused(fitted: Any, other: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """NaN in an answer means: this label was never observed. Nothing else may look like it."""
    answers = fitted.predict_proba(other.views())
    answers[4, 2] = np.nan
    monkeypatch.setattr(type(fitted), "_predict_proba", lambda self, views: answers)
    with pytest.raises(ViewError, match="no finite answer for 1 of 30 samples; first: sample id 4"):
        fitted.predict_proba(other.views())
