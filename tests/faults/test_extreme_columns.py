"""Constant columns, very large values, very different scales: exact, finite, or refused."""

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from viewgap.data.preprocessing import Standardiser
from viewgap.data.validation import as_viewset
from viewgap.data.viewset import ViewSet
from viewgap.errors import ViewError


@pytest.mark.parametrize("value", [0.0, 0.1, -1e-30, 1 / 3, 12345.678, 1e30])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("as_sparse", [False, True])
def test_constant_column(value: float, dtype: Any, as_sparse: bool) -> None:
    rng = np.random.default_rng(0)
    free = rng.normal(size=(1001, 2)).astype(dtype)
    array = np.hstack([free[:, :1], np.full((1001, 1), value, dtype), free[:, 1:]])
    with np.errstate(all="raise"):
        views = ViewSet({"a": sparse.csr_array(array) if as_sparse else array})
        scaler = Standardiser.fit(views)
        block = scaler.apply(0, views.rows("a"), views.observed[:, 0])
    assert scaler.scale[0][1] == 1
    assert (block[:, 1] == 0).all()
    dropped = ViewSet({"a": free})
    without = Standardiser.fit(dropped)
    assert np.array_equal(
        block[:, [0, 2]], without.apply(0, dropped.rows("a"), dropped.observed[:, 0])
    )


def test_one_row_makes_every_feature_constant() -> None:
    views = ViewSet({"a": [[3.0, -2.0]]})
    scaler = Standardiser.fit(views)
    assert scaler.scale[0].tolist() == [1, 1]
    assert scaler.apply(0, views.rows("a"), views.observed[:, 0]).tolist() == [[0, 0]]


@pytest.mark.parametrize("value", [1e39, -1e39, 1e300, 3.4e38])
@pytest.mark.parametrize("nan", ["error", "missing_view"])
@pytest.mark.parametrize("form", [np.array, sparse.csr_array])
def test_values_beyond_float32_are_refused(value: float, nan: str, form: Any) -> None:
    array = np.ones((4, 3))
    array[2, 1] = value
    with pytest.raises(
        ViewError, match=r"'a': 1 beyond the range of float32 values .* row id 2, column 1"
    ):
        as_viewset({"a": form(array)}, nan=nan)


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.float64, np.float32])
def test_large_values_inside_float32_are_scaled(dtype: Any) -> None:
    largest = np.iinfo(dtype).max if np.issubdtype(dtype, np.integer) else 1e37
    array = np.array([[largest], [0], [largest // 3]], dtype=dtype)
    with np.errstate(over="raise", invalid="raise"):
        views = as_viewset({"a": array})
        scaler = Standardiser.fit(views)
        block = scaler.apply(0, views.rows("a"), views.observed[:, 0])
    assert np.isfinite(block).all()
    assert block.std() == pytest.approx(1, abs=1e-5)


def test_very_different_scales_side_by_side() -> None:
    rng = np.random.default_rng(0)
    array = rng.normal(size=(200, 3)) * [1e-20, 1.0, 1e30]
    views = as_viewset({"a": array})
    block = Standardiser.fit(views).apply(0, views.rows("a"), views.observed[:, 0])
    assert np.allclose(block.std(axis=0), 1, atol=1e-5)
