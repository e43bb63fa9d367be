"""Missing cells: NaN inside rows of a view that are observed, told apart from the values.

A `ViewSet` keeps and counts them, `data.scaling` fills them; what is learned about columns on the
way (means, ranks, ranges) comes from the cells that are there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from viewgap.data.values import Rows, Stored

Block = NDArray[Any]


def without_missing_cells(values: Block) -> tuple[Block, NDArray[np.bool_] | None]:
    """Return rows (b, d) with zeros for missing cells, and where they are; None if nowhere."""
    if values.dtype.kind != "f":
        return values, None
    missing = np.isnan(values)
    if not missing.any():
        return values, None
    return np.where(missing, values.dtype.type(0), values), missing


def split_sparse(selected: Stored) -> tuple[Stored, Rows, Rows]:
    """Return a CSR array without its missing cells, and the rows (k,) and columns (k,) of these."""
    missing = np.isnan(selected.data)
    rows = np.repeat(np.arange(selected.shape[0]), np.diff(selected.indptr))
    gone = (rows[missing], selected.indices[missing].astype(np.intp))
    if not missing.any():
        return selected, *gone
    starts = np.concatenate([[0], np.cumsum(~missing)])[selected.indptr]
    parts = (selected.data[~missing], selected.indices[~missing], starts)
    return sparse.csr_array(parts, shape=selected.shape), *gone


def first_values(block: Block) -> NDArray[np.float64]:
    """Return the first value (d,) of every column of (b, d) that is not missing; NaN if none."""
    there = ~np.isnan(block)
    return np.asarray(block[there.argmax(axis=0), np.arange(block.shape[1])], dtype=np.float64)
