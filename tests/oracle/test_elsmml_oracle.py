"""ELSMML: graph, objective and updates against loops and differences, from the formulas."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from peak_memory import memory_below
from viewgap.methods.elsmml import graph
from viewgap.methods.elsmml.graph import laplacian, neighbour_graph
from viewgap.methods.elsmml.settings import ELSMMLSettings
from viewgap.methods.elsmml.solver import (
    Factors,
    Solver,
    View,
    conjugate_gradients,
    proximal_gradient,
)

Matrix = NDArray[Any]
seeds = st.integers(0, 2**32 - 1)
N, DIMS, SIZES, K, C = 12, (4, 3), (3, 2), 2, 3
SETTINGS = ELSMMLSettings(
    label_weight=0.7, sparsity=0.3, smoothness=0.5, ridge=0.2, proximal_steps=30
)
UPDATES = ("coefficients", "projections", "latent", "correlation", "decoder")


def problem(seed: int = 0, complete: bool = False) -> Solver:
    """Random data and factors; unless `complete`, views and labels are missing."""
    rng = np.random.default_rng(seed)
    observed = rng.random((N, C)) < (2.0 if complete else 0.6)
    Y = np.where(observed, rng.normal(size=(N, C)), 0.0)
    views = []
    for dim in DIMS:
        rows = np.flatnonzero(rng.random(N) < (2.0 if complete else 0.8))
        views.append(View.of(rows, rng.normal(size=(len(rows), dim)), 2, SETTINGS))
    factors = Factors(
        [rng.normal(size=(dim, size)) for dim, size in zip(DIMS, SIZES, strict=True)],
        [rng.normal(size=(size, K)) for size in SIZES],
        rng.normal(size=(N, K)),
        rng.normal(size=(K, C)),
        np.eye(C) + 0.1 * rng.normal(size=(C, C)),
    )
    return Solver(views, Y, observed, factors, SETTINGS)


def graph_by_loops(block: Matrix, count: int) -> Matrix:
    n = len(block)
    square = np.array([[np.sum((a - b) ** 2) for b in block] for a in block])
    nearest = [sorted(set(range(n)) - {i}, key=lambda j: square[i, j])[:count] for i in range(n)]
    t = np.mean([square[i, j] for i in range(n) for j in nearest[i]])
    result = np.zeros((n, n))
    for i in range(n):
        for j in nearest[i]:
            result[i, j] = result[j, i] = np.exp(-square[i, j] / t) / count
    return result


def test_graph_by_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph, "_ROWS_AT_ONCE", 4)
    block = np.random.default_rng(0).normal(size=(9, 3))
    S = graph_by_loops(block, 3)
    np.testing.assert_allclose(neighbour_graph(block, 3).toarray(), S, atol=1e-12)
    L = laplacian(neighbour_graph(block, 3)).toarray()
    np.testing.assert_allclose(L, np.diag(S.sum(axis=1)) - S, atol=1e-12)
    np.testing.assert_allclose(neighbour_graph(1e3 * block + 5, 3).toarray(), S, atol=1e-6)


def test_a_graph_takes_no_memory_of_the_square_of_the_rows() -> None:
    n = 4000
    block = np.random.default_rng(0).normal(size=(n, 2))
    with memory_below(0.8 * 8 * n * n):
        assert neighbour_graph(block, 2).nnz >= 2 * n


def test_graphs_of_few_or_equal_rows() -> None:
    assert neighbour_graph(np.ones((1, 2)), 3).nnz == 0
    everyone = neighbour_graph(np.ones((3, 2)), 5).toarray()
    np.testing.assert_allclose(everyone, 0.5 * (1 - np.eye(3)))


def test_objective_by_loops() -> None:
    solver = problem()
    f, w = solver.factors, SETTINGS
    Y, G = solver.labels, solver.observed
    total = 0.0
    for view, P, W in zip(solver.views, f.projections, f.coefficients, strict=True):
        S = graph_by_loops(view.block, 2)
        projected = view.block @ P
        for a, i in enumerate(view.rows):
            total += 0.5 * np.sum((projected[a] @ W - f.latent[i]) ** 2)
            for b, j in enumerate(view.rows):  # tr(U'LU) is half the sum of S_ab |u_a - u_b|²
                apart = np.sum((f.latent[i] - f.latent[j]) ** 2)
                apart += np.sum((projected[a] - projected[b]) ** 2)
                total += w.smoothness / 4 * S[a, b] * apart
        total += w.sparsity * np.abs(W).sum() + w.ridge / 2 * np.sum(P**2)
        for i, j in zip(*np.nonzero(G), strict=True):
            mixed = Y[i] @ f.correlation[:, j]
            total += w.label_weight / 2 * (mixed - f.latent[i] @ f.decoder[:, j]) ** 2
            total += w.label_weight / 2 * (Y[i, j] - mixed) ** 2
    total += w.ridge / 2 * (np.sum(f.decoder**2) + np.sum((f.correlation - np.eye(C)) ** 2))
    assert solver.objective() == pytest.approx(total)


@given(seeds, st.booleans())
@settings(max_examples=20)
def test_no_update_raises_the_objective(seed: int, complete: bool) -> None:
    solver = problem(seed, complete)
    value = solver.objective()
    for _ in range(3):
        for name in UPDATES:
            getattr(solver, f"update_{name}")()
            following = solver.objective()
            assert following <= value * (1 + 1e-9), name
            value = following


@given(seeds)
@settings(max_examples=10)
def test_objective_falls_over_iterations(seed: int) -> None:
    solver = problem(seed)
    values = [solver.objective(), *(solver.iterate() for _ in range(8))]
    assert (np.diff(values) <= 1e-9 * values[0]).all()
    assert values[-1] < values[0]


@pytest.mark.parametrize("name", ["projections", "latent", "correlation", "decoder"])
def test_closed_forms_are_minima_on_complete_data(name: str) -> None:
    solver = problem(3, complete=True)
    getattr(solver, f"update_{name}")()
    factor = getattr(solver.factors, name)
    for place in factor if isinstance(factor, list) else [factor]:
        for index in np.ndindex(place.shape):
            kept, ends = place[index], []
            for sign in (1, -1):
                place[index] = kept + sign * 1e-5
                ends.append(solver.objective())
            place[index] = kept
            assert (ends[0] - ends[1]) / 2e-5 == pytest.approx(0.0, abs=1e-5)


def test_every_factor_has_an_update() -> None:
    assert {f.name for f in fields(Factors)} == set(UPDATES)


def test_proximal_gradient_reaches_the_minimum() -> None:
    rng = np.random.default_rng(0)
    Z, U = rng.normal(size=(10, 4)), rng.normal(size=(10, 2))
    found = proximal_gradient(Z.T @ Z, Z.T @ U, np.zeros((4, 2)), 3.0, 2000)
    W = np.zeros((4, 2))
    for _ in range(500):  # one coordinate after the other
        for a, j in np.ndindex(W.shape):
            rest = U[:, j] - Z @ W[:, j] + Z[:, a] * W[a, j]
            slope, curve = Z[:, a] @ rest, Z[:, a] @ Z[:, a]
            W[a, j] = np.sign(slope) * max(abs(slope) - 3.0, 0.0) / curve
    np.testing.assert_allclose(found, W, atol=1e-7)
    assert (W == 0).any()
    nothing = proximal_gradient(np.zeros((4, 4)), np.zeros((4, 2)), np.ones((4, 2)), 3.0, 5)
    np.testing.assert_array_equal(nothing, 0.0)


def test_conjugate_gradients_solve_every_column() -> None:
    rng = np.random.default_rng(0)
    A = [part @ part.T + np.eye(6) for part in rng.normal(size=(3, 6, 6))]
    right, start = rng.normal(size=(2, 6, 3))
    right[:, 1] = 0.0

    def product(rows: Matrix) -> Matrix:
        return np.stack([matrix @ column for matrix, column in zip(A, rows.T, strict=True)], axis=1)

    found = conjugate_gradients(product, right, start)
    for j, matrix in enumerate(A):
        np.testing.assert_allclose(found[:, j], np.linalg.solve(matrix, right[:, j]), atol=1e-7)
