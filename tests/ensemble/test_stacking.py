"""Stacking: against naive loops, and what its weights must do."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from viewgap.data.labels import Labels
from viewgap.ensemble.stacking import Stacking


def labels_of(Y: np.ndarray) -> Labels:
    names = tuple(f"label{j}" for j in range(Y.shape[1]))
    return Labels(np.nan_to_num(Y).astype(np.uint8), ~np.isnan(Y), names)


def problem(n: int, noise: tuple[float, ...], seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities (K, n, 2) of methods that see the log-odds with more or less noise."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(scale=2.0, size=(n, 2))
    Y = (rng.random((n, 2)) < 1 / (1 + np.exp(-truth))).astype(float)
    scores = [truth + scale * rng.normal(size=truth.shape) for scale in noise]
    return 1 / (1 + np.exp(-np.stack(scores))), Y


def naive_loss(log_weights: np.ndarray, P: np.ndarray, Y: np.ndarray) -> float:
    """The negative log posterior of the module's docstring, entry by entry."""
    total = sum(0.5 * (v - math.log(1 / len(P))) ** 2 / 1.0**2 for v in log_weights)
    base = [math.log((sum(y == 1) + 0.5) / (sum(y == 0) + 0.5)) for y in Y.T]
    for i in range(Y.shape[0]):
        for j in range(Y.shape[1]):
            if math.isnan(Y[i, j]) or any(math.isnan(own[i, j]) for own in P):
                continue
            odds = base[j]
            for v, own in zip(log_weights, P, strict=True):
                p = min(max(own[i, j], 1e-4), 1 - 1e-4)
                odds += math.exp(v) * (math.log(p / (1 - p)) - base[j])
            answer = 1 / (1 + math.exp(-odds))
            total -= math.log(answer if Y[i, j] == 1 else 1 - answer)
    return total


def test_the_weights_are_the_maximum_of_the_naive_posterior() -> None:
    P, Y = problem(40, (0.5, 1.0, 3.0))
    Y[::3, 0] = np.nan
    P[0, 5, 1], P[1, 6, 1] = 0.0, 1.0  # bounded
    P[:, 7, 0] = np.nan
    expected = minimize(naive_loss, np.zeros(3), args=(P, Y), method="Nelder-Mead", tol=1e-9).x
    np.testing.assert_allclose(Stacking.fit(P, labels_of(Y)).weights, np.exp(expected), rtol=1e-3)


def test_the_stacked_log_odds_are_the_weighted_sum() -> None:
    P, _ = problem(6, (0.5, 1.0))
    P[:, 0, 0] = np.nan
    found = Stacking(np.array([0.7, 0.2]), np.array([0.3, -1.0]))(P)
    for i in range(6):
        for j in range(2):
            odds = [math.log(own[i, j] / (1 - own[i, j])) for own in P]
            expected = 1 / (1 + math.exp(-0.7 * odds[0] - 0.2 * odds[1] - (0.3, -1.0)[j]))
            assert found[i, j] == pytest.approx(expected, abs=1e-12, nan_ok=True)


def test_a_member_too_close_to_the_frequencies_is_stretched() -> None:
    """As the mean of a regression that tells and one that does not: more than its plain weight."""
    rng = np.random.default_rng(2)
    truth = 1 / (1 + np.exp(-rng.normal(size=(4000, 2)) - np.array([-2.0, 1.0])))
    Y = (rng.random(truth.shape) < truth).astype(float)
    timid = ((truth + Y.mean(axis=0)) / 2)[None]
    stacking = Stacking.fit(timid, labels_of(Y))
    assert stacking.weights[0] > 1.5
    np.testing.assert_allclose(stacking(timid).mean(axis=0), Y.mean(axis=0), atol=0.03)


def test_noise_gets_next_to_no_weight() -> None:
    P, Y = problem(2000, (0.0,))
    noise = np.random.default_rng(1).uniform(0.05, 0.95, size=P.shape)
    shares = Stacking.fit(np.concatenate([P, noise]), labels_of(Y)).shares
    assert shares[0] > 0.9


def test_equal_members_share_equally() -> None:
    P, Y = problem(200, (0.3,))
    found = Stacking.fit(np.concatenate([P, P, P]), labels_of(Y))
    np.testing.assert_allclose(found.shares, 1 / 3, atol=1e-6)
    alone = Stacking.fit(P, labels_of(Y))
    np.testing.assert_allclose(found.weights.sum(), alone.weights.sum(), rtol=0.05)


@pytest.mark.parametrize("n", [0, 1])
def test_without_evidence_the_plain_mean_is_kept(n: int) -> None:
    P, Y = problem(n, (0.1, 0.2))
    Y[:] = np.nan
    np.testing.assert_allclose(Stacking.fit(P, labels_of(Y)).weights, 0.5, atol=1e-12)


@given(st.integers(0, 10_000), st.floats(0.1, 0.9))
def test_labels_that_were_not_observed_have_no_influence(seed: int, share: float) -> None:
    """Neither their values under the mask nor what the methods say of them."""
    P, Y = problem(30, (0.5, 2.0), seed)
    rng = np.random.default_rng(seed)
    hidden = rng.random(Y.shape) < share
    labels = Labels(Y.astype(np.uint8), ~hidden, ("a", "b"))
    other = Labels(np.where(hidden, 1 - Y, Y).astype(np.uint8), ~hidden, ("a", "b"))
    changed: Any = np.where(hidden, rng.random(P.shape), P)
    expected = Stacking.fit(P, labels).weights
    np.testing.assert_array_equal(Stacking.fit(changed, other).weights, expected)
