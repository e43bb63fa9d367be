"""The arrays of an .npz archive sorted: views, their names, column names, sample ids, the rest."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from viewgap.data.file_checks import check_size, damaged
from viewgap.data.raw_data import read_names, text_of
from viewgap.data.values import check_sparse, is_sparse
from viewgap.errors import DataFileError, ViewgapWarning

Arrays = dict[str, NDArray[Any]]


def take_views(path: Path, arrays: Arrays) -> tuple[dict[str, Any], NDArray[Any] | None]:
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
        warnings.warn(f"{path}: arrays not read: {', '.join(others)}", ViewgapWarning, stacklevel=4)
    keys = list(views)
    renamed = keys if names is None else read_names(path, names, len(views), "view")
    if len(set(renamed)) < len(renamed):
        raise DataFileError(f"{path}: view_names must be unique, found {', '.join(renamed)}")
    named = dict(zip(renamed, views.values(), strict=True))
    chosen = _match_columns(path, columns, keys, renamed)
    if not chosen:
        return named, ids
    return _as_frames(path, named, chosen, ids), None if _has_frame(named, chosen) else ids


def _take_ids(path: Path, arrays: Arrays) -> NDArray[Any] | None:
    keys = [key for key, array in arrays.items() if key.endswith("_ids") and array.ndim == 1]
    if len(keys) > 1:
        raise DataFileError(f"{path}: several arrays of ids: {', '.join(keys)}")
    if not keys:
        return None
    ids = arrays.pop(keys[0])
    return np.array(text_of(path, keys[0], ids)) if ids.dtype.kind in "US" else ids


def _is_no_view(array: Any, views_are_named: bool) -> bool:
    """Whether this is something else: flags or texts of the samples, as in `is_test`."""
    if array.ndim == 2 and array.dtype.kind not in "US":
        return False
    return views_are_named or (array.ndim == 1 and array.dtype.kind in "bUS")


# ---------------------------------------------------------------------- column names


def _take_feature_names(path: Path, arrays: Arrays) -> dict[str, tuple[str, ...]]:
    """Names of columns, by the number or the name of their view."""
    found = {}
    for key in list(arrays):
        match = re.fullmatch(r"feature_names(\d+)|(.+)_feature_names", key)
        if match and arrays[key].ndim == 1:
            found[match.group(1) or match.group(2)] = text_of(path, key, arrays.pop(key))
    return found


def _match_columns(
    path: Path, columns: Mapping[str, tuple[str, ...]], keys: list[str], names: Any
) -> dict[str, tuple[str, ...]]:
    """Names of columns by the name of their view."""
    known = {
        **{str(i): name for i, name in enumerate(names)},
        **dict(zip(keys, names, strict=True)),
    }
    known |= {name: name for name in names}
    for which in columns:
        if which not in known:
            raise DataFileError(f"{path}: names of columns for {which!r}, which is no view")
    return {known[which]: texts for which, texts in columns.items()}


def _has_frame(views: Mapping[str, Any], columns: Mapping[str, Any]) -> bool:
    return any(not is_sparse(views[name]) for name in columns)


def _as_frames(
    path: Path, views: Mapping[str, Any], columns: Mapping[str, tuple[str, ...]], ids: Any
) -> dict[str, Any]:
    import pandas as pd

    result = dict(views)
    for name, texts in columns.items():
        values = views[name]
        if is_sparse(values) or values.ndim != 2:
            continue
        if values.shape[1] != len(texts) or (ids is not None and len(ids) != len(values)):
            raise DataFileError(
                f"{path}: view {name!r} has shape {values.shape}, but there are {len(texts)} names "
                f"of columns{'' if ids is None else f' and {len(ids)} sample ids'}"
            )
        result[name] = pd.DataFrame(values, index=ids, columns=list(texts), copy=False)
    return result


# ---------------------------------------------------------------------- sparse views


def _combine_sparse(path: Path, arrays: Arrays) -> dict[str, Any]:
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
        check_size(path, 8 * max(size))  # one dense row, at least, will be made of it
        whole = (data, indices.astype(np.int64), indptr.astype(np.int64))
        matrix = sparse.csr_array(whole, shape=size)
        check_sparse(matrix)
    except (ValueError, IndexError, TypeError) as error:
        raise damaged(path, f"sparse view {name!r}: {error}") from error
    return matrix
