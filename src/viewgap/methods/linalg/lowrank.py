"""Singular values by the smaller Gram matrix: thresholds, nuclear norms and their subgradients.

A matrix M of shape (p, q) with p <= q has the singular values of :math:`(M M^\\top)^{1/2}`, a
(p, p) matrix; with p > q those of :math:`(M^\\top M)^{1/2}`. One symmetric eigenvalue problem of
the smaller size replaces the SVD. Squaring costs half of the digits of *small* singular values
(those below 1e-8 of the largest one are noise), which all functions here drop or shrink anyway.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]

# Below this share of the largest singular value a Gram matrix in float64 holds rounding only.
_NOISE = 1e-7


@dataclass(frozen=True)
class GramSpectrum:
    """Singular values (r,), ascending, and the singular vectors of the shorter side, (side, r)."""

    values: Matrix
    vectors: Matrix
    by_rows: bool

    @classmethod
    def of(cls, matrix: NDArray[Any]) -> GramSpectrum:
        """Return the spectrum of a matrix; zeros and noise are kept, at the beginning."""
        by_rows = matrix.shape[0] <= matrix.shape[1]
        gram = matrix @ matrix.T if by_rows else matrix.T @ matrix
        squares, vectors = np.linalg.eigh(gram)
        return cls(np.sqrt(np.maximum(squares, 0.0)), vectors, by_rows)

    @property
    def largest(self) -> float:
        """The largest singular value, 0.0 of an empty matrix."""
        return float(self.values[-1]) if self.values.size else 0.0

    def filtered(self, matrix: Matrix, factors: Matrix) -> Matrix:
        """Return the matrix with each singular value multiplied by its factor (r,)."""
        kept = np.flatnonzero(factors)
        vectors = self.vectors[:, kept]
        weighted = vectors * factors[kept]
        if 2 * kept.size > len(vectors):  # few are dropped: one product with the whole filter
            whole = weighted @ vectors.T
            return np.asarray(whole @ matrix if self.by_rows else matrix @ whole)
        if self.by_rows:
            return np.asarray(weighted @ (vectors.T @ matrix))
        return np.asarray((matrix @ weighted) @ vectors.T)


def singular_threshold(matrix: Matrix, threshold: float) -> tuple[Matrix, float, float]:
    r"""Shrink every singular value by `threshold`, to 0 where it is smaller.

    The minimiser of :math:`\tfrac12\lVert Z - M\rVert_F^2 + t\lVert Z\rVert_*`. Returns it with
    its nuclear norm and the largest singular value of M (to see a divergence).
    """
    spectrum = GramSpectrum.of(matrix)
    values = spectrum.values
    shrunk = np.maximum(values - threshold, 0.0)
    factors = np.divide(shrunk, values, out=np.zeros_like(values), where=shrunk > 0)
    return spectrum.filtered(matrix, factors), float(shrunk.sum()), spectrum.largest


def nuclear_norm(matrix: Matrix) -> float:
    """Return the sum of the singular values."""
    return float(GramSpectrum.of(matrix).values.sum()) if matrix.size else 0.0


def nuclear_subgradient(matrix: Matrix, floor: float = 0.0) -> tuple[Matrix, float]:
    r"""Return :math:`U V^\top` of the SVD :math:`M = U \Sigma V^\top`, and the nuclear norm.

    A subgradient of the nuclear norm at M. Singular values of at most `floor`, or below the noise,
    are left out: any value in [0, 1] is a subgradient in their directions, and 0 is the stable one.
    """
    spectrum = GramSpectrum.of(matrix)
    values = spectrum.values
    above = values > max(floor, _NOISE * spectrum.largest)
    factors = np.divide(1.0, values, out=np.zeros_like(values), where=above)
    return spectrum.filtered(matrix, factors), float(values.sum())
