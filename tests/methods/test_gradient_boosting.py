"""Gradient boosting: the walker against LightGBM, threads, and models without LightGBM."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest

from viewgap.errors import ModelFileError, RunError
from viewgap.interruption import OutOfTimeError
from viewgap.methods.gradient_boosting import GradientBoosting
from viewgap.methods.trees.arrays import Splits, Trees
from viewgap.methods.trees.boosters import BinnedView, constant, read
from viewgap.model_file import load_model, save_model


@pytest.mark.parametrize("kind", ["normal", "rounded", "sparse", "huge"])
def test_walk_equals_lightgbm(kind: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 12))
    X = {
        "normal": X,
        "rounded": np.round(X, 1),  # many ties and zeros
        "sparse": np.where(rng.random(X.shape) < 0.8, 0.0, X),
        "huge": X * 10.0 ** rng.integers(-30, 30, size=12),
    }[kind].astype(np.float32)
    X[:, 5] = 3.0  # constant: not among LightGBM's columns
    y = ((X[:, 0] > 0) ^ (X[:, 6] > 0.3)).astype(np.uint8)
    binned = BinnedView(X, GradientBoosting()._lightgbm_params(X.shape[1]))
    rows = np.flatnonzero(rng.random(400) < 0.7)
    booster = binned.train(rows, y[rows], 3, 60)
    kept = np.delete(np.arange(12), 5)
    trees, values = read(booster.model_to_string(), kept)
    assert len(trees) == 60
    whole = Trees(Splits.from_trees(trees, 60), np.concatenate(values))
    found = whole.values(0, X).sum(axis=1, dtype=np.float64)
    np.testing.assert_allclose(found, booster.predict(X[:, kept], raw_score=True), atol=1e-6)


def test_rows_that_cannot_be_split() -> None:
    """Three rows, leaves of five: LightGBM stops at once, and every sample gets the log-odds."""
    X = np.arange(6, dtype=np.float32).reshape(3, 2)
    binned = BinnedView(X, GradientBoosting()._lightgbm_params(X.shape[1]))
    booster = binned.fit(np.arange(3), np.array([0, 1, 1], dtype=np.uint8), 0, 10).filled(10)
    assert len(booster.trees) == 10
    total = sum(float(value[0]) for value in booster.values)
    assert total == pytest.approx(np.log(2), abs=1e-6)


def test_a_view_of_constants_says_nothing() -> None:
    binned = BinnedView(np.ones((4, 3), dtype=np.float32), {})
    [value] = binned.fit(np.arange(4), np.array([0, 0, 0, 1], dtype=np.uint8), 0, 5).values
    np.testing.assert_allclose(value, [np.log(1 / 3)], rtol=1e-6)


def test_a_constant_fills_up_with_trees_that_say_nothing() -> None:
    booster = constant(-1.5).filled(4)
    assert [float(value[0]) for value in booster.values] == [-1.5, 0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("columns", "share", "expected"), [(4, 0.3, 1.0), (20, 0.3, 0.5), (100, 0.3, 0.3), (12, 1, 1.0)]
)
def test_trees_of_narrow_views_have_columns_to_combine(
    columns: int, share: float, expected: float
) -> None:
    model = GradientBoosting(colsample_bytree=share)
    assert model._lightgbm_params(columns)["feature_fraction"] == expected


def test_no_bit_depends_on_the_threads(small: Any) -> None:
    one, four = (
        GradientBoosting(n_estimators=8, random_state=0, n_jobs=jobs).fit(small.views, small.Y)
        for jobs in (1, 4)
    )
    for name, array in one._get_state().arrays.items():
        np.testing.assert_array_equal(array, four._get_state().arrays[name])


def test_a_model_without_lightgbm(small: Any, tmp_path: Any) -> None:
    model = GradientBoosting(n_estimators=4, random_state=0).fit(small.views, small.Y)
    save_model(model, tmp_path / "model")
    np.savez(tmp_path / "views.npz", **small.blocks)
    np.save(tmp_path / "expected.npy", model.predict_proba(small.blocks))
    code = (
        "import sys, numpy as np; sys.modules['lightgbm'] = None\n"
        "import viewgap\n"
        f"views = dict(np.load({str(tmp_path / 'views.npz')!r}))\n"
        f"found = viewgap.load_model({str(tmp_path / 'model')!r}).predict_proba(views)\n"
        f"np.testing.assert_array_equal(found, np.load({str(tmp_path / 'expected.npy')!r}))\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_missing_library_is_told(small: Any, monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(RunError, match=r"pip install lightgbm.*libgomp1"):
        GradientBoosting(n_estimators=2).fit(small.views, small.Y)


def test_a_fit_ends_at_its_deadline(small: Any) -> None:
    model = GradientBoosting(n_estimators=3)
    model._deadline = time.monotonic() - 1.0
    with pytest.raises(OutOfTimeError):
        model.fit(small.views, small.Y)


@pytest.mark.parametrize("crafted", ["value", "roots"])
def test_crafted_models_are_refused(
    small: Any, tmp_path: Any, monkeypatch: Any, crafted: str
) -> None:
    model = GradientBoosting(n_estimators=2, random_state=0).fit(small.views, small.Y)
    state = model._get_state()
    if crafted == "roots":
        state.arrays["0.trees.roots"] = state.arrays["0.trees.roots"].reshape(-1, 1)[:1]
    else:
        value = state.arrays["0.trees.value"].copy()
        value[-1] = 1e30
        state.arrays["0.trees.value"] = value
    monkeypatch.setattr(model, "_get_state", lambda: state)
    save_model(model, tmp_path / "model")
    with pytest.raises(ModelFileError):
        load_model(tmp_path / "model")
