"""Whether probabilities mean what they say: expected calibration error, label by label."""

from __future__ import annotations

from typing import Any

import numpy as np

from viewgap.errors import SettingError
from viewgap.metrics._inputs import Cells, Floats, check_cells, refuse_scores

N_BINS = 10


def calibration_error(Y: Any, P: Any, n_bins: int = N_BINS) -> float:
    """Expected calibration error, averaged over the labels that have an observed cell.

    Shape: Y (n, c) in {0, 1, NaN}, P (n, c) probabilities or NaN -> float; NaN without any cell.
    """
    return mean_calibration_error(calibration_error_per_label(Y, P, n_bins))


def calibration_error_per_label(Y: Any, P: Any, n_bins: int = N_BINS) -> Floats:
    """Σ over bins of (share of the cells) · |mean probability − share of positives|, (c,).

    The bins are of equal width over [0, 1], the usual choice. Chance alone gives every bin an
    error of about √(p (1 − p) / cells): compare figures of the same rows only. A label without an
    observed cell is NaN.

    Shape: Y (n, c) in {0, 1, NaN}, P (n, c) probabilities or NaN -> (c,).

    Examples:
        >>> calibration_error_per_label([[1], [0], [0], [0]], [[0.25], [0.25], [0.25], [0.25]])
        array([0.])
    """
    if n_bins < 1:
        raise SettingError(f"n_bins must be at least 1, found {n_bins!r}")
    cells = check_cells(Y, P).transposed()
    refuse_scores(cells)
    return np.array([_error_of_label(cells, j, n_bins) for j in range(len(cells.truth))])


def mean_calibration_error(errors: Floats) -> float:
    """The mean over the labels whose error is defined."""
    defined = errors[~np.isnan(errors)]
    return float(defined.mean()) if defined.size else float("nan")


def _error_of_label(cells: Cells, label: int, n_bins: int) -> float:
    counted = slice(None) if cells.counted is None else cells.counted[label]
    scores, truth = cells.scores[label][counted], cells.truth[label][counted]
    if not scores.size:
        return float("nan")
    bins = np.minimum((scores * n_bins).astype(np.intp), n_bins - 1)
    gaps = np.bincount(bins, weights=scores - truth)
    return float(np.abs(gaps).sum() / len(scores))
