"""Standardised blocks of views, their scaler in a model file, and products row by row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viewgap.data.preprocessing import PreparedRows, Standardiser
from viewgap.data.viewset import ViewSet
from viewgap.state import State

Matrix = NDArray[np.float64]

SOFT_EDGE = 0.01
# Divisible by the rows that kernels of OpenBLAS compute side by side (4, 8, 12, 24): all rows of a
# product go through the same one.
_PRODUCT_ROWS = 24


def scaled_block(
    views: ViewSet, scaler: Standardiser, index: int, rows: NDArray[np.int64] | None = None
) -> Matrix:
    """Return the standardised rows of one view, (rows, d); 0, the mean, where it is missing."""
    return PreparedRows(views, scaler).read(index, rows).astype(np.float64)


def used_rows(views: ViewSet, masked: bool) -> list[NDArray[np.intp]]:
    """The rows that count for every view: all, where missing views are filled in."""
    if not masked:
        return [np.arange(len(views))] * views.n_views
    return [np.flatnonzero(column) for column in views.observed.T]


def design_matrix(views: ViewSet, scaler: Standardiser) -> Matrix:
    """Return the standardised views side by side, then one column per view: was it observed?

    Shape: (n, sum of dims + number of views). A missing block is 0, the mean of the training rows.
    """
    blocks = [scaled_block(views, scaler, index) for index in range(views.n_views)]
    return np.hstack([*blocks, views.observed.astype(np.float64)])


def side_by_side(
    views: ViewSet, scaler: Standardiser, rows: NDArray[np.intp] | None = None
) -> NDArray[np.float32]:
    """Return what `design_matrix` does in float32, for trees; of these rows, all without `rows`."""
    ends = np.cumsum((0, *views.dims))
    n = len(views) if rows is None else len(rows)
    inputs = np.empty((n, ends[-1] + views.n_views), dtype=np.float32)
    for index in range(views.n_views):
        own = PreparedRows(views, scaler).read(index, rows)
        inputs[:, ends[index] : ends[index + 1]] = own
    inputs[:, ends[-1] :] = views.observed if rows is None else views.observed[rows]
    return inputs


def in_parts(views: ViewSet, function: Callable[[ViewSet], Matrix], size: int = 4096) -> Matrix:
    """Apply a function of single rows to all rows, `size` rows at a time, to bound the memory."""
    starts = range(0, len(views), size)
    return np.vstack([function(views[start : start + size]) for start in starts])


def row_products(rows: Matrix, weights: Matrix) -> Matrix:
    """`rows @ weights`, with bits that do not depend on which rows there are, (n, c).

    A product of another shape rounds differently, one of a single row above all: so all products
    have the same number of rows, the last ones filled up with zeros.
    """
    n = len(rows)
    result = np.empty((n, weights.shape[1]))
    whole = n - n % _PRODUCT_ROWS
    for start in range(0, whole, _PRODUCT_ROWS):
        part = slice(start, start + _PRODUCT_ROWS)
        np.matmul(rows[part], weights, out=result[part])
    if whole < n:
        last = np.zeros((_PRODUCT_ROWS, rows.shape[1]))
        last[: n - whole] = rows[whole:]
        result[whole:] = (last @ weights)[: n - whole]
    return result


def squared_distances(first: NDArray[Any], second: NDArray[Any]) -> Matrix:
    """Squared Euclidean distances (n, m) of rows (n, d) and (m, d), in float64."""
    first, second = (part.astype(np.float64, copy=False) for part in (first, second))
    result: Matrix = first @ second.T
    result *= -2.0
    result += np.einsum("ij,ij->i", first, first)[:, None]
    result += np.einsum("ij,ij->i", second, second)
    return np.maximum(result, 0.0, out=result)


def soft_clip(scores: Matrix) -> Matrix:
    """Bring regression scores into [0, 1] and keep their order.

    The identity between 0.01 and 0.99; beyond, an exponential that continues it smoothly. A plain
    clip would tie all scores below 0, where half of the scores of a rare label are.
    """
    below = SOFT_EDGE * np.exp(np.minimum(scores, SOFT_EDGE) / SOFT_EDGE - 1)
    above = 1 - SOFT_EDGE * np.exp(np.minimum(1 - scores, SOFT_EDGE) / SOFT_EDGE - 1)
    return np.where(scores < SOFT_EDGE, below, np.where(scores > 1 - SOFT_EDGE, above, scores))


def save_scaler(scaler: Standardiser) -> dict[str, NDArray[Any]]:
    """Return the arrays of a scaler under names that begin with `scaler.`."""
    return {f"scaler.{name}": array for name, array in scaler.to_arrays().items()}


def restore_scaler(state: State, dims: tuple[int, ...], names: tuple[str, ...]) -> Standardiser:
    """Return the scaler of a state; ValueError if it does not fit views with `dims` columns."""
    scaler = Standardiser.from_arrays(state.part("scaler."), names)
    shapes = [[part.shape for part in parts] for parts in (scaler.mean, scaler.scale)]
    if shapes != [[(dim,) for dim in dims]] * 2:
        raise ValueError("the scaling does not fit the columns of the views")
    return scaler
