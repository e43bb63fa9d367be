"""Whether probabilities mean what they say: expected calibration error, label by label."""

from __future__ import annotations

from typing import Any

import numpy as np

from viewgap.errors import SettingError
from viewgap.metrics._inputs import Cells, Floats, check_cells, refuse_scores

N_BINS = 10
_DRAWS = 20  # of labels, to see what chance does; averaged over many labels these are enough


def calibration_error(Y: Any, P: Any, n_bins: int = N_BINS) -> float:
    """Expected calibration error, averaged over the labels that have an observed cell.

    Shape: Y (n, c) in {0, 1, NaN}, P (n, c) probabilities or NaN -> float; NaN without any cell.
    """
    return mean_calibration_error(calibration_error_per_label(Y, P, n_bins))


def excess_calibration_error(Y: Any, P: Any, n_bins: int = N_BINS) -> float:
    """Calibration error beyond what chance alone would show, averaged over the labels.

    Even probabilities that are exactly right miss the frequencies of few rows, the more the
    further they dare to go from the average. That share is taken off: the error of the same
    probabilities when the labels are drawn by them (from a fixed seed). About 0 for probabilities
    that are right, and then a little below 0 as often as above.

    Shape: Y (n, c) in {0, 1, NaN}, P (n, c) probabilities or NaN -> float; NaN without any cell.
    """
    found = calibration_error_per_label(Y, P, n_bins)
    cells = check_cells(Y, P).transposed()
    rng = np.random.default_rng(0)
    by_chance = np.zeros(len(found))
    for _ in range(_DRAWS):
        drawn = Cells(rng.random(cells.scores.shape) < cells.scores, cells.scores, cells.counted)
        by_chance += _errors(drawn, n_bins)
    return mean_calibration_error(found - by_chance / _DRAWS)


def calibration_error_per_label(Y: Any, P: Any, n_bins: int = N_BINS) -> Floats:
    """Σ over bins of (share of the cells) · |mean probability − share of positives|, (c,).

    The bins are of equal width over [0, 1], the usual choice. Chance alone gives every bin an
    error of about √(p (1 − p) / cells): compare figures of the same rows only, or take
    `excess_calibration_error`. A label without an observed cell is NaN. The labels are in the order
    of Y's columns.

    Shape: Y (n, c) in {0, 1, NaN}, P (n, c) probabilities or NaN -> (c,).

    Examples:
        >>> calibration_error_per_label([[1], [0], [0], [0]], [[0.25], [0.25], [0.25], [0.25]])
        array([0.])
    """
    if n_bins < 1:
        raise SettingError(f"n_bins must be at least 1, found {n_bins!r}")
    cells = check_cells(Y, P).transposed()
    refuse_scores(cells)
    return _errors(cells, n_bins)


def mean_calibration_error(errors: Floats) -> float:
    """The mean over the labels whose error is defined."""
    defined = errors[~np.isnan(errors)]
    return float(defined.mean()) if defined.size else float("nan")


def _errors(cells: Cells, n_bins: int) -> Floats:
    """Of every label; `cells` with labels as rows."""
    return np.array([_error_of_label(cells, j, n_bins) for j in range(len(cells.truth))])


def _error_of_label(cells: Cells, label: int, n_bins: int) -> float:
    counted = slice(None) if cells.counted is None else cells.counted[label]
    scores, truth = cells.scores[label][counted], cells.truth[label][counted]
    if not scores.size:
        return float("nan")
    bins = np.minimum((scores * n_bins).astype(np.intp), n_bins - 1)
    gaps = np.bincount(bins, weights=scores - truth)
    return float(np.abs(gaps).sum() / len(scores))
