"""Thresholds whose risk is bounded with high probability over the calibration sample.

A threshold t is accepted by fixed-sequence testing (learn then test, Angelopoulos et al. 2021): the
grid is fixed beforehand and walked from the most careful value on; the first t whose hypothesis
"risk(t) > alpha" is not rejected at level delta ends the walk. The probability that the risk of the
accepted threshold exceeds alpha is then at most delta, whether the risk is monotone or not.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

RISKS = ("missed positives", "false alarms", "coverage")
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

    Hoeffding-Bentkus (Bates et al. 2021); for losses of 0 and 1 the exact binomial tail.
    """
    from scipy.stats import binom

    if n == 0:
        return 1.0
    tail = float(binom.cdf(np.ceil(n * mean - 1e-9), n, alpha))
    if binary:
        return tail
    low = min(mean, alpha)
    divergence = (1 - low) * np.log((1 - low) / (1 - alpha))
    divergence += low * np.log(low / alpha) if low > 0 else 0.0
    return float(min(1.0, np.exp(-n * divergence), np.e * tail))


def losses(risk: str, threshold: float, proba: Floats, truth: Bools, observed: Bools) -> Floats:
    """Loss in [0, 1] of every row that counts, from its observed entries with a probability."""
    positive, negative = observed & truth, observed & ~truth
    if risk == "missed positives":
        rows = positive.any(axis=1)
        missed = (positive & (proba <= threshold))[rows].sum(axis=1)
        return np.asarray(missed / positive[rows].sum(axis=1))
    rows = observed.any(axis=1)
    if risk == "false alarms":
        certain = (proba > threshold) & observed
        wrong, called = (certain & negative)[rows].sum(axis=1), certain[rows].sum(axis=1)
        return np.asarray(wrong / np.maximum(called, 1))
    broken = (positive & (proba <= threshold)) | (negative & (proba > 1 - threshold))
    return np.asarray(broken[rows].any(axis=1), dtype=np.float64)


def accepted_threshold(
    risk: str, proba: Floats, truth: Bools, observed: Bools, alpha: float, delta: float
) -> float | None:
    """The last threshold of the grid until which every hypothesis is rejected; None for none."""
    accepted = None
    for threshold in GRIDS[risk].tolist():
        own = losses(risk, threshold, proba, truth, observed)
        mean = float(own.mean()) if len(own) else 0.0
        if p_value(mean, len(own), alpha, risk == "coverage") > delta:
            break
        accepted = threshold
    return accepted
