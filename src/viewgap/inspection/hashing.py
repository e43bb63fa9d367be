"""Hashes of rows and columns that do not depend on the order in which blocks are read.

The hash of a column is the sum, modulo 2^64, of the mixed bits of its values times a random odd
number per row; that of a row likewise. Sums of integers are exact: equal values give equal hashes
whatever the blocks are, and two different columns share a hash with a probability of about 2^-63.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]


def mixed(values: NDArray[np.float64]) -> Hashes:
    """Bits of numbers (any shape), well mixed; zero for 0.0 and -0.0, one value for every NaN."""
    plain = values + 0.0  # -0.0 becomes 0.0
    plain[np.isnan(plain)] = np.nan
    bits = plain.view(np.uint64)
    # The low bits of whole numbers are all zero: without mixing, sums would lose the high ones.
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        bits ^= bits >> np.uint64(shift)
        bits *= np.uint64(factor)
    bits ^= bits >> np.uint64(31)
    return bits


def multipliers(count: int, key: int) -> Hashes:
    """Fixed odd numbers (count,), others for every key."""
    rng = np.random.Generator(np.random.Philox(key))
    return rng.integers(0, 2**64, size=count, dtype=np.uint64) | np.uint64(1)


def combined(parts: list[Hashes]) -> Hashes:
    """One hash of several of the same length, in their order."""
    total = np.zeros(len(parts[0]), dtype=np.uint64)
    for part in parts:
        total = (total ^ part) * np.uint64(0x9E3779B97F4A7C15)
        total ^= total >> np.uint64(29)
    return total


def groups_of_equal(hashes: Hashes) -> NDArray[np.intp]:
    """For each entry, the index of the first one with the same hash, (n,)."""
    _, first, inverse = np.unique(hashes, return_index=True, return_inverse=True)
    result: NDArray[Any] = first[inverse.reshape(-1)]
    return result
