"""Single missing values: kept and counted, left out of statistics, filled with means."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.special import ndtr

from viewgap.data.preprocessing import Standardiser, Unscaled
from viewgap.data.preprocessing.features import Counts, Ranks, choose
from viewgap.data.rows import values as values_module
from viewgap.data.validation import as_viewset, match_views
from viewgap.data.viewset import ViewSet
from viewgap.errors import SettingError, ViewError

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")
FEW = settings(max_examples=40, deadline=None)
NAN = np.nan


def holes(seed: int, n: int = 30, d: int = 4, share: float = 0.3) -> np.ndarray:
    """Normal numbers with holes; the first row is whole, the last one missing."""
    rng = np.random.default_rng(seed)
    array = rng.normal(size=(n, d)) * [1, 10, 0.1, 3][:d]
    array[rng.random((n, d)) < share] = NAN
    array[0] = rng.normal(size=d)
    array[-1] = NAN
    return array


def as_stored(array: np.ndarray, form: str, folder: Path) -> Any:
    if form == "sparse":
        return sparse.csr_array(array)
    if form == "hdf5":
        return h5py.File(folder / "a.h5", "w").create_dataset("a", data=array)
    if form == "memmap":
        np.save(folder / "a.npy", array)
        return np.load(folder / "a.npy", mmap_mode="r")
    return array


# ---------------------------------------------------------------------- the container


@pytest.mark.parametrize("form", ["dense", "sparse", "hdf5", "memmap"])
def test_missing_values_are_kept_and_counted_through_everything(form: str, tmp_path: Path) -> None:
    array = holes(0)
    views = ViewSet({"a": as_stored(array, form, tmp_path), "b": np.ones((30, 2))})
    count = int(np.isnan(array[:-1]).sum())
    assert views.n_missing_values == {"a": count, "b": 0}
    assert views.observed[:, 0].tolist() == [True] * 29 + [False]
    assert np.array_equal(views.rows("a", slice(0, 29), np.float64), array[:29], equal_nan=True)
    assert np.array_equal(views.to_array()[:, :4], array, equal_nan=True)
    assert f"single values missing: {count} in a)" in repr(views)
    rows = [4, 4, 0, 29, 12]
    some = int(np.isnan(array[[4, 4, 0, 12]]).sum())
    assert views[rows].n_missing_values == {"a": some, "b": 0}
    assert views[::2][[1, 2]].n_missing_values["a"] == int(np.isnan(array[[2, 4]]).sum())
    assert views.select(["b", "a"]).n_missing_values == {"b": 0, "a": count}
    assert views.joined(views).n_missing_values["a"] == 2 * count
    again = pickle.loads(pickle.dumps(views[rows]))
    assert again.n_missing_values == {"a": some, "b": 0}
    assert np.array_equal(again.to_array(), views[rows].to_array(), equal_nan=True)
    assert "single" not in repr(views[[0]])
    assert views[[0]].n_missing_values == {"a": 0, "b": 0}


def test_nan_under_the_mask_does_not_count() -> None:
    array = holes(1)
    seen = np.arange(30) % 2 == 0
    views = ViewSet({"a": array}, observed=seen[:, None])
    counted = np.isnan(array) & seen[:, None] & ~np.isnan(array).all(axis=1)[:, None]
    assert views.n_missing_values == {"a": int(counted.sum())}
    assert views.count_missing_values("a").tolist() == counted.sum(axis=1).tolist()
    hidden = ViewSet({"a": array}).with_observed(seen[:, None])
    assert hidden.n_missing_values == views.n_missing_values


def test_the_policy_holds_for_a_viewset_too() -> None:
    array = holes(2)
    views = ViewSet({"a": array, "b": np.ones((30, 1))})
    assert as_viewset(views) is views
    dropped = as_viewset(views, nan="missing_view")
    assert np.array_equal(
        dropped.observed, ViewSet({"a": array, "b": np.ones((30, 1))}, nan="missing_view").observed
    )
    assert dropped.n_missing_values == {"a": 0, "b": 0}
    first = int(np.isnan(array).any(axis=1).argmax())
    column = int(np.isnan(array[first]).argmax())
    with pytest.raises(ViewError, match=rf"'a': .* row id {first}, column {column};.*nan='mean'"):
        as_viewset(views, nan="error")
    whole = ViewSet({"a": np.ones((3, 2))})
    assert as_viewset(whole, nan="error") is whole


def test_unknown_policies_are_refused() -> None:
    for call in (ViewSet, as_viewset):
        with pytest.raises(SettingError, match="'mean', 'error' or 'missing_view', found 'zero'"):
            call({"a": np.ones((2, 2))}, nan="zero")


def test_frames_with_empty_values() -> None:
    frame = pd.DataFrame({"x": pd.array([1, None, 3], dtype="Int64"), "y": [1.0, 2.0, NAN]})
    views = as_viewset({"a": frame})
    assert views.n_missing_values == {"a": 2}
    with pytest.raises(ViewError, match=r"column 0 \('x'\)"):
        as_viewset(views, nan="error")


def test_a_column_that_is_left_out_takes_its_missing_values_along() -> None:
    """A model was fitted on columns p and q; row 1 has nothing there, row 0 one value."""
    values = [[NAN, 1.0, NAN], [NAN, NAN, 5.0], [1.0, 2.0, NAN]]
    views = as_viewset({"a": pd.DataFrame(values, columns=["p", "q", "r"])})
    assert views.n_missing_values == {"a": 5}
    with pytest.warns(UserWarning, match="r"):
        kept = match_views(views[[2, 1, 0]], ["a"], [2], {"a": ("p", "q")})
    assert kept.n_missing_values == {"a": 1}
    assert kept.observed[:, 0].tolist() == [True, False, True]


# ---------------------------------------------------------------------- what is learned


@FEW
@given(seed=st.integers(0, 10**6), chunk=st.integers(1, 40), as_sparse=st.booleans())
def test_mean_and_scale_are_those_of_the_values_that_are_there(
    seed: int, chunk: int, as_sparse: bool
) -> None:
    array = holes(seed)
    array[:-1, 2] = np.where(np.isnan(array[:-1, 2]), NAN, 5.0)  # constant, where it is there
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(values_module, "CHUNK_BYTES", 8 * 4 * chunk)
        views = ViewSet({"a": sparse.csr_array(array) if as_sparse else array})
        found = Standardiser.fit(views)
    deviation = np.nanstd(array, axis=0)
    deviation[2] = 1.0
    np.testing.assert_allclose(found.mean[0], np.nanmean(array, axis=0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.scale[0], 1 / deviation, rtol=1e-5)
    block = found.apply(0, views.rows("a"), views.observed[:, 0])
    assert np.isfinite(block).all()
    assert not block[np.isnan(array)].any()
    assert not block[:, 2].any()


@pytest.mark.parametrize("as_sparse", [False, True])
@pytest.mark.parametrize("features", ["plain", "auto"])
def test_a_column_without_any_value_is_nothing(features: str, as_sparse: bool) -> None:
    array = holes(3)
    array[:, 1] = NAN
    views = ViewSet({"a": sparse.csr_array(array) if as_sparse else array})
    found = Standardiser.fit(views, features=features)
    assert (found.mean[0][1], found.scale[0][1]) == (0, 0)
    later = np.array([[1.0, 1e6, 2.0, 3.0]], dtype=np.float32)
    assert found.apply(0, later, np.array([True]))[0, 1] == 0
    assert np.isfinite(found.invert(0, np.ones((1, 4), dtype=np.float32))).all()


@FEW
@given(seed=st.integers(0, 10**6), n=st.integers(2, 400), as_sparse=st.booleans())
def test_ranks_are_those_of_the_values_that_are_there(seed: int, n: int, as_sparse: bool) -> None:
    """A column with holes gets the quantiles it would have without the rows of its holes."""
    rng = np.random.default_rng(seed)
    column = np.rint(rng.normal(size=n) * 5)
    gone = rng.random(n) < 0.5
    gone[0] = False
    array = np.stack([np.where(gone, NAN, column), rng.normal(size=n)], axis=1)
    stored = sparse.csr_array(array) if as_sparse else array
    found = choose(stored, np.arange(n), gaps=True)
    assert isinstance(found, Ranks)
    alone = choose(column[~gone, None], np.arange(n - gone.sum()))
    assert isinstance(alone, Ranks)
    block = np.stack([column[~gone], np.zeros(n - gone.sum())], axis=1).astype(np.float32)
    ours = found.apply(block, np.empty_like(block))[:, 0]
    expected = alone.apply(block[:, :1].copy(), np.empty((len(block), 1), dtype=np.float32))[:, 0]
    order = np.argsort(block[:, 0], kind="stable")
    assert (np.diff(ours[order]) >= 0).all()
    # Shares differ by the places of the knots alone: at most one row of the fewer ones.
    assert np.abs(ndtr(ours) - ndtr(expected)).max() <= 1.0 / len(block) + 0.02


@pytest.mark.parametrize("as_sparse", [False, True])
def test_counts_stay_counts_and_rows_have_the_length_of_what_is_there(as_sparse: bool) -> None:
    rng = np.random.default_rng(0)
    counts = rng.poisson(0.4, size=(60, 20)).astype(float)
    gone = rng.random(counts.shape) < 0.1
    array = np.where(gone, NAN, counts)
    views = ViewSet({"a": sparse.csr_array(array) if as_sparse else array})
    found = Standardiser.fit(views, features="auto")
    assert isinstance(found.features[0], Counts)
    logs = np.log1p(np.where(gone, 0, counts))
    lengths = np.sqrt(np.square(logs).sum(axis=1, keepdims=True))
    unit = logs / np.where(lengths > 0, lengths, 1)
    unit[gone] = NAN
    np.testing.assert_allclose(found.mean[0], np.nanmean(unit, axis=0), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(found.scale[0], 1 / np.nanstd(unit, axis=0), rtol=1e-4)
    assert found.features[0].length == pytest.approx(np.median(lengths[lengths > 0]), rel=1e-6)
    expected = np.where(gone, 0, (unit - found.mean[0]) * found.scale[0])
    block = found.apply(0, views.rows("a"), views.observed[:, 0])
    np.testing.assert_allclose(block, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("features", ["plain", "auto"])
def test_all_forms_of_a_view_learn_the_same(features: str, tmp_path: Path) -> None:
    array = holes(5, n=200)
    expected = Standardiser.fit(ViewSet({"a": array}), features=features)
    for form in ("hdf5", "memmap", "sparse"):
        views = ViewSet({"a": as_stored(array, form, tmp_path)})
        found = Standardiser.fit(views, features=features)
        for key, value in expected.to_arrays().items():
            np.testing.assert_allclose(found.to_arrays()[key], value, rtol=1e-5, atol=1e-6)


def test_rows_without_holes_are_the_same_bits_beside_rows_with_holes() -> None:
    array = holes(6).astype(np.float32)
    scaler = Standardiser.fit(ViewSet({"a": array}), features="auto")
    whole = array[[0]]
    alone = scaler.write(0, whole, np.empty_like(whole), gaps=False)
    beside = scaler.write(0, array[:-1], np.empty_like(array[:-1]))
    assert alone.tobytes() == beside[[0]].tobytes()


def test_unscaled_rows_are_filled_with_means_or_refused() -> None:
    block = np.array([[1.0, NAN], [NAN, 4.0]], dtype=np.float32)
    means = [np.array([10.0, 20.0])]
    assert Unscaled(means).write(0, block.copy(), block.copy()).tolist() == [[1, 20], [10, 4]]
    with pytest.raises(ViewError, match="fit it again"):
        Unscaled().write(0, block, np.empty_like(block))
