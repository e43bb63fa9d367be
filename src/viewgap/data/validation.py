"""Input validation: everything a user passes as views or labels is checked here, once."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viewgap.data.labels import Labels, SparseLabels, SparseLabelTable, is_too_large
from viewgap.data.labels.labels import entry_names, read_labels
from viewgap.data.renamed_views import renamed_view
from viewgap.data.rows.alignment import is_frame
from viewgap.data.rows.ids import form_only
from viewgap.data.rows.tables import as_frame, is_table
from viewgap.data.rows.values import (
    LazyRows,
    advice_on_nan,
    check_nan_policy,
    is_dataset,
    is_sparse,
)
from viewgap.data.viewset import ViewSet
from viewgap.errors import LabelError, ViewError, ViewgapWarning, first_few


def as_viewset(
    X: Any,
    *,
    views: Mapping[str, Any] | None = None,
    nan: str = "mean",
    id_column: str | None = None,
) -> ViewSet:
    """Return checked views.

    Parameters
    ----------
    X
        - a `ViewSet`, returned as it is if it has no missing values that `nan` is about;
        - a dict `{name: view}` or a list of views (named view0, view1, ...), where a view is a
          2-D array, an HDF5 dataset, a sparse matrix, a DataFrame, a list of rows (None = missing
          in this row), or None (missing for all samples);
        - one 2-D array, HDF5 dataset, sparse matrix or DataFrame, with `views` telling the columns
          of each view;
        - a MuData.

        DataFrames may be those of pandas or polars, or tables of pyarrow.

        A row of NaN means that the view is missing for the sample. DataFrames are aligned by
        index; a sample absent from a view's index has that view missing. The rows follow the
        DataFrame that holds all samples, else the ids in order of first appearance.
    views
        `{name: columns}` for one table: a slice, column numbers or column names.
    nan
        What a NaN in an observed row means: `"mean"` keeps it as a missing value, which a model
        fills with the mean of the column in its training data; `"error"`; or `"missing_view"` to
        treat a view as missing in rows with some NaN or infinite value.
    id_column
        Name of the column of sample ids, for DataFrames that do not have them as index.
    """
    check_nan_policy(nan)
    X = _with_frames(X, id_column)
    if isinstance(X, ViewSet):
        return apply_nan_policy(X, nan)
    if isinstance(getattr(X, "mod", None), Mapping):
        return ViewSet(X.mod, sample_ids=getattr(X, "obs_names", None), nan=nan)
    if isinstance(X, Mapping) and not is_sparse(X):  # a dok_array is a dict as well
        return ViewSet(X, nan=nan)
    if views is not None:
        return ViewSet(_cut_columns(X, views), nan=nan)
    if isinstance(X, list | tuple):
        return ViewSet({f"view{i}": view for i, view in enumerate(X)}, nan=nan)
    shape = getattr(X, "shape", None)
    size = "" if shape is None else f" of shape {tuple(shape)}"
    raise ViewError(
        f"expected several views, found one {type(X).__name__}{size}; pass {{name: array}} or a "
        "list of arrays, or tell the columns of each view with views={name: columns}"
    )


def _with_frames(X: Any, id_column: str | None) -> Any:
    """Return X with tables of other libraries as DataFrames, and their ids as index."""
    if is_table(X) or (is_frame(X) and id_column is not None):
        return as_frame(X, id_column, "the table")
    if id_column is None:  # tables among several views are recognised where these are read
        return X
    if isinstance(X, list | tuple):
        X = {f"view{i}": view for i, view in enumerate(X)}
    if not isinstance(X, Mapping):
        raise ViewError(f"id_column={id_column!r} needs DataFrames, found {type(X).__name__}")
    return {
        name: None if view is None else as_frame(view, id_column, f"view {name!r}")
        for name, view in X.items()
    }


def is_one_array(X: Any) -> bool:
    """Whether X is one array-like table, to be cut into views by columns."""
    if is_sparse(X):
        return True  # also a dok_array
    named = isinstance(X, ViewSet | Mapping) or isinstance(getattr(X, "mod", None), Mapping)
    return not named and not is_frame(X) and not is_dataset(X) and not is_table(X)


def apply_nan_policy(views: ViewSet, nan: str) -> ViewSet:
    """Return views whose missing values are treated as `nan` says; the same ones if none are."""
    if nan == "mean" or not any(map(views.may_miss_values, views.names)):
        return views
    counts = [views.count_missing_values(name) for name in views.names]
    if nan == "missing_view":
        return views.with_observed(np.stack(counts, axis=1) == 0)
    for name, missing in zip(views.names, counts, strict=True):
        if missing.any():
            rows = np.flatnonzero(missing)
            values = views.rows(name, rows[:1], dtype=np.float64)[0]
            column, names = int(np.isnan(values).argmax()), views.feature_names[name]
            label = f"{column}" if names is None else f"{column} ({names[column]!r})"
            raise ViewError(
                f"view {name!r}: {missing.sum()} NaN values in {len(rows)} rows that are not "
                f"missing; first: row id {views.sample_ids[rows[0]]!s}, column {label}; "
                f"{advice_on_nan()}"
            )
    return views


def _cut_columns(X: Any, views: Mapping[str, Any]) -> dict[str, Any]:
    """Views of one table, by columns; consecutive columns share the table's memory."""
    if not views:
        raise ViewError("views={} names no view; pass {name: columns}")
    if is_frame(X):
        return {name: _frame_columns(X, name, columns) for name, columns in views.items()}
    table: Any = X.tocsc() if is_sparse(X) else X if is_dataset(X) else np.asarray(X)
    if table.ndim != 2:
        raise ViewError(f"views= needs one 2-D table, found shape {table.shape}")
    if is_dataset(table):
        return {name: _dataset_columns(table, name, columns) for name, columns in views.items()}
    cut = {name: table[:, _columns(name, spec, table.shape[1])] for name, spec in views.items()}
    return {name: part.tocsr() if is_sparse(part) else part for name, part in cut.items()}


def _columns(name: str, columns: Any, width: int) -> slice | NDArray[np.intp]:
    if isinstance(columns, slice):
        return columns
    wanted = np.atleast_1d(np.asarray(columns))
    if wanted.dtype.kind == "b" and len(wanted) == width:
        wanted = np.flatnonzero(wanted)
    if wanted.dtype.kind not in "ui" or wanted.ndim != 1:
        raise ViewError(
            f"view {name!r}: the columns of an array are a slice or numbers, found "
            f"{first_few(wanted)}; if a step of a pipeline has made an array of a DataFrame, "
            "set_output(transform='pandas') keeps the names"
        )
    if len(wanted) and (wanted.min() < -width or wanted.max() >= width):
        raise ViewError(
            f"view {name!r}: columns up to {wanted.max()} asked of a table with {width} columns"
        )
    if len(wanted) and wanted[0] >= 0 and (np.diff(wanted) == 1).all():
        return slice(int(wanted[0]), int(wanted[-1]) + 1)
    return wanted.astype(np.intp)


def _dataset_columns(dataset: Any, name: str, columns: Any) -> LazyRows:
    """Columns that are read with every row; scattered ones would read far more than they are."""
    wanted = _columns(name, columns, dataset.shape[1])
    if not isinstance(wanted, slice) or wanted.step not in (None, 1):
        raise ViewError(
            f"view {name!r}: the columns of an HDF5 dataset must follow one another, found "
            f"{columns!r}; give every view a dataset of its own"
        )
    return LazyRows(dataset, wanted)


def _frame_columns(frame: Any, name: str, columns: Any) -> Any:
    if isinstance(columns, slice):
        by_number = all(isinstance(end, int | None) for end in (columns.start, columns.stop))
        return frame.iloc[:, columns] if by_number else frame.loc[:, columns]
    wanted = [columns] if isinstance(columns, str) else list(columns)
    absent = [column for column in wanted if column not in frame.columns]
    if not absent:
        return frame[wanted]
    if all(isinstance(column, int | np.integer) for column in wanted):
        return frame.iloc[:, _columns(name, wanted, frame.shape[1])]
    shown = first_few(absent)
    raise ViewError(f"view {name!r}: {len(absent)} columns are not in the table: {shown}")


def as_labels(
    Y: Any,
    views: ViewSet,
    names: Sequence[str] | None = None,
    *,
    id_column: str | None = None,
) -> Labels:
    """Return checked labels for the samples of `views`.

    Parameters
    ----------
    Y : array, DataFrame, list or sparse matrix of shape (n, c), Labels or SparseLabelTable
        0, 1 and NaN (not observed), booleans, or words such as yes and no. A DataFrame is aligned
        by index if the views have ids; samples absent from it count as not observed. Labels without
        ids are refused where the order of the samples is not known (`ViewSet.row_order_known`).
        In a sparse matrix a stored 1 is a positive, a stored NaN unknown, and all else an observed
        negative; a large one stays sparse (`SparseLabels`, which can also be told otherwise).
    views : ViewSet
        The samples that the labels belong to.
    names : sequence of str, optional
        Names of the labels; else those of the columns, else label0, label1, ...
    id_column : str, optional
        Name of the column of sample ids, for a DataFrame that does not have them as index.

    Returns
    -------
    Labels
    """
    Y = _label_frame(Y, views, id_column)
    if not views.row_order_known and not is_frame(Y) and not isinstance(Y, SparseLabelTable):
        raise LabelError(
            "the labels have no sample ids, and the views are DataFrames that differ in their "
            "samples or in their order, so no row of labels can be told to belong to a sample; "
            "give Y as a DataFrame with the sample ids as index, or pass "
            "ViewSet(views, sample_ids=...) with the ids in the order of Y"
        )
    if isinstance(Y, SparseLabelTable):
        labels: Labels = Y.aligned(views.sample_ids if views.has_ids else None, names)
    elif isinstance(Y, Labels):
        labels = Y
        if names is not None and tuple(names) != labels.names:
            raise LabelError(
                f"expected the labels {first_few(names)}, found {first_few(labels.names)}"
            )
    else:
        labels = _read(Y, views.sample_ids if views.has_ids else None, names)
    if len(labels) != len(views):
        raise LabelError(
            f"expected one row of labels per sample: {len(views)} samples, {len(labels)} rows"
        )
    return labels


def _read(Y: Any, ids: NDArray[Any] | None, names: Sequence[str] | None) -> Labels:
    """Labels of an array, DataFrame or sparse matrix; a large sparse one stays sparse."""
    if is_sparse(Y) and is_too_large(Y.shape):
        return SparseLabels.from_sparse(Y, names, entries=entry_names(Y, ids, names))
    return read_labels(Y, ids, names)


def _label_frame(Y: Any, views: ViewSet, id_column: str | None) -> Any:
    """Return labels in a table of polars or pyarrow as a DataFrame; without ids, as their rows."""
    if id_column is not None:
        return as_frame(Y, id_column, "the labels", LabelError)
    if not is_table(Y):
        return Y
    frame = as_frame(Y, None, "the labels", LabelError)
    if views.has_ids and not np.array_equal(views.sample_ids, np.arange(len(views))):
        raise LabelError(
            "the labels are a table without an index, but the samples have ids; name the column of "
            f"the ids: as_labels(Y, views, id_column=...), one of {first_few(frame.columns)}"
        )
    return frame


def match_views(
    views: ViewSet,
    names: Sequence[str],
    dims: Sequence[int],
    feature_names: Mapping[str, Sequence[str]] | None = None,
) -> ViewSet:
    """Return `views` with the views a model was fitted on, in its order, matched by name.

    An absent view is treated as missing, with a warning; a view given as None without one.

    Parameters
    ----------
    views : ViewSet
        The views of new samples.
    names : sequence of str
        Names of the views of the model, in its order.
    dims : sequence of int
        Number of columns of each of them.
    feature_names : mapping of str to sequence of str, optional
        Names of the model's columns, of the views that have any. Another order is put right,
        columns that the model does not know are left out with a warning, absent ones are refused.

    Returns
    -------
    ViewSet
    """
    extra = [name for name in views.names if name not in names]
    if extra:
        renamed = renamed_view(views, names, dims, feature_names or {})
        if renamed is not None:
            question = renamed.question(f"view {renamed.given!r}")
            raise ViewError(f"{question}; {renamed.remedy}")
        raise ViewError(
            f"view {extra[0]!r} was not there when the model was fitted; it knows: "
            f"{', '.join(names)}; leave it out"
        )
    by_position = []
    for name, dim in zip(names, dims, strict=True):
        if name in views.names:
            fitted = (feature_names or {}).get(name)
            views, named = _match_columns(views, name, dim, fitted)
            by_position += [] if named else [name]
    if by_position:
        warnings.warn(
            f"views {first_few(by_position)}: only one of the model and this data has column "
            "names, so columns are taken in the order given; fit and predict on DataFrames to have "
            "them matched by name",
            ViewgapWarning,
            stacklevel=4,
        )
    given = dict(zip(views.names, views.dims, strict=True))
    absent = [name for name in names if name not in given]
    if absent:
        warnings.warn(
            f"views not given, treated as missing: {', '.join(absent)}",
            ViewgapWarning,
            stacklevel=4,
        )
    for name, dim in zip(names, dims, strict=True):
        if given.get(name, 0) != dim:
            views = views.with_missing_view(name, dim)
    return views.reorder(names)


def _match_columns(
    views: ViewSet, name: str, dim: int, fitted: Sequence[str] | None
) -> tuple[ViewSet, bool]:
    """Return `views` with the columns of one view in the order of the model.

    Also whether they were matched by name; False where one side has names and the other has none.
    """
    width = views.dims[views.names.index(name)]
    given = views.feature_names[name]
    if width == 0:  # missing for all samples
        return views, True
    if fitted is None and width != dim:  # first: `dim` may come from a crafted file
        raise ViewError(f"view {name!r}: {width} columns, the model was fitted on {dim}")
    # The columns of an array are 0, 1, 2, ...: a DataFrame that has just these can be matched.
    counted = tuple(map(str, range(dim)))
    wanted = counted if fitted is None else tuple(fitted)
    if given is not None and (fitted is not None or set(given) == set(wanted)):
        if given == wanted:
            return views, True
        return views.select_columns(name, _column_positions(name, given, wanted)), True
    if width != dim:
        raise ViewError(f"view {name!r}: {width} columns, the model was fitted on {dim}")
    return views, given is None and wanted == counted


def _column_positions(name: str, given: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """Return where the wanted columns stand among the given ones."""
    positions = {column: position for position, column in enumerate(given)}
    absent = [column for column in wanted if column not in positions]
    expected = set(wanted)
    extra = [column for column in given if column not in expected]
    if absent:
        others = f"; not known to the model: {first_few(extra)}" if extra else ""
        others += form_only(extra, absent)
        raise ViewError(
            f"view {name!r}: {len(absent)} of the {len(wanted)} columns the model was fitted on "
            f"are absent: {first_few(absent)}{others}; add them (NaN where they were not measured) "
            "or rename the columns"
        )
    if extra:
        warnings.warn(
            f"view {name!r}: {len(extra)} columns that the model was not fitted on are left out: "
            f"{first_few(extra)}",
            ViewgapWarning,
            stacklevel=6,
        )
    return [positions[column] for column in wanted]
