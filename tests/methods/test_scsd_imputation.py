"""What SCSD fills in: missing views and single cells, and never over a value that was observed."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import viewgap
from viewgap.data.viewset import ViewSet
from viewgap.errors import EmptyRowsError, ViewError, ViewgapWarning
from viewgap.methods.base import NotFittedError
from viewgap.state import State

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


@pytest.fixture(scope="module")
def decoding(model: viewgap.SCSD) -> viewgap.SCSD:
    """A model as earlier versions saved it: without a regression."""
    state, older = model._get_state(), copy.copy(model)
    arrays = {k: v for k, v in state.arrays.items() if not k.startswith("imputation/")}
    older._set_state(State(arrays, state.metadata))
    return older


@pytest.mark.parametrize("which", ["model", "decoding"])
def test_cells_come_from_the_other_views_or_are_means(
    which: str, request: pytest.FixtureRequest
) -> None:
    model = request.getfixturevalue(which)
    X = holed()
    values = np.asarray(model.impute(X).stored("a"))
    alone = {name: block.copy() for name, block in X.items()}
    alone["a"][0] = NAN
    predicted = np.asarray(model.impute(alone).stored("a"))
    assert values[0, 2] == predicted[0, 2]
    assert values[2, 3] == pytest.approx(tables()["a"][:, 3].mean(), rel=1e-12)
    np.testing.assert_array_equal(values[1], predicted[1])


def test_without_a_regression_views_are_decoded(
    model: viewgap.SCSD, decoding: viewgap.SCSD
) -> None:
    assert decoding.imputation_error_ is None
    X = ViewSet(holed())
    rest = X.with_observed(np.tile([False, True, True], (N, 1)))[[1]]
    expected = decoding._unscale(0, decoding._run(rest, decoding._decoded(0)))
    np.testing.assert_allclose(decoding.impute(X).rows("a")[[1]], expected, rtol=1e-6)
    assert not np.allclose(model.impute(X).rows("a")[[1]], expected)


def test_the_paper_profile_decodes() -> None:
    small = {k: v for k, v in SMALL.items() if k != "n_networks"}
    model = viewgap.SCSD(**small, profile="paper").fit(tables(), LABELS)
    assert model.imputation_error_ is None
    assert not any(name.startswith("imputation/") for name in model._get_state().arrays)
    rest = ViewSet(tables()).with_observed(np.tile([False, True, True], (N, 1)))[[1]]
    expected = model._unscale(0, model._run(rest, model._decoded(0)))
    np.testing.assert_array_equal(model.impute(holed()).rows("a", dtype=np.float32)[[1]], expected)


def test_predicted_values_are_close_and_in_the_range_of_the_data(model: viewgap.SCSD) -> None:
    truth = tables()
    X = {name: block.copy() for name, block in truth.items()}
    X["b"][::3] = NAN
    found = np.asarray(model.impute(X).stored("b"))[::3]
    error = np.square(found - truth["b"][::3]).sum(axis=0) / N * 3 / truth["b"].var(axis=0)
    assert (error < 0.2).all()  # a regression, whatever the network has learned
    assert model.imputation_error_ is not None
    assert all(0 < own < 0.2 for own in model.imputation_error_.values())
    assert (found >= truth["b"].min(axis=0)).all()
    assert (found <= truth["b"].max(axis=0)).all()


def test_where_nothing_can_be_learned_the_means_are_filled_in_and_it_is_said() -> None:
    X = tables()
    for number, block in enumerate(X.values()):
        block[np.arange(N) % 3 != number] = NAN
    model = viewgap.SCSD(**SMALL).fit(X, LABELS)
    assert model.imputation_error_ == {"a": 1.0, "b": 1.0, "c": 1.0}
    with pytest.warns(ViewgapWarning, match="means of the columns: view 'a' in 80, 'b' in 80"):
        filled = model.impute(X)
    for name, block in X.items():
        there = ~np.isnan(block[:, 0])
        mean = block[there].mean(axis=0)
        expected = np.where(there[:, None], block, mean)
        np.testing.assert_allclose(filled.rows(name, dtype=float), expected, rtol=1e-12)


def test_a_saved_model_fills_in_the_same(model: viewgap.SCSD, tmp_path: Path) -> None:
    viewgap.save_model(model, tmp_path / "model")
    loaded = viewgap.load_model(tmp_path / "model")
    assert isinstance(loaded, viewgap.SCSD)
    assert loaded.imputation_error_ == model.imputation_error_
    for name in ("a", "b", "c"):
        expected = model.impute(holed()).rows(name, dtype=float)
        np.testing.assert_array_equal(loaded.impute(holed()).rows(name, dtype=float), expected)


def test_a_row_is_filled_in_alone_as_among_others(model: viewgap.SCSD) -> None:
    X = ViewSet(tables(), observed=np.random.default_rng(1).random((N, 3)) < 0.6)
    X = X[X.has_view]
    whole = model.impute(X)
    for i in range(0, len(X), 7):
        one = model.impute(X[[i]])
        for name in X.names:
            np.testing.assert_array_equal(one.rows(name), whole.rows(name)[[i]])


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
