"""Standardiser against scikit-learn and plain formulas, dense, sparse and in small chunks."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.preprocessing import StandardScaler

from viewgap.data.preprocessing import Standardiser
from viewgap.data.rows import values as values_module
from viewgap.data.viewset import ViewSet
from viewgap.errors import ViewError


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 30),
    chunk_rows=st.integers(1, 40),
    dtype=st.sampled_from(["uint8", "int32", "float32", "float64"]),
    as_sparse=st.booleans(),
)
def test_equals_scikit_learn_on_the_observed_rows(
    seed: int, n: int, chunk_rows: int, dtype: str, as_sparse: bool
) -> None:
    rng = np.random.default_rng(seed)
    array = (rng.random((n, 3)) * 100 * (rng.random((n, 3)) < 0.6)).astype(dtype)
    observed = rng.random(n) < 0.7
    observed[0] = True
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(values_module, "CHUNK_BYTES", 8 * 3 * chunk_rows)
        views = ViewSet({"a": sparse.csc_array(array) if as_sparse else array}, observed[:, None])
        found = Standardiser.fit(views)
    oracle = StandardScaler().fit(array[observed].astype(np.float64))
    constant = np.ptp(array[observed].astype(np.float64), axis=0) == 0
    assert np.allclose(found.mean[0], oracle.mean_, rtol=1e-6, atol=1e-6)
    assert np.allclose(found.scale[0], np.where(constant, 1, 1 / oracle.scale_), rtol=1e-5)
    assert found.mean[0].dtype == found.scale[0].dtype == np.float32


def test_rows_choose_the_statistics() -> None:
    views = ViewSet({"a": np.array([[1.0], [3.0], [100.0]])})
    found = Standardiser.fit(views, rows=[0, 1])
    assert found.mean[0].tolist() == [2]
    assert found.scale[0].tolist() == [1]
    assert Standardiser.fit(views[:2]).mean[0].tolist() == [2]
    assert Standardiser.fit(views, rows=np.array([True, True, False])).mean[0].tolist() == [2]


def test_a_large_mean_loses_no_variance() -> None:
    array = 1e6 + np.random.default_rng(0).normal(size=(1000, 2))
    found = Standardiser.fit(ViewSet({"a": array}))
    assert np.allclose(found.scale[0], 1 / array.std(axis=0), rtol=1e-6)
    as_sparse = Standardiser.fit(ViewSet({"a": sparse.csr_array(array)}))
    assert np.allclose(as_sparse.scale[0], found.scale[0], rtol=1e-6)


def test_values_under_the_mask_take_no_part() -> None:
    array = np.array([[1.0, 2.0], [3.0, 6.0], [np.nan, 1.0], [np.inf, 0.0]])
    for values in (array, sparse.csr_array(array)):
        views = ViewSet({"a": values}, observed=[[True], [False], [False], [False]])
        assert Standardiser.fit(views).mean[0].tolist() == [1, 2]


def test_a_view_without_rows_is_left_as_it_is() -> None:
    found = Standardiser.fit(ViewSet({"a": [[1.0, 2.0]], "b": [[3.0]]}, observed=[[False, True]]))
    assert found.mean[0].tolist() == [0, 0]
    assert found.scale[0].tolist() == [1, 1]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8])
def test_apply(dtype: Any) -> None:
    array = np.random.default_rng(0).integers(0, 200, size=(50, 3)).astype(dtype)
    observed = np.arange(50) % 3 > 0
    found = Standardiser.fit(ViewSet({"a": array}, observed[:, None]))
    for name in (0, "a"):
        block = found.apply(name, array, observed)
        assert block.dtype == (np.float64 if dtype == np.float64 else np.float32)
        assert not block[~observed].any()
        assert np.allclose(block[observed].mean(axis=0), 0, atol=1e-5)
        assert np.allclose(block[observed].std(axis=0), 1, atol=1e-5)
    everything = found.apply(0, array[observed], np.ones(observed.sum(), dtype=bool))
    assert np.array_equal(everything, block[observed])
    with pytest.raises(ViewError, match="'a': 2 columns, the scaling was fitted on 3"):
        found.apply("a", array[:, :2], observed)


def test_arrays_and_back() -> None:
    found = Standardiser.fit(ViewSet({"a": np.eye(3), "b": np.arange(6.0).reshape(3, 2)}))
    again = Standardiser.from_arrays(found.to_arrays(), found.names)
    assert again.names == ("a", "b")
    for first, second in zip(found.mean + found.scale, again.mean + again.scale, strict=True):
        assert np.array_equal(first, second)
    assert Standardiser.from_arrays(found.to_arrays()).names == ("view0", "view1")
    arrays = found.to_arrays()
    del arrays["scale_1"]
    with pytest.raises(ValueError, match="scale_1"):
        Standardiser.from_arrays(arrays)


@pytest.mark.parametrize("value", [1.7e38, 1e-40, 1e-30])
def test_extreme_values_stay_finite(value: float) -> None:
    array = np.array([[value], [-value], [value / 2]])
    observed = np.ones(3, dtype=bool)
    with np.errstate(over="raise", invalid="raise"):
        found = Standardiser.fit(ViewSet({"a": array}))
        assert np.isfinite(found.apply(0, array.astype(np.float32), observed)).all()
