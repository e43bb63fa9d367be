"""Labels of which only what differs from the usual is kept: for thousands of labels.

Of every row are kept its positives, whether its other entries are negatives or unknown, and the
exceptions to that. A matrix of 1,000,000 samples and 20,000 labels with twenty positives each takes
100 MB in this form, and 40 GB as the two dense matrices of `Labels`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from viewgap.data.labels.labels import EntryNames, Labels, refuse_value
from viewgap.data.rows.alignment import refuse_duplicates
from viewgap.data.rows.values import check_sparse, lock, row_numbers
from viewgap.errors import LabelError, remedy

MOST_DENSE = 1 << 26
"""Entries up to which sparse input becomes dense `Labels`, and `SparseLabels` give dense ones."""

ABSENT = ("negative", "unknown")


class SparseLabels(Labels):
    """Labels (n, c) whose positives and exceptions are stored; the rest follows from the row.

    Networks of `SCSD` and `evaluate_blocks` read them block by block; everything else reads
    `values` and `observed`, which are dense and therefore refused for more than 67 million entries.

    Parameters
    ----------
    positive : scipy sparse array of shape (n, c)
        Non-zero where a label is known to be there.
    known : array of bool of shape (n,)
        Whether entries of a row that are stored nowhere are observed negatives (True) or unknown.
    exceptions : scipy sparse array of shape (n, c)
        Non-zero at the unknown entries of rows that are `known`, and at the observed negatives of
        the others.
    names : sequence of str
        Names of the labels.

    Examples
    --------
    >>> import numpy as np, scipy.sparse
    >>> Y = scipy.sparse.csr_array(np.array([[1, 0, np.nan], [0, 1, 0]]))
    >>> labels = SparseLabels.from_sparse(Y, ["sea", "sky", "sun"])
    >>> labels.as_float()
    array([[ 1.,  0., nan],
           [ 0.,  1.,  0.]])
    >>> labels.positive_counts(), labels.observed_counts()
    (array([1, 1, 0]), array([2, 2, 1]))
    """

    positive: Any
    known: NDArray[np.bool_]
    exceptions: Any

    def __init__(
        self, positive: Any, known: NDArray[np.bool_], exceptions: Any, names: Sequence[str]
    ) -> None:
        positive, exceptions = _pattern(positive), _pattern(exceptions)
        known = np.array(known, dtype=np.bool_)
        n, c = positive.shape
        if exceptions.shape != (n, c) or known.shape != (n,) or len(names) != c:
            raise LabelError(
                f"positive {positive.shape}, known {known.shape}, exceptions {exceptions.shape} "
                f"and {len(names)} names do not fit together; expected (n, c), (n,), (n, c) and c"
            )
        if positive.multiply(exceptions).nnz:
            raise LabelError("an entry cannot be positive and an exception at the same time")
        known.flags.writeable = False
        parts = {"positive": positive, "known": known, "exceptions": exceptions}
        for name, part in (parts | {"names": tuple(names)}).items():
            object.__setattr__(self, name, part)

    # ------------------------------------------------------------------ where they come from

    @classmethod
    def from_sparse(
        cls,
        Y: Any,
        names: Sequence[str] | None = None,
        absent: str = "negative",
        *,
        entries: EntryNames | None = None,
    ) -> Self:
        """Read a scipy sparse matrix or array (n, c).

        Parameters
        ----------
        Y : scipy sparse matrix or array
            A stored 1 is a positive, a stored 0 an observed negative, a stored NaN unknown.
        names : sequence of str, optional
            Names of the labels; else label0, label1, ...
        absent : {"negative", "unknown"}, default="negative"
            What an entry is that is not stored.
        entries : EntryNames, optional
            How messages name an entry; else by its row.
        """
        if absent not in ABSENT:
            raise LabelError(f"absent must be 'negative' or 'unknown', found {absent!r}")
        stored = _checked(Y)
        positive = stored.data == 1
        unknown = np.isnan(stored.data) if stored.dtype.kind == "f" else np.zeros_like(positive)
        wrong = np.flatnonzero(~positive & ~unknown & (stored.data != 0))
        if wrong.size:
            row = int(np.searchsorted(stored.indptr, wrong[0], side="right")) - 1
            place = row, int(stored.indices[wrong[0]])
            refuse_value(stored.data[wrong[0]], (entries or EntryNames(None, names)).entry(*place))
        chosen = _default_names(stored.shape[1]) if names is None else list(names)
        if len(chosen) != stored.shape[1]:
            raise LabelError(f"expected {len(chosen)} labels, found {stored.shape[1]} columns")
        refuse_duplicates("label names", chosen, LabelError)
        is_known = absent == "negative"
        exceptions = unknown if is_known else ~positive & ~unknown
        known = np.full(stored.shape[0], is_known)
        return cls(_chosen(stored, positive), known, _chosen(stored, exceptions), chosen)

    @classmethod
    def from_labels(cls, labels: Labels) -> Self:
        """Take the labels of dense `Labels`; row by row whichever form stores less."""
        if isinstance(labels, cls):
            return labels
        positive = labels.values.astype(np.bool_)
        unknown, negative = ~labels.observed, labels.observed & ~positive
        known = unknown.sum(axis=1) <= negative.sum(axis=1)
        exceptions = np.where(known[:, np.newaxis], unknown, negative)
        return cls(sparse.csr_array(positive), known, sparse.csr_array(exceptions), labels.names)

    # ------------------------------------------------------------------ what they are

    def __repr__(self) -> str:
        """Shape and counts: the matrices are too large to be shown."""
        n, c = self.shape
        return f"SparseLabels({n:,} x {c:,}, {self.positive.nnz:,} positives)"

    def __len__(self) -> int:
        return int(self.positive.shape[0])

    def __getitem__(self, rows: Any) -> SparseLabels:
        """Return the labels of some rows: slice, integers, booleans, or one integer (one row)."""
        wanted = row_numbers(rows, len(self))
        parts = self.positive[wanted], self.known[wanted], self.exceptions[wanted]
        return SparseLabels(*parts, self.names)

    @property
    def values(self) -> NDArray[np.uint8]:
        """Dense, as that of `Labels`."""
        self._check_dense()
        return _locked(self.positive.toarray())

    @property
    def observed(self) -> NDArray[np.bool_]:
        """Dense, as that of `Labels`."""
        self._check_dense()
        return _locked(self._observed())

    def _observed(self) -> NDArray[np.bool_]:
        different = self.exceptions.toarray().view(np.bool_)
        observed = different != self.known[:, np.newaxis]
        return np.asarray(observed | self.positive.toarray().view(np.bool_))

    def dense_rows(self, rows: NDArray[Any]) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
        """Values and observed entries of some rows as dense arrays, each (len(rows), c)."""
        positive = self.positive[rows].toarray()
        different = self.exceptions[rows].toarray().view(np.bool_)
        observed = different != self.known[rows, np.newaxis]
        observed |= positive.view(np.bool_)
        return positive, observed

    def rows_as_float(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        """Some rows as `as_float` gives them, however many labels there are."""
        values, observed = self.dense_rows(rows)
        return np.where(observed, values, np.nan)

    def _check_dense(self) -> None:
        n, c = self.shape
        if n * c > MOST_DENSE:
            less = "fewer samples or labels at a time: labels[rows] has these"
            raise LabelError(
                f"labels of {n:,} samples x {c:,} labels are kept sparse, and what was asked for "
                f"needs them as dense matrices ({2 * n * c / 2**30:.0f} GiB); use a method that "
                f"reads them as they are (SCSD), or {remedy(less, 'fewer samples or labels')}"
            )

    # ------------------------------------------------------------------ what is done with them

    @property
    def n_observed(self) -> int:
        """See `Labels`."""
        return int(self.observed_counts().sum())

    def positive_counts(self) -> NDArray[np.int64]:
        """See `Labels`."""
        return np.bincount(self.positive.indices, minlength=self.n_labels).astype(np.int64)

    def observed_counts(self) -> NDArray[np.int64]:
        """See `Labels`."""
        count = np.full(self.n_labels, int(self.known.sum()))
        for matrix, sign in ((self.exceptions, 1), (self.positive, 0)):
            known = np.repeat(self.known, np.diff(matrix.indptr))
            bins = self.n_labels
            count += np.bincount(matrix.indices[~known], minlength=bins)
            count -= sign * np.bincount(matrix.indices[known], minlength=bins)
        return count.astype(np.int64)

    def rows_with_observed(self) -> NDArray[np.bool_]:
        """See `Labels`."""
        positive, negative = self.row_counts()
        return positive + negative > 0

    def row_counts(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(n,) positives and observed negatives of every sample."""
        positive = np.diff(self.positive.indptr).astype(np.int64)
        stored = np.diff(self.exceptions.indptr).astype(np.int64)
        return positive, np.where(self.known, self.n_labels - positive - stored, stored)

    def of_columns(self, columns: NDArray[np.intp]) -> SparseLabels:
        """Return some labels of all samples, in this order."""
        names = [self.names[j] for j in columns]
        return SparseLabels(
            self.positive[:, columns], self.known, self.exceptions[:, columns], names
        )

    def without_rows(self, rows: NDArray[np.bool_]) -> SparseLabels:
        """See `Labels`."""
        left = ~np.asarray(rows)
        parts = [_kept(matrix, left) for matrix in (self.positive, self.exceptions)]
        return SparseLabels(parts[0], self.known & left, parts[1], self.names)

    def with_unobserved_rows(self, count: int) -> SparseLabels:
        """See `Labels`."""
        nothing = sparse.csr_array((count, self.n_labels), dtype=np.uint8)
        parts = [sparse.vstack([own, nothing]) for own in (self.positive, self.exceptions)]
        known = np.concatenate([self.known, np.zeros(count, dtype=np.bool_)])
        return SparseLabels(parts[0], known, parts[1], self.names)

    def followed_by(self, others: Sequence[Labels]) -> SparseLabels:
        """See `Labels`."""
        parts = [self, *map(SparseLabels.from_labels, others)]
        positive = sparse.vstack([own.positive for own in parts])
        known = np.concatenate([own.known for own in parts])
        exceptions = sparse.vstack([own.exceptions for own in parts])
        return SparseLabels(positive, known, exceptions, self.names)

    def negative_entries(self, columns: NDArray[np.intp]) -> tuple[NDArray[Any], NDArray[Any]]:
        """See `Labels`; computed one column at a time."""
        by_column = [matrix.tocsc() for matrix in (self.positive, self.exceptions)]
        rows = []
        for column in columns:
            own = [m.indices[m.indptr[column] : m.indptr[column + 1]] for m in by_column]
            negative = self.known.copy()
            negative[own[1]] ^= True
            negative[own[0]] = False
            rows.append(np.flatnonzero(negative))
        numbers = np.repeat(columns, [len(found) for found in rows])
        return np.concatenate([np.zeros(0, dtype=np.intp), *rows]), numbers

    def co_occurrences(self, columns: NDArray[np.intp]) -> NDArray[np.float32]:
        """See `Labels`."""
        positive = self.positive[:, columns].astype(np.float32)
        together: NDArray[np.float32] = (positive.T @ positive).toarray()
        return together

    def positive_entries(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """See `Labels`."""
        rows = np.repeat(np.arange(len(self)), np.diff(self.positive.indptr))
        return rows, self.positive.indices.astype(np.intp)


def is_too_large(shape: tuple[int, int]) -> bool:
    """Whether labels of this shape are not made dense."""
    return int(shape[0]) * int(shape[1]) > MOST_DENSE


# ---------------------------------------------------------------------- parts


def _checked(Y: Any) -> Any:
    """A copy of a sparse matrix as CSR with every entry stored once."""
    stored = sparse.csr_array(Y, copy=True)
    try:
        check_sparse(stored)
    except ValueError as error:
        raise LabelError(f"the sparse labels are damaged: {error}") from error
    stored.sum_duplicates()
    if stored.dtype.kind not in "buif":
        raise LabelError(f"labels must be 0, 1 or NaN (not observed), found dtype {stored.dtype}")
    if 0 in stored.shape:
        raise LabelError(f"expected at least one sample and one label, found shape {stored.shape}")
    return stored


def _pattern(matrix: Any) -> Any:
    """Where a sparse matrix is not zero, as read-only CSR of ones."""
    own = sparse.csr_array(matrix)
    if own.data.dtype != np.uint8 or not own.has_canonical_format or (own.data != 1).any():
        own = sparse.csr_array(own, copy=True)
        own.sum_duplicates()
        own.data = own.data != 0
        own.eliminate_zeros()
        own = own.astype(np.uint8)
    return lock(own)


def _chosen(stored: Any, chosen: NDArray[np.bool_]) -> Any:
    """The pattern of some of the stored entries."""
    counts = np.concatenate([[0], np.cumsum(chosen)])
    indices = stored.indices[chosen]
    ones = np.ones(len(indices), dtype=np.uint8)
    return sparse.csr_array((ones, indices, counts[stored.indptr]), shape=stored.shape)


def _kept(matrix: Any, rows: NDArray[np.bool_]) -> Any:
    """The same with other rows empty."""
    return _chosen(matrix, np.repeat(rows, np.diff(matrix.indptr)))


def _default_names(count: int) -> list[str]:
    return [f"label{j}" for j in range(count)]


def _locked(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array
