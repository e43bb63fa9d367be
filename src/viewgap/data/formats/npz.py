"""NumPy archives (.npz) with all views, read without unpickling and within the size limit."""

from __future__ import annotations

import re
import sys
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from viewgap.data.formats.base import (
    Format,
    PathLike,
    RawData,
    check_n_views,
    check_size,
    existing_file,
    from_arrays,
    label_summary,
    read_names,
    reading,
    stored_ids,
    text_of,
)
from viewgap.data.formats.number_advice import is_id_name
from viewgap.data.formats.sparse_parts import sparse_of_parts
from viewgap.data.rows.alignment import NamedMatrix, is_frame
from viewgap.data.rows.values import is_sparse
from viewgap.errors import DataFileError, ViewgapWarning, first_few

Arrays = dict[str, NDArray[Any]]

_ARRAYS_PER_VIEW = 5  # at most: the parts of a sparse matrix, and names of columns


def read_npz(path: PathLike, *, nan: str = "mean", with_labels: bool = True) -> RawData:
    """Read an archive with one 2-D array per view, in the order of the file.

    A sparse view is given by its CSR parts `<view>_data`, `_indices`, `_indptr`, `_shape`, and so
    are sparse labels (`labels_data`, ...): stored are 1 and NaN, all else is 0.
    Optional: `labels`, `label_names`, `view_mask` (n, m), `sample_ids` (or one `..._ids`),
    `view_names` (m,) that rename the views in their order, and names of columns:
    `feature_names<i>` of the i-th view or `<view>_feature_names`. Flags and texts with one entry
    per sample are no views; they are named in a warning.
    """
    source = Path(path)
    if is_sparse_matrix(source):
        raise DataFileError(
            f"{source}: one sparse matrix; put one such file per view into a folder, with the ids "
            f"of its rows in {source.stem}.ids.txt, and give the path of the folder"
        )
    arrays = load_npz(source)
    label, label_names = _take_labels(source, arrays), arrays.pop("label_names", None)
    mask = arrays.pop("view_mask", None)
    views, ids = _take_views(source, arrays)
    frames = [view for view in views.values() if is_frame(view)]
    named = frames[0].index if frames and ids is None else ids  # for messages about labels
    if not with_labels:
        label = None
    how = {"nan": nan, "observed": mask, "sample_ids": ids}
    return from_arrays(source, views, label, label_names, entry_ids=named, **how)


def describe(path: PathLike) -> dict[str, Any]:
    """Return n, c, cardinality and the widths of the views; dense views are not read."""
    source = Path(path)
    arrays = load_npz(source, with_values=False)
    label = _take_labels(source, arrays)
    for key in ("label_names", "view_mask"):
        arrays.pop(key, None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ViewgapWarning)
        views, _ = _take_views(source, arrays)
    widths = {name: values.shape[1] for name, values in views.items()}
    return {} if label is None or label.ndim != 2 else label_summary(label) | {"views": widths}


_SCIPY = {"data", "format", "shape"}
_SCIPY_PARTS = _SCIPY | {"indices", "indptr", "row", "col", "coords", "offsets", "_is_array"}


def is_sparse_matrix(path: Path) -> bool:
    """Whether an archive is one sparse matrix, as `scipy.sparse.save_npz` writes it."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = {name.removesuffix(".npy") for name in archive.namelist()}
    except Exception:  # damaged in one of many ways; whoever reads it says what is wrong with it
        return False
    return names >= _SCIPY and names <= _SCIPY_PARTS


def load_sparse(path: PathLike) -> Any:
    """Return the matrix of an archive of `scipy.sparse.save_npz`, CSR or CSC, as CSR."""
    source = Path(path)
    arrays = load_npz(source)
    kind = b"".join(np.ravel(arrays["format"]).astype("S")).decode(errors="replace")
    if kind not in ("csr", "csc"):
        raise DataFileError(
            f"{source}: a sparse matrix of the format {kind!r}; expected csr or csc: "
            "scipy.sparse.save_npz(file, matrix.tocsr())"
        )
    with reading(source):
        parts = (arrays[part] for part in ("data", "indices", "indptr", "shape"))
        return sparse_of_parts(source, source.stem, kind, *parts)


FORMAT = Format(
    "npz",
    "an .npz archive",
    (".npz",),
    read=read_npz,
    describe=describe,
    read_array=load_sparse,
    is_array=is_sparse_matrix,
    beside=(".ids.txt", ".columns.txt"),
)


# ---------------------------------------------------------------------- arrays of the archive


def load_npz(path: PathLike, with_values: bool = True) -> Arrays:
    """Return all arrays of an archive, in their order.

    Without values, matrices of numbers besides `labels` hold zeros that take no memory.
    """
    source = existing_file(path)
    with reading(source), zipfile.ZipFile(source) as archive:
        members = archive.infolist()
        check_n_views(source, len(members) // _ARRAYS_PER_VIEW)
        check_size(source, sum(member.file_size for member in members))
        names = [member.filename for member in members]
        if len(set(names)) < len(names):
            repeated = next(name for name in names if names.count(name) > 1)
            raise DataFileError(f"{source}: several arrays are named {repeated!r}")
        return {
            m.filename.removesuffix(".npy"): _read(source, archive, m, with_values) for m in members
        }


def _read(
    path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo, with_values: bool
) -> NDArray[Any]:
    with archive.open(member) as stream:
        shape, dtype = read_header(path, member.filename, stream)
        # Before the array is made: a header of a few bytes can claim any size.
        claimed = dtype.itemsize * int(np.prod(shape, dtype=object))
        if claimed > member.file_size:
            raise ValueError(f"{member.filename!r}: {claimed:,} bytes claimed, not all are there")
    is_view = member.filename != "labels.npy" and len(shape) == 2 and dtype.kind in "buif"
    if is_view and not with_values:
        return np.broadcast_to(np.zeros((), dtype), shape)
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


# ---------------------------------------------------------------------- which arrays are views


def _take_views(path: Path, arrays: Arrays) -> tuple[dict[str, Any], NDArray[Any] | None]:
    """Return the views by name, and the sample ids, if they are not the index of the views.

    A view with column names becomes a DataFrame, which carries them on.
    """
    ids = _take_ids(path, arrays)
    names = arrays.pop("view_names", None)
    columns = _take_feature_names(path, arrays)
    views = _combine_sparse(path, arrays)
    others = [key for key, array in views.items() if _is_no_view(array, names is not None)]
    views = {key: array for key, array in views.items() if key not in others}
    if others:
        could_be = next((key for key in others if ids is None and is_id_name(key)), None)
        more = f"; if {could_be!r} holds the sample ids, name it sample_ids" if could_be else ""
        told = f"{path}: arrays not read: {', '.join(others)}{more}"
        warnings.warn(told, ViewgapWarning, stacklevel=4)
    keys = list(views)
    renamed = keys if names is None else read_names(path, names, len(views), "view")
    if len(set(renamed)) < len(renamed):
        raise DataFileError(f"{path}: view_names must be unique, found {', '.join(renamed)}")
    for key, name in zip(keys, renamed, strict=True):
        if name != key and name in views:
            raise DataFileError(
                f"{path}: view_names rename the arrays in their order ({first_few(keys)}), so "
                f"{key!r} would become {name!r}, and there is another array of this name; leave "
                "view_names out, or give them (and the columns of view_mask) in the order of the "
                "arrays"
            )
    named = dict(zip(renamed, views.values(), strict=True))
    return _as_frames(path, named, _match_columns(path, columns, keys, renamed), ids)


def _take_ids(path: Path, arrays: Arrays) -> NDArray[Any] | None:
    wrong = [key for key, array in arrays.items() if key == "sample_ids" and array.ndim != 1]
    if wrong:
        shape = arrays["sample_ids"].shape
        raise DataFileError(f"{path}: sample_ids must hold one id per sample, found shape {shape}")
    keys = [key for key, array in arrays.items() if key.endswith("_ids") and array.ndim == 1]
    if len(keys) > 1:
        raise DataFileError(f"{path}: several arrays of ids: {', '.join(keys)}")
    if not keys:
        return None
    return stored_ids(path, keys[0], arrays.pop(keys[0]))


def _is_no_view(array: Any, views_are_named: bool) -> bool:
    """Whether this is something else: flags or texts of the samples, as in `is_test`."""
    if array.ndim == 2 and array.dtype.kind not in "US":
        return False
    return views_are_named or (array.ndim == 1 and array.dtype.kind in "bUS")


# ---------------------------------------------------------------------- column names


def _take_feature_names(path: Path, arrays: Arrays) -> dict[int | str, tuple[str, ...]]:
    """Names of columns, by the number or the name of their view."""
    names: dict[int | str, tuple[str, ...]] = {}
    for key in list(arrays):
        match = re.fullmatch(r"feature_names(\d+)|(.+)_feature_names", key)
        if match and arrays[key].ndim == 1:
            number, name = match.groups()
            names[name if number is None else int(number)] = text_of(path, key, arrays.pop(key))
    return names


def _match_columns(
    path: Path, columns: Mapping[int | str, tuple[str, ...]], keys: list[str], names: Any
) -> dict[str, tuple[str, ...]]:
    """Names of columns by the name of their view."""
    view_of: dict[int | str, str] = dict(enumerate(names))
    view_of |= dict(zip(keys, names, strict=True)) | {name: name for name in names}
    result: dict[str, tuple[str, ...]] = {}
    for which, texts in columns.items():
        if which not in view_of:
            raise DataFileError(f"{path}: names of columns for {str(which)!r}, which is no view")
        if result.setdefault(view_of[which], texts) != texts:
            raise DataFileError(f"{path}: view {view_of[which]!r} has two arrays of column names")
    return result


def _as_frames(
    path: Path, views: Mapping[str, Any], columns: Mapping[str, tuple[str, ...]], ids: Any
) -> tuple[dict[str, Any], Any]:
    """Views with named columns as DataFrames, and the ids if no DataFrame holds them."""
    import pandas as pd

    result = dict(views)
    for name, texts in columns.items():
        values = views[name]
        if values.ndim != 2:
            continue
        if values.shape[1] != len(texts) or (ids is not None and len(ids) != values.shape[0]):
            raise DataFileError(
                f"{path}: view {name!r} has shape {values.shape}, but there are {len(texts)} names "
                f"of columns{'' if ids is None else f' and {len(ids)} sample ids'}"
            )
        index = pd.RangeIndex(values.shape[0]) if ids is None else pd.Index(ids)
        if is_sparse(values):
            result[name] = NamedMatrix(values, index, texts)
        else:
            result[name] = pd.DataFrame(values, index=index, columns=list(texts), copy=False)
    return result, None if any(map(is_frame, result.values())) else ids


# ---------------------------------------------------------------------- sparse views


_PARTS = ("data", "indices", "indptr", "shape")


def _take_labels(path: Path, arrays: Arrays) -> Any:
    """Return the labels, a matrix or the parts of a sparse one; None without any."""
    if "labels" not in arrays and all(f"labels_{part}" in arrays for part in _PARTS):
        pieces = (arrays.pop(f"labels_{part}") for part in _PARTS)
        return sparse_of_parts(path, "labels", "csr", *pieces)
    return arrays.pop("labels", None)


def _combine_sparse(path: Path, arrays: Arrays) -> dict[str, Any]:
    views: dict[str, Any] = {}
    while arrays:
        key = next(iter(arrays))
        name = key.removesuffix("_" + next((p for p in _PARTS if key.endswith("_" + p)), ""))
        if all(f"{name}_{part}" in arrays for part in _PARTS):
            pieces = (arrays.pop(f"{name}_{part}") for part in _PARTS)
            views[name] = sparse_of_parts(path, name, "csr", *pieces)
        else:
            views[key] = arrays.pop(key)
    return views
