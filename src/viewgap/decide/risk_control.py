"""Thresholds whose risk is bounded with high probability over the calibration sample.

A threshold t is accepted by fixed-sequence testing (learn then test, Angelopoulos et al. 2021): the
grid is fixed beforehand and walked from the most careful value on; the first t whose hypothesis
"risk(t) > alpha" is not rejected at level delta ends the walk. The probability that the risk of the
accepted threshold exceeds alpha is then at most delta, whether the risk is monotone or not.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from viewgap.decide.losses import Design, row_losses

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Levels = tuple[float, float]

RISKS = ("missed positives", "false alarms", "coverage")
_ROWS = 4096  # whose losses at all thresholds are held at once

_ENDS = 10.0 ** np.linspace(-6, -2, 41)
_INSIDE = np.linspace(0.01, 0.5, 197)
_LOW = np.unique(np.concatenate([_ENDS, _INSIDE]))
GRIDS: dict[str, Floats] = {
    "missed positives": np.unique(np.concatenate([_LOW, 1 - _LOW])),
    "false alarms": np.unique(np.concatenate([_LOW, 1 - _LOW]))[::-1],
    "coverage": _LOW[:-1],
}
"""Thresholds in the order of testing; all are fixed before any calibration row is seen."""


def p_value(mean: float, n: int, alpha: float, binary: bool = False) -> float:
    """P-value of "the expected loss exceeds alpha" for n losses in [0, 1] with this mean.

    Hoeffding-Bentkus (Bates et al. 2021); for losses of 0 and 1 the exact binomial tail. The rows
    must be independent; that their distributions are the same is not needed, alpha is then the
    mean of their expected losses.
    """
    from scipy.special import bdtr

    if n == 0:
        return 1.0
    tail = float(bdtr(math.ceil(n * mean - 1e-9), n, alpha))
    if binary:
        return tail
    low = min(mean, alpha)
    divergence = (1 - low) * math.log((1 - low) / (1 - alpha))
    divergence += low * math.log(low / alpha) if low > 0 else 0.0
    return min(1.0, math.exp(-n * divergence), math.e * tail)


def decisions(risk: str, threshold: float, proba: Floats) -> tuple[Bools, Bools]:
    """What is ruled out and what is called certain at a threshold of the grid; NaN is neither."""
    nothing = np.zeros(proba.shape, dtype=np.bool_)
    if risk == "missed positives":
        return proba <= threshold, nothing
    if risk == "false alarms":
        return nothing, proba > threshold
    return proba <= threshold, proba > 1 - threshold


def rejects(
    risk: str, threshold: float, proba: Floats, truth: Bools, design: Design, levels: Levels
) -> bool:
    """Whether "the risk at this threshold exceeds alpha" is rejected by the rows."""
    ruled_out, certain = decisions(risk, threshold, proba)
    losses, largest = row_losses(risk, ruled_out, certain, truth, design)
    mean = float(losses.mean()) if len(losses) else 0.0
    alpha, delta = levels
    # scaled to [0, 1]: an entry that is seldom observed counts for those that were not
    binary = risk == "coverage" and design.alike
    return p_value(mean / largest, len(losses), alpha / largest, binary) <= delta


def accepted_threshold(
    risk: str, proba: Floats, truth: Bools, design: Design, alpha: float, delta: float
) -> float | None:
    """The last threshold of the grid until which every hypothesis is rejected; None for none.

    `proba` (n, c) is NaN for labels without an answer, and `truth` (n, c) read where the design
    says that it was observed. `alpha` is the largest risk, `delta` the probability that it is
    larger.
    """

    if risk == "false alarms":
        return _accepted_for_alarms(proba, truth, design, (alpha, delta))

    def is_rejected(threshold: float) -> bool:
        return rejects(risk, threshold, proba, truth, design, (alpha, delta))

    # these risks only grow along the grid: the end of the walk is found by bisection
    return last_of_walk(GRIDS[risk], is_rejected, monotone=True)


def _accepted_for_alarms(
    proba: Floats, truth: Bools, design: Design, levels: Levels
) -> float | None:
    """The walk over thresholds whose risk need not grow, with the mean losses of all at once."""
    grid, n_rows = GRIDS["false alarms"], int(design.rows.sum())
    means, alpha = false_alarm_means(proba, truth, design), levels[0] / design.largest
    mean_at = dict(zip(grid.tolist(), (means / design.largest).tolist(), strict=True))

    def is_rejected(threshold: float) -> bool:
        return p_value(mean_at[threshold], n_rows, alpha) <= levels[1]

    return last_of_walk(grid, is_rejected, monotone=False)


def false_alarm_means(proba: Floats, truth: Bools, design: Design) -> Floats:
    """Mean loss at every threshold of the grid: labels become certain one after the other."""
    grid = GRIDS["false alarms"]
    rows = design.rows
    total = np.zeros(len(grid))
    for own in np.array_split(np.flatnonzero(rows), max(1, len(proba) // _ROWS)):
        # the place in the walk from which on an entry lies above the threshold; NaN never does
        place = len(grid) - np.searchsorted(grid[::-1], proba[own], side="left")
        place[np.isnan(proba[own]) | ~design.decided] = len(grid)
        wrong = (design.observed[own] & ~truth[own]) * design.weights
        called, false = (np.zeros((len(own), len(grid) + 1)) for _ in range(2))
        line = np.arange(len(own))[:, None]
        np.add.at(called, (line, place), 1.0)
        np.add.at(false, (line, place), wrong)
        called, false = called.cumsum(axis=1), false.cumsum(axis=1)
        total += (false / np.maximum(called, 1.0))[:, :-1].sum(axis=0)
    return total / max(1, int(rows.sum()))


def accepted_for_label(scores: Floats, alpha: float, delta: float) -> float | None:
    """The same for the missed positives of one label, from the probabilities of its positives."""

    def is_rejected(threshold: float) -> bool:
        missed = float((scores <= threshold).mean())
        return p_value(missed, len(scores), alpha, binary=True) <= delta

    if not len(scores):
        return None
    return last_of_walk(GRIDS["missed positives"], is_rejected, monotone=True)


def last_of_walk(
    grid: Floats, is_rejected: Callable[[float], bool], monotone: bool
) -> float | None:
    """The last value before the first that is not rejected."""
    values: list[float] = grid.tolist()
    if not monotone:
        n_rejected = 0
        while n_rejected < len(values) and is_rejected(values[n_rejected]):
            n_rejected += 1
        return values[n_rejected - 1] if n_rejected else None
    low, high = 0, len(values)  # the first `low` are rejected, those from `high` on are not
    while low < high:
        middle = (low + high) // 2
        if is_rejected(values[middle]):
            low = middle + 1
        else:
            high = middle
    return values[low - 1] if low else None
