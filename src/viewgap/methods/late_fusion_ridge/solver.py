"""Ridge regression for many labels, each observed on its own rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from viewgap.data.labels import Labels
from viewgap.methods.linalg.blocks import Matrix
from viewgap.methods.linalg.threads import one_blas_thread

Indices = NDArray[np.signedinteger[Any]]

_WORTH_THREADS = 1000  # rows or columns of a system


def solve_ridge(
    block: Matrix,
    labels: Labels,
    penalties: Sequence[float],
    prior: Matrix,
    before_each: Callable[[], None] = lambda: None,
) -> list[tuple[Matrix, Matrix]]:
    r"""Weights (d, c) and intercepts (c,) for each penalty λ.

    Label j is fitted on the rows O where it is observed, with an intercept that is not penalised:
    :math:`w = (X_O^\top H X_O + \lambda d I)^{-1} X_O^\top H y_O`, H the centring matrix. The
    system is solved in the columns or, when these outnumber the rows, in the rows
    (:math:`w = X_O^\top (H X_O X_O^\top H + \lambda d I)^{-1} H y_O`), and once for all labels
    that share the same O. A label that is never observed gets no weights and its `prior`.
    `before_each` is called before each system.
    """
    observed, columns = labels.observed, block.shape[1]
    counts = np.maximum(observed.sum(axis=0), 1)
    block_mean = (observed.T.astype(np.float64) @ block) / counts[:, None]
    label_mean = np.where(observed.any(axis=0), labels.values.sum(axis=0) / counts, prior)
    target = np.where(observed, labels.values - label_mean, 0.0)
    ridges = [penalty * columns for penalty in penalties]
    weights = np.zeros((len(ridges), columns, observed.shape[1]))
    duals = np.zeros((len(ridges), *observed.shape))
    gram: Matrix | None = None
    with _threads_for(min(block.shape)):
        for rows, same in _labels_by_rows(observed):
            before_each()
            if columns <= rows.size:
                parts = _solve_by_columns(block[rows], target[np.ix_(rows, same)], ridges)
                weights[:, :, same] = parts
            elif rows.size:
                gram = block @ block.T if gram is None else gram
                parts = _solve_by_rows(gram[np.ix_(rows, rows)], target[np.ix_(rows, same)], ridges)
                duals[np.ix_(np.arange(len(ridges)), rows, same)] = parts
        if gram is not None:
            weights += block.T @ duals
    return [(each, label_mean - np.sum(block_mean.T * each, axis=0)) for each in weights]


def _threads_for(size: int) -> AbstractContextManager[Any]:
    return nullcontext() if size > _WORTH_THREADS else one_blas_thread()


def products(columns: int, labels: Labels, n_penalties: int) -> float:
    """Multiplications that `solve_ridge` takes for rows with these labels, about."""
    total = 0.0
    for rows, _ in _labels_by_rows(labels.observed):
        size = min(columns, rows.size)
        total += n_penalties * size**3 / 3 + columns * rows.size * size
    return total


def _labels_by_rows(observed: NDArray[np.bool_]) -> Iterator[tuple[Indices, Indices]]:
    """Yield the rows and the labels observed on exactly these rows, for each set of rows."""
    masks, group = np.unique(observed, axis=1, return_inverse=True)
    for number in range(masks.shape[1]):
        yield np.flatnonzero(masks[:, number]), np.flatnonzero(group.ravel() == number)


def _solve_by_columns(block: Matrix, target: Matrix, ridges: Sequence[float]) -> Matrix:
    centred = block - block.mean(axis=0)
    return _solve(centred.T @ centred, centred.T @ target, ridges)


def _solve_by_rows(gram: Matrix, target: Matrix, ridges: Sequence[float]) -> Matrix:
    mean = gram.mean(axis=0)
    return _solve(gram - mean - mean[:, None] + mean.mean(), target, ridges)


def _solve(matrix: Matrix, target: Matrix, ridges: Sequence[float]) -> Matrix:
    diagonal = np.einsum("ii->i", matrix)
    plain = diagonal.copy()
    solutions = []
    for ridge in ridges:
        diagonal[:] = plain + ridge
        solutions.append(cho_solve(cho_factor(matrix, check_finite=False), target))
    return np.stack(solutions)
