"""The features of NAIM3L: principal components of a view, rows of length 1, and a constant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from viewgap.data.preprocessing import Unscaled
from viewgap.data.rows.values import row_chunks, without_missing_values
from viewgap.methods.linalg.lowrank import Matrix

# Directions with less than this share of the variance of the first one are rounding.
_NOISE = 1e-10


@dataclass(frozen=True)
class Projection:
    r"""Turns a row x of a view into features :math:`[z / \lVert z \rVert, 1]`, z = (x - m) C.

    `centre` is m (d,), `components` is C (d, p), with the scaling of the columns inside.
    """

    centre: Matrix
    components: Matrix

    @property
    def width(self) -> int:
        """Number of features, the constant included."""
        return int(self.components.shape[1]) + 1

    def filled(self, block: NDArray[Any]) -> NDArray[Any]:
        """Return rows (n, d) with their missing values (NaN) set to the mean of the column."""
        return Unscaled([self.centre]).write(0, block, block)

    def features(self, block: NDArray[Any]) -> Matrix:
        """Return the features (n, p + 1) of rows (n, d)."""
        scores = np.empty((len(block), self.width))
        for part in row_chunks(len(block), 8 * max(1, block.shape[1])):
            scores[part, :-1] = (block[part] - self.centre) @ self.components
        length = np.sqrt(np.square(scores[:, :-1]).sum(axis=1, keepdims=True))
        np.divide(scores[:, :-1], length, out=scores[:, :-1], where=length > 0)
        scores[:, -1] = 1.0
        return scores

    @classmethod
    def fit(
        cls, block: NDArray[np.float32], components: int, standardise: bool, gaps: bool = False
    ) -> Projection:
        """Fit on the observed training rows (n, d) of one view.

        At most `components` directions, fewer if the rows span fewer. `standardise` gives every
        column the variance 1 first. Constant columns have no part in the features. With `gaps`,
        mean and variance are those of the values that are there, and the missing ones (NaN) are set
        to the mean, in `block`.
        """
        centre = block.mean(axis=0, dtype=np.float64)
        counts: Matrix | np.float64 = np.float64(len(block))
        if gaps:
            there, missing = without_missing_values(block)
            counts = np.maximum(len(block) - (0 if missing is None else missing.sum(axis=0)), 1.0)
            centre = there.sum(axis=0, dtype=np.float64) / counts
            block = Unscaled([centre]).write(0, block, block)
        scale = _inverse_deviation(block, centre, counts)
        if not standardise:
            scale = (scale > 0).astype(np.float64)  # a constant column stays out: it is rounding
        by_rows = len(block) < block.shape[1]
        gram = (_row_gram if by_rows else _column_gram)(block, centre, scale)
        size = len(gram)
        count = min(components, size)
        variance, vectors = eigh(gram, subset_by_index=[size - count, size - 1])
        kept = variance > _NOISE * max(variance[-1], np.finfo(np.float64).tiny)
        variance, vectors = variance[kept][::-1], vectors[:, kept][:, ::-1]
        if by_rows:
            vectors = _row_to_column_vectors(block, centre, scale, vectors / np.sqrt(variance))
        return cls(centre, _fix_signs(vectors) * scale[:, None])


def _fix_signs(vectors: Matrix) -> Matrix:
    """Make the entry of largest size of every column positive: eigenvectors have no sign."""
    if not vectors.size:
        return vectors
    largest = np.abs(vectors).argmax(axis=0)
    return vectors * np.where(vectors[largest, np.arange(vectors.shape[1])] < 0, -1.0, 1.0)


def _inverse_deviation(
    block: NDArray[np.float32], centre: Matrix, counts: Matrix | np.float64
) -> Matrix:
    """Return 1 / standard deviation of every column (d,), 0 for a constant one.

    `counts`: how many values of a column were observed; missing ones are at the mean.
    """
    squares = np.zeros(block.shape[1])
    for part in row_chunks(len(block), 8 * block.shape[1]):
        squares += np.square(block[part] - centre).sum(axis=0)
    deviation = np.sqrt(squares / counts)
    constant = deviation <= np.finfo(np.float32).eps * np.abs(centre)
    return np.divide(1.0, deviation, out=np.zeros_like(deviation), where=~constant)


def _column_gram(block: NDArray[np.float32], centre: Matrix, scale: Matrix) -> Matrix:
    gram = np.zeros((block.shape[1],) * 2)
    for part in row_chunks(len(block), 8 * block.shape[1]):
        centred = (block[part] - centre) * scale
        gram += centred.T @ centred
    return gram


def _row_gram(block: NDArray[np.float32], centre: Matrix, scale: Matrix) -> Matrix:
    gram = np.zeros((len(block),) * 2)
    for part in row_chunks(block.shape[1], 8 * len(block)):
        centred = (block[:, part] - centre[part]) * scale[part]
        gram += centred @ centred.T
    return gram


def _row_to_column_vectors(
    block: NDArray[np.float32], centre: Matrix, scale: Matrix, vectors: Matrix
) -> Matrix:
    result = np.empty((block.shape[1], vectors.shape[1]))
    for part in row_chunks(block.shape[1], 8 * len(block)):
        centred = (block[:, part] - centre[part]) * scale[part]
        result[part] = centred.T @ vectors
    return result
