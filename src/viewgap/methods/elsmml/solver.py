"""ELSMML's alternating updates: W by accelerated proximal gradient, the others in closed form.

Labels that are not observed are replaced by what the factor at hand says of them before its closed
form is taken. That majorises the masked error, so that no update raises the objective.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import eigh
from scipy.linalg import solve as solve_dense

from viewgap.methods.elsmml.graph import laplacian, neighbour_graph
from viewgap.methods.elsmml.settings import ELSMMLSettings
from viewgap.methods.linalg.blocks import Matrix

Indices = NDArray[np.signedinteger[Any]]

_SOLUTION = 1e-10  # relative residual at which conjugate gradients stop


@dataclass(frozen=True)
class View:
    """Rows (n_v,) that have a view, with values (n_v, d), X'X and X'LX.

    `spectrum` (d,) and `basis` (d, d) diagonalise both: basis' X'X basis is the diagonal matrix of
    the spectrum, basis' (γ X'LX + δ I) basis = I.
    """

    rows: Indices
    block: Matrix
    laplacian: sparse.csr_array
    gram: Matrix
    roughness: Matrix
    spectrum: Matrix
    basis: Matrix

    @classmethod
    def of(cls, rows: Indices, block: Matrix, n_neighbours: int, settings: ELSMMLSettings) -> View:
        """Make the graph of the rows, and the products that all iterations need."""
        graph = laplacian(neighbour_graph(block, n_neighbours))
        gram, roughness = block.T @ block, block.T @ (graph @ block)
        penalty = settings.smoothness * roughness + settings.ridge * np.eye(len(gram))
        spectrum, basis = eigh(gram, (penalty + penalty.T) / 2.0)
        return cls(rows, block, graph, gram, roughness, np.maximum(spectrum, 0.0), basis)


@dataclass
class Factors:
    """P_v (d_v, p_v) and W_v (p_v, k) of each view, U (n, k), M (k, c) and R (c, c)."""

    projections: list[Matrix]
    coefficients: list[Matrix]
    latent: Matrix
    decoder: Matrix
    correlation: Matrix

    @classmethod
    def start(cls, views: Sequence[View], labels: Matrix, sizes: Sequence[int], k: int) -> Factors:
        """U and M from the labels' principal directions, P from the largest of the spectra."""
        n_labels = labels.shape[1]
        directions = np.zeros((n_labels, k))
        top = np.linalg.eigh(labels.T @ labels)[1][:, ::-1][:, :k]
        directions[:, : top.shape[1]] = top
        projections = [
            view.basis[:, ::-1][:, :size] for view, size in zip(views, sizes, strict=True)
        ]
        coefficients = [np.zeros((size, k)) for size in sizes]
        latent = labels @ directions
        return cls(projections, coefficients, latent, directions.T.copy(), np.eye(n_labels))


class Solver:
    """Holds data and factors, and updates one factor at a time.

    `labels` (n, c) are 0 where not `observed`.
    """

    def __init__(
        self,
        views: list[View],
        labels: Matrix,
        observed: NDArray[np.bool_],
        factors: Factors,
        settings: ELSMMLSettings,
    ) -> None:
        self.views = views
        self.labels = labels
        self.observed = observed
        self.factors = factors
        self.settings = settings
        n = len(labels)
        self.counts = np.zeros(n)
        self.graph = sparse.csr_array((n, n))
        for view in views:
            self.counts[view.rows] += 1.0
            self.graph = self.graph + _embedded(view.laplacian, view.rows, n)
        self._label_gram = labels.T @ labels
        # The term of the labels stands inside the sum over the views.
        self._label_weight = len(views) * settings.label_weight

    # ------------------------------------------------------------------ the objective

    def objective(self) -> float:
        """Return the value of the objective, from its definition."""
        f, settings = self.factors, self.settings
        mixed = self.labels @ f.correlation
        label_error = _masked_squares(mixed - f.latent @ f.decoder, self.observed)
        label_error += _masked_squares(self.labels - mixed, self.observed)
        away = f.correlation - np.eye(len(f.correlation))
        total = self._label_weight * label_error
        total += settings.smoothness * np.vdot(f.latent, np.asarray(self.graph @ f.latent))
        total += settings.ridge * (np.vdot(f.decoder, f.decoder) + np.vdot(away, away))
        for view, projection, coefficients in self._per_view():
            error = view.block @ (projection @ coefficients) - f.latent[view.rows]
            total += np.vdot(error, error) + settings.ridge * np.vdot(projection, projection)
            total += settings.smoothness * np.vdot(projection, view.roughness @ projection)
            total += 2.0 * settings.sparsity * np.abs(coefficients).sum()
        return float(total) / 2.0

    def _per_view(self) -> list[tuple[View, Matrix, Matrix]]:
        f = self.factors
        return list(zip(self.views, f.projections, f.coefficients, strict=True))

    # ------------------------------------------------------------------ the updates

    def update_coefficients(self) -> None:
        """W_v by accelerated proximal gradient."""
        f = self.factors
        for index, (view, projection, coefficients) in enumerate(self._per_view()):
            gram = projection.T @ view.gram @ projection
            cross = projection.T @ (view.block.T @ f.latent[view.rows])
            f.coefficients[index] = proximal_gradient(
                gram, cross, coefficients, self.settings.sparsity, self.settings.proximal_steps
            )

    def update_projections(self) -> None:
        """P_v solves X'X P WW' + (γ X'LX + δ I) P = X'U W', in the bases of both factors."""
        f = self.factors
        for index, (view, _, coefficients) in enumerate(self._per_view()):
            sizes, rotation = np.linalg.eigh(coefficients @ coefficients.T)
            right = view.block.T @ f.latent[view.rows] @ (coefficients.T @ rotation)
            inner = (view.basis.T @ right) / (1.0 + np.outer(view.spectrum, np.maximum(sizes, 0)))
            f.projections[index] = view.basis @ inner @ rotation.T

    def update_latent(self) -> None:
        """U solves (N + γ L) U + α V U MM' = Σ XPW + α V YR M', N the views of each row."""
        f = self.factors
        weight = self._label_weight
        filled = self._filled(self.labels @ f.correlation, f.latent @ f.decoder)
        right = weight * (filled @ f.decoder.T)
        for view, projection, coefficients in self._per_view():
            right[view.rows] += view.block @ (projection @ coefficients)
        sizes, rotation = np.linalg.eigh(weight * (f.decoder @ f.decoder.T))
        shift = self.counts[:, None] + np.maximum(sizes, 0.0)

        def product(rows: Matrix) -> Matrix:
            return np.asarray(shift * rows + self.settings.smoothness * (self.graph @ rows))

        solution = conjugate_gradients(product, right @ rotation, f.latent @ rotation)
        f.latent = solution @ rotation.T

    def update_correlation(self) -> None:
        """R by least squares on YR = UM and YR = Y, with a ridge towards I."""
        f, weight = self.factors, self._label_weight
        now = self.labels @ f.correlation
        both = self._filled(f.latent @ f.decoder, now) + self._filled(self.labels, now)
        identity = self.settings.ridge * np.eye(len(f.correlation))
        f.correlation = _solve_positive(
            2.0 * weight * self._label_gram + identity, weight * (self.labels.T @ both) + identity
        )

    def update_decoder(self) -> None:
        """M by least squares on UM = YR, with a ridge."""
        f, weight = self.factors, self._label_weight
        filled = self._filled(self.labels @ f.correlation, f.latent @ f.decoder)
        gram = weight * (f.latent.T @ f.latent)
        np.einsum("ii->i", gram)[:] += self.settings.ridge
        f.decoder = _solve_positive(gram, weight * (f.latent.T @ filled))

    def iterate(self) -> float:
        """Update every factor once; return the objective."""
        self.update_coefficients()
        self.update_projections()
        self.update_latent()
        self.update_correlation()
        self.update_decoder()
        return self.objective()

    def _filled(self, target: Matrix, otherwise: Matrix) -> Matrix:
        return np.where(self.observed, target, otherwise)


# ---------------------------------------------------------------------- pieces of the updates


def proximal_gradient(
    gram: Matrix, cross: Matrix, start: Matrix, sparsity: float, steps: int
) -> Matrix:
    r"""Minimise :math:`\tfrac12\lVert ZW - U\rVert^2 + \beta\lVert W\rVert_1` by FISTA steps.

    `gram` is Z'Z, `cross` Z'U. The best of all points is returned: momentum may rise in between.
    """
    bound = float(np.linalg.eigvalsh(gram)[-1])
    if bound <= 0:
        return np.zeros_like(start)

    def value(at: Matrix) -> float:
        return float(
            0.5 * np.vdot(at, gram @ at) - np.vdot(at, cross) + sparsity * np.abs(at).sum()
        )

    best = current = point = start
    least, momentum = value(start), 1.0
    for _ in range(steps):
        moved = point - (gram @ point - cross) / bound
        following = np.sign(moved) * np.maximum(np.abs(moved) - sparsity / bound, 0.0)
        after = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
        point = following + (momentum - 1.0) / after * (following - current)
        current, momentum = following, after
        if (reached := value(current)) < least:
            best, least = current, reached
    return best


def conjugate_gradients(
    product: Callable[[Matrix], Matrix], right: Matrix, start: Matrix, max_steps: int = 200
) -> Matrix:
    """Solve A_j x_j = b_j for the columns of `right` (n, k), all A_j symmetric and positive.

    `product` applies every A_j to its column. Steps from `start` only ever come closer.
    """
    solution = start.copy()
    residual = right - product(solution)
    direction = residual.copy()
    size = np.einsum("ij,ij->j", residual, residual)
    enough = _SOLUTION**2 * np.maximum(np.einsum("ij,ij->j", right, right), size)
    for _ in range(max_steps):
        if (size <= enough).all():
            break
        applied = product(direction)
        curvature = np.einsum("ij,ij->j", direction, applied)
        step = np.divide(size, curvature, out=np.zeros_like(size), where=size > enough)
        solution += step * direction
        residual -= step * applied
        following = np.einsum("ij,ij->j", residual, residual)
        ratio = np.divide(following, size, out=np.zeros_like(size), where=size > enough)
        direction = residual + ratio * direction
        size = following
    return solution


def _solve_positive(matrix: Matrix, right: Matrix) -> Matrix:
    return np.asarray(solve_dense(matrix, right, assume_a="pos"))


def _masked_squares(matrix: Matrix, mask: NDArray[np.bool_]) -> float:
    kept = matrix[mask]
    return float(kept @ kept)


def _embedded(matrix: sparse.csr_array, rows: Indices, n: int) -> sparse.csr_array:
    """The same entries at (rows, rows) of an (n, n) matrix."""
    entries = matrix.tocoo()
    places = (rows[entries.row], rows[entries.col])
    return sparse.csr_array((entries.data, places), shape=(n, n))
