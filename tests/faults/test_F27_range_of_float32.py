"""F27: an observed value beyond the range of float32 is refused; large ones inside it work."""

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from viewgap.data.preprocessing import Standardiser
from viewgap.data.validation import as_viewset
from viewgap.errors import ViewError


@pytest.mark.parametrize("value", [1e39, -1e39, 1e300, 3.4e38])
@pytest.mark.parametrize("nan", ["error", "missing_view"])
@pytest.mark.parametrize("form", [np.array, sparse.csr_array])
def test_too_large(value: float, nan: str, form: Any) -> None:
    array = np.ones((4, 3))
    array[2, 1] = value
    with pytest.raises(
        ViewError, match=r"'a': 1 beyond the range of float32 values .* row id 2, column 1"
    ):
        as_viewset({"a": form(array)}, nan=nan)


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.float64, np.float32])
def test_large_but_inside(dtype: Any) -> None:
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
