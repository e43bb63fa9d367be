"""What columns held in training, in every form of a view, and which values count as far off."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from viewgap.data.preprocessing import ColumnRanges
from viewgap.data.preprocessing.column_ranges import FAR
from viewgap.data.rows import values as values_module
from viewgap.data.viewset import ViewSet

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")
FEW = settings(max_examples=40, deadline=None)


@FEW
@given(
    seed=st.integers(0, 10**6),
    chunk=st.integers(1, 30),
    form=st.sampled_from(["dense", "sparse", "integer"]),
    gaps=st.booleans(),
)
def test_ends_and_means_are_those_of_the_observed_values(
    seed: int, chunk: int, form: str, gaps: bool
) -> None:
    rng = np.random.default_rng(seed)
    array = np.rint(rng.normal(size=(25, 4)) * 10) * (rng.random((25, 4)) < 0.6)
    observed = rng.random(25) < 0.7
    observed[0] = True
    if gaps and form != "integer":
        array[1:][rng.random((24, 4)) < 0.3] = np.nan
    seen = array[observed & ~np.isnan(array).all(axis=1)]
    held: Any = array.astype(np.int16) if form == "integer" else array
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(values_module, "CHUNK_BYTES", 8 * 4 * chunk)
        held = sparse.csr_array(held) if form == "sparse" else held
        views = ViewSet({"a": held}, observed[:, None])
        (found,) = ColumnRanges.fit(views).views
    np.testing.assert_array_equal(found.low, np.nanmin(seen, axis=0))
    np.testing.assert_array_equal(found.high, np.nanmax(seen, axis=0))
    np.testing.assert_allclose(found.mean, np.nanmean(seen, axis=0), atol=1e-12)


def test_columns_without_values_are_told(tmp_path: Path) -> None:
    array = np.array([[1.0, np.nan], [3.0, np.nan]])
    for held in (array, sparse.csr_array(array)):
        found = ColumnRanges.fit(ViewSet({"a": held, "b": np.ones((2, 1))}))
        assert {name: columns.tolist() for name, columns in found.never.items()} == {"a": [1]}
        assert (found.views[0].low[1], found.views[0].high[1], found.views[0].mean[1]) == (0, 0, 0)


def ranges(array: Any) -> ColumnRanges:
    return ColumnRanges.fit(ViewSet({"a": array}))


@pytest.mark.parametrize("as_sparse", [False, True])
@pytest.mark.parametrize("sign", [-1, 1])
def test_the_farthest_value_is_named(sign: float, as_sparse: bool) -> None:
    rng = np.random.default_rng(0)
    known = ranges(rng.normal(size=(100, 5)))
    later = rng.normal(size=(40, 5))
    assert known.farthest(ViewSet({"a": later})) is None
    later[7, 3] = sign * 1e12
    later[7, 1] = later[9, 0] = sign * 1e6
    held = sparse.csr_array(later) if as_sparse else later
    far = known.farthest(ViewSet({"a": held})[::-1])
    assert far is not None
    assert (far.view, far.column, far.row, far.value) == ("a", 3, 32, sign * 1e12)
    assert (far.n_values, far.n_samples) == (3, 2)
    assert 1e10 < far.factor < 1e12
    assert far.low == known.views[0].low[3]


def test_values_that_are_missing_or_not_observed_are_never_far() -> None:
    known = ranges(np.random.default_rng(0).normal(size=(100, 2)))
    later = np.array([[np.nan, 0.0], [1e30, 1e30], [np.nan, 1e9]])
    observed = np.array([[True], [False], [True]])
    far = known.farthest(ViewSet({"a": later}, observed))
    assert far is not None
    assert (far.row, far.column, far.n_values) == (2, 1, 1)
    assert known.farthest(ViewSet({"a": later[:2]}, observed[:2])) is None


def test_what_is_not_unusual() -> None:
    """First ones of indicators, longer counts, other years, constants that move a little."""
    quiet = [
        (np.zeros((9, 2)), [[1.0, 1.0]]),
        (np.eye(9, 4), [[0, 0, 0, 1]]),
        (np.full((9, 2), 1e6), [[1.1e6, 0.9e6]]),
        (np.full((9, 1), 1e8), [[1e8 + 5]]),
        (np.arange(1990, 2020).reshape(-1, 1), [[2900]]),
    ]
    for train, later in quiet:
        assert ranges(np.asarray(train)).farthest(ViewSet({"a": np.asarray(later)})) is None
    counts = np.zeros((50, 30))
    counts[:, 0] = np.arange(50) * 4  # one frequent word
    counts[3, 1:] = 1
    later = np.zeros((1, 30))
    later[0, 5] = 40
    assert ranges(counts).farthest(ViewSet({"a": later})) is None
    loud = [(np.zeros((9, 2)), [[1e12, 0]]), (np.linspace(18, 90, 9)[:, None], [[-9999.0]])]
    for train, later in loud:
        assert ranges(np.asarray(train)).farthest(ViewSet({"a": np.asarray(later)})) is not None


def test_the_limit_is_the_documented_one() -> None:
    known = ranges(np.array([[-1.0], [1.0]]))
    width = 2.0
    assert known.farthest(ViewSet({"a": np.array([[1 + 0.99 * FAR * width]])})) is None
    assert known.farthest(ViewSet({"a": np.array([[1 + 1.01 * FAR * width]])})) is not None


def test_files_are_read_in_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    array = rng.normal(size=(64, 3))
    array[5, 1] = np.nan
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["a"] = array
        views = ViewSet({"a": file["a"]})
        monkeypatch.setattr(values_module, "CHUNK_BYTES", 8 * 3 * 10)
        (found,) = ColumnRanges.fit(views).views
        np.testing.assert_array_equal(found.high, np.nanmax(array, axis=0))
        assert ranges(array).farthest(views) is None


def test_arrays_round_trip_and_lies_are_refused() -> None:
    known = ColumnRanges.fit(ViewSet({"a": np.eye(3), "b": np.ones((3, 2))}))
    arrays = known.to_arrays()
    again = ColumnRanges.from_arrays(arrays, (3, 2))
    for one, other in zip(known.views, again.views, strict=True):
        np.testing.assert_array_equal(one.mean, other.mean)
        np.testing.assert_array_equal(one.limits, other.limits)
    lies = [
        {"0": arrays["0"]},
        arrays | {"1": arrays["1"][:, :1]},
        arrays | {"1": arrays["1"].astype(np.float32)},
        arrays | {"1": arrays["1"] * [[1], [-1], [1]]},
        {"0": arrays["0"], "x": arrays["1"]},
    ]
    for lie in lies:
        with pytest.raises(ValueError, match="range"):
            ColumnRanges.from_arrays(lie, (3, 2))
