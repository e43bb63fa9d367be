"""Mean and variance of every column of a view, chunk by chunk, and the scaling they lead to."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from viewgap.data.preprocessing.features import Features, Plain

# Mean and population variance of every column, and the first of its values.
Statistics = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]


class Moments:
    """Moments in float64, chunk by chunk, merged by Chan's formula; NaN where there is no value."""

    def __init__(self, width: int) -> None:
        self._count, self._mean = np.zeros(width), np.zeros(width)
        self._squares, self._first = np.zeros(width), np.full(width, np.nan)

    def add(self, block: NDArray[np.float64], missing: NDArray[np.bool_] | None) -> None:
        """Add rows (b, d), which are overwritten; `missing`: which values do not count."""
        n: Any = len(block)
        if missing is None:
            self._first = np.where(np.isnan(self._first), block[0], self._first)
        else:
            n = n - missing.sum(axis=0)
            block[missing] = np.nan
            self._first = np.where(np.isnan(self._first), _first_values(block), self._first)
            block[missing] = 0.0
        total = self._count + n
        centre = block.sum(axis=0) / np.maximum(n, 1)
        block -= centre
        if missing is not None:
            block[missing] = 0.0
        np.square(block, out=block)
        shift = np.where(n > 0, centre - self._mean, 0.0)
        self._mean += shift * (n / np.maximum(total, 1))
        share = self._count * n / np.maximum(total, 1)
        self._squares += block.sum(axis=0) + np.square(shift) * share
        self._count = total

    def statistics(self) -> Statistics:
        """Mean, variance and first value of every column."""
        return self._mean, self._squares / np.maximum(self._count, 1), self._first


def centre_and_factor(
    mean: NDArray[np.float64], variance: NDArray[np.float64], first: NDArray[np.float64]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """What is subtracted from every column, and what it is multiplied with."""
    deviation = np.sqrt(variance)
    limits = np.finfo(np.float32)
    # Below the resolution of float32 there is only rounding, and 1 / deviation could overflow.
    constant = (deviation <= limits.eps * np.abs(mean)) | (deviation < limits.tiny)
    mean = np.where(constant, first, mean)
    deviation[constant] = 1.0
    never = np.isnan(first)  # not one value
    mean[never], deviation[never] = 0.0, np.inf
    return mean.astype(np.float32), (1.0 / deviation).astype(np.float32)


def prepared(block: NDArray[Any], features: Features) -> NDArray[np.float64]:
    """Return rows in float64; they may be written to, as whoever read them made a copy."""
    if not isinstance(features, Plain):
        block = features.apply(block, np.empty(block.shape))
    return block.astype(np.float64, copy=False)


def _first_values(block: NDArray[Any]) -> NDArray[np.float64]:
    """Return the first value (d,) of every column of (b, d) that is not missing; NaN if none."""
    first = (~np.isnan(block)).argmax(axis=0)
    return np.asarray(block[first, np.arange(block.shape[1])], dtype=np.float64)
