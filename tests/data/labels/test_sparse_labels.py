"""Sparse labels say what dense ones say, entry by entry, and refuse to become too large."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hypothesis_numpy
from scipy import sparse

import viewgap
from viewgap.data import Labels, SparseLabels, as_labels
from viewgap.data.fingerprint import fingerprint
from viewgap.data.labels import sparse_labels
from viewgap.data.splits import cross_fit_parts
from viewgap.errors import LabelError

ENTRIES = hypothesis_numpy.arrays(
    np.float64,
    st.tuples(st.integers(1, 6), st.integers(1, 5)),
    elements=st.sampled_from([0.0, 1.0, np.nan]),
)


def dense(matrix: np.ndarray) -> Labels:
    names = tuple(f"label{j}" for j in range(matrix.shape[1]))
    return Labels(np.nan_to_num(matrix).astype(np.uint8), ~np.isnan(matrix), names)


def same(found: Labels, expected: Labels) -> None:
    np.testing.assert_array_equal(found.values, expected.values)
    np.testing.assert_array_equal(found.observed, expected.observed)
    assert found.names == expected.names
    assert found.shape == expected.shape


@given(ENTRIES, st.randoms(use_true_random=False))
def test_everything_agrees_with_dense_labels(matrix: np.ndarray, random: object) -> None:
    labels = dense(matrix)
    own = SparseLabels.from_labels(labels)
    same(own, labels)
    rng = np.random.default_rng(random.randint(0, 99))  # type: ignore[attr-defined]
    rows = rng.integers(0, len(labels), 4)
    flags = rng.random(len(labels)) < 0.5
    same(own[rows], labels[rows])
    for found, expected in zip(own.dense_rows(rows), (labels.values, labels.observed), strict=True):
        np.testing.assert_array_equal(found, expected[rows])
    same(own.without_rows(flags), labels.without_rows(flags))
    same(own.with_unobserved_rows(2), labels.with_unobserved_rows(2))
    same(own.followed_by([labels, own[flags]]), labels.followed_by([labels, labels[flags]]))
    assert own.n_observed == labels.n_observed
    for name in ("positive_counts", "observed_counts", "rows_with_observed", "frequency"):
        np.testing.assert_array_equal(getattr(own, name)(), getattr(labels, name)())
    columns = np.flatnonzero(rng.random(labels.n_labels) < 0.5)
    for pair in zip(own.positive_entries(), labels.positive_entries(), strict=True):
        np.testing.assert_array_equal(*pair)
    found = set(zip(*own.negative_entries(columns), strict=True))
    assert found == set(zip(*labels.negative_entries(columns), strict=True))


@given(ENTRIES, st.sampled_from(["negative", "unknown"]))
def test_what_is_not_stored_is_what_was_said(matrix: np.ndarray, absent: str) -> None:
    """Stored are 1, NaN and, of every other row, 0."""
    stored = (matrix == 1) | np.isnan(matrix)
    stored[::2] |= matrix[::2] == 0
    row, column = np.nonzero(stored)
    Y = sparse.coo_array((matrix[row, column], (row, column)), shape=matrix.shape)
    expected = np.where(stored, matrix, 0.0 if absent == "negative" else np.nan)
    same(SparseLabels.from_sparse(Y, absent=absent), dense(expected))
    if absent == "negative":  # and so does the dense reader say
        same(as_labels(Y, viewgap.ViewSet({"a": np.zeros((len(matrix), 1))})), dense(expected))


def test_strange_values_are_refused_with_their_place() -> None:
    names = ["sea", "sky"]
    for value, words in ((2.0, "found 2 in row 1, label 'sky'"), (-1.0, "if -1 stands for")):
        Y = sparse.csr_array(np.array([[0, 1], [1, value]]))
        with pytest.raises(LabelError, match=words):
            SparseLabels.from_sparse(Y, names)
    with pytest.raises(LabelError, match="absent must be 'negative' or 'unknown', found 'no'"):
        SparseLabels.from_sparse(sparse.eye_array(2).tocsr(), names, absent="no")
    with pytest.raises(LabelError, match="unique"):
        SparseLabels.from_sparse(sparse.eye_array(2).tocsr(), ["sea", "sea"])
    twice = sparse.coo_array((np.ones(2), ([0, 0], [1, 1])), shape=(1, 2))
    with pytest.raises(LabelError, match="found 2 in row 0"):
        SparseLabels.from_sparse(twice)
    both = sparse.eye_array(2).tocsr()
    with pytest.raises(LabelError, match="positive and an exception at the same time"):
        SparseLabels(both, np.ones(2), both, names)


def test_damaged_parts_are_refused() -> None:
    Y = sparse.csr_array(np.eye(3))
    Y.indices[1] = 7
    with pytest.raises(LabelError, match="the sparse labels are damaged"):
        SparseLabels.from_sparse(Y)


def test_the_matrix_of_the_user_is_not_changed() -> None:
    Y = sparse.csr_array(np.array([[1.0, 0.0, np.nan]]))
    before = Y.copy()
    labels = SparseLabels.from_sparse(Y)
    Y.data[:] = 0
    assert labels.values.sum() == 1
    np.testing.assert_array_equal(before.indices, Y.indices)
    with pytest.raises(ValueError, match="read-only"):
        labels.known[0] = False
    pattern = sparse.csr_array(np.eye(2, dtype=np.uint8))
    nothing = sparse.csr_array((2, 2), dtype=np.uint8)
    SparseLabels(pattern, np.ones(2), nothing, ["sea", "sky"])
    pattern.data[0] = 1  # what was handed over can still be written


def test_large_ones_stay_sparse_and_refuse_to_become_dense(monkeypatch: pytest.MonkeyPatch) -> None:
    views = viewgap.ViewSet({"a": np.zeros((50, 1))})
    Y = sparse.random_array((50, 40), density=0.05, rng=np.random.default_rng(0))
    Y.data[:] = 1
    assert not isinstance(as_labels(Y, views), SparseLabels)
    monkeypatch.setattr(sparse_labels, "MOST_DENSE", 1999)
    labels = as_labels(Y, views)
    assert isinstance(labels, SparseLabels)
    for name in ("values", "observed"):
        with pytest.raises(LabelError, match="50 samples x 40 labels are kept sparse"):
            getattr(labels, name)
    np.testing.assert_array_equal(labels[:9].values, Y.toarray()[:9] == 1)
    with pytest.raises(LabelError, match="use a method that"):
        viewgap.LateFusionRidge().fit(views, labels)


def test_fingerprint_and_parts_of_a_cross_fit() -> None:
    rng = np.random.default_rng(1)
    matrix = (rng.random((60, 7)) < [0.1, 0.2, 0.9, 0.5, 0.0, 1.0, 0.3]).astype(float)
    matrix[rng.random(matrix.shape) < 0.2] = np.nan
    views = viewgap.ViewSet({"a": np.zeros((60, 1)), "b": np.zeros((60, 2))})
    labels, own = dense(matrix), SparseLabels.from_labels(dense(matrix))
    found = [cross_fit_parts(views, each, 4, np.random.default_rng(0)) for each in (labels, own)]
    np.testing.assert_array_equal(*found)
    marks = fingerprint(views, own)
    assert marks == fingerprint(views, SparseLabels.from_labels(labels))
    changed = SparseLabels.from_labels(dense(np.where(matrix == 1, np.nan, matrix)))
    assert marks["labels"] != fingerprint(views, changed)["labels"]
