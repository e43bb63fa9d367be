"""Data files become views and labels: the field's .mat layout, arrays, HDF5, table folders."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from viewgap.data.checks import as_labels
from viewgap.data.file_checks import check_size, damaged
from viewgap.data.folds import Fold, cut
from viewgap.data.hdf5_files import load_hdf5
from viewgap.data.mat_files import load_mat
from viewgap.data.npy_files import load_npy, npy_files
from viewgap.data.npz_files import load_npz
from viewgap.data.table_files import load_tables, table_files
from viewgap.data.values import is_sparse
from viewgap.data.viewset import ViewSet
from viewgap.errors import DataFileError, InputError, ViewgapWarning

PathLike = str | os.PathLike[str]


@dataclass(frozen=True, eq=False)
class RawData:
    """What a data file holds: views, labels (n, c) with NaN = unknown if there are any, names."""

    views: ViewSet
    labels: NDArray[np.float64] | None
    label_names: tuple[str, ...]


def read_data(path: PathLike, *, nan: str = "error") -> RawData:
    """Read a `.mat`, `.npz` or `.h5` file or a folder, by what the path is.

    A folder may hold one `*_six_view.mat`, one `.npz`, one `.npy` per view, or one table per view.
    Views in `.npy` and `.h5` files stay there until rows are needed, and may exceed the memory.
    """
    place = Path(path)
    if place.is_dir():
        mats, archives = sorted(place.glob("*_six_view.mat")), sorted(place.glob("*.npz"))
        if len(mats) == 1:
            return read_six_view(mats[0], nan=nan)
        if len(archives) == 1 and not mats:
            return read_npz(archives[0], nan=nan)
        return (read_npy_folder if npy_files(place) else read_table_folder)(place, nan=nan)
    readers = {".mat": read_six_view, ".npz": read_npz, ".h5": read_hdf5, ".hdf5": read_hdf5}
    if place.suffix.lower() not in readers:
        what = "is of an unknown kind" if place.exists() else "does not exist"
        raise DataFileError(
            f"{place} {what}; expected a .mat, .npz, .h5 or .hdf5 file, or a folder with one .npy, "
            ".csv or .parquet file per view"
        )
    return readers[place.suffix.lower()](place, nan=nan)


# ---------------------------------------------------------------------- the field's .mat files


def read_six_view(path: PathLike, *, nan: str = "error") -> RawData:
    """Read `<name>_six_view.mat`, MATLAB v5 or v7.3.

    `X` is a cell with one matrix per view, `label` a matrix of {0, 1} or {-1, 1}; either may be
    transposed. `view_names` and `label_names` are optional cells of text. Views keep their type.
    """
    place = Path(path)
    found = load_mat(place, ("X", "label"), ("view_names", "label_names"))
    matrices, label = found["X"], found["label"]
    if not isinstance(matrices, list) or not matrices:
        raise DataFileError(f"{place}: expected X to be a cell with one matrix per view")
    if not all(_is_matrix(matrix) for matrix in (*matrices, label)):
        raise DataFileError(f"{place}: expected X{{v}} and label to be matrices of numbers")
    n = _number_of_samples(place, [matrix.shape for matrix in (*matrices, label)])
    names = _names(place, found.get("view_names"), len(matrices), "view")
    values = {name: _samples_first(matrix, n) for name, matrix in zip(names, matrices, strict=True)}
    labels = _zero_one(place, _samples_first(label, n))
    label_names = _names(place, found.get("label_names"), labels.shape[1], "label")
    return _raw_data(place, values, labels, label_names, nan=nan)


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
        f"shapes of X and label: {', '.join(map(str, shapes))}"
    )


def _samples_first(matrix: Any, n: int) -> Any:
    """Rows are samples, and lie together in memory: batches take rows."""
    turned = matrix if matrix.shape[0] == n else matrix.T
    return turned.tocsr() if is_sparse(turned) else np.ascontiguousarray(turned)


def _zero_one(path: Path, label: Any) -> NDArray[np.float64]:
    """Labels as 0, 1 and NaN; the field's files also write -1 for 0."""
    dense = np.asarray(label.toarray() if is_sparse(label) else label)
    if dense.dtype.kind not in "buif":
        raise DataFileError(f"{path}: labels must be numbers, found dtype {dense.dtype}")
    values = dense.astype(np.float64)
    found = np.unique(values[~np.isnan(values)])
    if not (np.isin(found, (0, 1)).all() or np.isin(found, (-1, 1)).all()):
        raise DataFileError(
            f"{path}: labels must be 0 and 1, or -1 and 1; found {', '.join(map(str, found[:5]))}"
        )
    values[values == -1] = 0
    return values


def _names(path: Path, given: Any, count: int, what: str) -> tuple[str, ...]:
    if given is None:
        return tuple(f"{what}{i}" for i in range(count))
    names = tuple(str(name).strip() for name in ([given] if isinstance(given, str) else given))
    if len(names) != count:
        raise DataFileError(f"{path}: {len(names)} {what} names for {count} {what}s")
    return names


def _mask(path: Path, value: Any, shape: tuple[int, int | None], what: str) -> NDArray[np.bool_]:
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


def read_npz(path: PathLike, *, nan: str = "error") -> RawData:
    """Read an archive with one 2-D array per view, in the order of the file.

    A sparse view is given by its CSR parts `<view>_data`, `_indices`, `_indptr`, `_shape`.
    Optional: `labels`, `label_names`, `view_mask` (n, m), and `sample_ids` (or one `..._ids`).
    """
    place = Path(path)
    arrays = load_npz(place)
    label = arrays.pop("labels", None)
    label_names = arrays.pop("label_names", None)
    mask = arrays.pop("view_mask", None)
    ids = _take_ids(place, arrays)
    views = _take_views(place, arrays)
    return _from_arrays(place, views, label, label_names, nan=nan, observed=mask, sample_ids=ids)


def read_npy_folder(path: PathLike, *, nan: str = "error") -> RawData:
    """Read a folder with one 2-D `.npy` file per view, and an optional `labels.npy`.

    Views are named after their files, and row i is the same sample in all of them. They are
    memory-mapped; rows lie together in files that were saved in C order.
    """
    place = Path(path)
    if not place.is_dir() or not npy_files(place):
        raise DataFileError(f"{place}: expected a folder with one .npy file per view")
    files = {file.stem: file for file in npy_files(place)}
    tables = table_files(place)
    if tables:
        raise DataFileError(
            f"{place}: .npy files beside a table ({tables[0].name}); keep one kind in a folder, "
            "with the labels of arrays in labels.npy"
        )
    label = load_npy(files.pop("labels")) if "labels" in files else None
    if label is not None:
        check_size(place / "labels.npy", 8 * label.size)
    views = {name: load_npy(file) for name, file in files.items()}
    return _from_arrays(place, views, label, None, nan=nan)


def read_hdf5(path: PathLike, *, nan: str = "error") -> RawData:
    """Read an HDF5 file with a group `views` of 2-D datasets, and an optional dataset `labels`.

    The file stays open as long as the views are used.
    """
    place = Path(path)
    views, label = load_hdf5(place)
    return _from_arrays(place, views, label, None, nan=nan)


def _from_arrays(
    path: Path, views: dict[str, Any], label: Any, label_names: Any, **options: Any
) -> RawData:
    labels = None if label is None else _zero_one(path, label)
    count = 0 if labels is None or not labels.ndim else labels.shape[-1]
    names = _names(path, label_names, count, "label") if count else ()
    return _raw_data(path, views, labels, names, **options)


def _take_ids(path: Path, arrays: dict[str, NDArray[Any]]) -> NDArray[Any] | None:
    keys = [key for key, array in arrays.items() if key.endswith("_ids") and array.ndim == 1]
    if len(keys) > 1:
        raise DataFileError(f"{path}: several arrays of ids: {', '.join(keys)}")
    return arrays.pop(keys[0]) if keys else None


def _take_views(path: Path, arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    views: dict[str, Any] = {}
    parts = ("data", "indices", "indptr", "shape")
    while arrays:
        key = next(iter(arrays))
        name = key.removesuffix("_" + next((p for p in parts if key.endswith("_" + p)), ""))
        if all(f"{name}_{part}" in arrays for part in parts):
            views[name] = _csr(path, name, *(arrays.pop(f"{name}_{part}") for part in parts))
        else:
            views[key] = arrays.pop(key)
    return views


def _csr(path: Path, name: str, data: Any, indices: Any, indptr: Any, shape: Any) -> Any:
    try:
        size = (int(shape[0]), int(shape[1]))
        whole = (data, indices.astype(np.int64), indptr.astype(np.int64))
        matrix = sparse.csr_array(whole, shape=size)
        matrix.check_format(full_check=True)
    except (ValueError, IndexError, TypeError) as error:
        raise damaged(path, f"sparse view {name!r}: {error}") from error
    return matrix


def read_table_folder(path: PathLike, *, nan: str = "error") -> RawData:
    """Read a folder with one `.csv` or `.parquet` file per view, and an optional `labels` table.

    The first column holds the sample id. Views are aligned by id, and named after their files. A
    sample absent from a file has that view missing; one absent from `labels` has no known label;
    one that occurs in `labels` only is left out with a warning.
    """
    place = Path(path)
    if not place.is_dir():
        raise DataFileError(f"{place}: expected a folder with one table per view")
    tables = load_tables(place)
    label = tables.pop("labels", None)
    if not tables:
        raise DataFileError(f"{place}: no .csv or .parquet file with a view in this folder")
    if label is None:
        return _raw_data(place, tables, None, (), nan=nan)
    label = _without_strangers(place, label, tables)
    return _raw_data(place, tables, label, tuple(map(str, label.columns)), nan=nan)


def _without_strangers(place: Path, label: Any, tables: dict[str, Any]) -> Any:
    """The labels of samples that occur in a view; the others describe nothing, and are named."""
    known = set().union(*(table.index for table in tables.values()))
    here = [sample in known for sample in label.index]
    if all(here):
        return label
    strangers = [str(sample) for sample, found in zip(label.index, here, strict=True) if not found]
    shown = ", ".join(strangers[:5]) + (", ..." if len(strangers) > 5 else "")
    warnings.warn(
        f"{place}: {len(strangers)} samples have labels but no view, and are left out ({shown})",
        ViewgapWarning,
        stacklevel=3,
    )
    return label[here]


def _raw_data(
    path: Path,
    views: dict[str, Any],
    labels: Any,
    label_names: tuple[str, ...],
    *,
    nan: str,
    **options: Any,
) -> RawData:
    try:
        checked = ViewSet(views, nan=nan, **options)
        if labels is None:
            return RawData(checked, None, ())
        values = as_labels(labels, checked, label_names)
    except InputError as error:
        raise type(error)(f"{path}: {error}") from error
    return RawData(checked, values.as_float(), values.names)
