"""Reader for MATLAB v5 files (also called v6 and v7): numbers, text, cells and sparse matrices.

Written for files from anywhere: nothing is executed, nesting is limited, and no more bytes are
expanded than `base.size_limit` allows. (A cell nested 100,000 deep, 200 kB on disk,
overflows the stack of the usual reader.) Arrays keep the compact type they are stored in.

Layout: 128 bytes of header, then elements, each a tag (type, bytes) and its data; an element may
be compressed by zlib. A matrix is a nest of elements: flags, dimensions, name, data.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Collection
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from viewgap.data.formats.base import check_size, size_limit
from viewgap.data.rows.values import check_sparse
from viewgap.errors import damaged_file

_MATRIX, _COMPRESSED = 14, 15
_CELL, _CHAR, _SPARSE = 1, 4, 5
_NUMERIC = range(6, 16)
_COMPLEX = 0x0800
_TYPES = {
    1: "i1",
    2: "u1",
    3: "i2",
    4: "u2",
    5: "i4",
    6: "u4",
    7: "f4",
    9: "f8",
    12: "i8",
    13: "u8",
}
_TEXT = {1: "utf-8", 2: "utf-8", 4: "utf-16", 16: "utf-8", 17: "utf-16", 18: "utf-32"}
_TEXT_UNITS = {1: "u1", 2: "u1", 4: "u2", 16: "u1", 17: "u2", 18: "u4"}
_MAX_DEPTH = 4
_MAX_CELLS = 100_000
_MAX_VARIABLES = 10_000
_PIECE = 2**20


def is_mat5(path: Path) -> bool:
    """Whether the file begins with the header of a MATLAB v5 file."""
    with path.open("rb") as file:
        header = file.read(128)
    return len(header) == 128 and header[126:] in (b"IM", b"MI") and 1 in header[124:126]


def read_mat5(path: Path, wanted: Collection[str]) -> tuple[dict[str, Any], list[str]]:
    """Return those of the `wanted` variables that are there, and the names of all variables."""
    variables: dict[str, Any] = {}
    names: list[str] = []
    budget = size_limit()
    try:
        with path.open("rb") as file:
            order = "<" if file.read(128)[126:] == b"IM" else ">"
            size = path.stat().st_size
            while file.tell() < size:
                kind, n_bytes = struct.unpack(order + "II", _exactly(file, 8))
                end = file.tell() + n_bytes
                if end > size:
                    raise EOFError(f"it ends within a variable, at byte {size:,}")
                stream = _Stream(path, file, n_bytes, kind == _COMPRESSED, budget)
                if kind == _COMPRESSED:
                    kind, _ = struct.unpack(order + "II", stream.read(8))
                if kind == _MATRIX:
                    name, value = _Matrix(stream, order).read(wanted)
                    names.append(name)
                    if len(names) > _MAX_VARIABLES:
                        raise ValueError(f"more than {_MAX_VARIABLES:,} variables")
                    if name in wanted:
                        variables[name] = value
                budget -= stream.total
                file.seek(end)
    except (EOFError, ValueError, LookupError, struct.error, zlib.error, MemoryError) as error:
        raise damaged_file(path, error) from error
    return variables, names


def _exactly(file: BinaryIO, count: int) -> bytes:
    data = file.read(count)
    if len(data) < count:
        raise EOFError("it ends too early")
    return data


class _Stream:
    """The bytes of one element, expanded on the way if they are compressed."""

    def __init__(
        self, path: Path, file: BinaryIO, n_bytes: int, compressed: bool, budget: int
    ) -> None:
        self._path = path
        self._file = file
        self._left = n_bytes
        self._inflate = zlib.decompressobj() if compressed else None
        self._budget = budget
        self.total = 0

    def read(self, count: int) -> bytearray:
        """Exactly `count` bytes; refused when the file would expand beyond the limit."""
        self.total += count
        if self.total > self._budget:
            check_size(self._path, size_limit() - self._budget + self.total)
        self._check_there(count)
        result = bytearray(count)
        filled = 0
        while filled < count:
            piece = self._piece(min(count - filled, _PIECE))
            result[filled : filled + len(piece)] = piece
            filled += len(piece)
        return result

    def _check_there(self, count: int) -> None:
        """Refuse a claim that the bytes at hand cannot meet, before memory is taken for it."""
        at_hand = self._left
        if self._inflate is not None:
            # The window of zlib may hold some more; no byte expands to more than 1032.
            at_hand = (at_hand + len(self._inflate.unconsumed_tail)) * 1032 + 2 * _PIECE
        if count > at_hand:
            raise EOFError(f"a variable claims {count:,} bytes, not all are there")

    def _piece(self, count: int) -> bytes:
        if self._inflate is None:
            return self._raw(count)
        given = self._inflate.unconsumed_tail or (self._raw(_PIECE // 4) if self._left else b"")
        piece = self._inflate.decompress(given, count)
        if not piece and not self._left and not self._inflate.unconsumed_tail:
            raise EOFError("a variable ends too early")
        return piece

    def _raw(self, count: int) -> bytes:
        data = self._file.read(min(count, self._left))
        if not data:
            raise EOFError("a variable ends too early")
        self._left -= len(data)
        return data


class _Matrix:
    """Parser of one matrix element, after its tag."""

    def __init__(self, stream: _Stream, order: str) -> None:
        self._stream = stream
        self._order = order

    def read(self, wanted: Collection[str] | None, depth: int = 0) -> tuple[str, Any]:
        """Name and value; the value is None if the name is not wanted."""
        if depth > _MAX_DEPTH:
            raise ValueError(f"cells nested more than {_MAX_DEPTH} deep")
        _, flag_bytes = self._element()
        flags = struct.unpack(self._order + "I", flag_bytes[:4])[0]
        shape = tuple(int(size) for size in self._numbers())
        name = self._element()[1].decode("utf-8")
        if wanted is not None and name not in wanted:
            return name, None
        if len(shape) < 2 or min(shape) < 0:
            raise ValueError(f"a variable of shape {shape}")
        return name, self._value(flags, shape, depth)

    def _value(self, flags: int, shape: tuple[int, ...], depth: int) -> Any:
        kind = flags & 0xFF
        if flags & _COMPLEX:
            raise ValueError("complex numbers, where real ones are expected")
        if kind == _CELL:
            return self._cells(math.prod(shape), depth)
        if kind == _CHAR:
            return self._text(shape)
        if kind == _SPARSE:
            return self._sparse(shape)
        if kind not in _NUMERIC:
            raise ValueError(
                f"a variable of class {kind}, where numbers, text or cells are expected"
            )
        return self._numbers().reshape(shape, order="F")

    def _cells(self, count: int, depth: int) -> list[Any]:
        if count > _MAX_CELLS:
            raise ValueError(f"{count:,} cells")
        cells: list[Any] = []
        for _ in range(count):
            kind, n_bytes = struct.unpack(self._order + "II", self._stream.read(8))
            if kind != _MATRIX:
                raise ValueError(f"a cell of type {kind}")
            cells.append(self.read(None, depth + 1)[1] if n_bytes else np.zeros((0, 0)))
        return cells

    def _text(self, shape: tuple[int, ...]) -> str | list[str]:
        kind, data = self._element()
        encoding = _TEXT[kind]
        if encoding != "utf-8":
            encoding += "-le" if self._order == "<" else "-be"
        if shape[0] <= 1:
            return data.decode(encoding)
        units = np.frombuffer(data, dtype=self._order + _TEXT_UNITS[kind])
        rows = np.ascontiguousarray(units.reshape(shape, order="F"))
        return [row.tobytes().decode(encoding).rstrip() for row in rows]

    def _sparse(self, shape: tuple[int, ...]) -> Any:
        rows, starts, data = self._numbers(), self._numbers(), self._numbers()
        return checked_sparse(data, rows, starts, (shape[0], shape[1]))

    def _numbers(self) -> NDArray[Any]:
        kind, data = self._element()
        values = np.frombuffer(data, dtype=self._order + _TYPES[kind])
        return values.astype(values.dtype.newbyteorder("="), copy=False)

    def _element(self) -> tuple[int, bytearray]:
        """Type and data of the next element, without its padding to 8 bytes."""
        tag = self._stream.read(8)
        first, second = struct.unpack(self._order + "II", tag)
        if first >> 16:  # up to 4 bytes of data sit in the tag itself
            return first & 0xFFFF, tag[4 : 4 + min(first >> 16, 4)]
        data = self._stream.read(second)
        self._stream.read(-second % 8)
        return first, data


def checked_sparse(data: Any, rows: Any, starts: Any, shape: tuple[int, int]) -> Any:
    """Sparse matrix of MATLAB's compressed columns; ValueError if the parts do not fit."""
    count = int(starts[-1]) if len(starts) else 0
    parts = (data[:count], rows[:count].astype(np.int64), starts.astype(np.int64))
    matrix = sparse.csc_array(parts, shape=shape)
    check_sparse(matrix)
    return matrix
