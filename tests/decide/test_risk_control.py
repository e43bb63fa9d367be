"""The tests behind label sets: exact tails, naive loops, and what they bound by counting."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from viewgap.decide.risk_control import (
    GRIDS,
    RISKS,
    accepted_for_label,
    decisions,
    last_of_walk,
    p_value,
)

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


@given(st.lists(st.floats(0, 1), max_size=40), st.floats(0, 1))
def test_bisection_ends_where_the_walk_does(values: list[float], bar: float) -> None:
    """Where rejection only ends along the grid, as with risks that only grow."""
    grid = np.sort(np.array(values))
    found = [last_of_walk(grid, lambda value: value < bar, monotone=kind) for kind in (True, False)]
    expected = None
    for value in grid:
        if not value < bar:
            break
        expected = value
    assert found == [expected, expected]


def test_the_walk_stops_at_the_first_failure_whatever_follows() -> None:
    grid = np.arange(6.0)
    assert last_of_walk(grid, lambda value: value not in (2.0, 4.0), monotone=False) == 1.0
    assert last_of_walk(grid, lambda value: value != 0.0, monotone=False) is None


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=80), alphas)
def test_the_threshold_of_a_label_is_that_of_a_loop(scores: list[int], alpha: float) -> None:
    own = np.array(scores) / 1000
    expected = None
    for threshold in GRIDS["missed positives"]:
        missed = sum(score <= threshold for score in own)
        if binom.cdf(missed, len(own), alpha) > 0.1 + 1e-12:
            break
        expected = threshold
    assert accepted_for_label(own, alpha, 0.1) == expected


def test_a_label_without_positives_has_no_threshold() -> None:
    assert accepted_for_label(np.zeros(0), 0.5, 0.5) is None


def test_decisions_are_strict_above_and_include_the_threshold_below() -> None:
    proba = np.array([[0.25, 0.5, 0.75, np.nan, 0.76]])
    low, high = decisions("missed positives", 0.25, proba)
    assert (low.tolist(), high.any()) == ([[True, False, False, False, False]], False)
    low, high = decisions("false alarms", 0.75, proba)
    assert (low.any(), high.tolist()) == (False, [[False, False, False, False, True]])
    low, high = decisions("coverage", 0.25, proba)
    assert low.tolist() == [[True, False, False, False, False]]
    assert high.tolist() == [[False, False, False, False, True]]
