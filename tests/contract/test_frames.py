"""DataFrames in, DataFrames out: rows are matched by id and columns by name, or refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from viewgap.errors import LabelError, ViewError, ViewgapWarning
from viewgap.model_file import load_model, save_model

pytestmark = pytest.mark.base_class

LABELS = ["red", "green", "blue", "black"]


def as_frames(problem: Any, prefix: str = "s") -> tuple[dict[str, pd.DataFrame], pd.DataFrame]:
    """The observed rows of every view, each in an order of its own; labels in the order given."""
    rng = np.random.default_rng(3)
    ids = np.array([f"{prefix}{i:03d}" for i in range(len(problem.Y))])
    frames = {}
    for j, (name, block) in enumerate(problem.blocks.items()):
        rows = rng.permutation(np.flatnonzero(problem.observed[:, j]))
        columns = [f"{name}_{i}" for i in range(block.shape[1])]
        frames[name] = pd.DataFrame(block[rows], index=ids[rows], columns=columns)
    return frames, pd.DataFrame(problem.Y, index=ids, columns=LABELS)


@pytest.fixture(scope="module")
def frames(problem: Any) -> Any:
    return as_frames(problem)


@pytest.fixture(scope="module")
def new(other: Any) -> Any:
    return as_frames(other, "t")


@pytest.fixture(scope="module")
def model(make: Any, frames: Any) -> Any:
    return make().fit(*frames)


def test_predictions_carry_ids_and_names(model: Any, new: Any) -> None:
    views, labels = new
    for found in (model.predict_proba(views), model.predict(views)):
        assert isinstance(found, pd.DataFrame)
        assert found.columns.tolist() == LABELS
        assert sorted(found.index) == sorted(labels.index)


def test_row_order_changes_no_answer(model: Any, new: Any) -> None:
    views, labels = new
    rng = np.random.default_rng(0)
    shuffled = {name: frame.iloc[rng.permutation(len(frame))] for name, frame in views.items()}
    first, second = model.predict_proba(views), model.predict_proba(shuffled)
    assert np.allclose(first, second.loc[first.index], rtol=0, atol=1e-6)
    score = model.score(views, labels)
    other_order = labels.iloc[rng.permutation(len(labels)), rng.permutation(len(LABELS))]
    assert model.score(shuffled, other_order) == pytest.approx(score, abs=1e-12)


def test_column_order_changes_no_answer(model: Any, new: Any) -> None:
    views, _ = new
    rng = np.random.default_rng(1)
    permuted = {k: v.iloc[:, rng.permutation(v.shape[1])] for k, v in views.items()}
    assert np.array_equal(model.predict_proba(views), model.predict_proba(permuted))


def test_column_order_changes_no_fit(make: Any, frames: Any, model: Any, new: Any) -> None:
    views, labels = frames
    held = {name: frame.iloc[:, ::-1] for name, frame in new[0].items()}
    first = make().fit(views, labels, validation=new).predict_proba(new[0])
    second = make().fit(views, labels, validation=(held, new[1].iloc[::-1, ::-1]))
    assert np.array_equal(first, second.predict_proba(held).loc[first.index])


def test_absent_columns_are_named(model: Any, new: Any) -> None:
    views, _ = new
    shorter = views | {"shape": views["shape"].rename(columns={"shape_3": "shape_three"})}
    with pytest.raises(
        ViewError, match=r"'shape': 1 of the 8 .* absent: shape_3; not known .*three"
    ):
        model.predict_proba(shorter)


def test_extra_columns_are_left_out_with_a_note(model: Any, new: Any) -> None:
    views, _ = new
    wider = views | {"text": views["text"].assign(age=1.0)}
    with pytest.warns(ViewgapWarning, match="'text': 1 columns .* left out: age"):
        found = model.predict_proba(wider)
    assert np.array_equal(found, model.predict_proba(views))


def test_arrays_after_frames_are_taken_by_position(model: Any, other: Any) -> None:
    with pytest.warns(ViewgapWarning, match="views colour, shape, text: only one of"):
        found = model.predict_proba(other.views())
    assert isinstance(found, np.ndarray)


def test_frames_after_arrays_are_taken_by_position(fitted: Any, other: Any, new: Any) -> None:
    with pytest.warns(ViewgapWarning, match="views colour, shape, text: only one of"):
        found = fitted.predict_proba(new[0])
    expected = fitted.predict_proba(other.views())
    assert np.allclose(found.sort_index(), expected, rtol=0, atol=1e-6)


def test_labels_without_ids_beside_frames_that_differ_are_refused(
    make: Any, frames: Any, model: Any, new: Any
) -> None:
    views, labels = frames
    with pytest.raises(LabelError, match="give Y as a DataFrame"):
        make().fit(views, labels.to_numpy())
    with pytest.raises(LabelError, match="give Y as a DataFrame"):
        make().fit(views, labels, validation=(new[0], new[1].to_numpy()))
    with pytest.raises(LabelError, match="give Y as a DataFrame"):
        model.score(new[0], new[1].to_numpy())
    # one view that holds all samples tells their order
    complete = views | {"age": pd.DataFrame({"age": np.arange(len(labels))}, index=labels.index)}
    by_position = make().fit(complete, labels.to_numpy())
    by_id = make().fit(complete, labels.iloc[::-1])
    assert np.array_equal(by_position.predict_proba(complete), by_id.predict_proba(complete))


def test_column_names_are_saved(model: Any, new: Any, tmp_path: Any) -> None:
    save_model(model, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.feature_names_in_ == model.feature_names_in_
    permuted = {name: frame.iloc[:, ::-1] for name, frame in new[0].items()}
    assert np.array_equal(loaded.predict_proba(permuted), model.predict_proba(new[0]))
