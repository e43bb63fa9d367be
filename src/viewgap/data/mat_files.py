"""MATLAB files of both kinds, v5 and v7.3 (HDF5), read into arrays, lists (cells) and text."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np

from viewgap.data.file_checks import check_size, damaged, existing_file, size_limit
from viewgap.data.hdf5_files import check_storage, inside, open_hdf5, refuse_elsewhere
from viewgap.data.mat5_files import checked_sparse, is_mat5, read_mat5
from viewgap.errors import DataFileError

_HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_MAX_DEPTH = 4


def load_mat(
    path: str | os.PathLike[str], required: Collection[str], optional: Collection[str] = ()
) -> dict[str, Any]:
    """Return variables of a MATLAB file, in MATLAB's orientation.

    Numbers become arrays in their stored type, sparse matrices CSC arrays, text `str`, and cells
    a flat list in MATLAB's order.
    """
    place = existing_file(path)
    wanted = {*required, *optional}
    if is_mat5(place):
        found, names = read_mat5(place, wanted)
    elif _is_hdf5(place):
        found, names = _read_hdf5(place, wanted)
    else:
        raise damaged(place, "it has neither the header of MATLAB v5 nor of v7.3")
    absent = sorted(set(required) - set(found))
    if absent:
        shown = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
        raise DataFileError(
            f"{place}: expected the variable {absent[0]!r}, found: {shown or 'none'}"
        )
    return found


def _is_hdf5(path: Path) -> bool:
    with path.open("rb") as file:
        start = file.read(512 + len(_HDF5_SIGNATURE))
    return start.startswith(_HDF5_SIGNATURE) or start[512:] == _HDF5_SIGNATURE


def _read_hdf5(path: Path, wanted: Collection[str]) -> tuple[dict[str, Any], list[str]]:
    try:
        with open_hdf5(path) as file:
            reader = _Hdf5Reader(path, file)
            names = [name for name in file if not name.startswith("#")]
            return {name: reader.variable(name) for name in names if name in wanted}, names
    except DataFileError:
        raise
    except Exception as error:  # the library promises no particular errors for damaged files
        raise damaged(path, error) from error


class _Hdf5Reader:
    """Values of an open v7.3 file; links that lead out of the file are refused."""

    def __init__(self, path: Path, file: Any) -> None:
        self._path = path
        self._file = file
        self._total = 0

    def variable(self, name: str) -> Any:
        return self._value(inside(self._file, name), 0)

    def _value(self, item: Any, depth: int) -> Any:
        import h5py

        if depth > _MAX_DEPTH:
            raise ValueError(f"cells nested more than {_MAX_DEPTH} deep")
        if isinstance(item, h5py.Group):
            return self._sparse(item)
        kind = item.attrs.get("MATLAB_class", b"")
        if item.attrs.get("MATLAB_empty", 0):
            return "" if kind == b"char" else np.zeros((0, 0))
        values = self._read(item)
        if h5py.check_ref_dtype(item.dtype) is h5py.Reference:
            return [self._value(self._file[reference], depth + 1) for reference in values.ravel()]
        if values.dtype.kind not in "buif":
            raise ValueError(f"{item.name!r} holds {values.dtype}, where numbers are expected")
        # MATLAB counts columns first, HDF5 rows first: the same bytes read as the transpose.
        return _text(values.T) if kind == b"char" else values.T

    def _read(self, item: Any) -> Any:
        refuse_elsewhere(item)
        self._total += item.size * item.dtype.itemsize
        if self._total > size_limit():
            check_size(self._path, self._total)
        check_storage(self._path, item)
        return item[()]

    def _sparse(self, group: Any) -> Any:
        if "MATLAB_sparse" not in group.attrs:
            raise ValueError(
                f"{group.name!r} is a struct, where numbers, text or cells are expected"
            )
        starts = self._read(inside(group, "jc"))
        parts = [self._read(inside(group, k)) for k in ("data", "ir") if k in group]
        data, rows = parts if len(parts) == 2 else (np.zeros(0), np.zeros(0, dtype=np.int64))
        return checked_sparse(
            data, rows, starts, (int(group.attrs["MATLAB_sparse"]), len(starts) - 1)
        )


def _text(units: Any) -> str | list[str]:
    rows = [bytes(np.ascontiguousarray(row, dtype="<u2")).decode("utf-16-le") for row in units]
    return rows[0] if len(rows) == 1 else [row.rstrip() for row in rows]
