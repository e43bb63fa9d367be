"""Arrays in .npy files, mapped into memory: a row is read when it is needed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from viewgap.data.formats.base import (
    Format,
    PathLike,
    RawData,
    check_n_rows,
    check_size,
    existing_file,
    from_arrays,
    reading,
)
from viewgap.data.formats.folders import data_files
from viewgap.data.formats.npz import read_header
from viewgap.data.values import LazyRows
from viewgap.errors import DataFileError


def read_npy_folder(path: PathLike, *, nan: str = "mean") -> RawData:
    """Read a folder with one 2-D `.npy` file per view, and an optional `labels.npy`.

    Views are named after their files, and row i is the same sample in all of them. They are
    memory-mapped; rows lie together in files that were saved in C order.
    """
    source = Path(path)
    files = data_files(source) if source.is_dir() else None
    if files is None or files.kind != "arrays":
        raise DataFileError(f"{source}: expected a folder with one .npy file per view")
    return read_npy_files(source, files.paths, nan=nan)


def read_npy_files(
    source: Path, paths: Sequence[Path], *, nan: str, with_labels: bool = True
) -> RawData:
    """Read `.npy` files of the folder `source` as views; one named `labels` holds the labels."""
    files = {file.stem: file for file in paths}
    label_file = [files.pop(name) for name in list(files) if name.lower() == "labels"]
    if len(label_file) > 1:
        raise DataFileError(f"{source}: several files of labels: {', '.join(map(str, label_file))}")
    label = None
    if label_file and with_labels:
        label = map_npy(label_file[0])
        check_size(label_file[0], 8 * label.size)
    views = {name: load_npy(file) for name, file in files.items()}
    check_n_rows(source, views)
    return from_arrays(source, views, label, nan=nan)


def load_npy(path: Path) -> LazyRows:
    """Return the array of a .npy file, whose rows are read when they are asked for."""
    return LazyRows(_MappedArray(path, map_npy(path)))


def map_npy(path: Path) -> np.memmap[Any, Any]:
    """Return the array of a .npy file as a read-only memory map."""
    source = existing_file(path)
    with reading(source):
        with source.open("rb") as stream:
            read_header(source, source.name, stream)
        # What np.load(mmap_mode="r") comes down to, without its turn to pickles and archives.
        return npy_format.open_memmap(source, mode="r")


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


FORMAT = Format("npy", ".npy files", (".npy",), read_array=load_npy)
