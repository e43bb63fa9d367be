"""Data files and folders become views and labels: one module per format, one registry.

To add a format, add a module with a constant `FORMAT` (see `base.Format`); reading, folders, the
command line and the messages about what can be read find it there.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from viewgap.data.formats.base import Format, PathLike, RawData, existing_file
from viewgap.data.formats.folders import FolderFiles, data_files
from viewgap.data.formats.hdf5 import read_hdf5
from viewgap.data.formats.matlab import read_fold_file, read_six_view
from viewgap.data.formats.npy import read_npy_files, read_npy_folder
from viewgap.data.formats.npz import read_npz
from viewgap.data.formats.registry import format_of, listed
from viewgap.data.formats.tables import (
    labels_of_table,
    read_table_folder,
    read_tables,
    read_view_tables,
)
from viewgap.data.viewset import ViewSet
from viewgap.errors import DataFileError

__all__ = [
    "Format",
    "RawData",
    "format_of",
    "labels_of_table",
    "read_data",
    "read_fold_file",
    "read_hdf5",
    "read_npy_folder",
    "read_npz",
    "read_six_view",
    "read_table_folder",
    "read_views",
]


def read_data(path: PathLike, *, nan: str = "mean", labels: PathLike | None = None) -> RawData:
    """Read a data file or folder, by what the path is.

    A folder may hold one file with all views (`.mat`, `.npz`, `.h5`), one `.npy` per view, or one
    table per view. Every file of a folder is read, refused, or named in a warning. Views in `.npy`
    and `.h5` files stay there until rows are needed, and may exceed the memory.

    Parameters
    ----------
    path : str or path
        File or folder.
    nan : {"mean", "error", "missing_view"}, default="mean"
        What a NaN among the values of a view means, see `as_viewset`.
    labels : str or path, optional
        A table of labels, aligned by sample id. It takes the place of labels in `path`, and is
        never read as a view where it lies in the folder.

    Returns
    -------
    RawData
        Checked views and labels.
    """
    table = None if labels is None else Path(labels)
    source = Path(path)
    files = data_files(source, table) if source.is_dir() else None
    if files is not None and files.kind == "tables":
        return read_tables(source, files.paths, nan=nan, labels=table)
    raw = _read_arrays(source, files, nan=nan, with_labels=table is None)
    if table is None:
        return raw
    values = labels_of_table(raw.views, table)
    return RawData(raw.views, values.as_float(), values.names)


def read_views(path: PathLike, *, nan: str = "mean", label_names: Sequence[str] = ()) -> ViewSet:
    """Read the views at a path and nothing else: labels there are neither needed nor checked.

    A table in a folder whose columns are `label_names` is not read as a view.
    """
    source = Path(path)
    files = data_files(source) if source.is_dir() else None
    if files is not None and files.kind == "tables":
        return read_view_tables(source, files.paths, nan=nan, label_names=label_names)
    return _read_arrays(source, files, nan=nan, with_labels=False).views


def _read_arrays(
    source: Path, files: FolderFiles | None, *, nan: str, with_labels: bool
) -> RawData:
    """Read a file with all views, or a folder of arrays."""
    if files is not None and files.kind == "arrays":
        return read_npy_files(source, files.paths, nan=nan, with_labels=with_labels)
    path = files.paths[0] if files else source
    file_format = format_of(path)
    if file_format is None or file_format.read is None:
        what = "is of an unknown kind" if path.exists() else "does not exist"
        per_view = listed("read_array", "read_table")
        raise DataFileError(
            f"{path} {what}; expected a {listed('read')} file, or a folder with one "
            f"{per_view} file per view"
        )
    return file_format.read(existing_file(path), nan=nan, with_labels=with_labels)
