"""NumPy archives (.npz) from anywhere, read without unpickling and within the size limit."""

from __future__ import annotations

import os
import sys
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from viewgap.data.file_checks import check_n_views, check_size, damaged, existing_file
from viewgap.errors import DataFileError

_ARRAYS_PER_VIEW = 5  # at most: the parts of a sparse matrix, and names of columns


def load_npz(path: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    """Return all arrays of an archive, in their order."""
    place = existing_file(path)
    try:
        with zipfile.ZipFile(place) as archive:
            members = archive.infolist()
            check_n_views(place, len(members) // _ARRAYS_PER_VIEW)
            check_size(place, sum(member.file_size for member in members))
            return {m.filename.removesuffix(".npy"): _read(place, archive, m) for m in members}
    except DataFileError:
        raise
    except Exception as error:  # zipfile, zlib and numpy raise many kinds for damaged files
        raise damaged(place, error) from error


def _read(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    with archive.open(member) as stream:
        shape, dtype = read_header(path, member.filename, stream)
        # Before the array is made: a header of a few bytes can claim any size.
        claimed = dtype.itemsize * int(np.prod(shape, dtype=object))
        if claimed > member.file_size:
            raise ValueError(f"{member.filename!r}: {claimed:,} bytes claimed, not all are there")
    with archive.open(member) as stream:
        array: NDArray[Any] = npy_format.read_array(stream, allow_pickle=False)
        stream.read(1)  # at the end of a member, its checksum is compared
        if array.dtype.kind == "U":
            _check_code_points(member.filename, array)
        return array


def _check_code_points(name: str, array: NDArray[Any]) -> None:
    """Refuse numbers that are no characters: Python fails on them in the oddest places."""
    points = np.ascontiguousarray(array).view(f"{array.dtype.byteorder}u4")
    if ((points > sys.maxunicode) | ((points >= 0xD800) & (points <= 0xDFFF))).any():
        raise ValueError(f"{name!r} is no valid text")


def read_header(path: Path, name: str, stream: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return shape and dtype of the array that a stream begins with; objects are refused."""
    version = npy_format.read_magic(stream)
    header = {
        (1, 0): npy_format.read_array_header_1_0,
        (2, 0): npy_format.read_array_header_2_0,
    }
    if version not in header:
        raise ValueError(f"{name!r}: version {version} of the array format")
    shape, _, dtype = header[version](stream)
    if dtype.hasobject:
        raise DataFileError(
            f"{path}: the array {name!r} holds Python objects, which are never unpickled; "
            "save it again as numbers or text"
        )
    return shape, dtype
