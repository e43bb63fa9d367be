"""Single missing cells, for every method: learned around, filled with means, counted."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from viewgap.data.preprocessing import Standardiser
from viewgap.data.viewset import ViewSet
from viewgap.errors import ViewError, ViewgapWarning
from viewgap.model_file import load_model, save_model

pytestmark = pytest.mark.base_class


def with_holes(part: Any, share: float = 0.1, seed: int = 0) -> Any:
    """The same problem with single cells missing; every row keeps a value in every view."""
    rng = np.random.default_rng(seed)
    blocks = {}
    for name, block in part.blocks.items():
        gone = rng.random(block.shape) < share
        gone[:, 0] = False
        blocks[name] = np.where(gone, np.nan, block).astype(np.float32)
    return type(part)(blocks, part.observed, part.Y)


@pytest.fixture(scope="session")
def holed(problem: Any) -> Any:
    return with_holes(problem)


@pytest.fixture(scope="session")
def model(make: Any, holed: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # missing cells are nothing unusual
        return make().fit(holed.views(), holed.Y)


def test_fit_and_predict(model: Any, holed: Any, other: Any) -> None:
    later = with_holes(other, seed=1)
    for views in (holed.views(), later.views(), later.with_nan()):
        found = model.predict_proba(views)
        assert ((found >= 0) & (found <= 1)).all()
    assert model.n_samples_fit_ == len(holed.Y)
    expected = {
        name: int(np.isnan(block[holed.observed[:, j]]).sum())
        for j, (name, block) in enumerate(holed.blocks.items())
    }
    assert model.n_missing_cells_ == expected
    assert min(expected.values()) > 0


def test_whole_rows_are_answered_as_if_no_other_row_had_holes(model: Any, other: Any) -> None:
    """Missing cells elsewhere in a view change nothing about a row that has none."""
    holed = with_holes(other, seed=1)
    mixed = type(other)(
        {name: np.vstack([block, other.blocks[name]]) for name, block in holed.blocks.items()},
        np.vstack([other.observed, other.observed]),
        np.vstack([other.Y, other.Y]),
    )
    found = model.predict_proba(mixed.views())[len(other.Y) :]
    np.testing.assert_allclose(found, model.predict_proba(other.views()), rtol=0, atol=1e-5)


@pytest.mark.parametrize("size", [1, 7])
def test_answers_do_not_depend_on_batch_or_order(model: Any, other: Any, size: int) -> None:
    views = with_holes(other, seed=1).views()
    whole = model.predict_proba(views)
    starts = range(0, len(views), size)
    parts = np.vstack([model.predict_proba(views[start : start + size]) for start in starts])
    np.testing.assert_allclose(parts, whole, rtol=0, atol=1e-5)
    order = np.random.default_rng(0).permutation(len(views))
    np.testing.assert_allclose(model.predict_proba(views[order]), whole[order], rtol=0, atol=1e-5)


def test_saved_and_loaded_is_the_same(model: Any, other: Any, tmp_path: Any) -> None:
    views = with_holes(other, seed=1).views()
    save_model(model, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(views), model.predict_proba(views))
    for name in ("_scaler", "scaler_"):
        if getattr(model, name, None) is not None:
            assert getattr(loaded, name).names == getattr(model, name).names == model.view_names_


def test_the_policy_of_the_estimator_holds_for_a_viewset(make: Any, holed: Any) -> None:
    with pytest.raises(ViewError, match=r"'colour': .* NaN values .*nan='mean'"):
        make(nan="error").fit(holed.views(), holed.Y)
    gone = [np.isnan(block).any(axis=1) for block in holed.blocks.values()]
    observed = holed.observed & ~np.stack(gone, axis=1)
    rows = observed.any(axis=1)
    expected = make().fit(
        ViewSet({n: b[rows] for n, b in holed.blocks.items()}, observed[rows]), holed.Y[rows]
    )
    with pytest.warns(ViewgapWarning, match="without any view"):
        found = make(nan="missing_view", on_empty="prior").fit(holed.views(), holed.Y)
    assert found.n_samples_fit_ == rows.sum()
    assert set(found.n_missing_cells_.values()) == {0}
    whole = {n: np.nan_to_num(b[rows]) for n, b in holed.blocks.items()}
    np.testing.assert_array_equal(
        found.predict_proba(ViewSet(whole, observed[rows])),
        expected.predict_proba(ViewSet(whole, observed[rows])),
    )


def test_a_missing_cell_is_the_training_mean(
    make: Any, method: str, holed: Any, other: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same fit on data whose cells were filled by hand, with statistics that leave them out.

    Methods that standardise get the statistics of the cells that are there from outside: filled
    cells would shrink the scale. The solvers are taken in the form that reads rows as they are.
    """
    settings: dict[str, Any] = {}
    if method in ("naim3l", "imvwl"):
        settings["profile"] = "paper"
    elif method == "ensemble":  # whose copies of ridge regression have statistics of their own
        settings["methods"] = {"extra_trees": {"n_estimators": 5}}
    elif "features" in make.known:
        settings["features"] = "plain"
    validation = (other.views(), other.Y)
    views = holed.views()
    found = make(**settings).fit(views, holed.Y, validation=validation)
    scaler = Standardiser.fit(views)
    filled = {
        name: np.where(np.isnan(block), mean, block)
        for mean, (name, block) in zip(scaler.mean, holed.blocks.items(), strict=True)
    }
    monkeypatch.setattr(Standardiser, "fit", lambda *_, **__: scaler)
    by_hand = make(**settings).fit(ViewSet(filled, holed.observed), holed.Y, validation=validation)
    later = with_holes(other, seed=1)
    later_filled = {
        name: np.where(np.isnan(block), mean, block)
        for mean, (name, block) in zip(scaler.mean, later.blocks.items(), strict=True)
    }
    np.testing.assert_allclose(
        found.predict_proba(later.views()),
        by_hand.predict_proba(ViewSet(later_filled, later.observed)),
        rtol=0,
        atol=1e-4 if method == "naim3l" else 1e-6,  # its mean is found again, in float64
    )


def test_values_under_the_mask_are_no_missing_cells(
    make: Any, holed: Any, model: Any, tools: Any
) -> None:
    blocks = {name: block.copy() for name, block in holed.blocks.items()}
    for j, block in enumerate(blocks.values()):
        block[~holed.observed[:, j], 0] = np.inf
    again = make().fit(ViewSet(blocks, holed.observed), holed.Y)
    assert tools.bits(again) == tools.bits(model)
    assert again.n_missing_cells_ == model.n_missing_cells_


def test_a_column_without_any_value_is_told_and_left_out(
    make: Any, problem: Any, other: Any
) -> None:
    blocks = {name: block.copy() for name, block in problem.blocks.items()}
    blocks["shape"][:, 3] = np.nan
    if not make().reads_values:
        pytest.skip("reads no values")
    with pytest.warns(ViewgapWarning, match=r"'shape': 1 columns have no value .*\(3\)"):
        model = make().fit(ViewSet(blocks, problem.observed), problem.Y)
    without = dict(other.blocks, shape=other.blocks["shape"].copy())
    without["shape"][:, 3] = np.nan
    found = model.predict_proba(ViewSet(without, other.observed))
    assert np.isfinite(found).all()


def test_unscaled_networks_fill_with_raw_means(
    make: Any, method: str, holed: Any, other: Any, tmp_path: Any
) -> None:
    if "scaling" not in make.known or method in ("naim3l", "imvwl"):
        pytest.skip("always standardises")
    settings = {"scaling": "none"} | ({"features": "plain"} if "features" in make.known else {})
    model = make(**settings).fit(holed.views(), holed.Y, validation=(other.views(), other.Y))
    later = with_holes(other, seed=1)
    means = [known.mean.astype(np.float32) for known in model.column_ranges_.views]
    filled = {
        name: np.where(np.isnan(block), mean, block)
        for mean, (name, block) in zip(means, later.blocks.items(), strict=True)
    }
    np.testing.assert_array_equal(
        model.predict_proba(later.views()), model.predict_proba(ViewSet(filled, later.observed))
    )
    save_model(model, tmp_path / "model")
    np.testing.assert_array_equal(
        load_model(tmp_path / "model").predict_proba(later.views()),
        model.predict_proba(later.views()),
    )


def test_sparse_views_with_holes(make: Any, holed: Any) -> None:
    sparse = pytest.importorskip("scipy.sparse")
    blocks = {
        name: np.where(np.abs(block) < 1, 0, block).astype(np.float32)
        for name, block in holed.blocks.items()
    }
    blocks = {n: np.where(np.isnan(holed.blocks[n]), np.nan, b) for n, b in blocks.items()}
    dense = make().fit(ViewSet(blocks, holed.observed), holed.Y)
    packed = ViewSet({n: sparse.csr_array(b) for n, b in blocks.items()}, holed.observed)
    model = make().fit(packed, holed.Y)
    assert model.n_missing_cells_ == dense.n_missing_cells_
    found = model.predict_proba(packed)
    assert np.isfinite(found).all()
    np.testing.assert_array_equal(found, model.predict_proba(ViewSet(blocks, holed.observed)))
    np.testing.assert_allclose(found, dense.predict_proba(packed), rtol=0, atol=1e-5)
