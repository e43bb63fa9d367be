"""Arrays in .npy files, mapped into memory: a row is read when it is needed."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from viewgap.data.file_checks import damaged, existing_file
from viewgap.data.lazy_rows import LazyRows
from viewgap.data.npz_files import read_header
from viewgap.errors import DataFileError


def load_npy(path: Path) -> LazyRows:
    """Return the array of a .npy file, whose rows are read when they are asked for."""
    return LazyRows(_MappedArray(path, map_npy(path)))


def map_npy(path: Path) -> np.memmap[Any, Any]:
    """Return the array of a .npy file as a read-only memory map."""
    place = existing_file(path)
    try:
        with place.open("rb") as stream:
            read_header(place, place.name, stream)
        # What np.load(mmap_mode="r") comes down to, without its turn to pickles and archives.
        return npy_format.open_memmap(place, mode="r")
    except DataFileError:
        raise
    except Exception as error:  # numpy raises many kinds for damaged files
        raise damaged(place, error) from error


class _MappedArray:
    """A memory map that is read only after a look at the length of its file.

    Reading a mapped page behind the end of a file that was cut meanwhile kills the process
    (SIGBUS). The look leaves a moment between it and the reading, which nothing can close but a
    copy of the file.
    """

    def __init__(self, path: Path, mapped: np.memmap[Any, Any]) -> None:
        self._mapped = mapped
        self._stream = path.open("rb")  # keeps the file that was mapped, whatever its name is now
        self._needed = int(mapped.offset) + mapped.nbytes
        self.file = SimpleNamespace(filename=str(path))
        self.shape = mapped.shape
        self.dtype = mapped.dtype

    def __getitem__(self, key: Any) -> NDArray[Any]:
        length = os.fstat(self._stream.fileno()).st_size
        if length < self._needed:
            raise OSError(f"it was cut while in use: {self._needed:,} bytes before, now {length:,}")
        return np.array(self._mapped[key])
