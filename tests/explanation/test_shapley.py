"""Shapley values against the definition with loops, and the properties that define them."""

from __future__ import annotations

from itertools import permutations
from math import factorial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from viewgap.explanation.shapley import (
    Permutations,
    all_subsets,
    interaction_values,
    shapley_values,
)

NUMBERS = st.floats(-5, 5, width=32)
SET_FUNCTIONS = st.integers(0, 5).flatmap(lambda k: arrays(np.float64, 2**k, elements=NUMBERS))


def number_of(players: set[int]) -> int:
    return sum(2**player for player in players)


def by_orders(answers: np.ndarray) -> np.ndarray:
    """The mean gain of every player over all orders, by loops."""
    k = int(np.log2(len(answers)))
    result = np.zeros(k)
    for order in permutations(range(k)):
        here: set[int] = set()
        for player in order:
            result[player] += answers[number_of(here | {player})] - answers[number_of(here)]
            here.add(player)
    return result / factorial(k)


def by_pairs(answers: np.ndarray, i: int, j: int) -> float:
    """The Shapley interaction index of two players, by its sum over subsets of the others."""
    k = int(np.log2(len(answers)))
    total = 0.0
    for row in all_subsets(k):
        here = set(np.flatnonzero(row))
        if here & {i, j}:
            continue
        weight = factorial(len(here)) * factorial(k - len(here) - 2) / factorial(k - 1)
        both, one, other, none = (
            answers[number_of(here | more)] for more in ({i, j}, {i}, {j}, set())
        )
        total += weight * (both - one - other + none)
    return total


@given(SET_FUNCTIONS)
@settings(max_examples=40, deadline=None)
def test_values_are_mean_gains_over_all_orders_and_add_up(answers: np.ndarray) -> None:
    found = shapley_values(answers)
    np.testing.assert_allclose(found, by_orders(answers), atol=1e-10)
    np.testing.assert_allclose(found.sum(), answers[-1] - answers[0], atol=1e-10)


@given(SET_FUNCTIONS)
@settings(max_examples=40, deadline=None)
def test_interactions_are_the_index_and_add_up_to_values(answers: np.ndarray) -> None:
    found = interaction_values(answers)
    np.testing.assert_allclose(found.sum(axis=1), shapley_values(answers), atol=1e-10)
    np.testing.assert_array_equal(found, found.T)
    for i, j in permutations(range(len(found)), 2):
        assert 2 * found[i, j] == pytest.approx(by_pairs(answers, i, j), abs=1e-9)


@given(st.integers(2, 5), st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_alike_players_get_the_same_and_a_dummy_only_what_it_adds(k: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    subsets = all_subsets(k)
    # players 0 and 1 count alike, the last one adds 0.7 wherever it joins
    kinds = [(row[0] + row[1], *row[2:-1]) for row in subsets.astype(int)]
    game = {kind: rng.normal() for kind in dict.fromkeys(kinds)}
    answers = np.array([game[kind] for kind in kinds])
    if k > 2:
        answers = answers + 0.7 * subsets[:, -1]
        assert shapley_values(answers)[-1] == pytest.approx(0.7)
        np.testing.assert_allclose(interaction_values(answers)[-1, :-1], 0, atol=1e-12)
    found = shapley_values(answers)
    assert found[0] == pytest.approx(found[1])


def test_values_are_computed_per_label() -> None:
    answers = np.random.default_rng(0).normal(size=(8, 4, 3))
    found = shapley_values(answers)
    assert found.shape == (3, 4, 3)
    np.testing.assert_allclose(found[:, 2, 1], shapley_values(answers[:, 2, 1]))


def test_sampled_orders_add_up_and_are_within_their_error() -> None:
    rng = np.random.default_rng(0)
    answers = rng.normal(size=(64, 50))
    exact = shapley_values(answers)
    orders = Permutations.draw(6, 200, np.random.default_rng(1))
    np.testing.assert_array_equal(orders.orders[1::2], orders.orders[::2, ::-1])
    place = orders.subsets @ (2 ** np.arange(6))
    found, error = orders.values(answers[place])
    np.testing.assert_allclose(found.sum(axis=0), answers[-1] - answers[0], atol=1e-10)
    distance = np.abs(found - exact) / error
    assert 0.6 < np.mean(distance < 1) < 0.8  # 0.68 for a normal error
    assert np.mean(distance < 2) > 0.9


def test_answers_to_some_subsets_only_are_refused() -> None:
    with pytest.raises(ValueError, match="found 3"):
        shapley_values(np.zeros(3))
