"""Fingerprints of data: equal where views, labels, ids and names are, part by part."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viewgap.data.labels import Labels, SparseLabels
from viewgap.data.rows.values import row_chunks
from viewgap.data.viewset import ViewSet


def fingerprint(views: ViewSet, labels: Labels, prefix: str = "") -> dict[str, str]:
    """Hashes of the parts of data, by names that can stand in a message.

    All observed values count, in the precision of float64; what lies under the mask does not.
    `prefix` stands before every name.
    """
    parts = {
        "names and widths of the views": _of_names([*views.names, *views.dims]),
        "names of the columns": _of_names(sorted(views.feature_names.items())),
        "sample ids": _of_names(views.sample_ids.tolist()),
        "observed views": _of_array(views.observed),
        **{f"values of view {name!r}": _of_view(views, name) for name in views.names},
        "names of the labels": _of_names(labels.names),
        "labels": _of_labels(labels),
    }
    return {f"{prefix}{name}": value for name, value in parts.items()}


def _of_view(views: ViewSet, name: str) -> str:
    digest = hashlib.sha256()
    column = views.names.index(name)
    rows = np.flatnonzero(views.observed[:, column])
    read = _sparse_rows if views.is_sparse(name) else _dense_rows
    for part in row_chunks(len(rows), 8 * views.dims[column]):
        for values in read(views, name, rows[part]):
            digest.update(np.ascontiguousarray(values).data)
    return digest.hexdigest()[:32]


def _dense_rows(views: ViewSet, name: str, rows: NDArray[np.intp]) -> list[NDArray[Any]]:
    block = views.rows(name, rows, dtype=np.float64)
    block[np.isnan(block)] = np.nan  # one NaN for all: they differ in bits without a meaning
    block += 0.0  # and one zero
    return [block]


def _sparse_rows(views: ViewSet, name: str, rows: NDArray[np.intp]) -> list[NDArray[Any]]:
    """Only what is stored: a wide sparse view would take hours otherwise."""
    stored, positions = views.locate(name, rows)
    block: Any = stored[positions].tocsr().astype(np.float64)
    block.sum_duplicates()
    block.eliminate_zeros()
    return [block.indptr.astype(np.int64), block.indices.astype(np.int64), block.data]


def _of_labels(labels: Labels) -> str:
    if not isinstance(labels, SparseLabels):
        return _of_array(np.stack([labels.values, labels.observed]))
    digest = hashlib.sha256(f"sparse {labels.shape} ".encode())
    digest.update(np.ascontiguousarray(labels.known).data)
    for matrix in (labels.positive, labels.exceptions):
        digest.update(matrix.indptr.astype(np.int64).data)
        digest.update(matrix.indices.astype(np.int64).data)
    return digest.hexdigest()[:32]


def _of_array(values: NDArray[Any]) -> str:
    digest = hashlib.sha256(f"{values.shape} ".encode())
    digest.update(np.ascontiguousarray(values, dtype=np.uint8).data)
    return digest.hexdigest()[:32]


def _of_names(names: Sequence[object]) -> str:
    return hashlib.sha256("\n".join(map(repr, names)).encode()).hexdigest()[:32]
