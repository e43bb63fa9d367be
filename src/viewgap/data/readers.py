"""Data files become views and labels: the field's .mat layout, arrays, HDF5, table folders."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from viewgap.data.file_checks import check_n_views, check_size, damaged
from viewgap.data.folder_files import data_files
from viewgap.data.folds import Fold, cut
from viewgap.data.hdf5_files import load_hdf5
from viewgap.data.label_words import Places
from viewgap.data.mat_files import load_mat
from viewgap.data.npy_files import load_npy, map_npy
from viewgap.data.npz_files import load_npz
from viewgap.data.npz_views import take_views
from viewgap.data.raw_data import (
    RawData,
    check_rows,
    raw_data,
    read_names,
    with_label_table,
    zero_one,
)
from viewgap.data.table_folders import read_tables, read_view_tables
from viewgap.data.values import is_sparse
from viewgap.data.viewset import ViewSet
from viewgap.errors import DataFileError

PathLike = str | os.PathLike[str]


def read_data(path: PathLike, *, nan: str = "mean", labels: PathLike | None = None) -> RawData:
    """Read a `.mat`, `.npz` or `.h5` file or a folder, by what the path is.

    A folder may hold one `.mat`, `.npz` or `.h5` file, one `.npy` per view, or one table per view.
    Every file of a folder is read, refused, or named in a warning. Views in `.npy` and `.h5` files
    stay there until rows are needed, and may exceed the memory.

    Parameters
    ----------
    path
        File or folder.
    nan
        What a NaN among the values of a view means, see `as_viewset`.
    labels
        A `.csv`, `.tsv` or `.parquet` table of labels, aligned by sample id. It takes the place of
        labels in `path`, and is never read as a view where it lies in the folder.
    """
    table = None if labels is None else Path(labels)
    place = Path(path)
    if place.is_dir():
        found = data_files(place, table)
        if found.kind == "tables":
            return read_tables(place, found.files, nan=nan, labels=table)
        if found.kind == "npy":
            raw = _read_npy_files(place, found.files, nan=nan, with_labels=table is None)
        else:
            raw = _reader(found.files[0])(found.files[0], nan=nan, with_labels=table is None)
    else:
        raw = _reader(place)(place, nan=nan, with_labels=table is None)
    return raw if table is None else with_label_table(raw, table)


def read_views(path: PathLike, *, nan: str = "mean", label_names: Sequence[str] = ()) -> ViewSet:
    """Read the views at a path and nothing else: labels there are neither needed nor checked.

    A table in a folder whose columns are `label_names` is not read as a view.
    """
    place = Path(path)
    if not place.is_dir():
        return _reader(place)(place, nan=nan, with_labels=False).views
    found = data_files(place)
    if found.kind == "tables":
        return read_view_tables(place, found.files, nan=nan, label_names=label_names)
    if found.kind == "npy":
        return _read_npy_files(place, found.files, nan=nan, with_labels=False).views
    return _reader(found.files[0])(found.files[0], nan=nan, with_labels=False).views


def _reader(path: Path) -> Callable[..., RawData]:
    readers = {".mat": read_six_view, ".npz": read_npz, ".h5": read_hdf5, ".hdf5": read_hdf5}
    if path.suffix.lower() not in readers:
        what = "is of an unknown kind" if path.exists() else "does not exist"
        raise DataFileError(
            f"{path} {what}; expected a .mat, .npz, .h5 or .hdf5 file, or a folder with one .npy, "
            ".csv, .tsv or .parquet file per view"
        )
    return readers[path.suffix.lower()]


# ---------------------------------------------------------------------- the field's .mat files


def read_six_view(path: PathLike, *, nan: str = "mean", with_labels: bool = True) -> RawData:
    """Read `<name>_six_view.mat`, MATLAB v5 or v7.3.

    `X` is a cell with one matrix per view, `label` a matrix of {0, 1} or {-1, 1}; either may be
    transposed. `view_names` and `label_names` are optional cells of text. Views keep their type.
    """
    place = Path(path)
    required = ("X", "label") if with_labels else ("X",)
    found = load_mat(place, required, ("label", "view_names", "label_names"))
    matrices, label = found["X"], found.get("label")
    if not isinstance(matrices, list) or not matrices:
        raise DataFileError(f"{place}: expected X to be a cell with one matrix per view")
    check_n_views(place, len(matrices))
    if not with_labels and not _is_matrix(label):
        label = None
    everything = matrices if label is None else [*matrices, label]
    if not all(_is_matrix(matrix) for matrix in everything):
        raise DataFileError(f"{place}: expected X{{v}} and label to be matrices of numbers")
    for matrix in everything:
        if is_sparse(matrix):  # sizes it claims are no memory yet
            check_size(place, 8 * max(matrix.shape))
    n = _number_of_samples(place, [matrix.shape for matrix in everything])
    names = read_names(place, found.get("view_names"), len(matrices), "view")
    values = {name: _samples_first(matrix, n) for name, matrix in zip(names, matrices, strict=True)}
    if not with_labels or label is None:
        return raw_data(place, values, None, (), nan=nan)
    label = _samples_first(label, n)
    label_names = read_names(place, found.get("label_names"), label.shape[1], "label")
    labels = zero_one(place, label, Places(None, label_names))
    return raw_data(place, values, labels, label_names, nan=nan)


def read_fold_file(path: PathLike, labels: ArrayLike) -> list[Fold]:
    """Read the folds of `<name>_six_view_MaskRatios_<a>_LabelMaskRatio_<b>_TraindataRatio_<c>.mat`.

    `labels` (n, c) are those of the data file. Folds are named 0, 1, ... in the order of the file;
    the share of training rows comes from the file's name, 0.7 if it does not tell.
    """
    place = Path(path)
    n, n_labels = np.shape(labels)
    keys = ("folds_data", "folds_label", "folds_sample_index")
    found = load_mat(place, keys)
    cells = [found[key] for key in keys]
    if not all(isinstance(cell, list) for cell in cells) or len({len(cell) for cell in cells}) > 1:
        raise DataFileError(f"{place}: expected {', '.join(keys)} to be cells of the same length")
    match = re.search(r"TraindataRatio_(0?\.\d+)", place.name)
    share = float(match.group(1)) if match else 0.7
    folds = []
    for number, (view_part, label_part, order_part) in enumerate(zip(*cells, strict=True)):
        views_kept = _mask(place, view_part, (n, None), f"folds_data{{{number + 1}}}")
        labels_kept = _mask(place, label_part, (n, n_labels), f"folds_label{{{number + 1}}}")
        order = np.asarray(order_part).astype(np.intp).ravel() - 1
        if not np.array_equal(np.sort(order), np.arange(n)):
            raise damaged(place, f"folds_sample_index{{{number + 1}}} is no order of 1 ... {n}")
        train, validation, test = cut(order, share)
        labels_kept[validation] = False
        labels_kept[test] = False
        folds.append(Fold(train, validation, test, views_kept, labels_kept, number))
    return folds


def _is_matrix(value: Any) -> bool:
    return is_sparse(value) or (isinstance(value, np.ndarray) and value.ndim == 2)


def _number_of_samples(path: Path, shapes: Sequence[tuple[int, ...]]) -> int:
    """The size that all matrices share; rows first where both sizes are possible."""
    for n in shapes[0]:
        if n > 0 and all(n in shape for shape in shapes):
            return n
    raise DataFileError(
        f"{path}: the matrices have no size in common that could be the number of samples; "
        f"shapes of X and label: {', '.join(map(str, shapes[-8:]))}"
    )


def _samples_first(matrix: Any, n: int) -> Any:
    """Rows are samples, and lie together in memory: batches take rows."""
    turned = matrix if matrix.shape[0] == n else matrix.T
    return turned.tocsr() if is_sparse(turned) else np.ascontiguousarray(turned)


def _mask(path: Path, value: Any, shape: tuple[int, int | None], what: str) -> NDArray[np.bool_]:
    if is_sparse(value):
        check_size(path, 8 * math.prod(value.shape))
    dense = np.asarray(value.toarray() if is_sparse(value) else value)
    n, width = shape
    if dense.ndim == 2 and dense.shape[0] != n and dense.shape[1] == n:
        dense = dense.T
    if dense.ndim != 2 or dense.shape[0] != n or width not in (None, dense.shape[1]):
        raise DataFileError(f"{path}: {what} has shape {dense.shape}, expected {shape}")
    if not np.isin(dense, (0, 1)).all():
        raise DataFileError(f"{path}: {what} must hold 0 and 1 only")
    return np.ascontiguousarray(dense, dtype=np.bool_)


# ---------------------------------------------------------------------- archives and tables


def read_npz(path: PathLike, *, nan: str = "mean", with_labels: bool = True) -> RawData:
    """Read an archive with one 2-D array per view, in the order of the file.

    A sparse view is given by its CSR parts `<view>_data`, `_indices`, `_indptr`, `_shape`.
    Optional: `labels`, `label_names`, `view_mask` (n, m), `sample_ids` (or one `..._ids`),
    `view_names` (m,) that rename the views in their order, and names of columns:
    `feature_names<i>` of the i-th view or `<view>_feature_names`. Flags and texts with one entry
    per sample are no views; they are named in a warning.
    """
    place = Path(path)
    arrays = load_npz(place)
    label, label_names = arrays.pop("labels", None), arrays.pop("label_names", None)
    mask = arrays.pop("view_mask", None)
    views, ids = take_views(place, arrays)
    if not with_labels:
        label = None
    return _from_arrays(place, views, label, label_names, nan=nan, observed=mask, sample_ids=ids)


def read_npy_folder(path: PathLike, *, nan: str = "mean") -> RawData:
    """Read a folder with one 2-D `.npy` file per view, and an optional `labels.npy`.

    Views are named after their files, and row i is the same sample in all of them. They are
    memory-mapped; rows lie together in files that were saved in C order.
    """
    place = Path(path)
    found = data_files(place) if place.is_dir() else None
    if found is None or found.kind != "npy":
        raise DataFileError(f"{place}: expected a folder with one .npy file per view")
    return _read_npy_files(place, found.files, nan=nan)


def _read_npy_files(
    place: Path, paths: Sequence[Path], *, nan: str, with_labels: bool = True
) -> RawData:
    files = {file.stem: file for file in paths}
    label_file = [files.pop(name) for name in list(files) if name.lower() == "labels"]
    if len(label_file) > 1:
        raise DataFileError(f"{place}: several files of labels: {', '.join(map(str, label_file))}")
    label = None
    if label_file and with_labels:
        label = map_npy(label_file[0])
        check_size(label_file[0], 8 * label.size)
    views = {name: load_npy(file) for name, file in files.items()}
    check_rows(place, views)
    return _from_arrays(place, views, label, None, nan=nan)


def read_hdf5(path: PathLike, *, nan: str = "mean", with_labels: bool = True) -> RawData:
    """Read an HDF5 file with a group `views` of 2-D datasets, and an optional dataset `labels`.

    The file stays open as long as the views are used.
    """
    place = Path(path)
    views, label = load_hdf5(place, with_labels)
    check_rows(place, views)
    return _from_arrays(place, views, label, None, nan=nan)


def _from_arrays(
    path: Path, views: dict[str, Any], label: Any, label_names: Any, **options: Any
) -> RawData:
    if label is None:
        return raw_data(path, views, None, (), **options)
    count = label.shape[-1] if label.ndim else 0
    names = read_names(path, label_names, count, "label") if count else ()
    ids = options.get("sample_ids")
    labels = zero_one(path, label, Places(ids, names if label.ndim == 2 else None))
    return raw_data(path, views, labels, names, **options)


def read_table_folder(
    path: PathLike, *, nan: str = "mean", labels: PathLike | None = None
) -> RawData:
    """Read a folder with one `.csv`, `.tsv` or `.parquet` file per view, and a table of labels.

    The first column holds the sample id. Views are aligned by id, and named after their files. A
    sample absent from a file has that view missing. The labels are the table `labels`, or one of
    that name (in any case) in the folder: a sample absent from it has no known label, one that
    occurs there only is left out with a warning.
    """
    place = Path(path)
    if not place.is_dir():
        raise DataFileError(f"{place}: expected a folder with one table per view")
    table = None if labels is None else Path(labels)
    found = data_files(place, table)
    if found.kind != "tables":
        raise DataFileError(f"{place}: no .csv, .tsv or .parquet file in this folder")
    return read_tables(place, found.files, nan=nan, labels=table)
