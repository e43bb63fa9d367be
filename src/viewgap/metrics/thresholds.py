"""Per-label decision thresholds, chosen on data that are not the test data."""

from __future__ import annotations

from typing import Any

import numpy as np

from viewgap.errors import SettingError
from viewgap.metrics._inputs import Bools, Floats, Ints, check_cells


def fit_thresholds(Y: Any, P: Any, fallback: float = 0.5) -> Floats:
    """Thresholds (c,) that maximise each label's F1 of the decisions P > threshold on (Y, P).

    A threshold lies halfway between the last score it accepts and the next lower one; when every
    score is accepted, halfway to zero (just below the lowest score if that is not positive). Of
    several best cuts the one with the fewest predictions is taken. A label without an observed
    positive gets `fallback`.

    Shape: Y (n, c) in {0, 1, NaN}, P (n, c) scores or NaN -> (c,).
    """
    if not np.isfinite(fallback):
        raise SettingError(f"fallback must be a finite number, found {fallback!r}")
    cells = check_cells(Y, P).transposed()
    thresholds = np.full(len(cells.truth), float(fallback))
    usable = np.flatnonzero(cells.truth.any(axis=1))
    if usable.size == 0:
        return thresholds
    order = np.argsort(-cells.scores[usable], axis=1, kind="stable")
    scores = np.take_along_axis(cells.scores[usable], order, axis=1)
    truth = np.take_along_axis(cells.truth[usable], order, axis=1)
    cut = _best_cut(scores, truth)
    thresholds[usable] = _between(scores, cut)
    return thresholds


def _best_cut(scores: Floats, truth: Bools) -> Ints:
    """Index of the last accepted score per row of descending `scores`; ties are never split."""
    hits = np.cumsum(truth, axis=1)
    accepted = np.arange(1, truth.shape[1] + 1)
    f1 = 2.0 * hits / (accepted + hits[:, -1:])
    f1[:, :-1][scores[:, 1:] == scores[:, :-1]] = -1.0
    cut: Ints = f1.argmax(axis=1)
    return cut


def _between(scores: Floats, cut: Ints) -> Floats:
    """A number below the score at `cut` and not below the next lower score of the row."""
    rows = np.arange(len(scores))
    upper = scores[rows, cut]
    padded = np.concatenate([scores, np.full((len(scores), 1), -np.inf)], axis=1)
    lower = padded[rows, cut + 1]
    below = np.where(upper > 0, 0.0, np.nextafter(upper, -np.inf))
    lower = np.where(np.isneginf(lower), below, lower)
    middle = lower / 2 + upper / 2
    return np.where(middle < upper, middle, lower)
