"""ViewSet: named views of the same samples, and which cells of (sample, view) are observed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from viewgap.data.containers import align, as_mask
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
from viewgap.errors import ViewError

Mask = NDArray[np.bool_]


class ViewSet:
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
        (n,) unique ids; 0, 1, 2, ... if not given. DataFrames bring their own.
    nan
        What a NaN or infinite value in an observed row means: `"error"`, or `"missing_view"` to
        treat the view as missing for that row.

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

    __slots__ = ("_has_ids", "_index", "_observed", "_sample_ids", "_stored")

    _stored: dict[str, Stored]
    _observed: Mask
    _sample_ids: NDArray[Any]
    _has_ids: bool
    _index: Rows | None  # rows of the stored values, in order; None is all of them

    def __init__(
        self,
        views: Mapping[str, Any],
        observed: ArrayLike | None = None,
        sample_ids: ArrayLike | None = None,
        *,
        nan: str = "error",
    ) -> None:
        table = align(views, observed, sample_ids)
        mask = table.observed.copy()
        stored: dict[str, Stored] = {}
        for j, (name, values) in enumerate(table.values.items()):
            if values is None:
                stored[name] = lock(np.zeros((len(mask), 0), dtype=np.float32))
                mask[:, j] = False
                continue
            stored[name] = store(name, values)
            mask[:, j] = observed_rows(
                name, stored[name], mask[:, j], table.sample_ids, nan, table.columns[name]
            )
        self._set(stored, mask, table.sample_ids, table.has_ids, None)

    def _set(
        self,
        stored: dict[str, Stored],
        observed: Mask,
        sample_ids: NDArray[Any],
        has_ids: bool,
        index: Rows | None,
    ) -> None:
        self._stored = stored
        self._observed = lock(observed)
        self._sample_ids = lock(sample_ids)
        self._has_ids = has_ids
        self._index = index

    def _replace(
        self, *, stored: dict[str, Stored] | None = None, observed: Mask | None = None
    ) -> Self:
        """Copy of this object with other parts; the parts fit by construction."""
        new = object.__new__(type(self))
        new._set(
            self._stored if stored is None else stored,
            self._observed if observed is None else observed,
            self._sample_ids,
            self._has_ids,
            self._index,
        )
        return new

    # ------------------------------------------------------------------ facts

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
        return self._sample_ids

    @property
    def has_ids(self) -> bool:
        """Whether the ids were given, as `sample_ids` or by DataFrames, and not just counted."""
        return self._has_ids

    @property
    def has_view(self) -> NDArray[np.bool_]:
        """Which samples have at least one observed view, (n,)."""
        found: NDArray[np.bool_] = np.any(self.observed, axis=1)
        return found

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

    def __len__(self) -> int:
        return len(self._observed)

    def __repr__(self) -> str:
        views = ", ".join(f"{name}: {dim}" for name, dim in zip(self.names, self.dims, strict=True))
        missing = 100 * (1 - self._observed.mean()) if len(self) else 0.0
        return f"ViewSet({len(self)} samples; {views}; {missing:.1f}% of the cells missing)"

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
        """All views side by side, (n, sum of the dims), NaN where a view is missing."""
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

    def _values(self, name: str) -> Stored:
        if name not in self._stored:
            raise ViewError(f"no view named {name!r}; the views are: {', '.join(self.names)}")
        return self._stored[name]

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
        new._set(
            self._stored, self._observed[wanted], self._sample_ids[wanted], self._has_ids, index
        )
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
        columns = [self.names.index(name) for name in stored]
        return self._replace(stored=stored, observed=self._observed[:, columns])

    def with_missing_view(self, name: str, dim: int) -> Self:
        """Return this set with `name` as a view of `dim` columns that is missing everywhere."""
        n_stored = next(iter(self._stored.values())).shape[0]
        stored = dict(self._stored)
        # One zero, repeated by a stride of zero bytes: a missing view takes no memory.
        stored[name] = np.broadcast_to(np.float32(0), (n_stored, dim))
        known = [self._observed[:, self.names.index(n)] for n in self.names if n != name]
        position = list(stored).index(name)
        known.insert(position, np.zeros(len(self), dtype=np.bool_))
        return self._replace(stored=stored, observed=np.stack(known, axis=1))

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
        return ViewSet(values, observed=observed, sample_ids=ids)

    def _all(self, name: str) -> Stored:
        values, positions = self.locate(name, np.arange(len(self)))
        return values[positions]

    # ------------------------------------------------------------------ copies for other processes

    def __getstate__(self) -> dict[str, Any]:
        # Only the rows of this set travel to another process, not all that it was cut from.
        return {
            "stored": {name: self.stored(name) for name in self.names},
            "observed": self._observed,
            "sample_ids": self._sample_ids,
            "has_ids": self._has_ids,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        stored = {name: lock(values) for name, values in state["stored"].items()}
        self._set(stored, state["observed"], state["sample_ids"], state["has_ids"], None)
