"""iMvWL's alternating updates: codes, bases and predictor by ratios, label correlation by APG.

Masks are row numbers, never matrices of the size of the data: view v is its observed rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from viewgap.methods.imvwl.settings import IMvWLSettings
from viewgap.methods.linalg.lowrank import Matrix, nuclear_norm, singular_threshold

Indices = NDArray[np.intp]

SMALLEST = 1e-12  # keeps denominators from 0
_ROUNDING = 1e-12
_LARGEST_BOUND = 1e30  # back-tracking ends in any case


@dataclass(frozen=True)
class ObservedView:
    """The rows of one view that were observed: their numbers (n_v,) and values (n_v, d) >= 0."""

    rows: Indices
    block: NDArray[np.float32]
    squares: float

    @classmethod
    def of(cls, rows: Indices, block: NDArray[np.float32]) -> ObservedView:
        """Keep the values with the sum of their squares, which the objective needs."""
        return cls(rows, block, float(np.einsum("ij,ij->", block, block, dtype=np.float64)))


@dataclass(frozen=True)
class ObservedLabels:
    """Labels of the rows (n_l,) that have any: M∘Y and M, both (n_l, c)."""

    rows: Indices
    values: Matrix
    mask: Matrix

    @classmethod
    def of(cls, values: NDArray[np.uint8], observed: NDArray[np.bool_]) -> ObservedLabels:
        """Keep the rows with an observed label."""
        rows = np.flatnonzero(observed.any(axis=1))
        mask = observed[rows].astype(np.float64)
        return cls(rows, values[rows] * mask, mask)


@dataclass
class Factors:
    """V (n, k), U^v (d_v, k), B (k, c) and S (c, c)."""

    codes: Matrix
    bases: list[Matrix]
    predictor: Matrix
    correlation: Matrix

    @classmethod
    def start(
        cls, n: int, dims: Sequence[int], size: int, n_labels: int, rng: np.random.Generator
    ) -> Factors:
        """Uniform numbers in (0, 1) and S = I; the codes come last, one row after the other."""
        bases = [rng.random((dim, size)) for dim in dims]
        predictor = rng.random((size, n_labels))
        return cls(rng.random((n, size)), bases, predictor, np.eye(n_labels))


class Solver:
    """Holds data and factors, and updates one factor at a time."""

    def __init__(
        self,
        views: list[ObservedView],
        labels: ObservedLabels,
        factors: Factors,
        settings: IMvWLSettings,
    ) -> None:
        self.views = views
        self.labels = labels
        self.factors = factors
        self.settings = settings
        self._bound = 1.0  # of the curvature in S; where back-tracking starts next time

    def iterate(self) -> float:
        """Update every factor once; return the objective."""
        self.update_bases()
        self.update_codes()
        self.update_predictor()
        self.update_correlation()
        return self.objective()

    # ------------------------------------------------------------------ the objective

    def objective(self) -> float:
        """Return reconstruction + α label error + β nuclear norm of S."""
        total = sum(map(self._reconstruction, self.views, self.factors.bases))
        residual = self.label_residual(self.factors.correlation)
        total += self.settings.label_weight * float(np.vdot(residual, residual))
        return total + self.settings.rank_weight * nuclear_norm(self.factors.correlation)

    def _reconstruction(self, view: ObservedView, basis: Matrix) -> float:
        """The square, multiplied out: no array of the size of the view is made."""
        codes = self.factors.codes[view.rows]
        mixed = np.vdot(thin_product(view.block, basis), codes)
        return float(view.squares - 2 * mixed + np.vdot(codes.T @ codes, basis.T @ basis))

    def label_residual(self, correlation: Matrix) -> Matrix:
        """Return M∘(VBS) - M∘Y of the rows with labels, for a given S."""
        labelled = self.factors.codes[self.labels.rows]
        scores = labelled @ (self.factors.predictor @ correlation)
        scores *= self.labels.mask
        return scores - self.labels.values

    # ------------------------------------------------------------------ the updates

    def match_predictor(self) -> None:
        """Scale B so that VBS fits the labels as well as a single factor can make it.

        From a uniform start VBS is far too large, and the first update shrinks the codes of rows
        with labels by a factor of 1000. Alone they do no harm, as U follows; beside rows without
        labels, whose codes stay, the bases can no longer serve both.
        """
        if len(self.labels.rows) in (0, len(self.factors.codes)):
            return
        labelled = self.factors.codes[self.labels.rows]
        scores = labelled @ (self.factors.predictor @ self.factors.correlation) * self.labels.mask
        self.factors.predictor *= np.vdot(scores, self.labels.values) / np.vdot(scores, scores)

    def update_bases(self) -> None:
        """U <- U ∘ (X'V) / (U V'V), over the observed rows of the view."""
        for view, basis in zip(self.views, self.factors.bases, strict=True):
            codes = self.factors.codes[view.rows]
            basis *= thin_product(view.block.T, codes) / (basis @ (codes.T @ codes) + SMALLEST)

    def update_codes(self) -> None:
        """V <- V ∘ (ΣXU + α(M∘Y)(BS)') / (ΣVU'U + α(M∘VBS)(BS)')."""
        codes = self.factors.codes
        upper, lower = np.zeros_like(codes), np.zeros_like(codes)
        for view, basis in zip(self.views, self.factors.bases, strict=True):
            upper[view.rows] += thin_product(view.block, basis)
            lower[view.rows] += codes[view.rows] @ (basis.T @ basis)
        rows = self.labels.rows
        reading = self.factors.predictor @ self.factors.correlation
        scores = (codes[rows] @ reading) * self.labels.mask
        upper[rows] += self.settings.label_weight * (self.labels.values @ reading.T)
        lower[rows] += self.settings.label_weight * (scores @ reading.T)
        codes *= upper / (lower + SMALLEST)

    def update_predictor(self) -> None:
        """B <- B ∘ (V'(M∘Y)S') / (V'(M∘VBS)S')."""
        predictor, correlation = self.factors.predictor, self.factors.correlation
        labelled = self.factors.codes[self.labels.rows]
        scores = (labelled @ (predictor @ correlation)) * self.labels.mask
        upper = (labelled.T @ self.labels.values) @ correlation.T
        predictor *= upper / ((labelled.T @ scores) @ correlation.T + SMALLEST)

    def update_correlation(self) -> None:
        """Minimise over S by APG, then take what the other updates need: S >= 0, diagonal 1."""
        if not self.labels.rows.size:
            return
        threshold = 0.5 * self.settings.rank_weight / self.settings.label_weight
        correlation = self.proximal_correlation(threshold)
        np.maximum(correlation, 0.0, out=correlation)
        np.fill_diagonal(correlation, 1.0)
        self.factors.correlation = correlation

    # ------------------------------------------------------------------ the label correlation

    def correlation_slope(self, residual: Matrix) -> Matrix:
        r"""Return the gradient of :math:`\tfrac12\lVert M∘(VBS - Y)\rVert^2` in S."""
        labelled = self.factors.codes[self.labels.rows]
        return np.asarray(self.factors.predictor.T @ (labelled.T @ residual))

    def proximal_correlation(self, threshold: float, tolerance: float = 1e-4) -> Matrix:
        """Minimise over S: accelerated proximal gradient with back-tracking by factors of 2.

        The residual is affine in S, so that of an extrapolated point follows from two known ones.
        """
        current = point = self.factors.correlation
        residual = self.label_residual(current)
        at_point, momentum = residual, 1.0
        bound = max(1.0, self._bound / 2.0)
        for _ in range(self.settings.correlation_steps):
            slope, value = self.correlation_slope(at_point), _half_squares(at_point)
            while True:
                step, _, _ = singular_threshold(point - slope / bound, threshold / bound)
                move, after = step - point, self.label_residual(step)
                promised = value + np.vdot(slope, move) + 0.5 * bound * np.vdot(move, move)
                fits = _half_squares(after) <= promised + _ROUNDING * max(1.0, value)
                if fits or bound > _LARGEST_BOUND:
                    break
                bound *= 2.0
            following = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
            push = (momentum - 1.0) / following
            moved = float(np.linalg.norm(step - current))
            point, at_point = step + push * (step - current), after + push * (after - residual)
            current, residual, momentum = step, after, following
            if moved < tolerance * max(1.0, float(np.linalg.norm(step))):
                break
        self._bound = bound
        return np.array(current)


def _half_squares(matrix: Matrix) -> float:
    return 0.5 * float(np.vdot(matrix, matrix))


def thin_product(block: NDArray[np.float32], factor: Matrix) -> Matrix:
    """Product of data in float32 with a thin factor: the data are never copied to float64."""
    return (block @ factor.astype(np.float32)).astype(np.float64)
