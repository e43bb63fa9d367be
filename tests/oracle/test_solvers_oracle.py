"""NAIM3L and iMvWL: objectives and updates against loops and dense matrices, from the formulas."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.linalg import block_diag

from viewgap.errors import RunError
from viewgap.methods.imvwl import solver as imvwl
from viewgap.methods.imvwl.features import find_codes
from viewgap.methods.imvwl.settings import IMvWLSettings
from viewgap.methods.linalg.lowrank import nuclear_norm, nuclear_subgradient, singular_threshold
from viewgap.methods.naim3l import solver as naim3l
from viewgap.methods.naim3l.settings import NAIM3LSettings

Matrix = NDArray[Any]
seeds = st.integers(0, 2**32 - 1)


def svd_threshold(matrix: Matrix, threshold: float) -> Matrix:
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    return left @ np.diag([max(value - threshold, 0.0) for value in values]) @ right


def slope_by_differences(function: Any, place: Matrix, step: float = 1e-6) -> Matrix:
    slope = np.zeros_like(place)
    for index in np.ndindex(place.shape):
        ends = []
        for sign in (1, -1):
            moved = place.copy()
            moved[index] += sign * step
            ends.append(function(moved))
        slope[index] = (ends[0] - ends[1]) / (2 * step)
    return slope


# ---------------------------------------------------------------------- singular values


@given(seeds, st.integers(1, 9), st.integers(1, 9), st.floats(0, 4))
def test_threshold_is_that_of_the_svd(seed: int, rows: int, columns: int, threshold: float) -> None:
    matrix = np.random.default_rng(seed).normal(size=(rows, columns))
    found, norm, largest = singular_threshold(matrix, threshold)
    expected = svd_threshold(matrix, threshold)
    np.testing.assert_allclose(found, expected, atol=1e-7)
    values = np.linalg.svd(matrix, compute_uv=False)
    assert norm == pytest.approx(np.linalg.svd(expected, compute_uv=False).sum(), abs=1e-6)
    assert largest == pytest.approx(values[0])
    assert nuclear_norm(matrix) == pytest.approx(values.sum(), abs=1e-6)


@pytest.mark.parametrize("shape", [(3, 3), (2, 7), (7, 2)])
def test_threshold_of_zeros_and_of_low_rank(shape: tuple[int, int]) -> None:
    zeros = np.zeros(shape)
    np.testing.assert_array_equal(singular_threshold(zeros, 0.0)[0], zeros)
    np.testing.assert_array_equal(nuclear_subgradient(zeros)[0], zeros)
    one = np.outer(np.arange(1.0, shape[0] + 1), np.ones(shape[1]))
    np.testing.assert_allclose(singular_threshold(one, 0.5)[0], svd_threshold(one, 0.5), atol=1e-9)
    np.testing.assert_allclose(nuclear_subgradient(one)[0], one / np.linalg.norm(one), atol=1e-9)


@pytest.mark.parametrize("shape", [(4, 4), (3, 6), (6, 3)])
def test_subgradient_is_the_slope_of_the_nuclear_norm(shape: tuple[int, int]) -> None:
    matrix = np.random.default_rng(0).normal(size=shape)

    def norm(at: Matrix) -> float:
        return float(np.linalg.svd(at, compute_uv=False).sum())

    found, value = nuclear_subgradient(matrix)
    np.testing.assert_allclose(found, slope_by_differences(norm, matrix), atol=1e-6)
    assert value == pytest.approx(norm(matrix))


def test_subgradient_leaves_small_directions_out() -> None:
    matrix = np.diag([3.0, 0.05, 2.0])
    np.testing.assert_allclose(nuclear_subgradient(matrix, 0.07)[0], np.diag([1.0, 0, 1.0]))


# ---------------------------------------------------------------------- NAIM3L

SIZES, WIDTHS, N_LABELS, WEIGHT = (7, 5, 9), (4, 3, 2), 5, 0.3


class Dense:
    """One NAIM3L problem with X as the block-diagonal matrix of the paper."""

    def __init__(self, seed: int = 0, **settings: Any) -> None:
        rng = np.random.default_rng(seed)
        features = [rng.normal(size=shape) for shape in zip(SIZES, WIDTHS, strict=True)]
        self.Y = rng.integers(-1, 2, size=(sum(SIZES), N_LABELS)).astype(np.int8)
        self.Y[:, 3] = np.minimum(self.Y[:, 3], 0)  # a label without positives
        self.X = block_diag(*features)
        groups = [np.flatnonzero(self.Y[:, k] == 1) for k in range(N_LABELS)]
        self.groups = [rows for rows in groups if rows.size]
        self.problem = naim3l.Problem.of(features, self.Y, settings.get("guarded", True))
        covered = [any(self.Y[i] == 1) for i in range(len(self.Y))]
        self.spread = np.array(covered) if settings.get("guarded", True) else slice(None)
        defaults = {"rank_weight": WEIGHT, "penalty": 2.0}
        self.settings = NAIM3LSettings(**(defaults | settings))
        start = [rng.uniform(-1, 1, (width, N_LABELS)) for width in WIDTHS]
        self.solver = naim3l.Solver(self.problem, self.settings, start)
        for part in (self.solver.low_rank, self.solver.multipliers):
            part[:] = [rng.normal(size=each.shape) for each in part]

    @property
    def W(self) -> Matrix:
        return np.vstack(self.solver.weights)

    def data_term(self, W: Matrix) -> float:
        scores, total = self.X @ W, 0.0
        for i, j in np.ndindex(self.Y.shape):
            if self.Y[i, j] != 0:
                total += 0.5 * (scores[i, j] - self.Y[i, j]) ** 2
        return total

    def objective(self) -> float:
        scores = self.X @ self.W
        low = sum(np.linalg.norm(scores[rows], "nuc") for rows in self.groups)
        high = np.linalg.norm(scores[self.spread], "nuc")
        return self.data_term(self.W) + WEIGHT * float(low - high)

    def lagrangian(self, W: Matrix, slope: Matrix) -> float:
        """Augmented Lagrangian as a function of W, the concave term linearised."""
        total = self.data_term(W) - self.settings.rank_weight * float(np.vdot(slope, W))
        for rows, low, cut in zip(
            self.groups, self.solver.low_rank, self.solver.multipliers, strict=True
        ):
            gap = self.X[rows] @ W - low
            total += self.settings.penalty * float(np.vdot(cut, gap) + 0.5 * np.vdot(gap, gap))
        return total


def test_naim3l_groups_are_the_positive_rows() -> None:
    dense = Dense()
    assert len(dense.problem.groups) == len(dense.groups) == 4
    for found, expected in zip(dense.problem.groups, dense.groups, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_naim3l_slope_of_the_data_term() -> None:
    dense = Dense()
    scores = dense.problem.scores(dense.solver.weights)
    found = np.vstack(dense.problem.transposed(dense.problem.residual(scores)))
    np.testing.assert_allclose(found, slope_by_differences(dense.data_term, dense.W), atol=1e-5)


@pytest.mark.parametrize("guarded", [False, True])
def test_naim3l_slope_of_the_high_rank_term(guarded: bool) -> None:
    dense = Dense(guarded=guarded)
    X = dense.X[dense.spread]
    assert (len(X) < len(dense.X)) == guarded
    found, norm = dense.solver.high_rank_slope()
    left, values, right = np.linalg.svd(X @ dense.W, full_matrices=False)
    assert (values**2 > 0.005).all()
    np.testing.assert_allclose(np.vstack(found), X.T @ left @ right, atol=1e-9)
    assert norm == pytest.approx(values.sum())
    dense.solver.weights = [w * [1, 1, 0, 1e-3, 1] for w in dense.solver.weights]
    left, values, right = np.linalg.svd(X @ dense.W, full_matrices=False)
    large = values**2 > 0.005
    assert large.sum() == 3
    expected = X.T @ left[:, large] @ right[large]
    np.testing.assert_allclose(np.vstack(dense.solver.high_rank_slope()[0]), expected, atol=1e-9)


@pytest.mark.parametrize("guarded", [False, True])
def test_naim3l_weights_solve_the_block_diagonal_system(guarded: bool) -> None:
    dense = Dense(guarded=guarded, ridge=1e-3)
    X, old, mu = dense.X, dense.W, dense.settings.penalty
    slope, _ = dense.solver.high_rank_slope()
    matrix = np.zeros((len(old), len(old)))
    right = WEIGHT * np.vstack(slope) - X.T @ ((X @ old - dense.Y) * (dense.Y != 0))
    for rows, low, cut in zip(
        dense.groups, dense.solver.low_rank, dense.solver.multipliers, strict=True
    ):
        matrix += mu * X[rows].T @ X[rows]
        right += X[rows].T @ (mu * low - mu * cut)  # Λ = μ · cut
    if guarded:
        matrix += X.T @ X
        right += X.T @ X @ old
    ends = np.cumsum([0, *WIDTHS])
    for first, last in pairwise(ends):
        own = np.diag(matrix)[first:last]
        matrix[range(first, last), range(first, last)] += 1e-3 * max(1.0, own.mean())
    expected = np.linalg.solve(matrix, right)
    change = dense.solver.update_weights(slope)
    np.testing.assert_allclose(dense.W, expected, atol=1e-9)
    assert change == pytest.approx(np.abs(expected - old).max())
    np.testing.assert_allclose(dense.solver.scores, X @ expected, atol=1e-9)


def test_naim3l_groups_are_thresholds_and_multipliers_add_up() -> None:
    dense = Dense()
    low, cut = list(dense.solver.low_rank), list(dense.solver.multipliers)
    change, norms, top = dense.solver.update_groups()
    largest, total, moved = 0.0, 0.0, 0.0
    for k, rows in enumerate(dense.groups):
        scores = dense.X[rows] @ dense.W
        expected = svd_threshold(scores + cut[k], WEIGHT / dense.settings.penalty)
        np.testing.assert_allclose(dense.solver.low_rank[k], expected, atol=1e-8)
        np.testing.assert_allclose(
            dense.solver.multipliers[k], cut[k] + scores - expected, atol=1e-8
        )
        moved = max(moved, np.abs(expected - low[k]).max())
        total += np.linalg.norm(expected, "nuc")
        largest = max(largest, np.linalg.norm(scores + cut[k], 2))
    assert (change, norms, top) == pytest.approx((moved, total, largest))


@given(seeds)
def test_naim3l_guarded_step_never_raises_the_lagrangian(seed: int) -> None:
    dense = Dense(seed)
    slope, _ = dense.solver.high_rank_slope()
    before = dense.lagrangian(dense.W, np.vstack(slope))
    dense.solver.update_weights(slope)
    assert dense.lagrangian(dense.W, np.vstack(slope)) <= before + 1e-9


def test_naim3l_goes_down_and_its_limit_is_consistent() -> None:
    dense, change, course = Dense(), np.inf, []
    while change >= 1e-8:
        assert len(course) < 5000
        objective, change = dense.solver.step()
        course.append(objective)
    values = np.array(course)
    rises = np.diff(values) > 1e-6 * np.abs(values[:-1])
    assert rises[5:].mean() < 0.2
    assert values[-1] < values[0]
    for rows, low in zip(dense.groups, dense.solver.low_rank, strict=True):
        np.testing.assert_allclose(dense.X[rows] @ dense.W, low, atol=1e-6)
    objective = dense.objective()
    assert values[-1] == pytest.approx(objective, abs=1e-5)


def test_naim3l_without_guard_tells_of_a_divergence() -> None:
    solver = Dense(guarded=False, penalty=5.0).solver
    with pytest.raises(RunError, match=r"mu=5.*Raise penalty"):
        list(islice(iter(solver.step, None), 5000))


# ---------------------------------------------------------------------- iMvWL

N, DIMS, SIZE, ALPHA, BETA = 8, (5, 3), 3, 0.7, 0.4


class Masks:
    """One iMvWL problem with the dense masks O (n, d) and M (n, c) of the paper."""

    def __init__(self, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        seen = rng.random((N, 2)) < 0.7
        seen[np.arange(N), rng.integers(2, size=N)] = True
        self.X = [rng.random((N, d)).astype(np.float32).astype(float) for d in DIMS]
        self.O = [np.repeat(seen[:, [v]], d, axis=1) for v, d in enumerate(DIMS)]
        self.M = rng.random((N, N_LABELS)) < 0.6
        self.M[2] = False  # a row without any label
        self.Y = (rng.random((N, N_LABELS)) < 0.5) * self.M
        views = [
            imvwl.ObservedView.of(
                np.flatnonzero(seen[:, v]), self.X[v][seen[:, v]].astype(np.float32)
            )
            for v in range(2)
        ]
        labels = imvwl.ObservedLabels.of(self.Y.astype(np.uint8), self.M)
        factors = imvwl.Factors.start(N, DIMS, SIZE, N_LABELS, rng)
        factors.correlation = rng.random((N_LABELS, N_LABELS))
        settings = IMvWLSettings(label_weight=ALPHA, rank_weight=BETA, correlation_steps=60)
        self.solver = imvwl.Solver(views, labels, factors, settings)

    def parts(self) -> tuple[Matrix, list[Matrix], Matrix, Matrix]:
        now = self.solver.factors
        bases = [basis.copy() for basis in now.bases]
        return now.codes.copy(), bases, now.predictor.copy(), now.correlation.copy()

    def label_error(self, S: Matrix) -> float:
        V, _, B, _ = self.parts()
        scores, total = V @ B @ S, 0.0
        for i, j in np.ndindex(self.M.shape):
            if self.M[i, j]:
                total += (scores[i, j] - self.Y[i, j]) ** 2
        return total


def test_imvwl_objective() -> None:
    masks = Masks()
    V, bases, _, S = masks.parts()
    total = ALPHA * masks.label_error(S) + BETA * np.linalg.svd(S, compute_uv=False).sum()
    for X, seen, U in zip(masks.X, masks.O, bases, strict=True):
        for i, j in np.ndindex(X.shape):
            if seen[i, j]:
                total += (X[i, j] - sum(V[i, a] * U[j, a] for a in range(SIZE))) ** 2
    assert masks.solver.objective() == pytest.approx(total, rel=1e-5)


def test_imvwl_bases_by_loops() -> None:
    masks = Masks()
    V, bases, _, _ = masks.parts()
    masks.solver.update_bases()
    for v, (X, seen, U) in enumerate(zip(masks.X, masks.O, bases, strict=True)):
        expected = np.zeros_like(U)
        for j, a in np.ndindex(U.shape):
            upper = sum(seen[i, j] * X[i, j] * V[i, a] for i in range(N))
            lower = sum(seen[i, j] * (V[i] @ U[j]) * V[i, a] for i in range(N))
            expected[j, a] = U[j, a] * upper / lower
        np.testing.assert_allclose(masks.solver.factors.bases[v], expected, rtol=1e-5)


def test_imvwl_codes_by_loops() -> None:
    masks = Masks()
    V, bases, B, S = masks.parts()
    masks.solver.update_codes()
    expected = np.zeros_like(V)
    for i, a in np.ndindex(V.shape):
        upper = lower = 0.0
        for X, seen, U in zip(masks.X, masks.O, bases, strict=True):
            for j in range(X.shape[1]):
                upper += seen[i, j] * X[i, j] * U[j, a]
                lower += seen[i, j] * (V[i] @ U[j]) * U[j, a]
        for j in range(N_LABELS):
            upper += ALPHA * masks.M[i, j] * masks.Y[i, j] * (B @ S)[a, j]
            lower += ALPHA * masks.M[i, j] * (V @ B @ S)[i, j] * (B @ S)[a, j]
        expected[i, a] = V[i, a] * upper / lower
    np.testing.assert_allclose(masks.solver.factors.codes, expected, rtol=1e-5)


def test_imvwl_predictor_by_loops() -> None:
    masks = Masks()
    V, _, B, S = masks.parts()
    masks.solver.update_predictor()
    expected = np.zeros_like(B)
    for a, j in np.ndindex(B.shape):
        upper = lower = 0.0
        for i, other in np.ndindex(masks.M.shape):
            upper += V[i, a] * masks.M[i, other] * masks.Y[i, other] * S[j, other]
            lower += V[i, a] * masks.M[i, other] * (V @ B @ S)[i, other] * S[j, other]
        expected[a, j] = B[a, j] * upper / lower
    np.testing.assert_allclose(masks.solver.factors.predictor, expected, rtol=1e-9)


def test_imvwl_start_is_matched_where_rows_have_no_labels() -> None:
    masks = Masks()
    V, _, B, S = masks.parts()
    masks.solver.match_predictor()
    found = masks.solver.factors.predictor
    factor = found[0, 0] / B[0, 0]
    np.testing.assert_allclose(found, factor * B)

    def error(scale: float) -> float:
        return float(np.sum((masks.M * (scale * V @ B @ S) - masks.Y) ** 2))

    assert error(factor) < min(error(0.99 * factor), error(1.01 * factor))
    every = masks.solver
    every.labels = imvwl.ObservedLabels.of(masks.Y.astype(np.uint8), np.ones_like(masks.M))
    every.match_predictor()
    np.testing.assert_array_equal(every.factors.predictor, found)


@given(seeds)
def test_imvwl_ratio_updates_never_raise_the_objective(seed: int) -> None:
    solver = Masks(seed).solver
    value = solver.objective()
    for update in (solver.update_bases, solver.update_codes, solver.update_predictor):
        update()
        following = solver.objective()
        assert following <= value * (1 + 1e-5)
        value = following


def test_imvwl_slope_in_the_correlation() -> None:
    masks = Masks()
    S = masks.solver.factors.correlation
    found = masks.solver.correlation_slope(masks.solver.label_residual(S))
    expected = slope_by_differences(lambda at: 0.5 * masks.label_error(at), S)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_imvwl_correlation_is_the_minimum() -> None:
    masks = Masks()
    V, _, B, S = masks.parts()
    threshold = 0.5 * BETA / ALPHA
    masks.solver.settings = replace(masks.solver.settings, correlation_steps=3000)
    found = masks.solver.proximal_correlation(threshold, tolerance=1e-12)
    A = V @ B
    bound = np.linalg.norm(A, 2) ** 2
    for _ in range(20_000):  # the plain proximal gradient, with the SVD
        S = svd_threshold(S - A.T @ (masks.M * (A @ S) - masks.Y) / bound, threshold / bound)

    def value(at: Matrix) -> float:
        return 0.5 * masks.label_error(at) + threshold * float(np.linalg.norm(at, "nuc"))

    assert value(found) == pytest.approx(value(S), rel=1e-6)
    np.testing.assert_allclose(A @ found * masks.M, A @ S * masks.M, atol=1e-3)


def test_imvwl_correlation_is_made_fit_for_the_other_updates() -> None:
    masks = Masks()
    masks.solver.update_correlation()
    S = masks.solver.factors.correlation
    assert (S >= 0).all()
    np.testing.assert_array_equal(np.diag(S), 1.0)


def test_imvwl_objective_goes_down_almost_always() -> None:
    solver = Masks(3).solver
    solver.factors.correlation = np.eye(N_LABELS)
    values = []
    for _ in range(80):
        solver.update_bases()
        solver.update_codes()
        solver.update_predictor()
        solver.update_correlation()
        values.append(solver.objective())
    rises = np.diff(values) > 1e-6 * np.array(values[:-1])
    assert rises.mean() < 0.1
    assert values[-1] < 0.9 * values[0]


def test_imvwl_codes_of_new_rows_by_loops() -> None:
    masks = Masks()
    _, bases, _, _ = masks.parts()
    start, steps = np.array([0.3, 0.2, 0.9]), 7
    observed = np.stack([mask[:, 0] for mask in masks.O], axis=1)
    found = find_codes(N, masks.solver.views, bases, start, steps)
    for i in range(N):
        code = start.copy()
        for _ in range(steps):
            upper, lower = np.zeros(SIZE), np.zeros(SIZE)
            for v, U in enumerate(bases):
                if observed[i, v]:
                    upper += masks.X[v][i] @ U
                    lower += (code @ U.T) @ U
            code = code * upper / lower
        np.testing.assert_allclose(found[i], code, rtol=1e-4)
