"""What a fitted model keeps of its training data: counts, patterns of views, out-of-fold scores.

Small whatever the data: no sample and no value is kept, and at most `MOST_PATTERNS` patterns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from viewgap.data.labels import Labels
from viewgap.data.viewset import ViewSet
from viewgap.metrics import Prediction, average_precision, macro_auc
from viewgap.metrics.per_label import n_undefined_labels

MOST_PATTERNS = 1000


@dataclass(frozen=True)
class OutOfFoldScores:
    """How good the answers for training samples are, each by a model that left the sample out.

    Attributes
    ----------
    average_precision : float or None
        Mean over the samples (`clean` variant); None where there is one label only.
    macro_auc : float or None
        ROC-AUC, mean over `n_labels` labels: those with an observed positive and negative.
    n_labels : int
        How many labels those are.
    n_entries : int
        Observed label entries of all samples.
    """

    average_precision: float | None
    macro_auc: float | None
    n_labels: int
    n_entries: int

    @classmethod
    def of(cls, labels: Labels, probabilities: NDArray[np.float64]) -> Self:
        """Measure probabilities (n, c)."""
        truth = labels.as_float()
        defined = labels.n_labels - n_undefined_labels(Prediction.of(truth, probabilities))
        ranked = average_precision(truth, probabilities) if labels.n_labels > 1 else np.nan
        scores = (_or_none(ranked), _or_none(macro_auc(truth, probabilities)))
        return cls(*scores, defined, labels.n_observed)


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


@dataclass(frozen=True)
class TrainingSummary:
    """Counts of the training data.

    Attributes
    ----------
    n_samples : int
        Samples learned from: those with a view.
    n_observed_views : tuple of int
        Samples that have each view, in the order of the model.
    n_missing_values : tuple of int
        Single missing values of each view.
    n_observed_labels, n_positives : tuple of int
        Samples for which each label is observed, and for which it is 1.
    patterns : dict of str to int
        Samples per pattern of views, most frequent first, the first 1,000: in `"101"` the second
        of three views is missing.
    n_patterns : int
        How many patterns there were.
    scores : OutOfFoldScores or None
        Out-of-fold scores, of methods that have `out_of_fold_proba_`.
    """

    n_samples: int
    n_observed_views: tuple[int, ...]
    n_missing_values: tuple[int, ...]
    n_observed_labels: tuple[int, ...]
    n_positives: tuple[int, ...]
    patterns: dict[str, int]
    n_patterns: int
    scores: OutOfFoldScores | None = None

    @classmethod
    def of(cls, views: ViewSet, labels: Labels, out_of_fold: Any = None) -> Self:
        """Count the samples of a fit; `out_of_fold` are probabilities (n, c) or None."""
        patterns = pattern_counts(views.observed)
        return cls(
            n_samples=len(views),
            n_observed_views=_whole(views.observed.sum(axis=0)),
            n_missing_values=tuple(views.n_missing_values.values()),
            n_observed_labels=_whole(labels.observed_counts()),
            n_positives=_whole(labels.positive_counts()),
            patterns=dict(list(patterns.items())[:MOST_PATTERNS]),
            n_patterns=len(patterns),
            scores=None if out_of_fold is None else OutOfFoldScores.of(labels, out_of_fold),
        )

    @property
    def all_patterns_kept(self) -> bool:
        """Whether a pattern that is not among `patterns` was never seen."""
        return self.n_patterns == len(self.patterns)

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        values = asdict(self)
        return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}

    @classmethod
    def from_dict(cls, stored: Any, n_views: int, n_labels: int) -> Self:
        """Restore what `to_dict` gave; ValueError for anything that does not fit the model."""
        names = [field.name for field in fields(cls)]
        if not isinstance(stored, dict) or set(stored) != set(names):
            raise ValueError(f"training must hold {', '.join(names)}")
        counts = {
            "n_observed_views": n_views,
            "n_missing_values": n_views,
            "n_observed_labels": n_labels,
            "n_positives": n_labels,
        }
        known: dict[str, Any] = {n: _counts(stored, n, size) for n, size in counts.items()}
        known |= {name: _count(stored, name) for name in ("n_samples", "n_patterns")}
        patterns = _patterns(stored["patterns"], n_views)
        return cls(**known, patterns=patterns, scores=_scores(stored["scores"]))


def pattern_counts(observed: NDArray[np.bool_]) -> dict[str, int]:
    """Samples per pattern of views, most frequent first; equally frequent ones by their text."""
    if not len(observed):
        return {}
    rows = np.ascontiguousarray(observed).view(f"V{observed.shape[1]}").ravel()
    distinct, counts = np.unique(rows, return_counts=True)
    flags = distinct.view(np.bool_).reshape(len(distinct), -1)
    texts = ["".join("1" if flag else "0" for flag in row) for row in flags.tolist()]
    return dict(sorted(zip(texts, counts.tolist(), strict=True), key=lambda t: (-t[1], t[0])))


def _whole(counts: NDArray[Any]) -> tuple[int, ...]:
    return tuple(int(count) for count in counts)


# ------------------------------------------------------------------ from a file


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _count(stored: Mapping[str, Any], name: str) -> int:
    value = stored[name]
    if not _is_count(value):
        raise ValueError(f"{name} must be a whole number")
    return int(value)


def _counts(stored: Mapping[str, Any], name: str, size: int) -> tuple[int, ...]:
    values = stored[name]
    if not isinstance(values, list) or len(values) != size or not all(map(_is_count, values)):
        raise ValueError(f"{name} must be {size} whole numbers")
    return tuple(values)


def _patterns(stored: Any, n_views: int) -> dict[str, int]:
    right = isinstance(stored, dict) and all(
        len(text) == n_views and set(text) <= {"0", "1"} and _is_count(count)
        for text, count in stored.items()
    )
    if not right:
        raise ValueError(f"patterns must be {n_views} times 0 or 1, with the number of samples")
    return dict(stored)


def _scores(stored: Any) -> OutOfFoldScores | None:
    if stored is None:
        return None
    names = {field.name for field in fields(OutOfFoldScores)}
    if not isinstance(stored, dict) or set(stored) != names:
        raise ValueError(f"scores must hold {', '.join(sorted(names))}")
    for name in ("average_precision", "macro_auc"):
        value = stored[name]
        if value is not None and not (type(value) in (int, float) and 0 <= value <= 1):
            raise ValueError(f"{name} must be a number from 0 to 1, or null")
    for name in ("n_labels", "n_entries"):
        _count(stored, name)
    return OutOfFoldScores(**stored)
