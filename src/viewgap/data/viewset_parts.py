"""What a ViewSet is made of, and what its parts tell about it: names, masks, ids, counts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from viewgap.data.containers import ColumnNames, RowIds
from viewgap.data.values import Rows, Stored, lock
from viewgap.errors import ViewError

Mask = NDArray[np.bool_]


class ViewSetParts:
    """The base of `ViewSet`: stored values and what is known about them; nothing is read here."""

    __slots__ = ("_cells", "_columns", "_index", "_observed", "_row_ids", "_stored")

    _stored: dict[str, Stored]
    _columns: dict[str, ColumnNames]
    _observed: Mask
    _row_ids: RowIds
    _index: Rows | None  # rows of the stored values, in order; None is all of them
    # of views with missing cells: how many each stored row has, as far as it was observed
    _cells: dict[str, NDArray[np.int32]]

    def _set(
        self,
        stored: dict[str, Stored],
        columns: dict[str, ColumnNames],
        observed: Mask,
        row_ids: RowIds,
        index: Rows | None,
        cells: dict[str, NDArray[np.int32]],
    ) -> None:
        self._cells = cells
        self._stored = stored
        self._columns = columns
        self._observed = lock(observed)
        self._row_ids = replace(row_ids, ids=lock(row_ids.ids))
        self._index = index

    def _replace(
        self,
        *,
        stored: dict[str, Stored] | None = None,
        columns: dict[str, ColumnNames] | None = None,
        observed: Mask | None = None,
        row_ids: RowIds | None = None,
        cells: dict[str, NDArray[np.int32]] | None = None,
    ) -> Self:
        """Copy of this object with other parts; the parts fit by construction."""
        new = object.__new__(type(self))
        new._set(
            self._stored if stored is None else stored,
            self._columns if columns is None else columns,
            self._observed if observed is None else observed,
            self._row_ids if row_ids is None else row_ids,
            self._index,
            self._cells if cells is None else cells,
        )
        return new

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

    @property
    def missing_cells(self) -> dict[str, int]:
        """Number of missing cells, NaN in rows where the view is observed, of every view."""
        return {name: int(self.count_missing_cells(name).sum()) for name in self.names}

    def count_missing_cells(self, name: str) -> NDArray[np.int32]:
        """How many cells of a view are missing for each sample that has it, (n,)."""
        if not self.may_miss_cells(name):
            return np.zeros(len(self), dtype=np.int32)
        counts = self._cells[name] if self._index is None else self._cells[name][self._index]
        return np.where(self._observed[:, self.names.index(name)], counts, np.int32(0))

    def may_miss_cells(self, name: str) -> bool:
        """Whether cells of a view are missing, here or in the set this one was cut from.

        False lets readers of large views do without looking for NaN.
        """
        self._values(name)
        return name in self._cells

    def __len__(self) -> int:
        return len(self._observed)

    def __repr__(self) -> str:
        views = ", ".join(f"{name}: {dim}" for name, dim in zip(self.names, self.dims, strict=True))
        missing = 100 * (1 - self._observed.mean()) if len(self) else 0.0
        text = f"{len(self)} samples; {views}; {missing:.1f}% of the cells missing"
        single = [f"{count} in {name}" for name, count in self.missing_cells.items() if count]
        return f"ViewSet({text}{'; single values missing: ' if single else ''}{', '.join(single)})"

    def _values(self, name: str) -> Stored:
        if name not in self._stored:
            raise ViewError(f"no view named {name!r}; the views are: {', '.join(self.names)}")
        return self._stored[name]
