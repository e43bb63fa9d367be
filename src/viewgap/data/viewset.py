"""ViewSet: named views of the same samples, and which cells of (sample, view) are observed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from viewgap.data.containers import align, as_mask
from viewgap.data.lazy_rows import LazyRows
from viewgap.data.nan_policy import check_nan_policy
from viewgap.data.values import (
    Rows,
    Stored,
    gather,
    is_sparse,
    lock,
    observed_rows,
    row_numbers,
    stack_rows,
    store,
)
from viewgap.data.viewset_parts import ViewSetParts
from viewgap.errors import ViewError


class ViewSet(ViewSetParts):
    """Immutable, row-indexable container of several views of the same n samples.

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
        What a NaN in an observed row means: `"mean"`, a missing cell, which stays NaN here and
        which a model fills with the mean of the column in its training data; `"error"`; or
        `"missing_view"` to treat the view as missing for that row. An infinite value is an error
        with the first two.

    Values are never copied or written to: a ViewSet shares the memory of what it was given, and
    indexing by rows only composes the row numbers. Values are read when `rows` gathers them, so
    memory maps and HDF5 datasets may be larger than memory; a copy for another process is not lazy.

    Examples
    --------
    >>> views = ViewSet({"audio": [[1.0, 2.0], [3.0, 4.0]], "text": [[5.0], [float("nan")]]})
    >>> views
    ViewSet(2 samples; audio: 2, text: 1; 25.0% of the cells missing)
    >>> views[[1]].rows("text")
    array([[0.]], dtype=float32)
    """

    __slots__ = ()

    def __init__(
        self,
        views: Mapping[str, Any],
        observed: ArrayLike | None = None,
        sample_ids: ArrayLike | None = None,
        *,
        nan: str = "mean",
    ) -> None:
        check_nan_policy(nan)
        table = align(views, observed, sample_ids)
        mask = table.observed.copy()
        stored: dict[str, Stored] = {}
        cells: dict[str, NDArray[np.int32]] = {}
        for j, (name, values) in enumerate(table.values.items()):
            if values is None:
                stored[name] = lock(np.zeros((len(mask), 0), dtype=np.float32))
                mask[:, j] = False
                continue
            stored[name] = store(name, values)
            mask[:, j], missing = observed_rows(
                name, stored[name], mask[:, j], table.rows.ids, nan, table.columns[name]
            )
            if missing is not None:
                cells[name] = missing
        self._set(stored, table.columns, mask, table.rows, None, cells)

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
        Missing cells of observed rows are NaN, as they were given: what fills them is learned by
        a model (`data.scaling`).
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

    def to_array(self, dtype: DTypeLike = np.float64) -> NDArray[Any]:
        """All views side by side, (n, sum of the dims), NaN where a view or cell is missing."""
        result = np.empty(self.shape, dtype=dtype)
        start = 0
        for name, dim, seen in zip(self.names, self.dims, self._observed.T, strict=True):
            block = result[:, start : start + dim]
            block[:] = self.rows(name, dtype=dtype)
            block[~seen] = np.nan
            start += dim
        return result

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("a ViewSet cannot become one array without a copy")
        return self.to_array(np.float64 if dtype is None else dtype)

    # ------------------------------------------------------------------ other ViewSets

    def __getitem__(self, rows: Any) -> Self:
        """Return the ViewSet of some rows: slice, integers, booleans, or one integer (one row)."""
        if isinstance(rows, tuple) and len(rows) == 2 and rows[1] is Ellipsis:
            rows = rows[0]  # scikit-learn indexes rows as X[rows, ...]
        if isinstance(rows, int | np.integer):
            rows = [rows]
        wanted = row_numbers(rows, len(self))
        new = object.__new__(type(self))
        index = wanted if self._index is None else self._index[wanted]
        row_ids = replace(self._row_ids, ids=self.sample_ids[wanted])
        seen = self._observed[wanted]
        new._set(self._stored, self._columns, seen, row_ids, index, self._cells)
        return new

    def with_observed(self, mask: ArrayLike) -> Self:
        """Return the same values with more cells missing: observed where both masks say so."""
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
        if isinstance(values, LazyRows):
            chosen: Stored = values.select_columns(wanted)
        else:
            chosen = values[:, wanted]
        if is_sparse(chosen):
            chosen.sort_indices()
        names = self._columns[name]
        kept = None if names is None else tuple(names[position] for position in wanted)
        new = self._replace(
            stored=self._stored | {name: lock(chosen)}, columns=self._columns | {name: kept}
        )
        same = len(wanted) == values.shape[1] or not self.may_miss_cells(name)
        return new if same else new._with_cells_counted_again(name)

    def _with_cells_counted_again(self, name: str) -> Self:
        """Return this set with the missing cells of a view counted in the columns it has now.

        A row whose only values were in other columns has nothing left: the view is missing there.
        """
        j, values = self.names.index(name), self._values(name)
        rows = np.arange(len(self)) if self._index is None else self._index
        stored = np.zeros(values.shape[0], dtype=np.bool_)
        stored[rows[self._observed[:, j]]] = True
        stored, counts = observed_rows(name, values, stored, rows)
        observed = self._observed.copy()
        observed[:, j] &= stored[rows]
        cells = {view: found for view, found in self._cells.items() if view != name}
        return self._replace(
            observed=observed, cells=cells if counts is None else cells | {name: counts}
        )

    def with_values(self, values: Mapping[str, Any], observed: ArrayLike) -> ViewSet:
        """Return other values for the same views of the same samples; ids and names stay."""
        new = ViewSet({name: values[name] for name in self.names}, observed=observed)
        return new._replace(row_ids=self._row_ids, columns=dict(self._columns))

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
        known = [self._observed[:, self.names.index(n)] for n in self.names if n != name]
        position = list(stored).index(name)
        known.insert(position, np.zeros(len(self), dtype=np.bool_))
        return self._replace(
            stored=stored,
            columns=self._columns | {name: None},
            observed=np.stack(known, axis=1),
        )

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
        values = {name: stack_rows([self._all(name), other._all(name)]) for name in self.names}
        observed = np.vstack([self.observed, other.observed])
        joined = ViewSet(values, observed=observed, sample_ids=ids)
        return joined._replace(columns=self._columns)

    def _all(self, name: str) -> Stored:
        values, positions = self.locate(name, np.arange(len(self)))
        return values[positions]

    # ------------------------------------------------------------------ copies for other processes

    def __getstate__(self) -> dict[str, Any]:
        # Only the rows of this set travel to another process, not all that it was cut from.
        return {
            "stored": {name: self.stored(name) for name in self.names},
            "columns": self._columns,
            "observed": self._observed,
            "row_ids": self._row_ids,
            "cells": {name: self.count_missing_cells(name) for name in self.names},
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        stored = {name: lock(values) for name, values in state["stored"].items()}
        cells = {name: counts for name, counts in state["cells"].items() if counts.any()}
        self._set(stored, state["columns"], state["observed"], state["row_ids"], None, cells)
