"""CDMM's kernels: features of rows, Gaussian kernels, and Nyström features of many rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from viewgap.methods.linalg.blocks import Matrix, squared_distances

Block = NDArray[np.float32]

_ROWS_AT_ONCE = 1024
_SMALLEST_EIGENVALUE = 1e-10  # relative to the largest; directions below are rounding


def unit_rows(block: NDArray[Any]) -> Block:
    """Rows (n, d) of length 1; a row of zeros stays."""
    largest = np.abs(block).max(axis=1, keepdims=True)  # so that no square overflows
    scaled = np.divide(block, largest, out=np.zeros_like(block), where=largest > 0)
    length = np.linalg.norm(scaled, axis=1, keepdims=True)
    return np.asarray(scaled / np.maximum(length, 1.0), dtype=np.float32)


def gaussian_kernel(first: Block, second: Block, width: float) -> Matrix:
    r"""Return :math:`\exp(-\lVert x_i - z_j \rVert^2 / s)` of rows (n, d) and (m, d), (n, m)."""
    distances = squared_distances(first, second)
    distances /= -width
    return np.exp(distances, out=distances)


def centred(kernel: Matrix) -> Matrix:
    r"""Return :math:`P \Omega P` with :math:`P = I - 11^\top / n`."""
    mean = kernel.mean(axis=0)
    return np.asarray(kernel - mean - kernel.mean(axis=1)[:, None] + mean.mean())


def median_distance(block: Block) -> float:
    """Median of the squared distances of pairs of rows; 1 if all rows are alike."""
    upper = np.triu_indices(len(block), k=1)
    distances = squared_distances(block, block)[upper]
    median = float(np.median(distances)) if distances.size else 0.0
    return median if median > 0 else 1.0


@dataclass(frozen=True)
class Nystroem:
    r"""Features Z of rows with :math:`Z Z^\top \approx \Omega`, exact on the landmarks.

    `landmarks` (m, d) are rows, `whitening` (m, r) an inverse root of their kernel. With all rows
    as landmarks :math:`Z Z^\top = \Omega`, but for directions that are only rounding.
    """

    landmarks: Block
    whitening: Matrix
    width: float

    @classmethod
    def fit(cls, landmarks: Block, width: float) -> Nystroem:
        """Decompose the kernel of the landmarks."""
        values, vectors = eigh(gaussian_kernel(landmarks, landmarks, width))
        used = values > _SMALLEST_EIGENVALUE * values[-1]
        return cls(landmarks, vectors[:, used] / np.sqrt(values[used]), width)

    def features(self, block: Block) -> Matrix:
        """Z (n, r) of rows (n, d), some rows at a time: there is never a kernel of all rows."""
        result = np.empty((len(block), self.whitening.shape[1]))
        for start in range(0, len(block), _ROWS_AT_ONCE):
            part = slice(start, start + _ROWS_AT_ONCE)
            kernel = gaussian_kernel(block[part], self.landmarks, self.width)
            np.matmul(kernel, self.whitening, out=result[part])
        return result
