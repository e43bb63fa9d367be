"""Sparse matrices made of the parts that files store: compiled code must be able to trust them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from viewgap.data.formats.base import check_size
from viewgap.data.rows.values import check_sparse
from viewgap.errors import damaged_file


def sparse_of_parts(
    path: Path, name: str, kind: str, data: Any, indices: Any, indptr: Any, shape: Any
) -> Any:
    """Return the CSR array of checked parts; `kind` is `"csr"` or `"csc"`."""
    try:
        size = (int(shape[0]), int(shape[1]))
        check_size(path, 8 * max(size))  # one dense row, at least, will be made of it
        whole = (data, indices.astype(np.int64), indptr.astype(np.int64))
        make = sparse.csc_array if kind == "csc" else sparse.csr_array
        matrix = make(whole, shape=size)
        check_sparse(matrix)
    except (ValueError, IndexError, TypeError) as error:
        raise damaged_file(path, f"sparse view {name!r}: {error}") from error
    return matrix.tocsr()
