"""How often the promise of label sets held on labelled rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viewgap.data.labels import Labels
from viewgap.decide.losses import Design, row_losses
from viewgap.decide.risk_control import p_value

Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class PatternLoss:
    """The loss of the sets of the samples with one pattern of missing views.

    Attributes
    ----------
    pattern : str
        `"101"`: the second of three views is missing.
    label : str or None
        With a promise for every label.
    n_rows : int
        Rows that count.
    loss, low, high : float
        Mean loss and its 95 % interval; NaN without a row that counts.
    promised : float
        The largest loss promised.
    possible : float
        Share of the label entries left possible.
    broken : bool
        Whether the interval lies above what was promised.
    """

    pattern: str
    label: str | None
    n_rows: int
    loss: float
    low: float
    high: float
    promised: float
    possible: float
    broken: bool

    def to_dict(self) -> dict[str, Any]:
        """As plain values; without the label where the promise is for all together."""
        values = asdict(self)
        return {k: v for k, v in values.items() if k != "label" or v is not None}


def measure_pattern(
    pattern: str,
    risk: str,
    decided: tuple[Bools, Bools],
    labels: Labels,
    limit: float,
    names: Sequence[str] | None,
) -> list[PatternLoss]:
    """Measure what was ruled out and called certain; one line per label where `names` are given."""
    ruled_out, certain = decided
    truth, observed = labels.values.astype(np.bool_), labels.observed
    possible = ~ruled_out & ~certain
    lines = []
    groups = [slice(None)] if names is None else [slice(j, j + 1) for j in range(len(names))]
    for group in groups:
        design = Design.of(observed[:, group])
        own = ruled_out[:, group], certain[:, group]
        losses, largest = row_losses(risk, *own, truth[:, group], design)
        mean = float(losses.mean()) if len(losses) else float("nan")
        low, high = interval(mean, len(losses), largest)
        label = None if names is None else names[group.start]
        share = float(possible[:, group].mean()) if len(possible) else float("nan")
        shown = (len(losses), mean, low, high, limit, share, low > limit)
        lines.append(PatternLoss(pattern, label, *shown))
    return lines


def interval(mean: float, n: int, largest: float = 1.0, tail: float = 0.025) -> tuple[float, float]:
    """Interval of the expectation of n losses in [0, largest] with this mean, 95 % unless told.

    It turns the test round that thresholds are found by, on both sides: no law is assumed. `tail`
    is the error on each side.
    """
    if n == 0:
        return float("nan"), float("nan")
    scaled = mean / largest
    return largest * (1 - _upper(1 - scaled, n, tail)), largest * _upper(scaled, n, tail)


def _upper(mean: float, n: int, tail: float) -> float:
    low, high = min(mean, 1.0), 1.0
    for _ in range(40):
        middle = (low + high) / 2
        if middle < 1 and p_value(mean, n, middle) > tail:
            low = middle
        else:
            high = middle
    return high
