"""Label matrices as users have them, turned into `Labels`: alignment, types, allowed values."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viewgap.data.containers import is_frame, refuse_duplicates
from viewgap.data.id_mismatch import compared_ids, likely_cause, shown_id
from viewgap.data.label_words import Places, read_words
from viewgap.data.labels import Labels
from viewgap.data.values import is_sparse, row_chunks
from viewgap.errors import LabelError, ViewgapWarning, remedy


def read_labels(Y: Any, ids: NDArray[Any] | None, names: Sequence[str] | None) -> Labels:
    """Return `Labels` of an (n, c) array, DataFrame, list or sparse matrix.

    `ids` are the ids of the samples, if they have any: a DataFrame is aligned to them.
    """
    if is_frame(Y):
        Y = _align_rows(_choose_columns(Y, names), ids)
        names = [str(column) for column in Y.columns]
        ids = Y.index.to_numpy()
        Y = _frame_values(Y)
    if is_sparse(Y):
        values, observed = _from_sparse(Y, _places(Y, ids, names))
    else:
        matrix = _as_matrix(Y)
        values, observed = _from_dense(matrix, _places(matrix, ids, names))
    if names is None:
        names = [f"label{j}" for j in range(values.shape[1])]
    elif len(names) != values.shape[1]:
        raise LabelError(f"expected {len(names)} labels, found {values.shape[1]} columns")
    refuse_duplicates("label names", list(names), LabelError)
    return Labels(values, observed, tuple(names))


def _places(matrix: Any, ids: NDArray[Any] | None, names: Sequence[str] | None) -> Places:
    """Names of rows and columns for messages, as far as they fit the matrix."""
    rows, columns = matrix.shape
    return Places(
        ids if ids is not None and len(ids) == rows else None,
        names if names is not None and len(names) == columns else None,
    )


# ---------------------------------------------------------------------- DataFrames


def _choose_columns(frame: Any, names: Sequence[str] | None) -> Any:
    """Columns in the order of `names`."""
    found = [str(column) for column in frame.columns]
    refuse_duplicates("label names", found, LabelError)
    if names is None or found == list(names):
        return frame
    if sorted(found) != sorted(names):
        different = sorted(set(found) ^ set(names))
        raise LabelError(
            f"the label names differ from the expected ones: {', '.join(different[:5])}; "
            "rename the columns"
            + remedy(", or pass an array in the right order", " of the label table")
        )
    return frame.iloc[:, [found.index(name) for name in names]]


def _align_rows(frame: Any, ids: NDArray[Any] | None) -> Any:
    """Rows in the order of `ids`; NaN where the frame has no row."""
    if ids is None or np.array_equal(frame.index.to_numpy(), ids):
        return frame
    if frame.index.has_duplicates:
        refuse_duplicates("labels: sample ids", frame.index.tolist(), LabelError)
    known = frame.index.isin(ids)
    if not known.any():
        both = compared_ids("the labels", frame.index, "the views", ids)
        cause = likely_cause(frame.index, {"the views": ids}, frame.columns)
        raise LabelError(
            f"the labels have no id in common with the samples: {both}; "
            f"{cause or 'set the sample ids as index of the labels'}"
        )
    if not known.all():
        extra = frame.index[~known]
        raise LabelError(
            f"{len(extra)} rows of labels belong to no sample of the views (first: "
            f"{shown_id(extra[0])}); "
            + remedy("leave them out, as in Y.loc[views.sample_ids]", "remove them from the table")
        )
    positions = frame.index.get_indexer(ids)
    if (positions < 0).any():
        first = ids[np.argmax(positions < 0)]
        warnings.warn(
            f"{(positions < 0).sum()} samples have no row of labels (first id: {shown_id(first)}); "
            "their labels count as not observed",
            ViewgapWarning,
            stacklevel=4,
        )
    return frame.reindex(ids)


def _frame_values(frame: Any) -> Any:
    """Values of a DataFrame; a matrix of objects where some column is not of numbers."""
    kinds = frame.dtypes.unique()
    if all(isinstance(dtype, np.dtype) for dtype in kinds):
        return frame.to_numpy()
    if all(getattr(dtype, "kind", "O") in "buif" for dtype in kinds):
        return frame.to_numpy(dtype=np.float64, na_value=np.nan)
    return frame.to_numpy(dtype=object)


# ---------------------------------------------------------------------- arrays


def _as_matrix(Y: Any) -> NDArray[Any]:
    if isinstance(Y, np.ma.MaskedArray):
        raise LabelError(
            "a masked array loses its mask in scikit-learn's splits and scores; mark unobserved "
            "labels by NaN: Y.astype(float).filled(numpy.nan)"
        )
    try:
        matrix = np.asarray(Y)
    except ValueError as error:
        raise LabelError(
            "expected a matrix (samples, labels), found rows of different lengths; sets of labels "
            "become a matrix by sklearn.preprocessing.MultiLabelBinarizer"
        ) from error
    if matrix.ndim != 2:
        advice = (
            "one label is Y.reshape(-1, 1); classes that exclude each other become one column each"
            if matrix.ndim == 1
            else "give one row per sample"
        )
        raise LabelError(f"expected (samples, labels), found shape {matrix.shape}; {advice}")
    if 0 in matrix.shape:
        raise LabelError(f"expected at least one sample and one label, found shape {matrix.shape}")
    if matrix.dtype.kind not in "buifOUS":
        raise LabelError(f"labels must be 0, 1 or NaN, found dtype {matrix.dtype}")
    return matrix


def _from_dense(
    matrix: NDArray[Any], places: Places
) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    if matrix.dtype.kind in "OUS":
        matrix = read_words(matrix.astype(object), places)
    values = np.zeros(matrix.shape, dtype=np.uint8)
    observed = np.ones(matrix.shape, dtype=np.bool_)
    for part in row_chunks(len(matrix), matrix.shape[1] * matrix.dtype.itemsize):
        block = matrix[part]
        if matrix.dtype.kind == "f":
            observed[part] = ~np.isnan(block)
        positive = block == 1
        wrong = observed[part] & ~positive & (block != 0)
        if wrong.any():
            row, column = np.argwhere(wrong)[0]
            _refuse_value(block[row, column], places.entry(part.start + row, column))
        values[part] = positive
    return values, observed


def _from_sparse(Y: Any, places: Places) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    entries = Y.tocsr().tocoo()
    values = np.zeros(entries.shape, dtype=np.uint8)
    observed = np.ones(entries.shape, dtype=np.bool_)
    data = entries.data.astype(np.float64)
    unknown = np.isnan(data)
    wrong = ~unknown & (data != 0) & (data != 1)
    if wrong.any():
        first = int(np.argmax(wrong))
        _refuse_value(entries.data[first], places.entry(entries.row[first], entries.col[first]))
    values[entries.row[data == 1], entries.col[data == 1]] = 1
    observed[entries.row[unknown], entries.col[unknown]] = False
    return values, observed


def _refuse_value(value: Any, place: str) -> None:
    if value == -1:
        absent = remedy("pass (Y > 0)", "write 0")
        unknown = remedy("put NaN", "leave the cell empty")
        advice = f"if -1 stands for absent, {absent}; if it stands for unknown, {unknown}"
    elif 0 < value < 1:
        advice = "soft labels are not supported; choose a threshold, or put NaN for unknown"
    else:
        advice = "class numbers become one column of 0 and 1 each"
    raise LabelError(
        f"labels must be 0, 1 or NaN (not observed), found {value:g} in {place}; {advice}"
    )
