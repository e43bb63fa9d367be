"""Rows that arrive in blocks: kept in memory while they are few, else in a temporary file.

A view read from such a file is a memory map: the system holds as much of it in memory as there is
room for. The file has no name, and is gone with the last array that shows it.
"""

from __future__ import annotations

import tempfile
from array import array
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from typing import IO, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from viewgap.errors import RunError

IN_MEMORY_BYTES = 256 * 2**20
"""Rows that take more than this are kept in a temporary file."""

_FLUSHED_VALUES = 2**20


class RowBuffer:
    """Numbers of a table that are appended row by row, and become one array (n, width).

    Examples
    --------
    >>> buffer = RowBuffer(2)
    >>> buffer.append([1.0, 2.0])
    >>> buffer.append([3.0, 4.0])
    >>> buffer.to_array()
    array([[1., 2.],
           [3., 4.]])
    """

    def __init__(self, width: int) -> None:
        self._width = width
        self._numbers = array("d")
        self._file: IO[bytes] | None = None
        self._written = 0

    def append(self, row: list[float]) -> None:
        """Add a row of `width` numbers."""
        self._numbers.fromlist(row)
        limit = IN_MEMORY_BYTES // 8 if self._file is None else _FLUSHED_VALUES
        if len(self._numbers) > limit:
            self._flush()

    def extend(self, rows: NDArray[np.float64]) -> None:
        """Add rows (k, width)."""
        self._numbers.frombytes(np.ascontiguousarray(rows, dtype=np.float64).tobytes())
        if 8 * len(self._numbers) > IN_MEMORY_BYTES or self._file is not None:
            self._flush()

    def to_array(self) -> NDArray[np.float64]:
        """All rows; nothing may be added afterwards."""
        if self._file is None:
            values: NDArray[np.float64] = np.frombuffer(self._numbers, dtype=np.float64)
            return values.reshape(-1, self._width)
        self._flush()
        with self._file as file:
            return _mapped(file, (self._written // self._width, self._width), np.float64)

    def _flush(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115  (closed by `to_array`)
        _write(self._file, self._numbers)
        self._written += len(self._numbers)
        self._numbers = array("d")


def joined_blocks(
    shape: Sequence[int], dtype: DTypeLike, blocks: Iterable[NDArray[Any]]
) -> NDArray[Any]:
    """Return the rows of all blocks below each other, as one array of this shape."""
    kind, n_rows = np.dtype(dtype), 0
    if int(np.prod(shape, dtype=object)) * kind.itemsize <= IN_MEMORY_BYTES:
        result = np.empty(shape, dtype=kind)
        for block in blocks:
            result[n_rows : n_rows + len(block)] = block
            n_rows += len(block)
        return result
    with ExitStack() as stack:
        file = stack.enter_context(tempfile.TemporaryFile())
        for block in blocks:
            _write(file, np.ascontiguousarray(block, dtype=kind).data)
        return _mapped(file, shape, kind)


def _write(file: IO[bytes], data: Any) -> None:
    # Written, not mapped: a full disk is then an error and not the end of the process.
    try:
        file.write(data)
    except OSError as error:
        raise RunError(
            f"cannot write a temporary file in {tempfile.gettempdir()}: {error.strerror}; data "
            "that does not fit into memory is kept there: free some space, or set TMPDIR to a "
            "folder with more"
        ) from error


def _mapped(file: IO[bytes], shape: Sequence[int], dtype: DTypeLike) -> NDArray[Any]:
    try:
        file.flush()
    except OSError as error:
        raise RunError(f"cannot write a temporary file: {error.strerror}; set TMPDIR") from error
    return np.memmap(file, dtype=dtype, mode="r", shape=tuple(shape))
