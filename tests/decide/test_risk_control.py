"""The tests behind label sets: exact tails, naive loops, and what they bound by counting."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from viewgap.decide.risk_control import GRIDS, RISKS, accepted_threshold, losses, p_value

alphas = st.sampled_from([0.02, 0.1, 0.3, 0.5])
sizes = st.integers(1, 60)


@settings(max_examples=12)
@given(st.integers(1, 25), alphas)
def test_p_values_of_zeros_and_ones_are_valid_by_counting(n: int, alpha: float) -> None:
    """With a true risk of alpha, P(p <= delta) <= delta for every delta: over all outcomes."""
    wrong = np.arange(n + 1)
    for binary in (True, False):
        found = np.array([p_value(k / n, n, alpha, binary) for k in wrong])
        assert ((found >= 0) & (found <= 1)).all()
        assert (np.diff(found) >= -1e-12).all()  # more losses are never better
        for delta in found:
            assert binom.pmf(wrong, n, alpha)[found <= delta].sum() <= delta + 1e-9
    exact = [p_value(k / n, n, alpha, binary=True) for k in wrong]
    np.testing.assert_allclose(exact, binom.cdf(wrong, n, alpha), rtol=1e-9)


@given(sizes, alphas, st.floats(0, 1))
def test_hoeffding_and_bentkus_by_hand(n: int, alpha: float, mean: float) -> None:
    low, tail = min(mean, alpha), 0.0
    for k in range(math.ceil(n * mean - 1e-9) + 1):
        tail += math.comb(n, k) * alpha**k * (1 - alpha) ** (n - k)
    divergence = (1 - low) * math.log((1 - low) / (1 - alpha))
    if low > 0:
        divergence += low * math.log(low / alpha)
    expected = min(1.0, math.exp(-n * divergence), math.e * tail)
    assert p_value(mean, n, alpha) == pytest.approx(expected, rel=1e-9)
    if mean >= alpha:
        assert p_value(mean, n, alpha) == 1.0


def test_no_loss_at_all_proves_nothing() -> None:
    assert p_value(0.0, 0, 0.1) == 1.0
    assert p_value(0.0, 0, 0.1, binary=True) == 1.0


def test_grids_begin_with_the_most_careful_threshold() -> None:
    missed, false, cover = (GRIDS[risk] for risk in RISKS)
    assert (np.diff(missed) > 0).all()
    assert (np.diff(false) < 0).all()
    assert (np.diff(cover) > 0).all()
    assert missed[0] == pytest.approx(1e-6)
    assert missed[-1] == pytest.approx(1 - 1e-6)
    np.testing.assert_array_equal(missed, false[::-1])
    assert cover[0] == pytest.approx(1e-6)
    assert 0.49 < cover[-1] < 0.5  # at one half an entry would be neither possible nor ruled out
    assert len(cover) > 200
    assert np.diff(missed[(missed > 0.01) & (missed < 0.99)]).max() < 0.003


def loop(risk: str, threshold: float, proba: Any, truth: Any, observed: Any) -> list[float]:
    found = []
    for p, t, o in zip(proba, truth, observed, strict=True):
        seen = [(p[j], bool(t[j])) for j in range(len(p)) if o[j]]
        if risk == "missed positives":
            own = [q <= threshold for q, positive in seen if positive]
            if own:
                found.append(sum(own) / len(own))
        elif risk == "false alarms":
            called = [positive for q, positive in seen if q > threshold]
            if seen:
                found.append(called.count(False) / len(called) if called else 0.0)
        elif seen:
            missed = any(q <= threshold for q, positive in seen if positive)
            alarm = any(q > 1 - threshold for q, positive in seen if not positive)
            found.append(float(missed or alarm))
    return found


def draw(seed: int, n: int) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    proba = rng.choice(np.linspace(0, 1, 9), (n, 3))  # ties with thresholds
    return proba, rng.random((n, 3)) < proba, rng.random((n, 3)) < 0.7


@settings(max_examples=25)
@given(st.integers(0, 2**16), st.integers(0, 12), st.sampled_from([0.125, 0.25, 0.375, 0.4]))
def test_losses_are_those_of_a_loop(seed: int, n: int, threshold: float) -> None:
    proba, truth, observed = draw(seed, n)
    for risk in RISKS:
        found = losses(risk, threshold, proba, truth, observed)
        expected = loop(risk, threshold, proba, truth, observed)
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        spoiled = np.where(observed, proba, 1 - proba)  # what is not observed does not count
        np.testing.assert_array_equal(found, losses(risk, threshold, spoiled, truth, observed))


@pytest.mark.parametrize("risk", RISKS)
@pytest.mark.parametrize("alpha", [0.05, 0.2, 0.6])
def test_the_walk_ends_at_the_first_threshold_that_fails(risk: str, alpha: float) -> None:
    rng = np.random.default_rng(3)
    proba = rng.random((150, 3))
    truth, observed = rng.random((150, 3)) < proba**0.5, rng.random((150, 3)) < 0.8
    expected = None
    for threshold in GRIDS[risk]:
        own = losses(risk, threshold, proba, truth, observed)
        if p_value(own.mean(), len(own), alpha, risk == "coverage") > 0.1:
            break
        expected = float(threshold)
    assert accepted_threshold(risk, proba, truth, observed, alpha, 0.1) == expected


@pytest.mark.parametrize("risk", RISKS)
def test_without_rows_nothing_is_accepted(risk: str) -> None:
    none = np.zeros((4, 2), dtype=bool)
    assert accepted_threshold(risk, np.full((4, 2), 0.5), none, none, 0.2, 0.1) is None


def test_a_p_value_of_exactly_delta_is_accepted() -> None:
    proba, truth = np.full((1, 1), 0.995), np.ones((1, 1), dtype=bool)
    found = accepted_threshold("coverage", proba, truth, truth, 0.5, 0.5)  # (1 - .5)^1 = .5
    assert found == GRIDS["coverage"][-1]
