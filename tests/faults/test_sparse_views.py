"""Sparse views equal dense ones, and are made dense one batch at a time."""

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from peak_memory import memory_below
from viewgap.data.preprocessing import Standardiser
from viewgap.data.viewset import ViewSet
from viewgap.errors import ViewError

FORMATS = ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"]


@pytest.mark.parametrize("kind", [sparse.random, sparse.random_array])
@pytest.mark.parametrize("form", FORMATS)
def test_equal_to_dense(kind: Any, form: str) -> None:
    shape = ((20, 7),) if kind is sparse.random_array else (20, 7)
    matrix = kind(*shape, density=0.3, random_state=0).asformat(form)
    mask = np.arange(20)[:, None] % 4 > 0
    views, dense = ViewSet({"a": matrix}, mask), ViewSet({"a": matrix.toarray()}, mask)
    assert np.array_equal(views.rows("a", [3, 3, 0, 19]), dense.rows("a", [3, 3, 0, 19]))
    assert np.array_equal(views[5:].rows("a"), dense[5:].rows("a"))
    first, second = Standardiser.fit(views), Standardiser.fit(dense)
    assert np.allclose(first.mean[0], second.mean[0], atol=1e-6)
    assert np.allclose(first.scale[0], second.scale[0], rtol=1e-6)


def test_memory_is_that_of_the_batch() -> None:
    rows, columns = np.repeat(np.arange(2000), 5), np.arange(10_000) * 7919 % 50_000
    wide = sparse.csr_array((np.ones(10_000), (rows, columns)), shape=(2000, 50_000))
    views = ViewSet({"a": wide})  # 800 MB if it were dense in float64
    with memory_below(20e6):
        Standardiser.fit(views)
        for start in range(0, 200, 20):
            views.rows("a", slice(start, start + 20))


def test_duplicate_entries_are_added_once_and_the_input_is_left_alone() -> None:
    parts = (np.array([1.0, 2.0, 4.0]), np.array([1, 1, 0]), np.array([0, 3]))
    matrix = sparse.csr_matrix(parts, shape=(1, 2))
    views = ViewSet({"a": matrix})
    assert views.rows("a").tolist() == [[4, 3]]
    assert Standardiser.fit(views).mean[0].tolist() == [4, 3]
    assert matrix.data.tolist() == [1, 2, 4]
    assert matrix.indices.tolist() == [1, 1, 0]


@pytest.mark.parametrize("form", [sparse.csr_array, sparse.csc_array])
def test_parts_that_point_outside(form: Any) -> None:
    matrix = form(np.eye(3))
    matrix.indices[1] = 10**6
    with pytest.raises(ViewError, match="'a': the sparse matrix is not valid"):
        ViewSet({"a": matrix})


def test_a_sparse_vector() -> None:
    with pytest.raises(ViewError, match="2 dimensions"):
        ViewSet({"a": sparse.coo_array(np.ones(3))})


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csc_array])
def test_row_ends_that_go_back_and_forth(kind: Any) -> None:
    matrix = kind((3, 3))
    matrix.indptr = np.array([0, 5, 7, 0])  # no value in all, and compiled code would look for 5
    with pytest.raises(ViewError, match="not valid: indptr must be a non-decreasing sequence"):
        ViewSet({"x": matrix})
