"""F17: every real number type is accepted and kept; all else is refused."""

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from viewgap.data.validation import as_labels, as_viewset
from viewgap.errors import LabelError, ViewError

REAL = ["?", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8", "g", ">f4", ">i2"]


@pytest.mark.parametrize("dtype", REAL)
def test_real_numbers(dtype: str) -> None:
    array = np.array([[0, 1], [1, 1]]).astype(dtype)
    views = as_viewset({"a": array})
    assert views.stored("a").dtype == np.dtype(dtype)
    found = views.rows("a")
    assert found.dtype == np.float32
    assert found.tolist() == [[0, 1], [1, 1]]
    assert as_labels(array, views).values.tolist() == [[0, 1], [1, 1]]


@pytest.mark.parametrize("dtype", ["?", "u1", "i4", "i8", "f4", "f8"])
def test_sparse_numbers(dtype: str) -> None:
    views = as_viewset({"a": sparse.csr_matrix(np.eye(3).astype(dtype))})
    assert views.stored("a").dtype == np.dtype(dtype)
    assert np.array_equal(views.rows("a"), np.eye(3))


@pytest.mark.parametrize(
    "array",
    [
        np.array([[1, 2]], dtype=object),
        np.array([["1", "2"]]),
        np.array([[b"1"]]),
        np.array([[1j]]),
        np.array([["2020-01-01"]], dtype="datetime64[D]"),
        np.array([[1]], dtype="timedelta64[s]"),
        np.zeros((1, 1), dtype=[("x", "f4")]),
        sparse.csr_matrix([[1j]]),
        [["a", 1]],
        [[1, None]],
    ],
)
def test_all_else(array: Any) -> None:
    with pytest.raises(ViewError, match="view 'a': expected numbers, found dtype"):
        as_viewset({"a": array})


@pytest.mark.parametrize("labels", [[["x"]], [[b"1"]], [[1j]], [[object()]]])
def test_labels_of_other_types(labels: Any) -> None:
    with pytest.raises(LabelError, match="must be 0, 1 or NaN"):
        as_labels(labels, as_viewset([np.ones((1, 1))]))
