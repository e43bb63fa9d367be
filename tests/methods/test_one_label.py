"""A 1-D y is one label of two classes, and is answered as scikit-learn's classifiers do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import viewgap
from viewgap.errors import LabelError, ViewError, ViewgapDeprecationWarning

RNG = np.random.default_rng(0)
BLOCK = RNG.normal(size=(60, 4))
X = {"a": BLOCK, "b": RNG.normal(size=(60, 2))}
POSITIVE = BLOCK[:, 0] > 0
WORDS = np.where(POSITIVE, "sick", "healthy")


def model() -> viewgap.LateFusionRidge:
    return viewgap.LateFusionRidge(penalties=[0.1], random_state=0)


def test_answers_are_classes_and_probabilities_of_both() -> None:
    fitted = model().fit(X, WORDS)
    assert fitted.classes_.tolist() == ["healthy", "sick"]
    assert fitted.label_names_ == ("label0",)
    probabilities = fitted.predict_proba(X)
    assert probabilities.shape == (60, 2)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    chosen = fitted.classes_[(probabilities[:, 1] > 0.5).astype(int)]
    assert np.array_equal(fitted.predict(X), chosen)
    assert fitted.score(X, WORDS) == np.mean(chosen == WORDS)


def test_it_is_the_same_fit_as_on_one_column() -> None:
    column = model().fit(X, POSITIVE.astype(float)[:, None])
    flat = model().fit(X, WORDS)
    assert np.array_equal(flat.predict_proba(X)[:, 1:], column.predict_proba(X))
    assert column.predict(X).shape == (60, 1)


@pytest.mark.parametrize("classes", [(0, 1), (1, 2), (-1.0, 1.0), (False, True), ("a", "b")])
def test_any_two_values_are_classes(classes: tuple[Any, Any]) -> None:
    y = np.array(classes)[POSITIVE.astype(int)]
    predicted = model().fit(X, y).predict(X)
    assert set(predicted.tolist()) <= set(classes)
    assert predicted.dtype == y.dtype


def test_missing_values_are_unobserved() -> None:
    y = POSITIVE.astype(float)
    y[:20] = np.nan
    words = WORDS.astype(object)
    words[:20] = None
    first, second = model().fit(X, y), model().fit(X, words)
    assert np.array_equal(first.predict_proba(X), second.predict_proba(X))
    assert first.score(X, y) == np.mean(first.predict(X)[20:] == y[20:])


def test_a_series_is_aligned_by_its_index_and_gives_a_series() -> None:
    ids = [f"s{i}" for i in range(60)]
    frames = {name: pd.DataFrame(block, index=ids) for name, block in X.items()}
    y = pd.Series(WORDS, index=ids, name="state")
    straight = model().fit(frames, y)
    mixed = model().fit(frames, y.sample(frac=1.0, random_state=0))
    predicted = straight.predict(frames)
    assert predicted.name == "state"
    assert list(predicted.index) == ids
    pd.testing.assert_series_equal(predicted, mixed.predict(frames))
    assert list(straight.predict_proba(frames).columns) == ["healthy", "sick"]


def test_validation_rows_have_the_same_classes() -> None:
    first = {name: block[:40] for name, block in X.items()}
    last = {name: block[40:] for name, block in X.items()}
    fitted = model().fit(first, WORDS[:40], validation=(last, WORDS[40:]))
    assert fitted.one_label_
    with pytest.raises(LabelError, match="the classes of the fit are"):
        model().fit(first, WORDS[:40], validation=(last, ["well"] * 20))


def test_a_saved_model_keeps_its_classes(tmp_path: Path) -> None:
    fitted = model().fit(X, WORDS)
    viewgap.save_model(fitted, tmp_path / "model")
    loaded = viewgap.load_model(tmp_path / "model")
    assert np.array_equal(loaded.predict(X), fitted.predict(X))
    assert np.array_equal(loaded.predict_proba(X), fitted.predict_proba(X))
    assert loaded.score(X, WORDS) == fitted.score(X, WORDS)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.arange(60) % 3, "type of the target is multiclass: y has 3 classes"),
        (BLOCK[:, 0], "Unknown label type: continuous"),
        (np.ones(60), "only one class"),
        (np.full(60, np.nan), "only one class"),
        ([{"a"}, {"b"}] * 30, "Y.reshape"),
    ],
)
def test_other_1d_targets_are_refused(y: Any, message: str) -> None:
    with pytest.raises(LabelError, match=message):
        model().fit(X, y)


def test_the_old_name_of_y_works_with_a_warning() -> None:
    Y = POSITIVE.astype(float)[:, None]
    with pytest.warns(ViewgapDeprecationWarning, match="Y= is now called y=") as caught:
        fitted = model().fit(X, Y=Y)
    assert caught[0].filename == __file__
    with pytest.warns(ViewgapDeprecationWarning, match="Y= is now called y="):
        score = fitted.score(X, Y=Y)
    assert score == fitted.score(X, y=Y)
    with pytest.raises(LabelError, match="pass one of them"):
        fitted.fit(X, y=Y, Y=Y)
    with pytest.raises(LabelError, match="requires y to be passed"):
        fitted.fit(X)


def test_one_array_of_another_width_is_refused_in_the_words_of_sklearn() -> None:
    fitted = viewgap.LateFusionRidge(views={"all": slice(None)}).fit(BLOCK, POSITIVE)
    with pytest.raises(ViewError, match="X has 3 features, but LateFusionRidge is expecting 4"):
        fitted.predict(BLOCK[:, :3])
