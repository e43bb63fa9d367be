"""Data files and folders become views and labels: one module per format, one registry.

To add a format, add a module with a constant `FORMAT` (see `base.Format`); reading, folders, the
command line and the messages about what can be read find it there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from viewgap.data.formats.base import Format, PathLike, RawData, existing_file, labelled_data
from viewgap.data.formats.folders import FolderFiles, data_files, is_folder_format
from viewgap.data.formats.hdf5 import read_hdf5
from viewgap.data.formats.matlab import read_fold_file, read_six_view
from viewgap.data.formats.npy import read_npy_files, read_npy_folder
from viewgap.data.formats.npz import read_npz
from viewgap.data.formats.options import Patterns, ReadOptions, refuse_unused
from viewgap.data.formats.registry import format_of, listed
from viewgap.data.formats.tables import (
    in_label_order,
    label_table_columns,
    labels_of_table,
    read_table_folder,
    read_tables,
    read_view_tables,
    refuse_label_views,
)
from viewgap.data.formats.wide import read_wide
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
    "read_label_names",
    "read_npy_folder",
    "read_npz",
    "read_six_view",
    "read_table_folder",
    "read_views",
]

_NAMED_BY_HAND = ("npz", "npy", "excel", "hdf5", "zarr", "mat")  # anything can be put among views


def read_data(
    path: PathLike,
    *,
    nan: str = "mean",
    labels: PathLike | None = None,
    views: Mapping[str, Patterns] | None = None,
    label_columns: Patterns = (),
    label_separator: str | None = None,
    id_column: str | None = None,
    decimal: str = ".",
) -> RawData:
    """Read a data file or folder, by what the path is.

    A folder may hold one file with all views (`.mat`, `.npz`, `.h5`, ...), one array per view, or
    one table per view. One table may hold the columns of all views. Every file of a folder is
    read, refused, or named in a warning. Views in `.npy` and `.h5` files and in
    `.zarr` folders stay there until rows are needed, and may exceed the memory.

    Parameters
    ----------
    path : str or path
        File or folder.
    nan : {"mean", "error", "missing_view"}, default="mean"
        What a NaN among the values of a view means, see `as_viewset`.
    labels : str or path, optional
        A table of labels, aligned by sample id. It takes the place of labels in `path`, and is
        never read as a view where it lies in the folder.
    views : dict of str to str or list of str, optional
        The columns of each view in one table with all of them, as in `{"genes": "genes_*"}`; `*`
        stands for any letters. Without it, columns are named `view:column`. In `.h5ad` and `.h5mu`
        files, where the matrices of the views lie.
    label_columns : str or list of str, optional
        The columns that hold labels, in one table, in the table of labels, or in `.h5ad` and
        `.h5mu` files.
    label_separator : str, optional
        What stands between the labels in one column of lists, as `;` in `A;B`.
    id_column : str, optional
        Name of the column of sample ids in tables; without it the first one.
    decimal : {".", ","}, default="."
        The decimal sign in tables of text.

    Returns
    -------
    RawData
        Checked views and labels.
    """
    options = ReadOptions.of(views, label_columns, label_separator, id_column, decimal)
    table = None if labels is None else Path(labels)
    source = Path(path)
    files = _files(source, table)
    if files is not None and files.kind == "tables":
        return read_tables(source, files.paths, options, nan=nan, labels=table)
    table = table or (files.labels if files else None)
    raw = _read_arrays(source, files, options, nan=nan, has_table=table is not None)
    own_format = format_of(files.paths[0] if files else source)
    if own_format is not None and own_format.name in _NAMED_BY_HAND:
        refuse_label_views(source, raw.views)
    if table is None:
        return raw
    of_arrays = files is not None and files.kind == "arrays" and raw.views.has_ids
    own = in_label_order(raw.views, table, options) if of_arrays else raw.views
    return labelled_data(own, labels_of_table(own, table, options))


def read_views(
    path: PathLike,
    *,
    nan: str = "mean",
    label_names: Sequence[str] = (),
    known: Mapping[str, Sequence[str]] | None = None,
    **options: Any,
) -> ViewSet:
    """Read the views at a path and nothing else: labels there are neither needed nor checked.

    A table in a folder whose columns are `label_names` is not read as a view, nor are columns of
    these names in one table. `known` are views with the names of their columns (none: not known);
    of a folder of tables, other tables and other columns are then not read, with a warning.
    `options` are those of `read_data`.
    """
    chosen = ReadOptions.of(**options)
    source = Path(path)
    files = _files(source)
    if files is not None and files.kind == "tables":
        return read_view_tables(
            source, files.paths, chosen, nan=nan, label_names=label_names, known=known
        )
    if files is None and _is_table(source):
        how: Any = {"label_names": label_names, "known": known}
        return read_wide(source, chosen, nan=nan, with_labels=False, **how).views
    # Labels are not read, so what is said of them is as if a table of them had been given.
    return _read_arrays(source, files, chosen, nan=nan, has_table=True, known=known).views


def _files(source: Path, labels: Path | None = None) -> FolderFiles | None:
    """The data files of a folder; None for a file, also one that is a folder itself (.zarr)."""
    is_folder = source.is_dir() and not is_folder_format(source)
    return data_files(source, labels) if is_folder else None


def _is_table(path: Path) -> bool:
    file_format = format_of(path)
    return file_format is not None and file_format.read_table is not None and path.is_file()


def read_label_names(path: PathLike, **options: Any) -> tuple[str, ...] | None:
    """Names of the labels that lie beside the views; None if there are none. No table is read.

    That is, besides the table of labels: of one table with all columns nothing is told.
    `options` are those of `read_data`.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = (pathlib.Path(folder) / "labels.csv").write_text("id,red,big\\ns1,1,0\\n")
    ...     _ = (pathlib.Path(folder) / "size.csv").write_text("id,a\\ns1,0.5\\n")
    ...     read_label_names(folder)
    ('red', 'big')
    """
    chosen = ReadOptions.of(**options)
    source = Path(path)
    files = _files(source)
    if files is not None and files.kind == "tables":
        return label_table_columns(source, files.paths, chosen)
    if files is None and _is_table(source):
        return None
    raw = _read_arrays(source, files, chosen, nan="mean", has_table=False)
    return None if raw.labels is None else raw.label_names


def _read_arrays(
    source: Path,
    files: FolderFiles | None,
    options: ReadOptions,
    *,
    nan: str,
    has_table: bool,
    known: Mapping[str, Sequence[str]] | None = None,
) -> RawData:
    """Read a file with all views, or a folder of arrays; `has_table`: labels come from a table.

    `known` are the views of a model, see `read_views`.
    """
    if files is None and _is_table(source):
        own = replace(options, label_columns=(), label_separator=None) if has_table else options
        return read_wide(source, own, nan=nan, with_labels=not has_table)
    if files is not None and files.kind == "arrays":
        _refuse_unused(source, options, (), has_table)
        return read_npy_files(source, files.paths, nan=nan, with_labels=not has_table)
    path = files.paths[0] if files else source
    file_format = format_of(path)
    if file_format is None or file_format.read is None:
        what = "is of an unknown kind" if path.exists() else "does not exist"
        raise DataFileError(
            f"{path} {what}; expected a {listed('read')} file, one {listed('read_table')} table, "
            f"or a folder with one {listed('read_array', 'read_table')} file per view"
        )
    _refuse_unused(path, options, file_format.options, has_table)
    more: dict[str, Any] = {"options": options} if file_format.options else {}
    more |= {"known": known} if file_format.takes_known and known else {}
    if not (file_format.is_folder and path.is_dir()):
        path = existing_file(path)
    return file_format.read(path, nan=nan, with_labels=not has_table, **more)


def _refuse_unused(
    source: Path, options: ReadOptions, taken: tuple[str, ...], has_table: bool
) -> None:
    """Refuse options that neither the file nor the table of labels makes use of."""
    of_table = ("label_columns", "label_separator", "id_column") if has_table else ()
    why = "it is about tables, and about .h5ad and .h5mu files"
    refuse_unused(source, options, (*taken, *of_table), why)
