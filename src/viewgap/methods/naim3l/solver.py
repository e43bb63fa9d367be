"""NAIM3L's optimisation: ADMM for the low-rank groups, concave-convex steps for the high rank."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, eigh

from viewgap.errors import RunError, parameter
from viewgap.methods.linalg.lowrank import Matrix, nuclear_subgradient, singular_threshold
from viewgap.methods.naim3l.settings import NAIM3LSettings

Indices = NDArray[np.intp]

# As released: eigenvalues of (XW)'(XW) below this have no part in the subgradient.
_SMALLEST_EIGENVALUE = 0.005
# As released: a singular value above this one is taken for a divergence.
_LARGEST_SINGULAR_VALUE = 3000.0


@dataclass(frozen=True)
class Problem:
    """The examples, below each other: a sample appears once for each view that it has.

    `features[v]` (n_v, p_v) are the rows of view v, `signs` (N, c) the labels of all views' rows:
    1 and -1 where a label was observed, 0 elsewhere. `groups` holds, for every label with an
    observed positive, the numbers of its positive rows among the N. `spread` (N,) tells which rows
    are in the high-rank term: all as released; if `guarded`, those in a group.

    With guarded rows the objective is at least 0, as the nuclear norm of stacked groups is at most
    the sum of theirs. Without, a row of no group can make it fall without end.
    """

    features: list[Matrix]
    signs: NDArray[np.int8]
    groups: list[Indices]
    spread: NDArray[np.bool_]

    @classmethod
    def of(cls, features: list[Matrix], signs: NDArray[np.int8], guarded: bool = True) -> Problem:
        """Find the groups and put the parts together."""
        positive = signs == 1
        groups = [np.flatnonzero(column) for column in positive.T if column.any()]
        spread = positive.any(axis=1) if guarded else np.ones(len(signs), dtype=np.bool_)
        return cls(features, signs, groups, spread)

    @property
    def parts(self) -> list[slice]:
        """Which of the N rows belong to each view."""
        ends = np.cumsum([0, *map(len, self.features)])
        return [slice(first, last) for first, last in pairwise(ends)]

    def scores(self, weights: list[Matrix]) -> Matrix:
        """Return XW, (N, c)."""
        return np.vstack([x @ w for x, w in zip(self.features, weights, strict=True)])

    def transposed(self, rows: Matrix) -> list[Matrix]:
        r"""Return :math:`X^\top R` of a matrix (N, c), view by view."""
        return [x.T @ rows[part] for x, part in zip(self.features, self.parts, strict=True)]

    def residual(self, scores: Matrix) -> Matrix:
        """Return P∘(XW - Y), (N, c): 0 where a label was not observed."""
        return np.where(self.signs != 0, scores - self.signs, 0.0)


class Solver:
    r"""Iterates on W, Z and Λ for :math:`Z_k = X_k W`; `multipliers` holds Λ/μ.

    All of it follows the scaled form of ADMM: with :math:`u_k = \Lambda_k / \mu`,
    :math:`Z_k` is the singular-value threshold of :math:`X_k W + u_k` at λ/μ, and
    :math:`u_k` the part that was cut off. If `guarded`, the linearised data term gets
    :math:`\tfrac12\lVert X(W - W_t)\rVert^2`: an upper bound of what the linearisation leaves out,
    so that the step cannot overshoot.
    """

    def __init__(self, problem: Problem, settings: NAIM3LSettings, weights: list[Matrix]) -> None:
        self.problem = problem
        self.settings = settings
        self.weights = weights
        self.scores = problem.scores(weights)
        n_labels = problem.signs.shape[1]
        self.low_rank = [np.zeros((rows.size, n_labels)) for rows in problem.groups]
        self.multipliers = [np.zeros_like(part) for part in self.low_rank]
        count = np.zeros(len(problem.signs))
        for rows in problem.groups:
            count[rows] += 1.0
        parts = list(zip(problem.features, problem.parts, strict=True))
        self._grams = [x.T @ x for x, _ in parts]
        self._group_grams = [(x * count[part, None]).T @ x for x, part in parts]
        spread = [x[problem.spread[part]] for x, part in parts]
        self._roots = [_root(x.T @ x) for x in spread]
        self._factors = [cho_factor(self._system(v)) for v in range(len(parts))]
        self._slope: list[Matrix] | None = None  # of the high-rank term
        self._steps = 0

    def _system(self, view: int) -> Matrix:
        """Return the matrix of the W step; the ridge only matters where no row says anything."""
        matrix = self.settings.penalty * self._group_grams[view]
        if self.settings.guarded:
            matrix = matrix + self._grams[view]
        scale = max(1.0, float(np.trace(matrix)) / len(matrix))
        return matrix + self.settings.ridge * scale * np.eye(len(matrix))

    def high_rank_slope(self) -> tuple[list[Matrix], float]:
        r"""Return :math:`A = X^\top \partial\lVert XW \rVert_*` by view, and the norm.

        X stands for the rows of the high-rank term. With :math:`X^\top X = L^\top L`, XW and LW
        have the same Gram matrix, and LW has no more rows than W:
        :math:`A = L^\top \partial\lVert LW \rVert_*`.
        """
        short = [root @ w for root, w in zip(self._roots, self.weights, strict=True)]
        slope, norm = nuclear_subgradient(np.vstack(short), _SMALLEST_EIGENVALUE**0.5)
        ends = np.cumsum([len(part) for part in short])[:-1]
        split = np.split(slope, ends)
        return [root.T @ part for root, part in zip(self._roots, split, strict=True)], norm

    def update_weights(self, slope: list[Matrix]) -> float:
        """Solve for W view by view; return the largest change of an entry."""
        data = self.problem.transposed(self.problem.residual(self.scores))
        target = np.zeros_like(self.scores)
        for rows, low, cut in zip(
            self.problem.groups, self.low_rank, self.multipliers, strict=True
        ):
            target[rows] += low - cut
        pull = self.problem.transposed(target)
        change, old = 0.0, self.weights
        self.weights = []
        for view, factor in enumerate(self._factors):
            right = self.settings.rank_weight * slope[view] - data[view]
            right += self.settings.penalty * pull[view]
            if self.settings.guarded:
                right += self._grams[view] @ old[view]
            self.weights.append(cho_solve(factor, right))
            change = max(change, float(np.abs(self.weights[view] - old[view]).max()))
        self.scores = self.problem.scores(self.weights)
        return change

    def update_groups(self) -> tuple[float, float, float]:
        """Update Z and Λ; return the largest change of Z, its nuclear norms, the top singular."""
        change = norms = top = 0.0
        threshold = self.settings.rank_weight / self.settings.penalty
        for k, rows in enumerate(self.problem.groups):
            shifted = self.scores[rows] + self.multipliers[k]
            low, norm, largest = singular_threshold(shifted, threshold)
            change = max(change, float(np.abs(low - self.low_rank[k]).max()))
            self.low_rank[k], self.multipliers[k] = low, shifted - low
            norms += norm
            top = max(top, largest)
        return change, norms, top

    def step(self) -> tuple[float, float]:
        """Update W, Z and Λ once; return the objective, and the largest change of W and Z."""
        if self._slope is None:
            self._slope, _ = self.high_rank_slope()
        change = self.update_weights(self._slope)
        moved, low, top = self.update_groups()
        change, self._steps = max(change, moved), self._steps + 1
        self._slope, high = self.high_rank_slope()
        fit = _half_squares(self.problem.residual(self.scores))
        self._refuse_divergence(top, change)
        return fit + self.settings.rank_weight * (low - high), change

    def _refuse_divergence(self, top: float, change: float) -> None:
        limit = np.inf if self.settings.guarded else _LARGEST_SINGULAR_VALUE
        if top <= limit and np.isfinite(change):
            return
        raise RunError(
            f"NAIM3L diverged in iteration {self._steps}: a singular value of {top:.3g} "
            f"(limit {limit:.3g}) with mu={self.settings.penalty:g}. Raise "
            f"{parameter('penalty')} (mu), lower {parameter('components')}, or use "
            f"{parameter('profile', 'default')}, which is guarded against it"
        )


def _half_squares(matrix: Matrix) -> float:
    return 0.5 * float(np.vdot(matrix, matrix))


def _root(gram: Matrix) -> Matrix:
    r"""Return L with :math:`L^\top L` = gram."""
    values, vectors = eigh(gram)
    return np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
