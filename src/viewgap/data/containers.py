"""Whatever holds views (arrays, row lists, DataFrames, AnnData) becomes arrays with common rows."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from viewgap.data.lazy_rows import LazyRows, is_dataset
from viewgap.data.values import is_sparse
from viewgap.errors import ViewError, ViewgapWarning

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Aligned:
    """Views with the same rows in the same order; `None` is a view that is missing throughout."""

    values: dict[str, Any]
    observed: Mask
    sample_ids: NDArray[Any]
    has_ids: bool
    columns: dict[str, Sequence[Any] | None]


@dataclass(frozen=True)
class Incoming:
    """One view as it came: values, and row ids and column names where it brought them."""

    name: str
    values: Any
    index: Any = None  # pandas.Index
    present: Mask | None = None
    columns: Sequence[Any] | None = None


def align(
    views: Mapping[Any, Any], observed: ArrayLike | None, sample_ids: ArrayLike | None
) -> Aligned:
    """Bring all views to the same rows.

    Views with an index are aligned by it: the samples are the union of the indices in order of
    first appearance, and a sample absent from a view's index has that view missing. Views
    without an index must have one row per sample.
    """
    incoming = [read_view(name, values) for name, values in _named(views).items()]
    indexed = [view for view in incoming if view.index is not None]
    given_ids = sample_ids is not None
    if indexed:
        if given_ids:
            raise ViewError("sample_ids: DataFrames bring their own ids; set their index instead")
        index = _union(indexed)
        incoming = _spread(incoming, index, positional=observed is not None)
        ids = index.to_numpy()
    else:
        ids = _check_ids(sample_ids, _common_length(incoming))
    shape = (len(ids), len(incoming))
    mask = np.ones(shape, dtype=np.bool_) if observed is None else as_mask(observed, shape)
    for j, view in enumerate(incoming):
        if view.present is not None:
            mask[:, j] &= view.present
    return Aligned(
        values={view.name: view.values for view in incoming},
        observed=mask,
        sample_ids=ids,
        has_ids=bool(indexed) or given_ids,
        columns={view.name: view.columns for view in incoming},
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
        shown = ", ".join(map(str, repeated[:5])) + (", ..." if len(repeated) > 5 else "")
        raise error(f"{what} must be unique; {len(repeated)} occur more than once: {shown}")


def shown_id(item: Any) -> str:
    """Return an id as a user would write it, so that 1 and '1' differ."""
    return repr(item.item() if isinstance(item, np.generic) else item)


# ---------------------------------------------------------------------- one view


def read_view(name: str, values: Any) -> Incoming:
    """Return one view as values with what it tells about rows and columns."""
    if values is None:
        return Incoming(name, None)
    if is_frame(values):
        return Incoming(name, _frame_values(name, values), values.index, columns=values.columns)
    if hasattr(values, "obs_names") and hasattr(values, "X"):  # AnnData
        inner = read_view(name, values.X)
        return Incoming(name, inner.values, values.obs_names, columns=list(values.var_names))
    if is_sparse(values):
        return Incoming(name, values)
    if isinstance(values, list | tuple):
        return _from_rows(name, values)
    if isinstance(values, np.ma.MaskedArray):
        raise ViewError(
            f"view {name!r}: a masked array can hide single cells, but a view is missing for whole "
            "rows; pass the plain array and ViewSet(..., observed=mask), or NaN rows"
        )
    return Incoming(name, _as_array(name, values))


def is_frame(values: Any) -> bool:
    """Whether `values` is a pandas DataFrame, told without importing pandas."""
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
    widths = {np.shape(row) for row in given} if _are_rows(given) else set()
    if len(widths) > 1:
        raise ViewError(f"view {name!r}: rows of different shapes: {sorted(widths)[:3]}")
    values = _as_array(name, given)
    if present.all() or values.ndim != 2:
        return Incoming(name, values)
    spread = np.zeros((len(rows), values.shape[1]), dtype=values.dtype)
    spread[present] = values
    return Incoming(name, spread, present=present)


def _are_rows(rows: Sequence[Any]) -> bool:
    return all(isinstance(row, list | tuple | np.ndarray) for row in rows)


def _frame_values(name: str, frame: Any) -> NDArray[Any]:
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    for column, dtype in zip(frame.columns, frame.dtypes, strict=True):
        if not (is_numeric_dtype(dtype) or is_bool_dtype(dtype)):
            raise ViewError(
                f"view {name!r}: column {column!r} has dtype {dtype}; encode it as numbers, or "
                "make it the index if it holds sample ids"
            )
    if all(isinstance(dtype, np.dtype) for dtype in frame.dtypes):
        values = frame.to_numpy()
        if values.dtype.kind != "O":
            return np.asarray(values)
    return np.asarray(frame.to_numpy(dtype=np.float64, na_value=np.nan))


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
            f"all views need the same number of rows, found {shown}; give DataFrames with the "
            "sample ids as index to have them aligned"
        )
    return next(iter(lengths.values()))


def _check_ids(sample_ids: ArrayLike | None, n: int) -> NDArray[Any]:
    if sample_ids is None:
        return np.arange(n)
    ids = np.array(sample_ids)
    if ids.shape != (n,):
        raise ViewError(f"sample_ids: expected {n} ids, found shape {ids.shape}")
    refuse_duplicates("sample_ids", ids.tolist(), ViewError)
    return ids


def _union(indexed: Sequence[Incoming]) -> Any:
    """Union of the indices in order of first appearance."""
    union = indexed[0].index
    for view in indexed:
        if view.index.has_duplicates:
            refuse_duplicates(f"view {view.name!r}: sample ids", view.index.tolist(), ViewError)
        if view.index.nlevels == 1 and view.index.hasnans:
            raise ViewError(f"view {view.name!r}: some sample ids (the index) are missing")
        if not view.index.equals(union):
            union = union.append(view.index).unique()
    _warn_of_strangers(indexed)
    return union


def _warn_of_strangers(indexed: Sequence[Incoming]) -> None:
    """Warn of views without any id in common with the others: mostly ids of another form."""
    strangers = []
    for view in indexed:
        others = [other.index for other in indexed if other is not view]
        if others and not any(view.index.isin(other).any() for other in others):
            strangers.append(f"{view.name!r} (first id: {shown_id(view.index[0])})")
    if strangers:
        warnings.warn(
            f"views without any sample id in common with another view: {', '.join(strangers)}; "
            "check that the ids have the same form and type",
            ViewgapWarning,
            stacklevel=6,
        )


def _spread(incoming: Sequence[Incoming], index: Any, *, positional: bool) -> list[Incoming]:
    """Bring every view to the rows of `index`."""
    same = [view.index is not None and view.index.equals(index) for view in incoming]
    if positional and not any(same):
        raise ViewError(
            "observed: the DataFrames differ in their samples, so the rows of the mask are not "
            "defined; bring them to one index first, or leave rows out of a view instead"
        )
    result = []
    for view, equal in zip(incoming, same, strict=True):
        if view.index is None:
            _check_positional(view, len(index), any(same))
        result.append(view if equal or view.index is None else _spread_one(view, index))
    return result


def _check_positional(view: Incoming, n: int, row_order_known: bool) -> None:
    length = _n_rows(view)
    if length is None:
        return
    if length != n or not row_order_known:
        raise ViewError(
            f"view {view.name!r}: {length} rows without ids beside DataFrames with {n} samples in "
            "all; give it as a DataFrame with the sample ids as index"
        )


def _spread_one(view: Incoming, index: Any) -> Incoming:
    positions = view.index.get_indexer(index)
    present = positions >= 0
    if view.values is None:
        return view
    if is_sparse(view.values):
        values = view.values.tocsr()[np.maximum(positions, 0)]
    else:
        values = np.zeros((len(index), view.values.shape[1]), dtype=view.values.dtype)
        values[present] = view.values[positions[present]]
    return Incoming(view.name, values, index, present, view.columns)


def as_mask(mask: ArrayLike, shape: tuple[int, ...]) -> Mask:
    """Return `mask` as new booleans of the given shape (samples, views)."""
    found = np.asarray(mask)
    if found.shape != shape:
        raise ViewError(f"observed: expected shape (samples, views) = {shape}, found {found.shape}")
    if found.dtype.kind not in "buif" or not np.isin(found, (0, 1)).all():
        raise ViewError("observed: expected booleans, True where the view is there")
    return found.astype(np.bool_)
