"""The figures of a model page: scores, labels, calibration, patterns, and views that disappear."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viewgap.data.viewset import ViewSet
from viewgap.inspection.patterns import pattern_table
from viewgap.methods.base import MultiViewClassifier
from viewgap.metrics import Prediction, calibration_error, excess_calibration_error
from viewgap.metrics import per_label_report as label_lines
from viewgap.metrics.calibration import N_BINS
from viewgap.model_report.bootstrap import (
    FEWEST_ROWS,
    METRICS,
    Draws,
    Estimate,
    auc_draws,
    draw_weights,
    main_metric,
    score_draws,
)

Floats = NDArray[np.float64]
MOST_PATTERNS = 24


@dataclass(frozen=True)
class PatternScore:
    """The score of the samples that have exactly these views."""

    views: tuple[str, ...]
    n_samples: int
    score: Estimate


@dataclass(frozen=True)
class HiddenView:
    """The score if a view were missing for every sample, and what that loses against now."""

    view: str
    n_samples: int
    score: Estimate
    loss: Estimate
    left_without: NDArray[np.intp]


@dataclass(frozen=True)
class CalibrationBin:
    """Observed label entries of one bin of probabilities, all labels pooled."""

    probability: float
    frequency: float
    n_entries: int


@dataclass(frozen=True)
class Measures:
    """All figures that need labels. `metric` is the one of patterns and hidden views."""

    metric: str
    scores: dict[str, Estimate]
    labels: list[dict[str, Any]]
    totals: dict[str, float]
    bins: list[CalibrationBin]
    calibration_error: float
    beyond_chance: float
    patterns: list[PatternScore]
    hidden: list[HiddenView]
    n_entries: int


def measure(
    model: MultiViewClassifier, views: ViewSet, truth: Floats, probabilities: Floats, seed: int = 0
) -> Measures:
    """Measure a model on matched views and their labels (n, c), NaN where not observed."""
    weights = draw_weights(len(views), seed)
    draws = {name: score_draws(name, truth, probabilities, weights) for name in METRICS}
    if truth.shape[1] == 1:
        del draws["AP"]
    metric = main_metric(truth.shape[1])
    limits = thresholds(model)
    labels = per_label(truth, probabilities, model.label_names_, limits, weights)
    return Measures(
        metric=metric,
        scores={name: own.estimate() for name, own in draws.items()},
        labels=labels,
        totals=_totals(labels),
        bins=calibration_bins(truth, probabilities),
        calibration_error=calibration_error(truth, probabilities),
        beyond_chance=excess_calibration_error(truth, probabilities),
        patterns=pattern_scores(views, truth, probabilities, metric, seed),
        hidden=hidden_views(model, views, truth, metric, draws[metric], weights),
        n_entries=int(np.count_nonzero(~np.isnan(truth) & ~np.isnan(probabilities))),
    )


def thresholds(model: MultiViewClassifier) -> Floats:
    """The thresholds of `predict`, one per label."""
    if model.one_label_:
        return np.array([0.5])
    return np.broadcast_to(np.asarray(model.thresholds_, float), (len(model.label_names_),))


def per_label(
    truth: Floats, scores: Floats, names: Sequence[str], limits: Floats, weights: NDArray[Any]
) -> list[dict[str, Any]]:
    """AUC with interval, AP, decisions at the thresholds and their counts, label by label."""
    found = label_lines(truth, scores, names, limits)
    draws = auc_draws(truth, scores, weights)
    known = ~np.isnan(truth) & ~np.isnan(scores)
    decided = known & (scores > limits)
    for j, line in enumerate(found):
        fewer = min(line["positives"], line["observed"] - line["positives"])
        enough = line["observed"] if fewer >= FEWEST_ROWS else 0  # draws of a few say too little
        own = Estimate.of(line["AUC"], draws[:, j], enough)
        yes, made = truth[:, j] == 1, decided[:, j]
        counts = {
            "found": int((made & yes).sum()),
            "missed": int((known[:, j] & yes & ~made).sum()),
            "false_alarms": int((made & ~yes).sum()),
        }
        rest = line["observed"] - sum(counts.values())
        line |= {"threshold": float(limits[j]), "AUC": own, **counts, "rightly_not": rest}
    return found


def _totals(labels: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Precision, recall and F1 of all decisions pooled, and F1 as a mean over labels."""
    names = ("found", "missed", "false_alarms", "rightly_not")
    hit, missed, alarms, rest = (sum(line[name] for line in labels) for name in names)
    f1 = [line["F1"] for line in labels if not np.isnan(line["F1"])]
    return {
        "found": hit,
        "missed": missed,
        "false_alarms": alarms,
        "rightly_not": rest,
        "precision": hit / (hit + alarms) if hit + alarms else float("nan"),
        "recall": hit / (hit + missed) if hit + missed else float("nan"),
        "micro F1": 2 * hit / (2 * hit + missed + alarms) if hit + missed else float("nan"),
        "macro F1": float(np.mean(f1)) if f1 else float("nan"),
    }


def calibration_bins(truth: Floats, probabilities: Floats) -> list[CalibrationBin]:
    """Mean probability and share of positives in bins of equal width that have entries."""
    entries = Prediction.of(truth, probabilities)
    known = ~np.isnan(entries.Y)
    ones, said = entries.Y[known], entries.P[known]
    place = np.minimum((said * N_BINS).astype(np.intp), N_BINS - 1)
    return [
        CalibrationBin(float(said[own].mean()), float(ones[own].mean()), int(own.sum()))
        for own in (place == b for b in range(N_BINS))
        if own.any()
    ]


def pattern_scores(
    views: ViewSet, truth: Floats, scores: Floats, metric: str, seed: int = 0
) -> list[PatternScore]:
    """The score of the samples of each pattern, most frequent patterns first."""
    found = []
    table = pattern_table(views).iloc[:MOST_PATTERNS]
    for names in table["views"]:
        there = np.array([name in names for name in views.names])
        rows = np.flatnonzero((views.observed == there).all(axis=1))
        weights = draw_weights(len(rows), seed)
        own = score_draws(metric, truth[rows], scores[rows], weights).estimate()
        found.append(PatternScore(names, len(rows), own))
    return found


def hidden_views(
    model: MultiViewClassifier,
    views: ViewSet,
    truth: Floats,
    metric: str,
    now: Draws,
    weights: NDArray[Any],
) -> list[HiddenView]:
    """The score with each view hidden in all rows; samples without a view get frequencies."""
    found = []
    for j, name in enumerate(views.names):
        observed = views.observed.copy()
        observed[:, j] = False
        without = views.with_observed(observed)
        draws = score_draws(metric, truth, model._checked_probabilities(without), weights)
        had = views.observed[:, j]
        lost = np.flatnonzero(had & ~observed.any(axis=1))
        loss = now.minus(draws)
        found.append(HiddenView(name, int(had.sum()), draws.estimate(), loss, lost))
    return sorted(found, key=lambda own: -np.nan_to_num(own.loss.value))
