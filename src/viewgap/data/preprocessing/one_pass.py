"""Features, mean and scale of a view on disk that is read once, in blocks of bounded memory.

Quantiles come from a sketch, and so do the moments of columns that are prepared by rank: a value of
the sketch counts as often as it stands for.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from viewgap.data.preprocessing.features import (
    FEWEST_COUNTS,
    KNOTS,
    Counts,
    Features,
    Plain,
    Ranks,
    hold_counts,
    middle_length,
    ranks_among,
    ranks_of_knots,
    row_lengths,
    spaced_ranks,
)
from viewgap.data.preprocessing.moments import Moments, Statistics, centre_and_factor, prepared
from viewgap.data.preprocessing.quantile_sketch import QuantileSketch
from viewgap.data.rows.values import Rows, Stored, row_chunks, without_missing_values


def fit_in_one_pass(
    stored: Stored, positions: Rows, kind: str, gaps: bool
) -> tuple[Features, NDArray[np.float32], NDArray[np.float32]]:
    """Features, mean and scale of a view that is read once, chunk by chunk."""
    width, n = stored.shape[1], len(positions)
    auto = kind == "auto"
    moments, counts = Moments(width), Counts(1.0) if auto and width >= FEWEST_COUNTS else None
    sketch = QuantileSketch(width, n) if auto else None
    lengths, nonzero, total = [], 0, 0
    for part in row_chunks(n, width * 8):
        block = np.asarray(stored[positions[part]])
        if sketch is not None:
            sketch.add(block)
        block, missing = without_missing_values(block) if gaps else (block, None)
        if counts is not None and not hold_counts(block):
            counts = None
        if counts is not None:
            nonzero += int(np.count_nonzero(block))
            total += block.size - (0 if missing is None else int(missing.sum()))
            lengths.append(row_lengths(block))
        if counts is not None or not auto:
            moments.add(prepared(block, counts or Plain()), missing)
    if counts is not None and 2 * nonzero <= total:
        return Counts(middle_length(lengths)), *centre_and_factor(*moments.statistics())
    if sketch is None:
        return Plain(), *centre_and_factor(*moments.statistics())
    ranks = _ranks_of(sketch, gaps)
    return ranks, *centre_and_factor(*_moments_of_ranks(sketch, ranks))


def _ranks_of(sketch: QuantileSketch, gaps: bool) -> Ranks:
    """Ranks by the quantiles of a sketch."""
    ranks = spaced_ranks(sketch.n_rows, KNOTS)
    if gaps:
        ranks = ranks_among(ranks, sketch.n_rows, sketch.count)
    knots = sketch.at(ranks)
    knots[sketch.count == 0] = 0.0
    return ranks_of_knots(knots, sketch.n_rows)


def _moments_of_ranks(sketch: QuantileSketch, features: Ranks) -> Statistics:
    """Moments of the prepared values that a sketch holds, each as many times as it stands for."""
    width = len(sketch.count)
    count, total, squares = np.zeros(width), np.zeros(width), np.zeros(width)
    for weight, values in sketch.parts():
        rows, missing = without_missing_values(values.T)
        prepared = features.apply(rows, np.empty(rows.shape))
        if missing is not None:
            prepared[missing] = 0.0
        count += weight * (len(rows) - (0 if missing is None else missing.sum(axis=0)))
        total += weight * prepared.sum(axis=0)
        squares += weight * np.square(prepared).sum(axis=0)
    mean = total / np.maximum(count, 1)
    variance = np.maximum(squares / np.maximum(count, 1) - np.square(mean), 0.0)
    # A constant column is prepared as zeros; one without any value has no first one.
    return mean, variance, np.where(sketch.count > 0, 0.0, np.nan)
