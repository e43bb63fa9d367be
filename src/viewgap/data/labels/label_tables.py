"""Sparse labels with sample ids, where a DataFrame would be too large."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viewgap.data.labels.labels import column_order, row_positions
from viewgap.data.labels.sparse_labels import SparseLabels
from viewgap.errors import LabelError


class SparseLabelTable:
    """Labels of samples that are named by ids; `fit` and `as_labels` align them as a DataFrame.

    Parameters
    ----------
    labels : SparseLabels
        The labels, one row per id.
    index : sequence
        Ids of the samples.
    """

    def __init__(self, labels: SparseLabels, index: Any) -> None:
        self.labels = labels
        self.index = index

    def __repr__(self) -> str:
        """The labels, as they show themselves."""
        return f"SparseLabelTable({self.labels!r})"

    @property
    def index(self) -> Any:
        """Ids of the samples, as an Index of pandas."""
        return self._index

    @index.setter
    def index(self, index: Any) -> None:
        import pandas as pd

        self._index = pd.Index(index)
        if len(self._index) != len(self.labels):
            raise LabelError(f"{len(self.labels)} rows of labels with {len(self._index)} ids")

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, rows: Any) -> SparseLabelTable:
        """Some rows: slice, integers or booleans."""
        wanted = np.arange(len(self))[np.asarray(rows) if isinstance(rows, list) else rows]
        return SparseLabelTable(self.labels[wanted], self.index[wanted])

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the labels."""
        return self.labels.names

    def aligned(self, ids: NDArray[Any] | None, names: Sequence[str] | None) -> SparseLabels:
        """Rows in the order of `ids`, unknown where there are none; labels in that of `names`."""
        labels = self.labels
        order = column_order(labels.names, names)
        if order is not None:
            labels = labels.of_columns(np.array(order))
        positions = row_positions(self.index, labels.names, ids, stacklevel=4)
        if positions is None:
            return labels
        found = labels[np.maximum(positions, 0)]
        return found.without_rows(positions < 0)
