"""F23: empty data, zero columns, other numbers of rows and dimensions are refused."""

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from viewgap.data.validation import as_labels, as_viewset
from viewgap.errors import LabelError, ViewError

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
def test_nothing_at_all(empty: Any) -> None:
    with pytest.raises(ViewError):
        as_viewset(empty)


@pytest.mark.parametrize("whole", [np.ones(3), np.ones((3, 2, 2)), 7, "text", None])
def test_no_views(whole: Any) -> None:
    with pytest.raises(ViewError):
        as_viewset(whole)
    with pytest.raises(ViewError):
        as_viewset(whole, views={"a": [0]})


@pytest.mark.parametrize(
    "labels", [np.ones(3), np.ones((3, 0)), np.ones((0, 2)), np.ones((2, 2)), 1, None]
)
def test_labels(labels: Any) -> None:
    with pytest.raises(LabelError):
        as_labels(labels, as_viewset([GOOD]))
