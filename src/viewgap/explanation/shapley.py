"""Shapley values of a set function: exact from the answers to all subsets, or by permutations.

A set function gives a number (here: one per label) for every subset of k players (here: the views
that a sample has). References: L. S. Shapley, "A value for n-person games", 1953; M. Grabisch and
M. Roubens, "An axiomatic approach to the concept of interaction among players in cooperative
games", 1999.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import factorial

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Subsets = NDArray[np.bool_]


def all_subsets(k: int) -> Subsets:
    """Every subset of k players, (2**k, k): row b holds player i where bit i of b is set."""
    numbers = np.arange(2**k)[:, None]
    return np.asarray((numbers >> np.arange(k)) & 1 == 1)


def shapley_values(answers: Floats) -> Floats:
    """Exact Shapley values (k, ...) from the answers (2**k, ...) in the order of `all_subsets`.

    They add up to the answer to all players minus the answer to none.

    Examples
    --------
    >>> shapley_values(np.array([0.0, 1.0, 2.0, 5.0]))
    array([2., 3.])
    """
    answers = np.asarray(answers, dtype=np.float64)
    return np.tensordot(_value_weights(_n_players(answers)), answers, axes=1)


def interaction_values(answers: Floats) -> Floats:
    """Shapley values split into what a player does alone and together with each other one.

    Shape: (k, k, ...). Entry (i, j) is half of the Shapley interaction index of i and j; entry (i,
    i) is what is left of the Shapley value of i, so that a line adds up to it. `answers` as of
    `shapley_values`.

    Examples
    --------
    >>> interaction_values(np.array([0.0, 1.0, 2.0, 5.0]))
    array([[1., 1.],
           [1., 2.]])
    """
    answers = np.asarray(answers, dtype=np.float64)
    k = _n_players(answers)
    result = np.tensordot(_pair_weights(k), answers, axes=1) / 2
    alone = shapley_values(answers) - result.sum(axis=1)
    result[np.arange(k), np.arange(k)] = alone
    return result


def _n_players(answers: Floats) -> int:
    k = len(answers).bit_length() - 1
    if len(answers) != 2**k:
        raise ValueError(f"expected the answers to 2**k subsets, found {len(answers)}")
    return k


def _value_weights(k: int) -> Floats:
    """Weight of every subset in every Shapley value, (k, 2**k)."""
    subsets = all_subsets(k)
    size = subsets.sum(axis=1)
    # a subset of s players counts for those in it as the one that they completed
    with_player = np.array([0.0, *(_weight(s - 1, k, 1) for s in range(1, k + 1))])
    without = np.array([*(_weight(s, k, 1) for s in range(k)), 0.0])
    return np.where(subsets, with_player[size, None], -without[size, None]).T


def _pair_weights(k: int) -> Floats:
    """Weight of every subset in every interaction of two, (k, k, 2**k); zero for i = j."""
    subsets = all_subsets(k)
    sign = np.where(subsets, 1.0, -1.0)
    inside = subsets.sum(axis=1)[:, None, None]
    others = inside - subsets[:, :, None] - subsets[:, None, :]  # of players beside i and j
    weight = np.array([_weight(s, k, 2) for s in range(k - 1)] or [0.0])
    result = sign[:, :, None] * sign[:, None, :] * weight[np.clip(others, 0, len(weight) - 1)]
    result[:, np.arange(k), np.arange(k)] = 0.0
    return np.asarray(result.transpose(1, 2, 0))


def _weight(size: int, k: int, joining: int) -> float:
    """Share of the orders of k players in which `size` ones come before `joining` (as one)."""
    return factorial(size) * factorial(k - size - joining) / factorial(k - joining + 1)


# ---------------------------------------------------------------------- many players


@dataclass(frozen=True)
class Permutations:
    """Random orders of k players, each followed by its reverse, and the subsets that they need.

    `orders` (n, k): 2i + 1 is the reverse of 2i. `subsets` (s, k) are the different ones that the
    orders pass through, `steps` (n, k + 1) which of them an order has after 0, 1, ..., k players.
    """

    orders: NDArray[np.intp]
    subsets: Subsets
    steps: NDArray[np.intp]

    @classmethod
    def draw(cls, k: int, n: int, rng: np.random.Generator) -> Permutations:
        """Draw n orders (n even) of k players."""
        half = np.array([rng.permutation(k) for _ in range(n // 2)], dtype=np.intp)
        orders = np.stack([half, half[:, ::-1]], axis=1).reshape(-1, k)
        place = np.argsort(orders, axis=1)  # of every player
        passed = place[:, None, :] < np.arange(k + 1)[:, None]
        subsets, steps = np.unique(passed.reshape(-1, k), axis=0, return_inverse=True)
        return cls(orders, subsets, steps.reshape(len(orders), k + 1))

    def values(self, answers: Floats) -> tuple[Floats, Floats]:
        """Estimated Shapley values and their standard errors, both (k, ...).

        `answers` (s, ...) are those to `subsets`. The values add up to the answer to all players
        minus the answer to none, exactly. An error is that of the mean over pairs of an order and
        its reverse.
        """
        k, n = self.orders.shape[1], len(self.orders)
        gains = np.diff(answers[self.steps], axis=1)  # (n, k, ...) in the order of joining
        place = np.argsort(self.orders, axis=1)
        own = gains[np.arange(n)[:, None], place]
        pairs = own.reshape(n // 2, 2, k, *answers.shape[1:]).mean(axis=1)
        return pairs.mean(axis=0), pairs.std(axis=0, ddof=1) / np.sqrt(n // 2)
