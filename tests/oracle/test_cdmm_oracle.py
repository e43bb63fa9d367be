"""CDMM: kernels, label correlation, systems and weights against loops, from the formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from viewgap.methods.cdmm import labels, solver
from viewgap.methods.cdmm.kernel import (
    Nystroem,
    centred,
    gaussian_kernel,
    median_distance,
    unit_rows,
)

Matrix = NDArray[Any]
seeds = st.integers(0, 2**32 - 1)
N, DIMS, C = 14, (3, 5), 3
WIDTHS, E, ALPHA = (2.0, 3.0), 5.0, 0.05


class Data:
    """Two views, each of some rows, and labels with a mask."""

    def __init__(self, seed: int = 0, n: int = N) -> None:
        rng = np.random.default_rng(seed)
        self.X = [rng.normal(size=(n, dim)).astype(np.float32) for dim in DIMS]
        self.seen = rng.random((n, 2)) < 0.7
        self.seen[:2] = True
        self.G = rng.random((n, C)) < 0.6
        self.G[0] = True
        self.Y = (rng.random((n, C)) < 0.4) * self.G * 1.0
        self.T = np.where(self.G, rng.normal(size=(n, C)), 0.0)
        self.views = [
            solver.ViewRows(np.flatnonzero(seen), block[seen], width, E)
            for block, seen, width in zip(self.X, self.seen.T, WIDTHS, strict=True)
        ]


def kernel_by_loops(first: Matrix, second: Matrix, width: float) -> Matrix:
    result = np.zeros((len(first), len(second)))
    for i, x in enumerate(first.astype(float)):
        for j, z in enumerate(second.astype(float)):
            result[i, j] = np.exp(-sum((a - b) ** 2 for a, b in zip(x, z, strict=True)) / width)
    return result


# ---------------------------------------------------------------------- kernels


def test_kernel_and_its_centring_by_loops() -> None:
    first, second = Data().X[0], Data(1).X[0][:4]
    expected = kernel_by_loops(first, second, 0.7)
    np.testing.assert_allclose(gaussian_kernel(first, second, 0.7), expected, rtol=1e-10)
    square = kernel_by_loops(first, first, 0.7)
    P = np.eye(N) - np.ones((N, N)) / N
    np.testing.assert_allclose(centred(square), P @ square @ P, atol=1e-12)


def test_rows_have_length_one() -> None:
    block = np.array([[3, -4], [0, 0], [1e38, 1e38], [1e-42, 0]], dtype=np.float32)
    found = unit_rows(block)
    root = np.sqrt(0.5)
    np.testing.assert_allclose(found, [[0.6, -0.8], [0, 0], [root, root], [1, 0]], rtol=1e-6)


def test_median_distance_by_loops() -> None:
    block = Data().X[1]
    pairs = [np.sum((block[i] - block[j]) ** 2.0) for i in range(N) for j in range(i)]
    assert median_distance(block) == pytest.approx(np.median(pairs), rel=1e-5)
    assert median_distance(np.ones((4, 2), dtype=np.float32)) == 1.0
    assert median_distance(block[:1]) == 1.0


# ---------------------------------------------------------------------- labels


@given(seeds)
@settings(max_examples=20)
def test_label_agreement_by_loops(seed: int) -> None:
    data = Data(seed)
    found = labels.label_agreement(data.Y, data.G * 1.0)
    for j in range(C):
        for k in range(C):
            both = [i for i in range(N) if data.G[i, j] and data.G[i, k]]
            same = [i for i in both if data.Y[i, j] == data.Y[i, k]]
            assert found[j, k] == pytest.approx(len(same) / len(both) if both else 0.0)


def test_view_agreement_by_loops() -> None:
    data = Data()
    X = data.X[0]
    found = labels.view_agreement(X, data.Y, data.G * 1.0)
    sums = np.zeros((C, DIMS[0] + 1))
    for j in range(C):
        rows = [i for i in range(N) if data.G[i, j]]
        for i in rows:
            sums[j] += data.Y[i, j] * np.append(X[i], 1.0) * N / len(rows)
    spread = [np.sum((column - column.mean()) ** 2) / (C - 1) for column in sums.T]
    for j in range(C):
        for k in range(C):
            distance = sum(
                (a - b) ** 2 / s for a, b, s in zip(sums[j], sums[k], spread, strict=True)
            )
            assert found[j, k] == pytest.approx(1 - np.sqrt(distance), abs=1e-7)


def test_labels_that_no_row_observes_have_nothing_in_common() -> None:
    data = Data()
    data.G[:, 1] = False
    data.Y[:, 1] = 0.0
    found = labels.view_agreement(data.X[0], data.Y, data.G * 1.0)
    assert np.isneginf(found[1, [0, 2]]).all()
    both = labels.label_agreement(data.Y, data.G * 1.0)
    S = labels.label_correlation(both, [found], 0.8, 0.01)
    assert np.isfinite(S).all()
    np.testing.assert_array_equal(S[1, [0, 2]], 0.0)


def test_label_correlation_by_loops() -> None:
    rng = np.random.default_rng(0)
    parts = [rng.uniform(-1, 1, (C, C)) for _ in range(3)]
    for part in parts:
        part[:] = (part + part.T) / 2
        np.fill_diagonal(part, 1.0)
    found = labels.label_correlation(parts[0], parts[1:], 0.8, 0.1)
    A = np.zeros((C, C))
    for j in range(C):
        for k in range(C):
            value = 0.8 * parts[0][j, k] + 0.2 * (parts[1][j, k] + parts[2][j, k]) / 2
            A[j, k] = value if value >= 0.1 else 0.0
    for j in range(C):
        for k in range(C):
            expected = A[j, k] / np.sqrt(sum(A[j]) * sum(A[k]))
            assert found[j, k] == pytest.approx(expected, abs=1e-8)


# ---------------------------------------------------------------------- systems


def others_by_loops(data: Data, v: int) -> Matrix:
    """The centred kernel of the other view, 0 for rows that do not have both; rows of view v."""
    u = 1 - v
    rows, other = data.views[v].rows, data.views[u].rows
    P = np.eye(len(other)) - 1.0 / len(other)
    inner = P @ kernel_by_loops(data.X[u][other], data.X[u][other], WIDTHS[u]) @ P
    result = np.zeros((len(rows), len(rows)))
    for i, row in enumerate(rows):
        for j, column in enumerate(rows):
            if row in other and column in other:
                result[i, j] = inner[list(other).index(row), list(other).index(column)]
    return result


def test_exact_systems_by_loops() -> None:
    data = Data()
    for v, system in enumerate(solver.exact_systems(data.views, N, ALPHA)):
        rows = data.views[v].rows
        omega = kernel_by_loops(data.X[v][rows], data.X[v][rows], WIDTHS[v])
        K = others_by_loops(data, v)
        beta = system.coefficients(system.solve(data.T[rows]))
        left = omega @ beta + ALPHA * (K @ (omega @ beta)) + beta / E
        np.testing.assert_allclose(left, data.T[rows], atol=1e-9)
        np.testing.assert_allclose(system.design, omega, rtol=1e-9)


@pytest.mark.parametrize("v", [0, 1])
def test_the_solution_is_the_minimum_with_the_dependence_on_other_views(v: int) -> None:
    r"""Of E/2 |F - T|² + 1/2 tr(β'Ωβ) + αE/2 tr(F'KF), F = Ωβ: the last is HSIC of F and a view."""
    data = Data()
    rows = data.views[v].rows
    system = list(solver.exact_systems(data.views, N, ALPHA))[v]
    omega, K, T = system.design, others_by_loops(data, v), data.T[rows]

    def value(beta: Matrix) -> float:
        F = omega @ beta
        dependence = 0.0
        for i in range(len(rows)):
            for j in range(len(rows)):
                dependence += (F[i] @ F[j]) * K[i, j]
        return float(
            E / 2 * np.sum((F - T) ** 2) + np.sum(beta * F) / 2 + ALPHA * E / 2 * dependence
        )

    beta = system.solve(T)
    rng = np.random.default_rng(v)
    least = value(beta)
    for _ in range(5):
        assert value(beta + 1e-3 * rng.normal(size=beta.shape)) > least


def test_labels_not_observed_have_no_weight() -> None:
    data = Data(2)
    for v, system in enumerate(solver.exact_systems(data.views, N, 0.0)):
        rows = data.views[v].rows
        mask = data.G[rows]
        found = system.design @ solver.solve_masked(system, data.T[rows], mask, 10_000, 1e-13)
        for j in range(C):
            own = np.flatnonzero(mask[:, j])
            omega = system.design
            dual = np.linalg.solve(
                omega[np.ix_(own, own)] + np.eye(len(own)) / E, data.T[rows][own, j]
            )
            np.testing.assert_allclose(found[:, j], omega[:, own] @ dual, atol=1e-6)


def test_refilling_never_raises_the_objective() -> None:
    data = Data(3)
    system = next(solver.exact_systems(data.views, N, ALPHA))
    rows, K = data.views[0].rows, others_by_loops(data, 0)
    T, mask = data.T[rows], data.G[rows]
    values = []
    for steps in range(1, 12):
        beta = solver.solve_masked(system, T, mask, steps, 0.0)
        F = system.design @ beta
        error = np.sum((F - T)[mask] ** 2)
        values.append(error + np.sum(beta * F) / E + ALPHA * np.trace(F.T @ K @ F))
    assert (np.diff(values) <= 1e-10).all()
    assert values[-1] < values[0]


def test_nystroem_with_all_rows_is_exact_and_with_more_rows_is_closer() -> None:
    data = Data(4, n=60)
    exact = [
        s.design @ s.solve(data.T[view.rows])
        for s, view in zip(solver.exact_systems(data.views, 60, ALPHA), data.views, strict=True)
    ]
    errors = []
    for count in (4, 20, 60):
        rng = np.random.default_rng(0)
        systems = solver.nystroem_systems(data.views, ALPHA, count, rng)
        error = 0.0
        for view, system, expected in zip(data.views, systems, exact, strict=True):
            solution = system.solve(data.T[view.rows])
            kernel = gaussian_kernel(view.block, system.anchors, view.width)
            scores = kernel @ system.coefficients(solution)
            np.testing.assert_allclose(scores, system.design @ solution, atol=1e-5)
            error += float(np.linalg.norm(scores - expected))
        errors.append(error)
    assert errors[0] > errors[1] > 100 * errors[2]
    assert errors[2] < 1e-5


def test_nystroem_features_are_exact_on_landmarks() -> None:
    block = Data().X[1]
    Z = Nystroem.fit(block[:6], 2.0).features(block)
    expected = kernel_by_loops(block[:6], block[:6], 2.0)
    np.testing.assert_allclose(Z[:6] @ Z[:6].T, expected, atol=1e-8)


# ---------------------------------------------------------------------- weights and choices


def test_view_weights_by_loops() -> None:
    for losses, smoothness in (([1.0, 2.0, 6.0], 30.0), ([1.0, 2.0, 60.0], 5.0)):
        expected = [(smoothness + sum(losses) - 3 * r) / (3 * smoothness) for r in losses]
        if min(expected) < 0:
            expected = [e if e > 0 else 1e-7 for e in expected]
            expected = [e / sum(expected) for e in expected]
        found = solver.view_weights(np.array(losses), smoothness)
        np.testing.assert_allclose(found, expected)
        assert found.sum() == pytest.approx(1.0)
    assert (solver.view_weights(np.array([1.0, 3.0]), 2.0) > 0).all()  # one would be exactly 0


def test_leave_one_out_is_a_fit_without_the_row() -> None:
    data = Data()
    omega = kernel_by_loops(data.X[0], data.X[0], 2.0)
    for weight, found in solver.leave_one_out(omega, data.T, (0.5, 20.0)):
        for i in range(N):
            rest = np.delete(np.arange(N), i)
            dual = np.linalg.solve(omega[np.ix_(rest, rest)] + np.eye(N - 1) / weight, data.T[rest])
            np.testing.assert_allclose(found[i], omega[i, rest] @ dual, atol=1e-8)


def test_the_choice_has_the_best_leave_one_out_answers() -> None:
    data = Data(5)
    block = data.X[0]
    found = solver.choose_by_leave_one_out(block, data.T, data.G, None, None)
    shares = {}
    for factor in solver.WIDTHS:
        width = factor * median_distance(block)
        omega = kernel_by_loops(block, block, width)
        for weight, answers in solver.leave_one_out(omega, data.T, solver.ERROR_WEIGHTS):
            a, t = answers[data.G], data.T[data.G]
            cosine = max((a @ t) / np.sqrt((a @ a) * (t @ t)), 0.0)
            shares[width, weight] = 1 - cosine**2
    assert found.unexplained == pytest.approx(min(shares.values()))
    chosen = solver.choose_by_leave_one_out(block, data.T, data.G, 7.0, 3.0)
    assert (chosen.width, chosen.error_weight) == (7.0, 3.0)
    nothing = solver.choose_by_leave_one_out(block, data.T, np.zeros_like(data.G), None, None)
    assert nothing.unexplained == 1.0


@given(seeds)
@settings(max_examples=20)
def test_threshold_by_loops(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores, truth = rng.normal(size=(6, 3)), (rng.random((6, 3)) < 0.4) * 1.0
    top = max(scores.max(), 0.0)
    errors = {}
    for step in range(51):
        t = step * top / 50
        errors[t] = sum((scores[i, j] > t) != truth[i, j] for i in range(6) for j in range(3))
    found = solver.hamming_threshold(scores, truth)
    assert errors[min(errors, key=lambda t: abs(t - found))] == min(errors.values())
