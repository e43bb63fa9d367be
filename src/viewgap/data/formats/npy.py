"""Arrays in .npy files, mapped into memory: a row is read when it is needed."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
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
    check_ids,
    check_n_rows,
    check_size,
    existing_file,
    from_arrays,
    raw_data,
    reading,
    zero_one,
)
from viewgap.data.formats.folders import data_files
from viewgap.data.formats.npz import read_header
from viewgap.data.formats.one_table import with_label_table
from viewgap.data.formats.registry import format_of
from viewgap.data.formats.tables import in_order_of
from viewgap.data.formats.text import open_text
from viewgap.data.labels import SparseLabels, SparseLabelTable
from viewgap.data.labels.labels import EntryNames
from viewgap.data.rows.alignment import NamedMatrix
from viewgap.data.rows.values import LazyRows, is_sparse
from viewgap.errors import DataFileError, first_few


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
    """Read arrays of the folder `source` as views; one named `labels` holds the labels.

    The ids of the rows of `genes.npy` are the lines of `genes.ids.txt`, the names of its columns
    those of `genes.columns.txt`, where these files exist.
    """
    files = {file.stem: file for file in paths}
    if len(files) < len(paths):
        raise DataFileError(f"{source}: several arrays of one name: {first_few(sorted(files))}")
    label_file = [files.pop(name) for name in list(files) if name.lower() == "labels"]
    if len(label_file) > 1:
        raise DataFileError(f"{source}: several files of labels: {', '.join(map(str, label_file))}")
    arrays = {name: _load(file) for name, file in files.items()}
    check_n_rows(source, arrays)
    views = {name: _with_names(files[name], array) for name, array in arrays.items()}
    _check_all_have_ids(source, views)
    if not label_file or not with_labels:
        return raw_data(source, views, nan=nan)
    label = _labels(label_file[0])
    is_matrix = label.ndim == 2
    has_ids = any(isinstance(view, NamedMatrix) for view in views.values())
    ids = _lines_of(label_file[0], ".ids.txt", label.shape[0]) if is_matrix else None
    if ids is None and not (has_ids and is_matrix):
        names = _lines_of(label_file[0], ".columns.txt", label.shape[1]) if is_matrix else None
        return from_arrays(source, views, label, names, nan=nan)
    if ids is None:
        raise DataFileError(
            f"{label_file[0]}: the views have sample ids, the labels have none; write them to "
            "labels.ids.txt, one in each line"
        )
    return _with_label_ids(label_file[0], raw_data(source, views, nan=nan), label, ids)


def _check_all_have_ids(source: Path, views: Mapping[str, Any]) -> None:
    """Refuse ids of some views only: nobody can tell which rows of the others they belong to."""
    without = [name for name, view in views.items() if not isinstance(view, NamedMatrix)]
    if without and len(without) < len(views):
        raise DataFileError(
            f"{source}: view {without[0]!r} has no sample ids, but others have; write them to "
            f"{without[0]}.ids.txt, one in each line"
        )


def _load(path: Path) -> Any:
    """Return the array of a file of any format that holds one."""
    array_format: Any = format_of(path)
    return array_format.read_array(path)


def _labels(path: Path) -> Any:
    if path.suffix.lower() != ".npy":
        return _load(path)
    label = map_npy(path)
    check_size(path, 8 * label.size)
    return label


def _with_names(path: Path, array: Any) -> Any:
    """Return an array with the ids and names that lie beside it; itself if there are none."""
    import pandas as pd

    shape = array.shape
    if len(shape) != 2:
        return array
    ids = _lines_of(path, ".ids.txt", shape[0])
    names = _lines_of(path, ".columns.txt", shape[1])
    if ids is None and names is None:
        return array
    if ids is None:
        raise DataFileError(
            f"{path}: names of columns without sample ids; write these to {path.stem}.ids.txt, one "
            "in each line"
        )
    return NamedMatrix(array, pd.Index(ids, dtype=object), names)


def _lines_of(path: Path, ending: str, count: int) -> list[str] | None:
    """Return the lines of a file beside an array, one per row or column; None if it is absent."""
    beside = path.with_suffix(ending)
    if not beside.is_file():
        return None
    check_size(beside, beside.stat().st_size)
    with open_text(beside) as file:
        lines = [line.strip() for line in file]
    if ending == ".ids.txt" and "" not in lines:
        check_ids(f"{beside}: every line must hold a sample id", lines)
    if len(lines) != count or "" in lines or len(set(lines)) < count:
        repeated = [line for line, number in Counter(lines).items() if number > 1 and line]
        more = f"; more than once: {first_few(repeated)}" if repeated else ""
        raise DataFileError(
            f"{beside}: expected {count} lines, all different and none blank; found {len(lines)}, "
            f"{len(set(lines) - {''})} different{more}"
        )
    return lines


def _with_label_ids(path: Path, raw: RawData, label: Any, ids: list[str]) -> RawData:
    import pandas as pd

    names = _lines_of(path, ".columns.txt", label.shape[-1])
    names = names or [f"label{j}" for j in range(label.shape[-1])]
    values = zero_one(path, label, EntryNames(ids, names))
    views = in_order_of(pd.Index(ids), raw.views)
    table: Any
    if is_sparse(values):
        table = SparseLabelTable(SparseLabels.from_sparse(values, names), ids)
    else:
        table = pd.DataFrame(values, index=ids, columns=names)
    return with_label_table(path, RawData(views, None, ()), table)


def load_npy(path: Path) -> LazyRows:
    """Return the array of a .npy file, whose rows are read when they are asked for."""
    return LazyRows(_ArrayInFile(path, map_npy(path)))


def map_npy(path: Path) -> np.memmap[Any, Any]:
    """Return the array of a .npy file as a read-only memory map."""
    source = existing_file(path)
    with reading(source):
        with source.open("rb") as stream:
            read_header(source, source.name, stream)
        # What np.load(mmap_mode="r") comes down to, without its turn to pickles and archives.
        return npy_format.open_memmap(source, mode="r")


class _ArrayInFile:
    """The array of a .npy file, of which ranges of rows are read.

    They are read, not mapped: a file that was cut meanwhile is then an error, where a mapped page
    behind its end would kill the process (SIGBUS), and rows that were used do not stay in memory.
    Only arrays in Fortran order are mapped, after a look at the length of the file: their rows do
    not lie together.
    """

    def __init__(self, path: Path, mapped: np.memmap[Any, Any]) -> None:
        self._stream = path.open("rb")  # keeps the file that was mapped, whatever its name is now
        self._start, self._needed = int(mapped.offset), int(mapped.offset) + mapped.nbytes
        self._mapped = None if mapped.flags.c_contiguous and hasattr(os, "preadv") else mapped
        self.file = SimpleNamespace(filename=str(path))
        self.shape = mapped.shape
        self.dtype = mapped.dtype

    def __getitem__(self, key: tuple[slice, slice]) -> NDArray[Any]:
        length = os.fstat(self._stream.fileno()).st_size
        if length < self._needed:
            raise self._cut(length)
        if self._mapped is not None:
            return np.array(self._mapped[key])
        rows, columns = range(self.shape[0])[key[0]], key[1]
        block = np.empty((len(rows), self.shape[1]), dtype=self.dtype)
        row_bytes = self.shape[1] * self.dtype.itemsize
        self._fill(block.view(np.uint8).reshape(-1), self._start + rows.start * row_bytes)
        return block[:, columns]

    def _fill(self, target: NDArray[np.uint8], place: int) -> None:
        done = 0
        while done < len(target):
            read = os.preadv(self._stream.fileno(), [target[done:].data], place + done)
            if not read:
                raise self._cut(os.fstat(self._stream.fileno()).st_size)
            done += read

    def _cut(self, length: int) -> OSError:
        return OSError(f"it was cut while in use: {self._needed:,} bytes before, now {length:,}")


FORMAT = Format(
    "npy", "arrays", (".npy",), read_array=load_npy, beside=(".ids.txt", ".columns.txt")
)
