"""Rows of sparse labels as the tensors of a batch, made when the batch is."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from viewgap.data.labels import SparseLabels
from viewgap.training.runtime import Runtime

_TABLE_BYTES = 2 << 30  # of a GPU; beyond, rows are made by the host


class LabelRows:
    """Labels and mask (B, c) of rows of `SparseLabels`, on the runtime's device.

    On a CPU they are read from the sparse matrices. On a GPU two tables hold the labels of every
    row, filled up to the longest one, so that a recorded step finds them without the host.
    """

    def __init__(self, labels: SparseLabels, runtime: Runtime) -> None:
        self._labels, self._runtime = labels, runtime
        self._tables: tuple[Tensor, Tensor, Tensor] | None = None
        longest = sum(_longest(m) for m in (labels.positive, labels.exceptions))
        if runtime.device.type == "cuda" and 4 * len(labels) * longest <= _TABLE_BYTES:
            self.make_tables()

    @property
    def is_resident(self) -> bool:
        """Whether rows are made without the host, where the device is a GPU."""
        return self._tables is not None or self._runtime.device.type != "cuda"

    def make_tables(self) -> None:
        """Put all rows on the device."""
        labels, device = self._labels, self._runtime.device
        tables = [_table(m, labels.n_labels) for m in (labels.positive, labels.exceptions)]
        known = torch.from_numpy(np.array(labels.known))
        self._tables = (tables[0].to(device), tables[1].to(device), known.to(device))

    def rows(self, rows: Tensor, host_rows: Tensor) -> tuple[Tensor, Tensor]:
        """Labels and mask of these row numbers, given on the device and on the host."""
        if self._tables is not None:
            return self._from_tables(rows, *self._tables)
        values, observed = self._labels.dense_rows(host_rows.cpu().numpy())
        device, dtype = self._runtime.device, self._runtime.dtype
        both = (torch.from_numpy(values).to(device), torch.from_numpy(observed).to(device))
        return both[0].to(dtype), both[1].to(dtype)

    def _from_tables(
        self, rows: Tensor, positive: Tensor, exceptions: Tensor, known: Tensor
    ) -> tuple[Tensor, Tensor]:
        labels = self._marked(positive[rows])
        different = self._marked(exceptions[rows])
        default = known[rows].to(self._runtime.dtype).unsqueeze(1)
        return labels, torch.maximum((default - different).abs(), labels)

    def _marked(self, columns: Tensor) -> Tensor:
        """1 in these columns of each row; what fills a row up stands for a column that is cut."""
        shape = (len(columns), self._labels.n_labels + 1)
        marks = torch.zeros(shape, dtype=self._runtime.dtype, device=columns.device)
        return marks.scatter_(1, columns.long(), 1.0)[:, :-1].contiguous()


def _longest(matrix: Any) -> int:
    return int(np.diff(matrix.indptr).max(initial=0))


def _table(matrix: Any, filling: int) -> Tensor:
    """Columns that are stored in each row, filled up to the longest row, (n, longest)."""
    counts = np.diff(matrix.indptr)
    table: NDArray[np.int32] = np.full((len(counts), _longest(matrix)), filling, dtype=np.int32)
    rows = np.repeat(np.arange(len(counts)), counts)
    table[rows, np.arange(len(matrix.indices)) - np.repeat(matrix.indptr[:-1], counts)] = (
        matrix.indices
    )
    return torch.from_numpy(table)
