"""ViewSet: named views of the same samples, and which entries (sample, view) are observed."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from viewgap.data.rows.alignment import ColumnNames, RowIds, align, as_mask
from viewgap.data.rows.on_disk import joined_blocks
from viewgap.data.rows.tables import as_frame, is_table
from viewgap.data.rows.values import (
    LazyRows,
    Rows,
    Stored,
    check_nan_policy,
    gather,
    is_on_disk,
    is_sparse,
    lock,
    observed_rows,
    row_chunks,
    row_numbers,
    stack_rows,
    store,
)
from viewgap.errors import ViewError, ViewgapDeprecationWarning

Mask = NDArray[np.bool_]


class ViewSet:
    """Immutable, row-indexable container of several views of the same n samples.

    Values are never copied or written to: a ViewSet shares the memory of what it was given, and
    indexing by rows only composes the row numbers. Values are read when `rows` gathers them, so
    memory maps and HDF5 datasets may be larger than memory; a copy for another process is not lazy.

    Parameters
    ----------
    views
        `{name: values}`: 2-D arrays (any real dtype, memmap included), open HDF5 datasets, scipy
        sparse matrices or DataFrames. DataFrames are aligned by index. `None` stands for a view
        that is missing for every sample; it has zero columns until the model's width is known.
    observed
        (n, m) booleans, False where a view is missing for a sample. A row of NaN is missing too.
        Values in rows that are not observed are never read.
    sample_ids
        (n,) unique ids; 0, 1, 2, ... if not given. DataFrames bring their own, and `sample_ids`
        then gives the order of the rows.
    nan
        What a NaN in an observed row means: `"mean"`, a missing value, which stays NaN here and
        which a model fills with the mean of the column in its training data; `"error"`; or
        `"missing_view"` to treat the view as missing for that row. An infinite value is an error
        with the first two.

    Examples
    --------
    >>> views = ViewSet({"audio": [[1.0, 2.0], [3.0, 4.0]], "text": [[5.0], [float("nan")]]})
    >>> views
    ViewSet(2 samples; audio: 2, text: 1; 25.0% of the entries missing)
    >>> views[[1]].rows("text")
    array([[0.]], dtype=float32)
    """

    __slots__ = ("_columns", "_index", "_missing", "_observed", "_row_ids", "_stored")

    _stored: dict[str, Stored]
    _columns: dict[str, ColumnNames]
    _observed: Mask
    _row_ids: RowIds
    _index: Rows | None  # rows of the stored values, in order; None is all of them
    # of views with missing values: how many each stored row has, as far as it was observed
    _missing: dict[str, NDArray[np.int32]]

    def __init__(
        self,
        views: Mapping[str, Any],
        observed: ArrayLike | None = None,
        sample_ids: ArrayLike | None = None,
        *,
        nan: str = "mean",
    ) -> None:
        check_nan_policy(nan)
        table = align(_with_frames(views), observed, sample_ids)
        mask = table.observed.copy()
        stored: dict[str, Stored] = {}
        missing: dict[str, NDArray[np.int32]] = {}
        for j, (name, values) in enumerate(table.values.items()):
            if values is None:
                stored[name] = lock(np.zeros((len(mask), 0), dtype=np.float32))
                mask[:, j] = False
                continue
            stored[name] = store(name, values)
            mask[:, j], counts = observed_rows(
                name, stored[name], mask[:, j], table.rows.ids, nan, table.columns[name]
            )
            if counts is not None:
                missing[name] = counts
        self._set(stored, table.columns, mask, table.rows, None, missing)

    def _set(
        self,
        stored: dict[str, Stored],
        columns: dict[str, ColumnNames],
        observed: Mask,
        row_ids: RowIds,
        index: Rows | None,
        missing: dict[str, NDArray[np.int32]],
    ) -> Self:
        self._stored = stored
        self._columns = columns
        self._observed = lock(observed)
        self._row_ids = replace(row_ids, ids=lock(row_ids.ids))
        self._index = index
        self._missing = missing
        return self

    def _replace(self, **parts: Any) -> Self:
        """Return a copy with other parts, named as in `_set`, which fit by construction."""
        own = {name.removeprefix("_"): getattr(self, name) for name in self.__slots__}
        return object.__new__(type(self))._set(**own | parts)

    # ------------------------------------------------------------------ what it holds

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the views, in order."""
        return tuple(self._stored)

    @property
    def dims(self) -> tuple[int, ...]:
        """Number of columns of every view."""
        return tuple(values.shape[1] for values in self._stored.values())

    @property
    def observed(self) -> Mask:
        """(n, m), True where the view is observed for the sample; read-only."""
        return self._observed

    @property
    def sample_ids(self) -> NDArray[Any]:
        """(n,) ids of the samples; read-only."""
        return self._row_ids.ids

    @property
    def has_ids(self) -> bool:
        """Whether the ids were given, as `sample_ids` or by DataFrames, and not just counted."""
        return self._row_ids.given

    @property
    def row_order_known(self) -> bool:
        """Whether labels or masks without ids can be matched to the rows.

        Not so where the views came as DataFrames that differ in their samples or in their order,
        and neither a DataFrame with all samples nor `sample_ids` told the order.
        """
        return self._row_ids.order_known

    @property
    def feature_names(self) -> dict[str, ColumnNames]:
        """Names of the columns of every view; None for a view that came without."""
        return dict(self._columns)

    @property
    def from_frames(self) -> bool:
        """Whether the ids came with DataFrames: answers about the samples are DataFrames then."""
        return self._row_ids.index_names is not None

    def frame_index(self) -> Any:
        """Return the ids as a pandas index, named as in the DataFrames they came from."""
        import pandas as pd

        names = self._row_ids.index_names or (None,)
        if len(names) > 1:
            return pd.MultiIndex.from_tuples(self.sample_ids.tolist(), names=names)
        return pd.Index(self.sample_ids, name=names[0])

    @property
    def has_view(self) -> NDArray[np.bool_]:
        """Which samples have at least one observed view, (n,)."""
        return np.asarray(self.observed.any(axis=1))

    @property
    def n_views(self) -> int:
        """Number of views m."""
        return len(self._stored)

    @property
    def shape(self) -> tuple[int, int]:
        """(number of samples, number of columns of all views together)."""
        return len(self), sum(self.dims)

    @property
    def ndim(self) -> int:
        """Always 2, for scikit-learn."""
        return 2

    @property
    def n_missing_values(self) -> dict[str, int]:
        """Number of missing values, NaN in rows where the view is observed, of every view."""
        return {name: int(self.count_missing_values(name).sum()) for name in self.names}

    def count_missing_values(self, name: str) -> NDArray[np.int32]:
        """How many values of a view are missing for each sample that has it, (n,)."""
        if not self.may_miss_values(name):
            return np.zeros(len(self), dtype=np.int32)
        counts = self._missing[name] if self._index is None else self._missing[name][self._index]
        return np.where(self._observed[:, self.names.index(name)], counts, np.int32(0))

    def may_miss_values(self, name: str) -> bool:
        """Whether single values of a view are missing, here or in the set this one was cut from.

        False lets readers of large views do without looking for NaN.
        """
        self._values(name)
        return name in self._missing

    def __len__(self) -> int:
        return len(self._observed)

    def __repr__(self) -> str:
        views = ", ".join(f"{name}: {dim}" for name, dim in zip(self.names, self.dims, strict=True))
        missing = 100 * (1 - self._observed.mean()) if len(self) else 0.0
        text = f"{len(self)} samples; {views}; {missing:.1f}% of the entries missing"
        single = [f"{count} in {name}" for name, count in self.n_missing_values.items() if count]
        return f"ViewSet({text}{'; single values missing: ' if single else ''}{', '.join(single)})"

    def _repr_html_(self) -> str:
        from viewgap.data.notebook_view import viewset_html

        return viewset_html(self)

    def _values(self, name: str) -> Stored:
        if name not in self._stored:
            raise ViewError(f"no view named {name!r}; the views are: {', '.join(self.names)}")
        return self._stored[name]

    # ------------------------------------------------------------------ values

    def stored(self, name: str) -> Stored:
        """Values of a view as they were given, in their own dtype; read-only.

        Rows that are missing hold whatever they hold: for a model, use `rows`. Of a ViewSet that
        was indexed by rows this gathers a copy. An HDF5 dataset is a `LazyRows`: `[rows]` reads.
        """
        values = self._values(name)
        return values if self._index is None else values[self._index]

    def rows(self, name: str, rows: Any = None, dtype: DTypeLike = np.float32) -> NDArray[Any]:
        """Dense values (len(rows), d) of a view, zero in rows where the view is missing.

        `rows` is a slice, integers or booleans; all rows if None. The result is a new array.
        Missing values of observed rows are NaN, as they were given: what fills them is learned by
        a model (`data.preprocessing`).
        """
        wanted = row_numbers(slice(None) if rows is None else rows, len(self))
        values, positions = self.locate(name, wanted)
        present = self._observed[wanted, self.names.index(name)]
        return gather(values, positions, present, dtype)

    def locate(self, name: str, rows: Rows) -> tuple[Stored, Rows]:
        """Return the whole stored view and the positions of these rows in it.

        For code that walks over large views in chunks. Stored rows that are not observed, or
        not of this set, hold whatever they hold.
        """
        values = self._values(name)
        return values, rows if self._index is None else self._index[rows]

    def is_sparse(self, name: str) -> bool:
        """Whether this view is stored as a sparse array."""
        return is_sparse(self._values(name))

    def is_on_disk(self, name: str) -> bool:
        """Whether this view lies in a file: a memory map, or an array of `.npy`, HDF5 or Zarr."""
        return is_on_disk(self._values(name))

    def chunk_rows(self, name: str) -> int:
        """Rows of this view that can only be read together: those of a chunk of its file."""
        values = self._values(name)
        return values.chunk_rows if isinstance(values, LazyRows) else 1

    def to_array(self, dtype: DTypeLike = np.float64) -> NDArray[Any]:
        """All views side by side, (n, sum of the dims), NaN where a view or value is missing."""
        result = np.empty(self.shape, dtype=dtype)
        start = 0
        for name, dim, observed in zip(self.names, self.dims, self._observed.T, strict=True):
            block = result[:, start : start + dim]
            block[:] = self.rows(name, dtype=dtype)
            block[~observed] = np.nan
            start += dim
        return result

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("a ViewSet cannot become one array without a copy")
        return self.to_array(np.float64 if dtype is None else dtype)

    # ------------------------------------------------------------------ other ViewSets

    def __getitem__(self, rows: Any) -> Self:
        """Return the ViewSet of some rows: slice, integers, booleans, or one integer (one row)."""
        wanted = row_numbers(rows, len(self))
        return self._replace(
            observed=self._observed[wanted],
            row_ids=replace(self._row_ids, ids=self.sample_ids[wanted]),
            index=wanted if self._index is None else self._index[wanted],
        )

    def with_observed(self, mask: ArrayLike) -> Self:
        """Return the same values with more entries missing: observed where both masks say so."""
        return self._replace(observed=self._observed & as_mask(mask, self._observed.shape))

    def reorder(self, names: Sequence[str]) -> Self:
        """Return the same views in another order."""
        if sorted(names) != sorted(self.names):
            raise ViewError(
                f"reorder expects each view once: found {', '.join(names)}; "
                f"the views are: {', '.join(self.names)}"
            )
        return self.select(names)

    def select(self, names: Sequence[str]) -> Self:
        """Return the ViewSet of some of the views, in the order of `names`."""
        stored = {name: self._values(name) for name in names}
        columns = {name: self._columns[name] for name in names}
        positions = [self.names.index(name) for name in stored]
        return self._replace(stored=stored, columns=columns, observed=self._observed[:, positions])

    def select_columns(self, name: str, positions: Sequence[int]) -> Self:
        """Return this set with some of the columns of one view, in the order of `positions`."""
        wanted = np.asarray(positions, dtype=np.intp)
        values = self._values(name)
        row_bytes = values.shape[1] * values.dtype.itemsize
        if isinstance(values, LazyRows):
            chosen: Stored = values.select_columns(wanted)
        elif is_sparse(values):
            chosen = values[:, wanted]
        else:
            blocks = (values[rows][:, wanted] for rows in row_chunks(len(values), row_bytes))
            chosen = joined_blocks((len(values), len(wanted)), values.dtype, blocks)
        if is_sparse(chosen):
            chosen.sort_indices()
        names = self._columns[name]
        kept = None if names is None else tuple(names[position] for position in wanted)
        new = self._replace(
            stored=self._stored | {name: lock(chosen)}, columns=self._columns | {name: kept}
        )
        same = len(wanted) == values.shape[1] or not self.may_miss_values(name)
        return new if same else new._with_missing_values_counted(name)

    def _with_missing_values_counted(self, name: str) -> Self:
        """Return this set with the missing values of a view counted in the columns it has now.

        A row whose only values were in other columns has nothing left: the view is missing there.
        """
        j, values = self.names.index(name), self._values(name)
        rows = np.arange(len(self)) if self._index is None else self._index
        stored = np.zeros(values.shape[0], dtype=np.bool_)
        stored[rows[self._observed[:, j]]] = True
        stored, counts = observed_rows(name, values, stored, rows)
        observed = self._observed.copy()
        observed[:, j] &= stored[rows]
        missing = {view: own for view, own in self._missing.items() if view != name}
        return self._replace(
            observed=observed, missing=missing if counts is None else missing | {name: counts}
        )

    def with_values(self, values: Mapping[str, Any], observed: ArrayLike) -> ViewSet:
        """Return other values for the same views of the same samples; ids and names stay."""
        new = ViewSet({name: values[name] for name in self.names}, observed=observed)
        return new._replace(row_ids=self._row_ids, columns=dict(self._columns))

    def with_view_values(self, name: str, values: NDArray[Any]) -> Self:
        """Return other values (n, d) of one view; everything else, its mask too, stays.

        Values in rows where the view is missing are not read; a row of NaN is missing.
        """
        expected = (len(self), self._values(name).shape[1])
        if values.shape != expected:
            raise ViewError(f"view {name!r}: expected values {expected}, found {values.shape}")
        stored = {own: self.stored(own) for own in self.names if own != name}
        stored = {own: stored.get(own, lock(values)) for own in self.names}
        missing = {own: self.count_missing_values(own) for own in self._missing}
        new = self._replace(stored=stored, index=None, missing=missing)
        return new._with_missing_values_counted(name)

    def to_frames(self) -> dict[str, Any]:
        """Return every view as a DataFrame (sample ids x columns), NaN where it is missing."""
        import pandas as pd

        frames = {}
        for name, observed in zip(self.names, self._observed.T, strict=True):
            dtype = np.result_type(self._values(name).dtype, np.float32)
            values = self.rows(name, dtype=dtype)
            values[~observed] = np.nan
            frames[name] = pd.DataFrame(
                values, index=self.frame_index(), columns=self._columns[name]
            )
        return frames

    def with_fixed_row_order(self) -> Self:
        """Return the same set with the present order of its rows declared as the one that counts.

        Labels without ids are then taken in the order of `sample_ids`.
        """
        return self._replace(row_ids=replace(self._row_ids, order_known=True))

    def with_missing_view(self, name: str, dim: int) -> Self:
        """Return this set with `name` as a view of `dim` columns that is missing everywhere."""
        n_stored = next(iter(self._stored.values())).shape[0]
        stored = dict(self._stored)
        # One zero, repeated by a stride of zero bytes: a missing view takes no memory.
        stored[name] = np.broadcast_to(np.float32(0), (n_stored, dim))
        own = dict(zip(self.names, self._observed.T, strict=True))
        own[name] = np.zeros(len(self), dtype=np.bool_)
        observed = np.stack([own[view] for view in stored], axis=1)
        return self._replace(stored=stored, columns=self._columns | {name: None}, observed=observed)

    def joined(self, other: ViewSet) -> ViewSet:
        """Return the samples of this set followed by those of another one with the same views.

        Values are copied. Ids are kept where both sets have them, and counted anew otherwise.
        """
        if other.names != self.names or other.dims != self.dims:
            raise ViewError(
                f"only sets of the same views can be joined: {self!r} and {other!r} differ"
            )
        with_ids = self.has_ids and other.has_ids
        ids = np.concatenate([self.sample_ids, other.sample_ids]) if with_ids else None
        values = {name: stack_rows([self.stored(name), other.stored(name)]) for name in self.names}
        observed = np.vstack([self.observed, other.observed])
        joined = ViewSet(values, observed=observed, sample_ids=ids)
        return joined._replace(columns=self._columns)

    # ------------------------------------------------------------------ copies for other processes

    def __getstate__(self) -> dict[str, Any]:
        # Only the rows of this set travel to another process, not all that it was cut from.
        return {
            "stored": {name: self.stored(name) for name in self.names},
            "columns": self._columns,
            "observed": self._observed,
            "row_ids": self._row_ids,
            "missing": {name: self.count_missing_values(name) for name in self.names},
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        stored = {name: lock(values) for name, values in state["stored"].items()}
        missing = {name: counts for name, counts in state["missing"].items() if counts.any()}
        self._set(**state | {"stored": stored, "missing": missing, "index": None})

    # ------------------------------------------------------------------ old names

    @property
    def missing_cells(self) -> dict[str, int]:
        """Old name of `n_missing_values`."""
        _warn_renamed("missing_cells", "n_missing_values")
        return self.n_missing_values

    def count_missing_cells(self, name: str) -> NDArray[np.int32]:
        """Old name of `count_missing_values`."""
        _warn_renamed("count_missing_cells", "count_missing_values")
        return self.count_missing_values(name)


def _warn_renamed(old: str, new: str) -> None:
    warnings.warn(
        f"ViewSet.{old} is now called {new}; the old name will be removed in the next release",
        ViewgapDeprecationWarning,
        stacklevel=3,
    )


def _with_frames(views: Any) -> Any:
    """Return views with tables of polars and pyarrow as DataFrames."""
    if not isinstance(views, Mapping) or not any(map(is_table, views.values())):
        return views
    return {name: as_frame(view, None, f"view {name!r}") for name, view in views.items()}
