"""MATLAB files, v5 and v7.3 (HDF5), in the layout of the field's benchmark sets and folds."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from viewgap.data.formats.base import (
    Format,
    PathLike,
    RawData,
    check_n_views,
    check_size,
    existing_file,
    from_arrays,
    label_summary,
    name_members,
    read_names,
    reading,
    size_limit,
)
from viewgap.data.formats.hdf5 import check_storage, inside, open_hdf5, refuse_elsewhere
from viewgap.data.formats.hdf5_texts import attribute
from viewgap.data.formats.mat5 import checked_sparse, is_mat5, read_mat5
from viewgap.data.rows.values import is_sparse
from viewgap.data.splits import Fold
from viewgap.data.splits.splits import cut
from viewgap.errors import DataFileError, damaged_file, first_few

_HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_MAX_DEPTH = 4


def read_six_view(path: PathLike, *, nan: str = "mean", with_labels: bool = True) -> RawData:
    """Read `<name>_six_view.mat`, MATLAB v5 or v7.3.

    `X` is a cell with one matrix per view, `label` a matrix of {0, 1} or {-1, 1}; either may be
    transposed. `view_names` and `label_names` are optional cells of text. Views keep their type.
    """
    source = Path(path)
    required = ("X", "label") if with_labels else ("X",)
    variables = load_mat(source, required, ("label", "view_names", "label_names"), only=True)
    matrices, label = variables["X"], variables.get("label")
    if not isinstance(matrices, list) or not matrices:
        raise DataFileError(f"{source}: expected X to be a cell with one matrix per view")
    check_n_views(source, len(matrices))
    if not with_labels and not _is_matrix(label):
        label = None
    everything = matrices if label is None else [*matrices, label]
    if not all(_is_matrix(matrix) for matrix in everything):
        raise DataFileError(f"{source}: expected X{{v}} and label to be matrices of numbers")
    for matrix in everything:
        if is_sparse(matrix):  # sizes it claims are no memory yet
            check_size(source, 8 * max(matrix.shape))
    n = _number_of_samples(source, [matrix.shape for matrix in everything])
    names = read_names(source, variables.get("view_names"), len(matrices), "view")
    _refuse_squares(source, dict(zip(names, matrices, strict=True)), label, n)
    values = {name: _samples_first(matrix, n) for name, matrix in zip(names, matrices, strict=True)}
    if not with_labels or label is None:
        return from_arrays(source, values, None, nan=nan)
    label_names = variables.get("label_names")
    return from_arrays(source, values, _samples_first(label, n), label_names, nan=nan)


def read_fold_file(path: PathLike, labels: ArrayLike) -> list[Fold]:
    """Read the folds of `<name>_six_view_MaskRatios_<a>_LabelMaskRatio_<b>_TraindataRatio_<c>.mat`.

    `labels` (n, c) are those of the data file. Folds are named 0, 1, ... in the order of the file;
    the share of training rows comes from the file's name, 0.7 if it does not tell.
    """
    source = Path(path)
    n, n_labels = np.shape(labels)
    keys = ("folds_data", "folds_label", "folds_sample_index")
    variables = load_mat(source, keys)
    cells = [variables[key] for key in keys]
    if not all(isinstance(cell, list) for cell in cells) or len({len(cell) for cell in cells}) > 1:
        raise DataFileError(f"{source}: expected {', '.join(keys)} to be cells of the same length")
    match = re.search(r"TraindataRatio_(0?\.\d+)", source.name)
    share = float(match.group(1)) if match else 0.7
    folds = []
    for number, (view_part, label_part, order_part) in enumerate(zip(*cells, strict=True)):
        views_kept = _mask(source, view_part, (n, None), f"folds_data{{{number + 1}}}")
        labels_kept = _mask(source, label_part, (n, n_labels), f"folds_label{{{number + 1}}}")
        order = np.asarray(order_part).astype(np.intp).ravel() - 1
        if not np.array_equal(np.sort(order), np.arange(n)):
            raise damaged_file(
                source, f"folds_sample_index{{{number + 1}}} is no order of 1 ... {n}"
            )
        train, validation, test = cut(order, share)
        labels_kept[validation] = False
        labels_kept[test] = False
        folds.append(Fold(train, validation, test, views_kept, labels_kept, number))
    return folds


def describe(path: PathLike) -> dict[str, Any]:
    """Return n, c and cardinality; only the labels are read."""
    labels = load_mat(path, ("label",))["label"]
    if not _is_matrix(labels):
        raise DataFileError(f"{path}: expected label to be a matrix of numbers")
    n, c = labels.shape  # there are more samples than labels
    return label_summary(labels.T if n < c else labels)


FORMAT = Format("mat", "a .mat file", (".mat",), read=read_six_view, describe=describe)


def _is_matrix(value: Any) -> bool:
    return is_sparse(value) or (isinstance(value, np.ndarray) and value.ndim == 2)


def _number_of_samples(path: Path, shapes: Sequence[tuple[int, ...]]) -> int:
    """The size that all matrices share; rows first where both sizes are possible."""
    found = [n for n in dict.fromkeys(shapes[0]) if n > 0 and all(n in shape for shape in shapes)]
    if found and (len(found) == 1 or all(shape[0] == found[0] for shape in shapes)):
        return found[0]
    if found:
        raise DataFileError(
            f"{path}: the number of samples could be {found[0]} or {found[1]}, as all matrices "
            "have both sizes, in different order; write all of them with the samples as rows"
        )
    raise DataFileError(
        f"{path}: the matrices have no size in common that could be the number of samples; "
        f"shapes of X and label: {', '.join(map(str, shapes[-8:]))}"
    )


def _refuse_squares(path: Path, matrices: dict[str, Any], label: Any, n: int) -> None:
    """Refuse a square matrix beside views whose columns are samples: it could be either."""
    every = matrices if label is None else matrices | {"label": label}
    square = [name for name, matrix in every.items() if matrix.shape == (n, n)]
    turned = [name for name, matrix in matrices.items() if matrix.shape[0] != n]
    if square and turned:
        raise DataFileError(
            f"{path}: samples are the columns of {turned[0]!r}, and {square[0]!r} is square ({n} x "
            f"{n}), so nothing tells whether its samples are rows or columns; write all matrices "
            "with the samples as rows"
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


# ---------------------------------------------------------------------- variables of a file


def load_mat(
    path: PathLike,
    required: Collection[str],
    optional: Collection[str] = (),
    *,
    only: bool = False,
) -> dict[str, Any]:
    """Return variables of a MATLAB file, in MATLAB's orientation.

    Numbers become arrays in their stored type, sparse matrices CSC arrays, text `str`, and cells
    a flat list in MATLAB's order. With `only`, other variables are named, and a mask is refused.
    """
    source = existing_file(path)
    wanted = {*required, *optional}
    if is_mat5(source):
        variables, names = read_mat5(source, wanted)
    elif _is_hdf5(source):
        variables, names = _read_hdf5(source, wanted)
    else:
        raise damaged_file(source, "it has neither the header of MATLAB v5 nor of v7.3")
    absent = sorted(set(required) - set(variables))
    if absent:
        found = first_few(names, 10) or "none"
        raise DataFileError(f"{source}: expected the variable {absent[0]!r}, found: {found}")
    if only:
        expected = ("X", "label", "view_names", "label_names")
        name_members(source, filter(None, names), expected)
    return variables


def _is_hdf5(path: Path) -> bool:
    with path.open("rb") as file:
        start = file.read(512 + len(_HDF5_SIGNATURE))
    return start.startswith(_HDF5_SIGNATURE) or start[512:] == _HDF5_SIGNATURE


def _read_hdf5(path: Path, wanted: Collection[str]) -> tuple[dict[str, Any], list[str]]:
    with reading(path), open_hdf5(path) as file:
        reader = _Hdf5Reader(path, file)
        names = [name for name in file if not name.startswith("#")]
        return {name: reader.variable(name) for name in names if name in wanted}, names


class _Hdf5Reader:
    """Values of an open v7.3 file; links that lead out of the file are refused."""

    def __init__(self, path: Path, file: Any) -> None:
        self._path = path
        self._file = file
        self._total = 0

    def variable(self, name: str) -> Any:
        return self._value(inside(self._file, name), 0)

    def _value(self, item: Any, depth: int) -> Any:
        import h5py

        if depth > _MAX_DEPTH:
            raise ValueError(f"cells nested more than {_MAX_DEPTH} deep")
        if isinstance(item, h5py.Group):
            return self._sparse(item)
        kind = attribute(self._path, item, "MATLAB_class", b"")
        if attribute(self._path, item, "MATLAB_empty", 0):
            return "" if kind == b"char" else np.zeros((0, 0))
        values = self._read(item)
        if h5py.check_ref_dtype(item.dtype) is h5py.Reference:
            return [self._value(self._file[reference], depth + 1) for reference in values.ravel()]
        # MATLAB counts columns first, HDF5 rows first: the same bytes read as the transpose.
        return _text(values.T) if kind == b"char" else values.T

    def _read(self, item: Any) -> Any:
        import h5py

        is_cell = h5py.check_ref_dtype(item.dtype) is h5py.Reference
        if item.dtype.kind not in "buif" and not is_cell:  # texts of any length: see hdf5_texts
            raise ValueError(f"{item.name!r} holds {item.dtype}, where numbers are expected")
        refuse_elsewhere(item)
        self._total += item.size * item.dtype.itemsize
        if self._total > size_limit():
            check_size(self._path, self._total)
        check_storage(self._path, item)
        return item[()]

    def _sparse(self, group: Any) -> Any:
        n_rows = attribute(self._path, group, "MATLAB_sparse")
        if n_rows is None:
            raise ValueError(
                f"{group.name!r} is a struct, where numbers, text or cells are expected"
            )
        starts = self._read(inside(group, "jc"))
        parts = [self._read(inside(group, k)) for k in ("data", "ir") if k in group]
        data, rows = parts if len(parts) == 2 else (np.zeros(0), np.zeros(0, dtype=np.int64))
        return checked_sparse(data, rows, starts, (int(n_rows), len(starts) - 1))


def _text(units: Any) -> str | list[str]:
    rows = [bytes(np.ascontiguousarray(row, dtype="<u2")).decode("utf-16-le") for row in units]
    return rows[0] if len(rows) == 1 else [row.rstrip() for row in rows]
