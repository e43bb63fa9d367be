"""Per-label decision thresholds, chosen on data that are not the test data."""

from __future__ import annotations

from typing import Any

import numpy as np

from viewgap.errors import SettingError
from viewgap.metrics._inputs import Bools, Floats, Ints, check_entries, check_scores, refuse_scores


def fit_thresholds(Y: Any, P: Any, fallback: float = 0.5) -> Floats:
    """Thresholds (c,) that maximise each label's F1 of the decisions P > threshold on (Y, P).

    A threshold lies halfway between the last score it accepts and the next lower one; when every
    score is accepted, halfway to zero (just below the lowest score if that is not positive). Of
    several best cuts the one with the fewest predictions is taken. A label without an observed
    positive gets `fallback`. The thresholds are in the order of Y's columns.

    Shape: Y (n, c) in {0, 1, NaN}, P (n, c) scores or NaN -> (c,).
    """
    if not np.isfinite(fallback):
        raise SettingError(f"fallback must be a finite number, found {fallback!r}")
    entries = check_entries(Y, P).transposed()
    thresholds = np.full(len(entries.truth), float(fallback))
    usable = np.flatnonzero(entries.truth.any(axis=1))
    if usable.size == 0:
        return thresholds
    order = np.argsort(-entries.scores[usable], axis=1, kind="stable")
    scores = np.take_along_axis(entries.scores[usable], order, axis=1)
    truth = np.take_along_axis(entries.truth[usable], order, axis=1)
    cut = _best_cut(scores, truth)
    thresholds[usable] = _between(scores, cut)
    return thresholds


def expected_f1_thresholds(P: Any, fallback: float = 0.5) -> Floats:
    """Thresholds (c,) with the highest expected F1 of each label, given calibrated probabilities.

    Needs no labels, and so is steady where a label is rare: cutting the k highest of the
    probabilities p of a label, sorted downwards, is expected to score 2 Σ_{i≤k} p_i / (k + Σ p_i).
    A label without any probability gets `fallback`. The thresholds are in the order of P's columns.

    Shape: P (n, c) probabilities or NaN -> (c,).
    """
    entries = check_scores(P).transposed()
    refuse_scores(entries)
    thresholds = np.full(len(entries.truth), float(fallback))
    valid = np.isfinite(entries.scores)
    usable = np.flatnonzero(valid.any(axis=1))
    scores = -np.sort(-np.where(valid, entries.scores, -1.0)[usable], axis=1)
    hits = np.cumsum(np.maximum(scores, 0.0), axis=1)
    expected = 2.0 * hits / np.maximum(np.arange(1, scores.shape[1] + 1) + hits[:, -1:], 1.0)
    expected[scores < 0] = -1.0  # entries that do not count
    expected[:, :-1][scores[:, 1:] == scores[:, :-1]] = -1.0  # equals are never split
    thresholds[usable] = _between(np.where(scores < 0, -np.inf, scores), expected.argmax(axis=1))
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
