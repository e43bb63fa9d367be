"""Rows of views, prepared and standardised: the one way in which methods read values."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from viewgap.data.preprocessing.standardiser import Preparation, Unscaled
from viewgap.data.rows.values import Rows, Stored, is_sparse, row_chunks
from viewgap.data.viewset import ViewSet
from viewgap.errors import DataFileError, ViewError


class PreparedRows:
    """Reads rows of the views of a `ViewSet` as a model wants them.

    `preparation` is what is done to the values of observed rows, nothing if None; `dtype`, float32
    or float64, the number format of the result.
    """

    def __init__(
        self,
        views: ViewSet,
        preparation: Preparation | None = None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        self.views = views
        self.dtype = np.dtype(dtype)
        self._preparation = preparation or Unscaled()

    def read(
        self, view: int, rows: Rows | None = None, out: NDArray[Any] | None = None
    ) -> NDArray[Any]:
        """Prepared rows (b, d) of a view by its position, zero where it is missing; by default all.

        Every row is prepared for itself: the result does not depend on the rows read with it. Only
        observed rows are read, in chunks, so that the only large array is the result: `out`, or a
        new one.
        """
        name, width = self.views.names[view], self.views.dims[view]
        wanted = np.arange(len(self.views)) if rows is None else rows
        observed = self.views.observed[wanted, view]
        result = np.empty((len(wanted), width), self.dtype) if out is None else out
        is_complete = bool(observed.all())
        if not is_complete:
            result[~observed] = 0.0
        present = np.flatnonzero(observed)
        stored, positions = self.views.locate(name, wanted)
        gaps = self.views.may_miss_values(name)
        for part in row_chunks(len(present), width * self.dtype.itemsize):
            block = _read(name, stored, positions[present[part]])
            block = block.toarray() if is_sparse(block) else block
            values = block.astype(self.dtype, copy=False)
            if is_complete:
                self._preparation.write(view, values, result[part], gaps)
            else:
                prepared = np.empty_like(values)
                result[present[part]] = self._preparation.write(view, values, prepared, gaps)
        return result


def _read(name: str, stored: Stored, positions: Rows) -> Any:
    """Rows of a view as they are stored; an error of the file names them."""
    try:
        return stored[positions]
    except (OSError, DataFileError, ViewError) as error:
        which = f"rows {positions.min()} to {positions.max()} of view {name!r}"
        kind = DataFileError if isinstance(error, OSError) else type(error)
        raise kind(f"cannot read {which} ({len(positions)} rows): {error}") from error
