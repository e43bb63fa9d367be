"""ELSMML's graphs: the nearest neighbours of the rows of a view, and their Laplacian."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from viewgap.methods.linalg.blocks import Matrix, squared_distances

_ROWS_AT_ONCE = 256


def neighbour_graph(block: Matrix, n_neighbours: int) -> sparse.csr_array:
    r"""Weights (n, n) of a symmetric graph over rows (n, d): :math:`\exp(-d^2 / t) / m`.

    Two rows are neighbours if one is among the m nearest of the other, and t is the mean of the
    squared distances to these: neither the unit of the columns, nor their number, nor m changes
    how much a graph weighs.
    """
    n = len(block)
    count = min(n_neighbours, n - 1)
    nearest, distances = [], []
    # Rows that are filled in are equal, and so are distances to them: of these, the first rows are
    # taken, and not those that a processor's rounding prefers.
    grain = 1e-9 * float(np.square(block).sum(axis=1).mean()) or 1.0
    for start in range(0, n if count else 0, _ROWS_AT_ONCE):
        part = squared_distances(block[start : start + _ROWS_AT_ONCE], block)
        own = np.arange(len(part))
        part[own, start + own] = np.inf  # a row is no neighbour of its own
        # A copy: a slice would keep the order of all rows in memory.
        order = np.argsort(np.round(part / grain), axis=1, kind="stable")
        nearest.append(order[:, :count].copy())
        distances.append(np.take_along_axis(part, nearest[-1], axis=1))
    if not nearest:
        return sparse.csr_array((n, n))
    squares = np.vstack(distances).ravel()
    mean = squares.mean()
    weights = np.exp(-squares / mean) / count if mean > 0 else np.full_like(squares, 1.0 / count)
    ends = np.arange(0, squares.size + 1, count)
    graph = sparse.csr_array((weights, np.vstack(nearest).ravel(), ends), shape=(n, n))
    return sparse.csr_array(graph.maximum(graph.T))


def laplacian(graph: sparse.csr_array) -> sparse.csr_array:
    """Return D - S of a symmetric graph S."""
    return sparse.csr_array(sparse.diags_array(graph.sum(axis=1)) - graph)
