"""What SCSD fills in: missing views and single cells, and never over a value that was observed."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import viewgap
from viewgap.data.viewset import ViewSet
from viewgap.errors import EmptyRowsError, ViewError, ViewgapWarning
from viewgap.methods.base import NotFittedError

SMALL = {
    "hidden": [32],
    "embedding": 16,
    "codebook_size": 16,
    "max_epochs": 6,
    "batch_size": 32,
    "n_networks": 1,
    "random_state": 0,
    "device": "cpu",
}
N, NAN = 120, np.nan


def tables(dtype: Any = np.float64) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(N, 3))
    found = {
        name: hidden @ rng.normal(size=(3, d)) + 0.1 * rng.normal(size=(N, d))
        for name, d in {"a": 5, "b": 4, "c": 3}.items()
    }
    return {name: (100 * block + 1e5).astype(dtype) for name, block in found.items()}


LABELS = (np.random.default_rng(0).normal(size=(N, 3)) > 0).astype(float)


@pytest.fixture(scope="module")
def model() -> viewgap.SCSD:
    return viewgap.SCSD(**SMALL).fit(tables(), LABELS)


def holed() -> dict[str, np.ndarray]:
    """Row 0 lacks a cell of a, row 1 all of a, row 2 has nothing but a with a hole."""
    X = tables()
    X["a"][0, 2] = NAN
    X["a"][1] = NAN
    X["a"][2, 3] = NAN
    X["b"][2], X["c"][2] = NAN, NAN
    return X


@pytest.mark.parametrize("nan", ["mean", "missing_view"])
def test_observed_values_come_back_exactly(model: viewgap.SCSD, nan: str) -> None:
    X = holed()
    if nan == "missing_view":
        X["b"][2] = tables()["b"][2]  # or nothing would be left of the row
    filled = copy.copy(model).set_params(nan=nan).impute(X)
    assert isinstance(filled, ViewSet)
    assert filled.observed.all()
    assert filled.n_missing_values == {"a": 0, "b": 0, "c": 0}
    for name, block in X.items():
        values = np.asarray(filled.stored(name))
        assert values.dtype == block.dtype
        there = ~np.isnan(block)
        assert np.array_equal(values[there], block[there])
        assert np.isfinite(values).all()


def test_cells_are_decoded_from_the_other_views_or_are_means(model: viewgap.SCSD) -> None:
    X = holed()
    values = np.asarray(model.impute(X).stored("a"))
    alone = {name: block.copy() for name, block in X.items()}
    alone["a"][0] = NAN
    decoded = np.asarray(model.impute(alone).stored("a"))
    assert values[0, 2] == decoded[0, 2]
    assert values[2, 3] == pytest.approx(tables()["a"][:, 3].mean(), rel=1e-12)
    np.testing.assert_array_equal(values[1], decoded[1])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int16, np.int64])
def test_types(dtype: Any) -> None:
    X = {name: ((block - 1e5) / 10).astype(dtype) for name, block in tables().items()}
    observed = np.ones((N, 3), dtype=bool)
    observed[4, 0] = False
    model = viewgap.SCSD(**SMALL).fit(ViewSet(X, observed), LABELS)
    filled = model.impute(ViewSet(X, observed))
    there = np.arange(N) != 4
    found = np.asarray(filled.stored("a"))
    np.testing.assert_array_equal(found[there], X["a"][there])
    assert found.dtype == np.result_type(dtype, np.float32)
    assert filled.stored("b").dtype == dtype  # nothing was missing there


def test_integers_that_no_float_has_are_refused() -> None:
    X = {name: (block - 1e5).astype(np.int64) for name, block in tables().items()}
    X["a"][0, 0] = 2**60 + 1
    X["a"][1:, 0] = np.arange(1, N) * 2**53
    observed = np.ones((N, 3), dtype=bool)
    observed[4, 0] = False
    model = viewgap.SCSD(**SMALL).fit(ViewSet(X, observed), LABELS)
    with pytest.raises(ViewError, match="beyond 2"):
        model.impute(ViewSet(X, observed))


def test_sparse_views_and_frames(model: viewgap.SCSD) -> None:
    X = holed()
    expected = model.impute(X)
    packed = model.impute({name: sparse.csr_array(block) for name, block in X.items()})
    frames = model.impute({name: pd.DataFrame(block) for name, block in X.items()})
    for name in X:
        np.testing.assert_array_equal(packed.rows(name), expected.rows(name))
        np.testing.assert_array_equal(frames[name].to_numpy(), expected.rows(name, dtype=float))


def test_models_saved_before_means_were_kept_fill_with_the_scaling(model: viewgap.SCSD) -> None:
    older = viewgap.SCSD(**SMALL, features="plain").fit(tables(), LABELS)
    older.column_ranges_ = None
    values = np.asarray(older.impute(holed()).stored("a"))
    assert values[2, 3] == pytest.approx(tables()["a"][:, 3].mean(), rel=1e-3)


def test_rows_without_any_view(model: viewgap.SCSD) -> None:
    X = tables()
    nothing = {name: np.full_like(block, NAN) for name, block in X.items()}
    with pytest.raises(EmptyRowsError):
        model.impute(nothing)
    prior = viewgap.SCSD(**SMALL, on_empty="prior").fit(X, LABELS)
    with pytest.warns(ViewgapWarning, match="without any view"):
        filled = prior.impute(nothing)
    assert not filled.observed.any()
    with pytest.warns(ViewgapWarning, match="without any view"):
        by_view = prior.predict_views(nothing)
    assert {name: answers.shape for name, answers in by_view.items()} == dict.fromkeys(X, (N, 3))
    assert all(np.isnan(answers).all() for answers in by_view.values())
    with pytest.warns(ViewgapWarning, match="without any view"):
        codes = prior.codes(nothing)
    assert codes.shape == prior.codes(X).shape
    assert (codes == -1).all()
    views = ViewSet(X)[:0]
    assert prior.predict_views(views)["a"].shape == (0, 3)
    assert prior.codes(views).shape[:2] == (0, 3)


@pytest.mark.parametrize(
    "call", ["predict_proba", "predict", "predict_views", "codes", "transform", "impute"]
)
def test_before_fit(call: str) -> None:
    with pytest.raises(NotFittedError, match="not fitted yet"):
        getattr(viewgap.SCSD(), call)(tables())


@pytest.mark.filterwarnings("ignore::viewgap.errors.ViewgapWarning")
def test_answers_that_are_no_numbers_are_refused(
    model: viewgap.SCSD, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Any, views: ViewSet, function: Any) -> Any:
        return np.full((len(views), 3, 3), NAN, dtype=np.float32)

    monkeypatch.setattr(viewgap.SCSD, "_run", broken)
    with pytest.raises(ViewError, match="no finite answer for 120 of 120 samples"):
        model.predict_views(tables())
