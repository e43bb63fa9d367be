"""The leaderboard of an ensemble: what every member scored, counts and cost."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from viewgap.data.labels import Labels
from viewgap.metrics import average_precision

if TYPE_CHECKING:
    import pandas as pd

_GROUPS = 5


@dataclass
class Entry:
    """A line: score and spread out of fold, share of the weights, seconds, a note."""

    method: str
    score: float | None = None
    spread: float | None = None
    weight: float = 0.0
    seconds: float | None = None
    note: str = ""

    def to_metadata(self) -> dict[str, Any]:
        """As plain values, for a model file; without the seconds, which differ between fits."""
        return {name: value for name, value in asdict(self).items() if name != "seconds"}


def score_with_spread(
    labels: Labels, probabilities: NDArray[np.float64]
) -> tuple[float | None, float | None]:
    """Average precision (`clean`), and its standard deviation over five groups of samples.

    None where it is not defined: no sample has an observed positive and an observed negative.
    """
    truth = labels.as_float()
    groups = np.arange(len(truth)) % _GROUPS
    each = [_score(truth[groups == g], probabilities[groups == g]) for g in range(_GROUPS)]
    defined = [value for value in each if value is not None]
    spread = float(np.std(defined, ddof=1)) if len(defined) > 1 else None
    return _score(truth, probabilities), spread


def _score(truth: NDArray[np.float64], probabilities: NDArray[np.float64]) -> float | None:
    positive, negative = (truth == 1).any(axis=1), (truth == 0).any(axis=1)
    if not (positive & negative).any():
        return None
    value = average_precision(truth, np.nan_to_num(probabilities), variant="clean")
    return None if np.isnan(value) else float(value)


def to_frame(entries: list[Entry]) -> pd.DataFrame:
    """A DataFrame, the ensemble first, then by score."""
    import pandas as pd

    first, *others = entries
    others = sorted(others, key=lambda entry: np.inf if entry.score is None else -entry.score)
    columns = [f.name for f in fields(Entry)]
    return pd.DataFrame([asdict(entry) for entry in (first, *others)], columns=columns)


def entries_from_metadata(stored: Any, most: int) -> list[Entry]:
    """Restore at most so many entries; ValueError if they are none."""
    if not isinstance(stored, list) or not 0 < len(stored) <= most:
        raise ValueError(f"leaderboard must be a list of at most {most} lines")
    return [_entry(own) for own in stored]


def _entry(stored: Any) -> Entry:
    names = {f.name for f in fields(Entry)} - {"seconds"}
    if not isinstance(stored, dict) or set(stored) != names:
        raise ValueError("a line of the leaderboard must have " + ", ".join(sorted(names)))
    texts = (stored["method"], stored["note"])
    numbers = (stored["score"], stored["spread"], stored["weight"])
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("method and note of the leaderboard must be text")
    if not all(value is None or _is_number(value) for value in numbers):
        raise ValueError("the leaderboard must hold numbers")
    return Entry(**stored)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and bool(np.isfinite(value))
