"""Views in any container (arrays, row lists, DataFrames, AnnData) brought to the same rows."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from viewgap.data.rows.ids import ids_in_another_form, shown_id, unrelated, unusable_ids
from viewgap.data.rows.on_disk import joined_blocks
from viewgap.data.rows.summary_rows import refuse_summary_rows
from viewgap.data.rows.values import LazyRows, gather, is_dataset, is_sparse, row_chunks
from viewgap.errors import ViewError, ViewgapWarning, first_few, remedy

Mask = NDArray[np.bool_]
ColumnNames = tuple[str, ...] | None


@dataclass(frozen=True)
class RowIds:
    """The ids of the rows, and where they come from.

    `given`: they came from the user and were not just counted. `order_known`: whoever passed the
    views can know the order of the rows; not so where DataFrames hold different samples.
    `index_names`: names of the index of the DataFrames, None if there were none.
    """

    ids: NDArray[Any]
    given: bool = False
    order_known: bool = True
    index_names: tuple[Any, ...] | None = None


@dataclass(frozen=True)
class Aligned:
    """Views with the same rows in the same order; `None` is a view that is missing throughout."""

    values: dict[str, Any]
    observed: Mask
    rows: RowIds
    columns: dict[str, ColumnNames]


@dataclass(frozen=True)
class Incoming:
    """One view as it came: values, and row ids and column names where it brought them."""

    name: str
    values: Any
    index: Any = None  # pandas.Index
    present: Mask | None = None
    columns: Sequence[Any] | None = None


@dataclass(frozen=True)
class NamedMatrix:
    """A matrix of any kind with row ids, and column names or None; named as in AnnData."""

    X: Any
    obs_names: Any  # pandas.Index
    var_names: Sequence[Any] | None = None


def align(
    views: Mapping[Any, Any], observed: ArrayLike | None, sample_ids: ArrayLike | None
) -> Aligned:
    """Bring all views to the same rows.

    Views with an index are aligned by it: a sample absent from a view's index has that view
    missing. The rows follow `sample_ids` if they are given, else the view that holds all samples,
    else the union of the indices in order of first appearance. Views without an index must have
    one row per sample, and are refused where the order of the rows is not known.
    """
    incoming = [read_view(name, values) for name, values in _named(views).items()]
    indexed = [view for view in incoming if view.index is not None]
    if indexed:
        index, order_known = _row_index(indexed, sample_ids)
        rows = RowIds(index.to_numpy(), True, order_known, tuple(index.names))
        incoming = _spread(incoming, index, order_known, positional=observed is not None)
    else:
        ids = _check_ids(sample_ids, _common_length(incoming))
        rows = RowIds(ids, given=sample_ids is not None)
    shape = (len(rows.ids), len(incoming))
    mask = np.ones(shape, dtype=np.bool_) if observed is None else as_mask(observed, shape)
    for j, view in enumerate(incoming):
        if view.present is not None:
            mask[:, j] &= view.present
    values = {view.name: view.values for view in incoming}
    if rows.given:
        refuse_summary_rows(rows.ids, values, mask)
    return Aligned(
        values=values,
        observed=mask,
        rows=rows,
        columns={view.name: _column_names(view) for view in incoming},
    )


def _column_names(view: Incoming) -> ColumnNames:
    """Names of the columns as text; None if there are none, or only pandas' own 0, 1, 2, ..."""
    if view.columns is None or is_default_index(view.columns):
        return None
    names = tuple(map(str, view.columns))
    refuse_duplicates(f"view {view.name!r}: column names", names, ViewError)
    return names


def is_default_index(index: Any) -> bool:
    """Whether this is the 0, 1, 2, ... that pandas gives when nobody named rows or columns."""
    return (
        type(index).__name__ == "RangeIndex"
        and (index.start, index.step) == (0, 1)
        and index.name is None
    )


def _named(views: Mapping[Any, Any]) -> dict[str, Any]:
    if not isinstance(views, Mapping):
        raise ViewError(f"expected {{name: values}}, found {type(views).__name__}; see as_viewset")
    if not views:
        raise ViewError("expected at least one view, found none")
    names = [str(name) for name in views]
    refuse_duplicates("view names", names, ViewError)
    if "" in names:
        raise ViewError("a view has an empty name; give every view a name")
    return dict(zip(names, views.values(), strict=True))


def refuse_duplicates(what: str, items: Sequence[Any], error: type[Exception]) -> None:
    """Raise `error`, listing what occurs more than once among `items`."""
    seen: set[Any] = set()
    repeated = list(dict.fromkeys(item for item in items if item in seen or seen.add(item)))  # type: ignore[func-returns-value]
    if repeated:
        raise error(
            f"{what} must be unique; {len(repeated)} occur more than once: {first_few(repeated)}"
        )


# ---------------------------------------------------------------------- one view


def read_view(name: str, values: Any) -> Incoming:
    """Return one view as values with what it tells about rows and columns."""
    if values is None:
        return Incoming(name, None)
    if is_frame(values):
        return Incoming(name, _frame_values(name, values), values.index, columns=values.columns)
    if hasattr(values, "obs_names") and hasattr(values, "X"):  # AnnData
        inner = read_view(name, values.X)
        names = None if values.var_names is None else list(values.var_names)
        _check_sizes(name, inner.values, values.obs_names, names)
        return Incoming(name, inner.values, values.obs_names, columns=names)
    if is_sparse(values):
        return Incoming(name, values)
    if isinstance(values, list | tuple):
        return _from_rows(name, values)
    if isinstance(values, np.ma.MaskedArray):
        raise ViewError(
            f"view {name!r}: a masked array can hide single values, but a view is missing for "
            "whole rows; pass the plain array and ViewSet(..., observed=mask), or NaN rows"
        )
    return Incoming(name, _as_array(name, values))


def _check_sizes(name: str, values: Any, ids: Any, columns: Sequence[Any] | None) -> None:
    """Refuse a matrix whose ids or names are not as many as its rows and columns."""
    shape = getattr(values, "shape", ())
    width = shape[-1] if columns is None and shape else len(columns or ())
    if len(shape) == 2 and shape != (len(ids), width):
        raise ViewError(
            f"view {name!r}: {len(ids)} sample ids and {width} column names for a matrix of shape "
            f"{shape}"
        )


def is_frame(values: Any) -> bool:
    """Whether `values` is a pandas DataFrame, without importing pandas."""
    return hasattr(values, "iloc") and hasattr(values, "columns") and hasattr(values, "index")


def _as_array(name: str, values: Any) -> Any:
    if is_dataset(values):
        return LazyRows(values)
    if isinstance(values, np.memmap | LazyRows):
        return values
    try:
        return np.asarray(values)
    except Exception as error:
        kind = type(values).__name__
        raise ViewError(f"view {name!r}: {kind} cannot become an array: {error}") from error


def _from_rows(name: str, rows: Sequence[Any]) -> Incoming:
    """Rows one by one; a row that is None has the view missing."""
    present = np.array([row is not None for row in rows], dtype=np.bool_)
    given = [row for row in rows if row is not None]
    if rows and not given:
        return Incoming(name, None, present=present)
    are_rows = all(isinstance(row, list | tuple | np.ndarray) for row in given)
    widths = {np.shape(row) for row in given} if are_rows else set()
    if len(widths) > 1:
        raise ViewError(f"view {name!r}: rows of different shapes: {sorted(widths)[:3]}")
    values = _as_array(name, given)
    if present.all() or values.ndim != 2:
        return Incoming(name, values)
    spread = np.zeros((len(rows), values.shape[1]), dtype=values.dtype)
    spread[present] = values
    return Incoming(name, spread, present=present)


def _frame_values(name: str, frame: Any) -> NDArray[Any]:
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    kinds = frame.dtypes.unique()  # few, where columns may be 100,000s
    for dtype in kinds:
        if not (is_numeric_dtype(dtype) or is_bool_dtype(dtype)):
            _refuse_column(name, frame, dtype)
    if all(isinstance(dtype, np.dtype) for dtype in kinds):
        values = frame.to_numpy()
        if values.dtype.kind != "O":
            return np.asarray(values)
    return np.asarray(frame.to_numpy(dtype=np.float64, na_value=np.nan))


def _refuse_column(name: str, frame: Any, dtype: Any) -> None:
    """Refuse the first column of this dtype, with the first value that is no number."""
    position = next(i for i, own in enumerate(frame.dtypes) if own == dtype)
    column = frame.iloc[:, position]
    texts = [i for i, value in enumerate(column) if isinstance(value, str) and value.strip()]
    first = ""
    if texts:
        where = shown_id(column.index[texts[0]])
        first = f" (first text: {column.iloc[texts[0]]!r} for sample {where})"
    raise ViewError(
        f"view {name!r}: column {frame.columns[position]!r} has dtype {dtype}{first}; encode it "
        "as numbers, or make it the index if it holds sample ids (as_viewset has id_column=)"
    )


# ---------------------------------------------------------------------- rows


def _n_rows(view: Incoming) -> int | None:
    """Number of rows that a view tells; None if it does not."""
    if view.values is not None:
        return int(view.values.shape[0]) if view.values.shape else None
    return None if view.present is None else len(view.present)


def _common_length(incoming: Sequence[Incoming]) -> int:
    told = {view.name: _n_rows(view) for view in incoming}
    lengths = {name: n for name, n in told.items() if n is not None}
    if not lengths:
        raise ViewError("no view has values, so the number of samples is unknown")
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name}: {n}" for name, n in lengths.items())
        raise ViewError(
            f"all views need the same number of rows, found {shown}; "
            + remedy(
                "give DataFrames with the sample ids as index to have them aligned",
                "give every view a row for each sample, of NaN where it is missing, or the sample "
                "ids of each view (a folder with a table, or an array and ids, per view)",
            )
        )
    return next(iter(lengths.values()))


def _check_ids(sample_ids: ArrayLike | None, n: int) -> NDArray[Any]:
    if sample_ids is None:
        return np.arange(n)
    ids = np.array(sample_ids)
    if ids.shape != (n,):
        raise ViewError(f"sample_ids: expected {n} ids, found shape {ids.shape}")
    if ids.dtype.kind in "US" and not hasattr(sample_ids, "dtype"):
        items: list[Any] = list(sample_ids)  # type: ignore[arg-type]
        if not all(isinstance(item, str | bytes) for item in items):
            ids = np.array([*items, None], dtype=object)[:-1]  # numpy made text of numbers
    _refuse_unusable("sample_ids", ids)
    refuse_duplicates("sample_ids", ids.tolist(), ViewError)
    return ids


def _row_index(indexed: Sequence[Incoming], sample_ids: Any) -> tuple[Any, bool]:
    """Return the index of the samples, and whether the user can know its order."""
    for view in indexed:
        _check_index(view)
    _refuse_counted_rows(indexed)
    if sample_ids is not None:
        return _given_index(indexed, sample_ids), True
    _refuse_unrelated(indexed)
    union = indexed[0].index
    for view in indexed:
        if not view.index.equals(union):
            union = union.append(view.index).unique()
    complete = [view.index for view in indexed if len(view.index) == len(union)]
    if not complete:
        return union, False
    return complete[0], all(index.equals(complete[0]) for index in complete)


def _check_index(view: Incoming) -> None:
    if view.index.has_duplicates:
        refuse_duplicates(f"view {view.name!r}: sample ids", view.index.tolist(), ViewError)
    _refuse_unusable(f"view {view.name!r}", view.index)


def _refuse_unusable(where: str, ids: Any) -> None:
    problem = unusable_ids(ids)
    if problem:
        raise ViewError(f"{where}: {problem}")


def _refuse_counted_rows(indexed: Sequence[Incoming]) -> None:
    """DataFrames of different lengths whose rows are only counted: which row is which sample?"""
    lengths = {view.name: len(view.index) for view in indexed if is_default_index(view.index)}
    if len(lengths) == len(indexed) and len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name!r}: {n}" for name, n in lengths.items())
        raise ViewError(
            f"the DataFrames have different numbers of rows ({shown}) and no sample ids, only "
            "pandas' own 0, 1, 2, ...; make the ids the index: frame.set_index('id'), or name "
            "their column: as_viewset(views, id_column='id')"
        )


def _given_index(indexed: Sequence[Incoming], sample_ids: Any) -> Any:
    import pandas as pd

    index = pd.Index(sample_ids, name=indexed[0].index.name)
    _refuse_unusable("sample_ids", index)
    refuse_duplicates("sample_ids", index.tolist(), ViewError)
    for view in indexed:
        outside = view.index[~view.index.isin(index)]
        if len(outside):
            raise ViewError(
                f"view {view.name!r}: {len(outside)} samples are not among sample_ids (first: "
                f"{shown_id(outside[0])}); add them, or leave their rows out of the view"
            )
    return index


def _refuse_unrelated(indexed: Sequence[Incoming]) -> None:
    """Refuse a view without any id in common with the others: mostly ids of another form."""
    tables = {view.name: (view.index, view.columns) for view in indexed}
    empty = [view.name for view in indexed if not len(view.index)]
    if len(empty) == len(indexed) > 1:
        raise ViewError("no samples: none of the views has rows")
    if empty and len(indexed) > 1:
        raise ViewError(
            f"view {empty[0]!r} has no rows; if no sample has it, leave it out, with its file"
        )
    problem = unrelated(tables)
    if problem:
        raise ViewError(
            f"{problem}. If the views really describe different samples, say so: pass "
            "ViewSet(views, sample_ids=all_ids), or give one view a row for every sample, of NaN "
            "where it is missing"
        )
    problem = ids_in_another_form({f"view {name!r}": ids for name, (ids, _) in tables.items()})
    if problem:
        warnings.warn(problem, ViewgapWarning, stacklevel=6)


def _spread(
    incoming: Sequence[Incoming], index: Any, order_known: bool, *, positional: bool
) -> list[Incoming]:
    """Bring every view to the rows of `index`."""
    if positional and not order_known:
        raise ViewError(
            "observed: the DataFrames differ in their samples or in their order, so the rows of "
            "the mask are not defined; pass sample_ids= in the order of the mask, or leave rows "
            "out of a view instead"
        )
    result = []
    for view in incoming:
        if view.index is not None:
            result.append(view if view.index.equals(index) else _spread_one(view, index))
            continue
        length = _n_rows(view)
        if length is not None and (length != len(index) or not order_known):
            raise ViewError(
                f"view {view.name!r}: {length} rows without ids beside DataFrames with "
                f"{len(index)} samples in all; give it as a DataFrame with the sample ids as index"
            )
        result.append(view)
    return result


def _spread_one(view: Incoming, index: Any) -> Incoming:
    positions = view.index.get_indexer(index)
    present = positions >= 0
    if view.values is None:
        return view
    if isinstance(view.values, LazyRows):
        values: Any = view.values.select_rows(positions)
    elif is_sparse(view.values):
        matrix = view.values.tocsr()
        if not matrix.shape[0]:  # nobody has this view; there is no row to stand for that
            matrix = type(matrix)((1, matrix.shape[1]), dtype=matrix.dtype)
        values = matrix[np.maximum(positions, 0)]
    else:
        shape = (len(index), view.values.shape[1])
        values = joined_blocks(shape, view.values.dtype, _spread_blocks(view.values, positions))
    return Incoming(view.name, values, index, present, view.columns)


def _spread_blocks(values: Any, positions: NDArray[np.intp]) -> Iterator[NDArray[Any]]:
    """Rows of `values` at these positions, zeros at negative ones, in blocks."""
    for part in row_chunks(len(positions), values.shape[1] * values.dtype.itemsize):
        wanted = positions[part]
        yield gather(values, np.maximum(wanted, 0), wanted >= 0, values.dtype)


def as_mask(mask: ArrayLike, shape: tuple[int, ...]) -> Mask:
    """Return `mask` as new booleans of the given shape (samples, views)."""
    result = np.asarray(mask)
    if result.shape != shape:
        raise ViewError(
            f"observed: expected shape (samples, views) = {shape}, found {result.shape}"
        )
    if result.dtype.kind not in "buif" or not np.isin(result, (0, 1)).all():
        raise ViewError("observed: expected booleans, True where the view is there")
    return result.astype(np.bool_)
