"""Forests as plain arrays: equal to scikit-learn's, and safe to load from anyone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

from viewgap.errors import ModelFileError
from viewgap.methods.random_forest import RandomForest
from viewgap.methods.trees.arrays import Nodes, Splits, Trees
from viewgap.model_file import load_model, save_model
from viewgap.state import State


@pytest.mark.parametrize("leaf", [1, 5])
@pytest.mark.parametrize("depth", [None, 1])
def test_walk_equals_scikit_learn(leaf: int, depth: int | None) -> None:
    rng = np.random.default_rng(leaf)
    X = np.round(rng.normal(size=(300, 6)), 1).astype(np.float32)  # rounded: many ties
    y = X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=300) > 0
    forest = RandomForestClassifier(25, min_samples_leaf=leaf, max_depth=depth, random_state=0).fit(
        X[:200], y[:200]
    )
    found = Trees.from_forests([forest], forest.n_estimators).values(0, X).mean(axis=1)
    np.testing.assert_allclose(found, forest.predict_proba(X)[:, 1], rtol=0, atol=1e-12)


def test_walk_in_an_unbalanced_weighted_forest() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3)).astype(np.float32)
    y = X[:, 0] > 1
    forest = RandomForestClassifier(10, max_leaf_nodes=6, class_weight="balanced", random_state=0)
    forest.fit(X, y)  # max_leaf_nodes numbers the nodes in another order
    found = Trees.from_forests([forest], forest.n_estimators).values(0, X).mean(axis=1)
    np.testing.assert_allclose(found, forest.predict_proba(X)[:, 1], rtol=0, atol=1e-12)


def test_predictions_equal_scikit_learn(small: Any) -> None:
    model = RandomForest(n_estimators=12, random_state=3).fit(small.views, small.Y)
    X = small.side_by_side().astype(np.float32)
    seeds = np.random.default_rng(3).integers(2**31, size=3)
    found = model.predict_proba(small.views)
    for label in range(3):
        rows = ~np.isnan(small.Y[:, label])
        forest = RandomForestClassifier(12, min_samples_leaf=5, random_state=int(seeds[label]))
        forest.fit(model._inputs(small.views)[rows], small.Y[rows, label])
        expected = forest.predict_proba(model._inputs(small.views))[:, 1]
        np.testing.assert_allclose(found[:, label], expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(model._inputs(small.views), X, rtol=0, atol=1e-5)


def test_labels_with_one_value_keep_it(small: Any, tmp_path: Any) -> None:
    Y = np.where(np.isnan(small.Y), np.nan, [[1.0, 0.0, 1.0]])
    model = RandomForest(n_estimators=3, random_state=0).fit(small.views, Y)
    found = model.predict_proba(small.views)
    np.testing.assert_array_equal(found, np.tile([1.0, 0.0, 1.0], (60, 1)))
    save_model(model, tmp_path / "model")
    np.testing.assert_array_equal(load_model(tmp_path / "model").predict_proba(small.views), found)


def test_rows_are_answered_by_the_trees_that_did_not_see_them(small: Any) -> None:
    model = RandomForest(n_estimators=30, random_state=3).fit(small.views, small.Y)
    inputs = model._inputs(small.views)
    seeds = np.random.default_rng(3).integers(2**31, size=3)
    for label in range(3):
        rows = np.flatnonzero(~np.isnan(small.Y[:, label]))
        settings = {"min_samples_leaf": 5, "oob_score": True, "random_state": int(seeds[label])}
        forest = RandomForestClassifier(30, **settings).fit(inputs[rows], small.Y[rows, label])
        expected = forest.oob_decision_function_[:, 1]
        found = model.out_of_fold_proba_[:, label]
        np.testing.assert_allclose(found[rows], expected, rtol=0, atol=1e-12)
        others = np.setdiff1d(np.arange(len(inputs)), rows)  # no tree has seen them
        expected = forest.predict_proba(inputs[others])[:, 1]
        np.testing.assert_allclose(found[others], expected, rtol=0, atol=1e-12)


def test_rows_that_every_tree_has_seen_have_the_frequency(small: Any) -> None:
    model = RandomForest(n_estimators=1, random_state=0).fit(small.views, np.eye(60)[:, :3])
    drawn = model.out_of_fold_proba_ == model.label_frequency_
    assert drawn.any()
    assert not drawn.all()


# ------------------------------------------------------------------ trees from a stranger

GOOD = {
    "roots": np.array([[0, 3]]),
    "left": np.array([1, -1, -1, 4, -1, -1], dtype=np.int32),
    "right": np.array([2, -1, -1, 5, -1, -1], dtype=np.int32),
    "feature": np.array([0, 0, 0, 1, 0, 0], dtype=np.int32),
    "threshold": np.zeros(6),
    "value": np.array([0.5, 0.0, 1.0, 0.5, 0.25, 0.75]),
}


def restore(**changes: np.ndarray) -> Trees:
    arrays = {f"trees.{name}": array for name, array in (GOOD | changes).items()}
    return Trees.from_state(State(arrays), forests=1, columns=2)


def test_thresholds_decide_as_before_they_were_rounded() -> None:
    rng = np.random.default_rng(0)
    exact = np.append(rng.normal(size=500) * 10.0 ** rng.integers(-30, 30, size=500), [1e300, -1e9])
    tree = Nodes(*(np.full(502, value) for value in (-1, -1, 0)), exact)
    rounded = Splits.from_trees([tree], 1).threshold
    near = exact.clip(-3e38, 3e38).astype(np.float32)
    for inputs in (near, np.nextafter(near, np.float32(1e38)), np.nextafter(near, -near)):
        np.testing.assert_array_equal(inputs <= rounded, inputs.astype(np.float64) <= exact)


def changed(name: str, place: int, value: float) -> np.ndarray:
    array = GOOD[name].copy()
    array.flat[place] = value
    return array


def test_good_trees_are_restored() -> None:
    inputs = np.array([[-1, -1], [-1, 1], [1, -1], [1, 1]], dtype=np.float32)
    found = restore().values(0, inputs).mean(axis=1)
    np.testing.assert_array_equal(found, [0.125, 0.375, 0.625, 0.875])


CRAFTED = {
    "a loop": {"left": changed("left", 0, 0)},
    "a way back": {"right": changed("right", 3, 0)},
    "a way into another tree": {"right": changed("right", 0, 4)},
    "a child beyond the end": {"left": changed("left", 3, 6)},
    "a negative child": {"left": changed("left", 0, -7)},
    "half a leaf": {"left": changed("left", 0, -1)},
    "a column that does not exist": {"feature": changed("feature", 3, 2)},
    "a negative column": {"feature": changed("feature", 0, -1)},
    "a probability of two": {"value": changed("value", 1, 2.0)},
    "a negative root": {"roots": changed("roots", 0, -1)},
    "a root beyond the end": {"roots": changed("roots", 1, 6)},
    "the same root twice": {"roots": changed("roots", 1, 0)},
    "no trees": {"roots": np.zeros((1, 0), dtype=np.int64)},
    "no trees and no nodes": {
        name: array[..., :0] if name == "roots" else array[:0] for name, array in GOOD.items()
    },
    "too many forests": {"roots": np.array([[0], [3]])},
    "a short array": {"threshold": np.zeros(5)},
    "thresholds of another type": {"threshold": np.zeros(6, dtype=np.float16)},
    "another type": {"left": GOOD["left"].astype(np.int64)},
}


@pytest.mark.parametrize("craft", CRAFTED)
def test_crafted_trees_are_refused(craft: str) -> None:
    with pytest.raises(ValueError, match=r"tree|array"):
        restore(**CRAFTED[craft])


def test_crafted_trees_are_refused_in_a_file(small: Any, tmp_path: Any, monkeypatch: Any) -> None:
    model = RandomForest(n_estimators=3, random_state=0).fit(small.views, small.Y)
    model._trees.splits.children[0, 1] = 0
    save_model(model, tmp_path / "model")
    with pytest.raises(ModelFileError, match="leads nowhere"):
        load_model(tmp_path / "model")
