"""Test samples that also occur in training are reported."""

import warnings

import numpy as np
import pytest
from scipy import sparse

from viewgap.data.splits import warn_shared_rows
from viewgap.data.viewset import ViewSet
from viewgap.errors import ViewgapWarning


def make(observed: np.ndarray | None = None) -> ViewSet:
    rng = np.random.default_rng(0)
    dense, thin = rng.normal(size=(10, 3)), rng.integers(0, 3, size=(10, 4)).astype(float)
    dense[7], thin[7] = dense[2], thin[2]
    dense[8] = dense[3]  # only one of two views is the same
    ids = [f"s{i}" for i in range(10)]
    return ViewSet({"a": dense, "b": sparse.csr_array(thin)}, observed, sample_ids=ids)


def test_one_shared_sample() -> None:
    with pytest.warns(ViewgapWarning, match=r"1 test samples occur in the training rows .*ids: s7"):
        assert warn_shared_rows(make(), range(5), range(5, 10)) == 1


def test_missing_views_count() -> None:
    without_b = np.ones((10, 2), dtype=bool)
    without_b[[3, 8], 1] = False
    with pytest.warns(ViewgapWarning, match="2 test samples"):
        assert warn_shared_rows(make(without_b), range(5), range(5, 10)) == 2
    without_b[[3, 8]] = False  # nothing is known of them: no reason to warn
    with pytest.warns(ViewgapWarning, match="1 test samples"):
        assert warn_shared_rows(make(without_b), range(5), range(5, 10)) == 1


def test_no_shared_sample() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert warn_shared_rows(make(), [0, 1], [2, 3, 4]) == 0


def test_minus_zero_is_zero() -> None:
    views = ViewSet({"a": [[0.0, 1.0], [-0.0, 1.0]]})
    with pytest.warns(ViewgapWarning, match="1 test samples"):
        warn_shared_rows(views, [0], [1])
