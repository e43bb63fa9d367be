"""Rows of an HDF5 dataset, read when they are asked for: such a view need not fit in memory."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from viewgap.data.file_checks import damaged
from viewgap.data.values import row_numbers
from viewgap.errors import ViewError


def is_dataset(values: Any) -> bool:
    """Whether `values` is an h5py.Dataset, told without importing h5py."""
    return isinstance(values, getattr(sys.modules.get("h5py"), "Dataset", ()))


class LazyRows:
    """An open HDF5 dataset that answers `shape`, `dtype` and `[rows]` as an array does.

    `[rows]` (a slice, integers or booleans) reads those rows into a new array, and nothing is read
    otherwise. `columns`, in steps of one, are the only ones it shows. The file must stay open.
    """

    __slots__ = ("_columns", "_file", "_order", "_source", "dtype", "shape")

    def __init__(self, source: Any, columns: slice = slice(None)) -> None:
        self._source = source
        self._file = str(source.file.filename)
        self._columns = columns
        self._order: NDArray[np.intp] | None = None  # of the columns that were read; None is all
        self.dtype: np.dtype[Any] = source.dtype
        shape: tuple[int, ...] = source.shape or ()  # None for a dataset that holds nothing
        if len(shape) == 2:
            kept = range(shape[1])[columns]
            self._columns = slice(kept.start, kept.stop)
            shape = (shape[0], len(kept))
        self.shape = shape

    def select_columns(self, positions: NDArray[np.intp]) -> LazyRows:
        """Return these columns, in this order; all of them are still read from the file."""
        chosen = LazyRows(self._source, self._columns)
        chosen._order = positions if self._order is None else self._order[positions]
        chosen.shape = (self.shape[0], len(positions))
        return chosen

    @property
    def ndim(self) -> int:
        """Number of dimensions; views have 2."""
        return len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> NDArray[Any]:
        wanted = row_numbers(rows, len(self))
        if not len(wanted):
            return np.empty((0, *self.shape[1:]), dtype=self.dtype)
        # HDF5 takes row numbers in rising order, each of them once.
        rising, back = np.unique(wanted, return_inverse=True)
        block = self._read(rising)
        return block if np.array_equal(rising, wanted) else block[back]

    def _read(self, rising: NDArray[np.intp]) -> NDArray[Any]:
        if not self._source:
            raise ViewError(
                f"{self._file}: the file was closed, but a view has its values there; keep it open "
                "as long as the views are used"
            )
        first, last = int(rising[0]), int(rising[-1])
        together = last - first + 1 == len(rising)  # a range is much faster than a list of rows
        try:
            block = self._source[slice(first, last + 1) if together else rising, self._columns]
        except OSError as error:
            raise damaged(Path(self._file), error) from error
        return np.asarray(block if self._order is None else block[:, self._order])

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("rows of a file cannot become an array without a copy")
        return self[:].astype(self.dtype if dtype is None else dtype, copy=False)

    def __reduce__(self) -> tuple[Any, ...]:
        # An open file cannot travel to another process, and there it might be another file.
        return np.asarray, (self[:],)
