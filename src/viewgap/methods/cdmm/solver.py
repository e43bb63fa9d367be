"""CDMM's systems, one per view: over all rows, or over Nyström features where rows are many."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh, lu_factor, lu_solve

from viewgap.methods.cdmm.kernel import Block, Nystroem, centred, gaussian_kernel, median_distance
from viewgap.methods.linalg.blocks import Matrix

Indices = NDArray[np.signedinteger[Any]]

WIDTHS = (3.0, 1.0, 0.3, 0.1)  # times the median squared distance
ERROR_WEIGHTS = (0.01, 0.1, 1.0, 10.0, 100.0)
_SMALLEST_WEIGHT = 1e-7  # as released, for a view whose weight would be negative


@dataclass(frozen=True)
class ViewRows:
    """One view of the training data: which of the n rows have it (n_v,), and their features."""

    rows: Indices
    block: Block
    width: float
    error_weight: float


@dataclass(frozen=True)
class System:
    """The factorised system of one view.

    `design` (n_v, r) times a solution are the fitted values; `to_anchors` (a, r) takes a solution
    to coefficients of the kernel with the `anchors` (a, d). Over all rows the anchors are the rows
    and the design is their kernel; `to_anchors` is then the identity, None.
    """

    anchors: Block
    design: Matrix
    to_anchors: Matrix | None
    factors: Any
    project: bool

    def solve(self, target: Matrix) -> Matrix:
        """Return the solution (r, c) for targets (n_v, c)."""
        right = self.design.T @ target if self.project else target
        return np.asarray(lu_solve(self.factors, right, check_finite=False))

    def coefficients(self, solution: Matrix) -> Matrix:
        """Return coefficients (a, c) of the kernel with the anchors."""
        return solution if self.to_anchors is None else self.to_anchors @ solution


# ---------------------------------------------------------------------- the two systems


def exact_systems(views: Sequence[ViewRows], n: int, diversity: float) -> Iterator[System]:
    r"""Factorise :math:`\Omega_v + \alpha \tilde K_v \Omega_v + I / E` of one view after another.

    :math:`\tilde K_v` is the sum of the centred kernels of the other views, over the rows that
    have both. Two or three (n, n) matrices are held besides, whatever the number of views.
    """
    total = np.zeros((n, n)) if diversity > 0 and len(views) > 1 else None
    if total is not None:
        for view in views:
            total[np.ix_(view.rows, view.rows)] += centred(_kernel(view))
    for view in views:
        omega = _kernel(view)
        system = omega.copy()
        if total is not None:
            others = total[np.ix_(view.rows, view.rows)]
            others -= centred(omega)
            others *= diversity
            system += others @ omega
            del others
        np.einsum("ii->i", system)[:] += 1.0 / view.error_weight
        factors = lu_factor(system, overwrite_a=True, check_finite=False)
        yield System(view.block, omega, None, factors, project=False)


def nystroem_systems(
    views: Sequence[ViewRows], diversity: float, n_landmarks: int, rng: np.random.Generator
) -> Iterator[System]:
    r"""Factorise the same in Nyström features, (r, r), with :math:`\Omega_v \approx Z_v Z_v^\top`.

    .. math:: Z_v^\top Z_v + \alpha Z_v^\top \tilde K_v Z_v + I / E
    """
    maps, designs = [], []
    for view in views:
        chosen = rng.choice(len(view.block), min(n_landmarks, len(view.block)), replace=False)
        maps.append(Nystroem.fit(view.block[np.sort(chosen)], view.width))
        designs.append(maps[-1].features(view.block))
    for index, (view, features, design) in enumerate(zip(views, maps, designs, strict=True)):
        system = design.T @ design
        for other, theirs in zip(views, designs, strict=True):
            if diversity > 0 and other is not view:
                _, mine, there = np.intersect1d(
                    view.rows, other.rows, assume_unique=True, return_indices=True
                )
                cross = design[mine].T @ (theirs[there] - theirs.mean(axis=0))
                system += diversity * (cross @ cross.T)
        np.einsum("ii->i", system)[:] += 1.0 / view.error_weight
        factors = lu_factor(system, overwrite_a=True, check_finite=False)
        yield System(features.landmarks, designs[index], features.whitening, factors, project=True)


def _kernel(view: ViewRows) -> Matrix:
    return gaussian_kernel(view.block, view.block, view.width)


# ---------------------------------------------------------------------- targets


def solve_masked(
    system: System, target: Matrix, observed: NDArray[np.bool_], max_refills: int, tolerance: float
) -> Matrix:
    """Return the solution (r, c) that fits the observed entries of `target` (n_v, c) only.

    Entries that are not observed take the fitted values, again and again: no step raises the
    squared error of the observed entries plus the penalties, and a point where nothing changes is
    the solution with weight 0 there. One factorisation serves all labels.
    """
    solution = system.solve(np.where(observed, target, 0.0))
    if observed.all():
        return solution
    fitted = system.design @ solution
    for _ in range(max_refills):
        solution = system.solve(np.where(observed, target, fitted))
        following = system.design @ solution
        change = float(np.abs(following - fitted).max(initial=0.0))
        fitted = following
        if change < tolerance:
            break
    return solution


def view_weights(losses: Matrix, smoothness: float) -> Matrix:
    r"""Return :math:`\theta_v = (\lambda + \sum_u r_u - V r_v) / (V \lambda)`, with sum 1."""
    count = len(losses)
    weights = (smoothness + losses.sum() - count * losses) / (count * smoothness)
    if (weights < _SMALLEST_WEIGHT).any():
        weights = np.maximum(weights, _SMALLEST_WEIGHT)
        weights /= weights.sum()
    return np.asarray(weights)


def hamming_threshold(scores: Matrix, labels: Matrix, steps: int = 50) -> float:
    """The threshold of all labels with the fewest wrong decisions, from 0 to the highest score."""
    candidates = np.linspace(0.0, max(float(scores.max()), 0.0), steps + 1)
    wrong = [np.count_nonzero((scores > t) != (labels > 0)) for t in candidates]
    return float(candidates[int(np.argmin(wrong))])


# ---------------------------------------------------------------------- width and error weight


@dataclass(frozen=True)
class Choice:
    """Kernel width and error weight of a view, and the share of the labels it cannot explain."""

    width: float
    error_weight: float
    unexplained: float


def choose_by_leave_one_out(
    block: Block,
    target: Matrix,
    observed: NDArray[np.bool_],
    width: float | None,
    error_weight: float | None,
) -> Choice:
    """Take the pair whose leave-one-out answers correlate best with the observed entries.

    `target` (n, c) is centred, and 0 where not observed. Kernel ridge regression without the
    diversity term has closed forms: of one eigendecomposition for each width.
    """
    found = Choice(0.0, 0.0, np.inf)
    scale = median_distance(block) if width is None else width
    for factor in WIDTHS if width is None else (1.0,):
        kernel = gaussian_kernel(block, block, scale * factor)
        for weight, answers in leave_one_out(
            kernel, target, ERROR_WEIGHTS if error_weight is None else (error_weight,)
        ):
            unexplained = 1.0 - _correlation(answers[observed], target[observed]) ** 2
            if unexplained < found.unexplained:
                found = Choice(scale * factor, weight, unexplained)
    return found


def leave_one_out(
    kernel: Matrix, target: Matrix, error_weights: Sequence[float]
) -> Iterator[tuple[float, Matrix]]:
    """Yield error weights with the answers (n, c) for each row of a fit on all the others."""
    values, vectors = eigh(kernel)
    values = np.maximum(values, 0.0)
    projected = vectors.T @ target
    for weight in error_weights:
        kept = values / (values + 1.0 / weight)
        leverage = np.square(vectors) @ kept
        fitted = vectors @ (kept[:, None] * projected)
        yield weight, (fitted - leverage[:, None] * target) / (1.0 - leverage)[:, None]


def _correlation(answers: Matrix, target: Matrix) -> float:
    """Cosine of the angle between them, 0 if it is obtuse or one of them is 0."""
    lengths = float(np.linalg.norm(answers) * np.linalg.norm(target))
    return max(float(answers @ target) / lengths, 0.0) if lengths > 0 else 0.0
