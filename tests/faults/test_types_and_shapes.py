"""Real numbers of any type are kept; other types, label values and shapes are refused."""

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
def test_views_of_other_types(array: Any) -> None:
    with pytest.raises(ViewError, match="view 'a': expected numbers, found dtype"):
        as_viewset({"a": array})


@pytest.mark.parametrize("labels", [[["x"]], [[b"1"]], [[1j]], [[object()]]])
def test_labels_of_other_types(labels: Any) -> None:
    with pytest.raises(LabelError, match="must be 0, 1 or NaN"):
        as_labels(labels, as_viewset([np.ones((1, 1))]))


VIEWS = as_viewset([np.ones((3, 1))])


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        (0.5, "soft labels"),
        (1e-9, "soft labels"),
        (-1, "if -1 stands for absent"),
        (2, "class numbers"),
        (np.inf, "class numbers"),
        (-0.5, "class numbers"),
    ],
)
@pytest.mark.parametrize("kind", ["array", "list", "sparse", "object"])
def test_label_values(value: float, advice: str, kind: str) -> None:
    matrix: Any = np.array([[0, 1], [1, value], [np.nan, 0]])
    if kind == "list":
        matrix = matrix.tolist()
    elif kind == "sparse":
        matrix = sparse.csr_array(matrix)
    elif kind == "object":
        matrix = matrix.astype(object)
    with pytest.raises(LabelError, match="row 1, column 1") as caught:
        as_labels(matrix, VIEWS)
    assert advice in str(caught.value)
    assert "0, 1 or NaN" in str(caught.value)


GOOD = np.ones((3, 2))


@pytest.mark.parametrize(
    ("view", "message"),
    [
        (np.ones(3), r"'a': expected \(samples, features\), found shape \(3,\); reshape"),
        (np.ones((3, 2, 2)), r"'a': expected \(samples, features\), found shape \(3, 2, 2\)"),
        (np.ones((3, 0)), "'a': no columns"),
        (sparse.csr_array((3, 0)), "'a': no columns"),
        (np.ones((4, 2)), "same number of rows, found a: 4, b: 3"),
        (np.ones((0, 2)), "same number of rows"),
        (np.float64(3), "'a'.*shape"),
        ([1, 2, 3], "'a'.*shape"),
        ([], "same number of rows|shape"),
        ([[], [], []], "'a': no columns"),
        ("abc", "'a'"),
    ],
)
def test_one_wrong_view(view: Any, message: str) -> None:
    with pytest.raises(ViewError, match=message):
        as_viewset({"a": view, "b": GOOD})


@pytest.mark.parametrize(
    "empty", [{}, [], (), [np.ones((0, 2))], {"a": np.ones((0, 0))}, {"a": []}]
)
def test_no_views_or_rows_at_all(empty: Any) -> None:
    with pytest.raises(ViewError):
        as_viewset(empty)


@pytest.mark.parametrize("whole", [np.ones(3), np.ones((3, 2, 2)), 7, "text", None])
def test_containers_that_hold_no_views(whole: Any) -> None:
    with pytest.raises(ViewError):
        as_viewset(whole)
    with pytest.raises(ViewError):
        as_viewset(whole, views={"a": [0]})


@pytest.mark.parametrize(
    "labels", [np.ones(3), np.ones((3, 0)), np.ones((0, 2)), np.ones((2, 2)), 1, None]
)
def test_labels_of_wrong_shapes(labels: Any) -> None:
    with pytest.raises(LabelError):
        as_labels(labels, as_viewset([GOOD]))
