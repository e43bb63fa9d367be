"""Whether probabilities mean what they say: expected calibration error, label by label."""

from __future__ import annotations

from typing import Any

import numpy as np

from viewgap.errors import SettingError
from viewgap.metrics._inputs import Floats, LabelEntries, refuse_scores
from viewgap.metrics.prediction import Prediction, mean_defined
from viewgap.metrics.registry import register_metric

N_BINS = 10
_DRAWS = 20  # of labels, to see what chance does; averaged over many labels these are enough


def calibration_error(Y: Any, P: Any, n_bins: int = N_BINS) -> float:
    """Expected calibration error, averaged over the labels that have an observed entry.

    Shape: Y (n, c) in {0, 1, NaN}, P (n, c) probabilities or NaN -> float; NaN without any entry.
    """
    return _calibration_error(Prediction.of(Y, P), n_bins)


def excess_calibration_error(Y: Any, P: Any, n_bins: int = N_BINS) -> float:
    """Calibration error beyond what chance alone would show, averaged over the labels.

    Even probabilities that are exactly right miss the frequencies of few rows, the more the
    further they dare to go from the average. That share is taken off: the error of the same
    probabilities when the labels are drawn by them (from a fixed seed). About 0 for probabilities
    that are right, and then a little below 0 as often as above.

    Shape: Y (n, c) in {0, 1, NaN}, P (n, c) probabilities or NaN -> float; NaN without any entry.
    """
    return _excess_calibration_error(Prediction.of(Y, P), n_bins)


def calibration_error_per_label(Y: Any, P: Any, n_bins: int = N_BINS) -> Floats:
    """Σ over bins of (share of the entries) · |mean probability − share of positives|, (c,).

    The bins are of equal width over [0, 1], the usual choice. Chance alone gives every bin an
    error of about √(p (1 − p) / entries): compare figures of the same rows only, or take
    `excess_calibration_error`. A label without an observed entry is NaN. The labels are in the
    order of Y's columns.

    Shape: Y (n, c) in {0, 1, NaN}, P (n, c) probabilities or NaN -> (c,).

    Examples
    --------
    >>> calibration_error_per_label([[1], [0], [0], [0]], [[0.25], [0.25], [0.25], [0.25]])
    array([0.])
    """
    return label_errors(Prediction.of(Y, P), n_bins)


@register_metric(
    "calibration error",
    "expected calibration error of ten equal bins, mean over the labels",
    greater_is_better=False,
    table="calibration",
    digits=4,
    bounds=(0.0, 1.0),
)
def _calibration_error(prediction: Prediction, n_bins: int = N_BINS) -> float:
    return mean_defined(label_errors(prediction, n_bins))


@register_metric(
    "beyond chance",
    "calibration error less what chance does to few rows",
    greater_is_better=False,
    table="calibration",
    digits=4,
)
def _excess_calibration_error(prediction: Prediction, n_bins: int = N_BINS) -> float:
    errors = label_errors(prediction, n_bins)
    entries = prediction.entries.transposed()
    rng = np.random.default_rng(0)
    by_chance = np.zeros(len(errors))
    for _ in range(_DRAWS):
        drawn = rng.random(entries.scores.shape) < entries.scores
        by_chance += _errors(LabelEntries(drawn, entries.scores, entries.valid), n_bins)
    return mean_defined(errors - by_chance / _DRAWS)


def label_errors(prediction: Prediction, n_bins: int = N_BINS) -> Floats:
    """`calibration_error_per_label` of a checked prediction."""
    if n_bins < 1:
        raise SettingError(f"n_bins must be at least 1, found {n_bins!r}")
    refuse_scores(prediction.entries)
    return _errors(prediction.entries.transposed(), n_bins)


def _errors(entries: LabelEntries, n_bins: int) -> Floats:
    """Of every label; `entries` with labels as rows."""
    return np.array([_error_of_label(entries, j, n_bins) for j in range(len(entries.truth))])


def _error_of_label(entries: LabelEntries, label: int, n_bins: int) -> float:
    valid = slice(None) if entries.valid is None else entries.valid[label]
    scores, truth = entries.scores[label][valid], entries.truth[label][valid]
    if not scores.size:
        return float("nan")
    bins = np.minimum((scores * n_bins).astype(np.intp), n_bins - 1)
    gaps = np.bincount(bins, weights=scores - truth)
    return float(np.abs(gaps).sum() / len(scores))
