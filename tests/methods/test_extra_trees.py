"""Extra trees: leaves by naive loops, out-of-fold rows, and forests from a stranger."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesRegressor

from viewgap.data.labels import Labels
from viewgap.data.viewset import ViewSet
from viewgap.errors import ModelFileError
from viewgap.interruption import OutOfTimeError
from viewgap.methods import extra_trees
from viewgap.methods.extra_trees import ExtraTrees
from viewgap.methods.trees.view_models import Copy
from viewgap.model_file import load_model, save_model


def labels_of(Y: np.ndarray) -> Labels:
    names = tuple(f"label{j}" for j in range(Y.shape[1]))
    return Labels(np.nan_to_num(Y).astype(np.uint8), ~np.isnan(Y), names)


@pytest.mark.parametrize("entries", [8_000_000, 40])
def test_leaves_equal_naive_loops(monkeypatch: Any, entries: int) -> None:
    """Leaf by leaf and label by label: the mean of the observed labels, drawn to the prior."""
    monkeypatch.setattr(extra_trees, "_MOST_ENTRIES", entries)  # groups of trees, and all at once
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 5)).astype(np.float32)
    Y = (X[:, :3] + rng.normal(size=(40, 3)) > 0).astype(float)
    Y[rng.random(Y.shape) < 0.4] = np.nan
    copies = [Copy(np.arange(30), np.array([0.2, 0.5, 0.9]), 7), Copy(np.arange(9, 40), Y[0], 8)]
    copies[1] = copies[1]._replace(prior=np.array([0.3, 0.3, 0.3]))
    method = ExtraTrees(n_estimators=6, max_features=0.6)
    model = method._fit_view(X, labels_of(Y), copies)
    for number, (rows, prior, seed) in enumerate(copies):
        forest = ExtraTreesRegressor(6, min_samples_leaf=3, max_features=3, random_state=seed)
        forest.fit(X[rows], np.where(np.isnan(Y[rows]), prior, Y[rows]))
        expected = np.zeros((40, 3))
        for tree in forest.estimators_:
            leaf, grown = tree.apply(X), tree.apply(X[rows])
            for i in range(40):
                for j in range(3):
                    own = [Y[r, j] for r, at in zip(rows, grown, strict=True) if at == leaf[i]]
                    known = [value for value in own if not np.isnan(value)]
                    expected[i, j] += (sum(known) + 0.3 * prior[j]) / (len(known) + 0.3) / 6
        np.testing.assert_allclose(model.predict(number, X), expected, rtol=0, atol=1e-6)


def test_components_of_many_labels_keep_the_distances_of_rows() -> None:
    """100 labels that are copies of 5: nothing is lost by their components."""
    rng = np.random.default_rng(0)
    Y = rng.integers(0, 2, size=(50, 5)).astype(float)[:, rng.integers(5, size=100)]
    targets = extra_trees._targets(labels_of(Y), Copy(np.arange(50), np.full(100, 0.5), 0))
    assert targets.shape[1] <= 64
    distances = [np.square(block[:, None] - block[None]).sum(axis=2) for block in (Y, targets)]
    np.testing.assert_allclose(*distances, atol=1e-8)


def test_no_row_tells_about_itself() -> None:
    """Labels without any signal: out of fold they are at chance, by the fitted copies they are not.

    A copy that had seen the row that it predicts would know its label.
    """
    rng = np.random.default_rng(0)
    views = ViewSet({"a": rng.normal(size=(300, 4))})
    Y = rng.integers(0, 2, size=(300, 2)).astype(float)
    model = ExtraTrees(n_estimators=30, min_samples_leaf=1, random_state=0).fit(views, Y)
    fitted = model._predict_each(views)[0]
    assert np.mean((fitted > 0.5) == Y) > 0.9
    assert np.mean((model.out_of_fold_proba_ > 0.5) == Y) < 0.65


def test_out_of_fold_rows_that_no_copy_can_tell() -> None:
    """The only row with a view is never predicted out of fold: no other row has the view."""
    rng = np.random.default_rng(0)
    observed = np.array([[True, False]] * 19 + [[False, True]])
    views = ViewSet({"a": rng.normal(size=(20, 3)), "b": rng.normal(size=(20, 2))}, observed)
    Y = rng.integers(0, 2, size=(20, 2)).astype(float)
    model = ExtraTrees(n_estimators=3, random_state=0).fit(views, Y)
    assert model.out_of_fold_proba_.shape == (20, 2)
    np.testing.assert_array_equal(model.out_of_fold_proba_[19], model.label_frequency_)
    assert np.isfinite(model.predict_proba(views)).all()


@pytest.mark.parametrize("n", [1, 2, 3])
def test_very_few_rows(n: int) -> None:
    X = {"a": np.arange(2.0 * n).reshape(n, 2)}
    Y = np.arange(2.0 * n).reshape(n, 2) % 2
    model = ExtraTrees(n_estimators=2, random_state=0).fit(X, Y)
    assert np.isfinite(model.predict_proba(X)).all()
    assert model.out_of_fold_proba_.shape == (n, 2)


def test_validation_rows_fit_the_pooling_only(small: Any) -> None:
    train, held = small.views[:40], small.views[40:]
    plain = ExtraTrees(n_estimators=5, random_state=0).fit(train, small.Y[:40])
    more = ExtraTrees(n_estimators=5, random_state=0)
    more.fit(train, small.Y[:40], validation=(held, small.Y[40:]))
    for name, block in plain.predict_views(small.views).items():
        np.testing.assert_array_equal(block, more.predict_views(small.views)[name])
    assert plain.view_weights_ != more.view_weights_


def test_views_alone_are_nan_where_they_are_missing(small: Any) -> None:
    model = ExtraTrees(n_estimators=5, random_state=0).fit(small.views, small.Y)
    for seen, block in zip(
        small.observed.T, model.predict_views(small.views).values(), strict=True
    ):
        np.testing.assert_array_equal(np.isnan(block).any(axis=1), ~seen)


def test_labels_with_one_value_keep_it(small: Any) -> None:
    Y = np.where(np.isnan(small.Y), np.nan, [[1.0, 0.0, 1.0]])
    model = ExtraTrees(n_estimators=3, random_state=0).fit(small.views, Y)
    expected = np.tile([1.0, 0.0, 1.0], (60, 1))
    np.testing.assert_array_equal(model.predict_proba(small.views), expected)
    np.testing.assert_array_equal(model.out_of_fold_proba_, expected)


def test_a_fit_ends_at_its_deadline(small: Any) -> None:
    model = ExtraTrees(n_estimators=3)
    model._deadline = time.monotonic() - 1.0
    with pytest.raises(OutOfTimeError):
        model.fit(small.views, small.Y)
    assert not model.__sklearn_is_fitted__()


def test_a_model_of_many_labels_is_small() -> None:
    """The leaves of 1,000 labels would take ten times as much as the rows that they hold."""
    rng = np.random.default_rng(0)
    views = ViewSet({"a": rng.normal(size=(200, 40))})
    Y = (rng.random((200, 1000)) < 0.01).astype(float)
    model = ExtraTrees(n_estimators=20, random_state=0).fit(views, Y)
    arrays = model._get_state().arrays
    leaves = int((arrays["0.trees.left"] == -1).sum())
    assert sum(array.nbytes for array in arrays.values()) < leaves * 1000 * 4 / 10
    assert model.predict_proba(views[:3]).shape == (3, 1000)


def test_the_estimate_of_seconds_grows_with_the_data(small: Any) -> None:
    model, labels = ExtraTrees(), labels_of(small.Y)
    half = model.estimated_seconds(small.views[:30], labels[:30])
    assert 0 < half < model.estimated_seconds(small.views, labels)


# ------------------------------------------------------------------ forests from a stranger


def spoil(name: str, place: int, value: float) -> Any:
    def change(arrays: dict[str, np.ndarray]) -> None:
        arrays[name] = arrays[name].copy()
        arrays[name].flat[place] = value

    return change


def drop(name: str) -> Any:
    def change(arrays: dict[str, np.ndarray]) -> None:
        arrays[name] = arrays[name][:-1]

    return change


CRAFTED = {
    "a row that does not exist": spoil("0.members", 3, 60),
    "a negative row": spoil("0.members", 0, -1),
    "rows from before the first": spoil("0.starts", 0, -4),
    "rows beyond the last": spoil("0.starts", -1, 10**9),
    "rows that run backwards": spoil("0.starts", 2, 10**6),
    "a label of seven": spoil("0.labels", 0, 7),
    "a prior of two": spoil("1.priors", 0, 2.0),
    "fewer priors": drop("1.priors"),
    "fewer rows": drop("0.members"),
    "a column that does not exist": spoil("0.trees.feature", 0, 4),
    "a way back": spoil("0.trees.left", 0, 0),
    "weights of fewer views": drop("pooling.weight"),
}


@pytest.mark.parametrize("craft", CRAFTED)
def test_crafted_models_are_refused(
    small: Any, tmp_path: Any, monkeypatch: Any, craft: str
) -> None:
    model = ExtraTrees(n_estimators=3, random_state=0).fit(small.views, small.Y)
    state = model._get_state()
    CRAFTED[craft](state.arrays)
    monkeypatch.setattr(model, "_get_state", lambda: state)
    save_model(model, tmp_path / "model")
    with pytest.raises(ModelFileError):
        load_model(tmp_path / "model")
