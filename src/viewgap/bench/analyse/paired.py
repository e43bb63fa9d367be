"""Methods on the same folds of one data set: means, intervals, and differences to the best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viewgap.bench.analyse.statistics import (
    Block,
    common_blocks,
    corrected_half_width,
    corrected_t_test,
    holm,
    records_by_title,
    test_to_train_ratio,
    with_metric,
)
from viewgap.bench.analyse.summary import entries, summarise
from viewgap.bench.results.record import Record
from viewgap.errors import InputError
from viewgap.metrics import get_metric

LEVEL = 0.95
BEST, WORSE, ALIKE, UNKNOWN = "best", "worse", "not told apart", "too few folds"
Floats = NDArray[np.float64]
ByBlock = Mapping[Block, Record]


@dataclass(frozen=True)
class MethodScore:
    """One method: its score, and how far it is from the best.

    Attributes
    ----------
    method : str
    score, low, high : float or None
        Mean of the metric over its folds, with its interval (95 %), which ends at the lowest and
        highest value that the metric can have; None where all folds failed.
    difference, difference_low, difference_high : float or None
        Method minus best on the folds that both have, with its interval, which ends where no
        difference of two values of the metric can lie.
    p_value, adjusted : float or None
        Of the corrected resampled t-test; after Holm's correction over the methods.
    verdict : str
        "best", "worse", "not told apart" or "too few folds".
    seconds : float or None
        Mean of a fold, fit and prediction.
    folds, failed : int
        Folds with a score, and folds that failed.
    metrics : dict
        Mean, low and high of every metric.
    """

    method: str
    score: float | None = None
    low: float | None = None
    high: float | None = None
    difference: float | None = None
    difference_low: float | None = None
    difference_high: float | None = None
    p_value: float | None = None
    adjusted: float | None = None
    verdict: str = UNKNOWN
    seconds: float | None = None
    folds: int = 0
    failed: int = 0
    metrics: Mapping[str, Mapping[str, float | None]] | None = None


@dataclass(frozen=True)
class Comparison:
    """The methods, the best first; `best` is its name."""

    best: str
    scores: tuple[MethodScore, ...]


def compare_to_best(
    records: Sequence[Record], failures: Sequence[Mapping[str, Any]] = (), metric: str = "AP"
) -> Comparison:
    """Compare the methods of one data set and condition with the best of them.

    The best has the best mean over the folds that all methods with records have (else over its
    own). Intervals and tests are those of the corrected resampled t-test (Nadeau and Bengio 2003):
    folds share training rows. That the best was chosen by the same folds makes it look a little
    better than it is.
    """
    own = entries(with_metric(records, metric))
    if len({entry.heading for entry in own}) != 1:
        raise InputError("methods are compared on one data set under one condition")
    groups: dict[str, dict[Block, Record]] = records_by_title(own)
    sign = 1.0 if get_metric(metric).greater_is_better else -1.0
    best = _best(groups, common_blocks(own, metric).blocks, metric, sign)
    found = [_score(title, own, groups[best], metric) for title, own in groups.items()]
    found = _judged(found, best, sign)
    order = sorted(found, key=lambda score: (score.method != best, -sign * (score.score or 0.0)))
    return Comparison(best, tuple(_with_failures(order, records, failures)))


def _best(groups: Mapping[str, ByBlock], common: Sequence[Block], metric: str, sign: float) -> str:
    def mean(title: str) -> float:
        blocks = common or list(groups[title])
        return sign * float(np.mean([groups[title][b].metrics[metric] for b in blocks]))

    return max(groups, key=mean)


def _score(title: str, own: ByBlock, best: ByBlock, metric: str) -> MethodScore:
    ratio = test_to_train_ratio(next(iter(own.values())))
    names = dict.fromkeys(name for record in own.values() for name in record.metrics)
    metrics = {
        name: _interval(_column(own.values(), name), ratio, get_metric(name).bounds)
        for name in names
    }
    common = sorted(own.keys() & best.keys())
    gaps = np.array([own[b].metrics[metric] - best[b].metrics[metric] for b in common])
    lowest, highest = get_metric(metric).bounds
    difference: dict[str, float | None] = dict.fromkeys(("mean", "low", "high"))
    if common:
        difference = _interval(gaps, ratio, (lowest - highest, highest - lowest))
    tested = own is not best and len(common) > 1
    return MethodScore(
        method=title,
        score=metrics[metric]["mean"],
        low=metrics[metric]["low"],
        high=metrics[metric]["high"],
        difference=difference["mean"],
        difference_low=difference["low"],
        difference_high=difference["high"],
        p_value=corrected_t_test(gaps, ratio) if tested else None,
        seconds=float(np.mean([record.seconds for record in own.values()])),
        folds=len(own),
        metrics=metrics,
    )


def _column(records: Any, name: str) -> Floats:
    return np.array([record.metrics[name] for record in records if name in record.metrics])


def _interval(values: Floats, ratio: float, bounds: tuple[float, float]) -> dict[str, float | None]:
    """Mean, low and high; the t interval knows no bounds, so what lies beyond them is cut off.

    No possible mean lies there: the interval covers the true one as often as it did.
    """
    mean = float(values.mean())
    if len(values) < 2:
        return {"mean": mean, "low": None, "high": None}
    half = corrected_half_width(values, ratio, LEVEL)
    lowest, highest = bounds
    return {"mean": mean, "low": max(lowest, mean - half), "high": min(highest, mean + half)}


def _judged(scores: Sequence[MethodScore], best: str, sign: float) -> list[MethodScore]:
    """With p-values adjusted for their number, and what they say."""
    tested = [score for score in scores if score.p_value is not None]
    adjusted = dict(
        zip(
            (score.method for score in tested),
            holm([score.p_value for score in tested if score.p_value is not None]),
            strict=True,
        )
    )
    found = []
    for score in scores:
        p = adjusted.get(score.method)
        verdict = UNKNOWN
        if score.method == best:
            verdict = BEST
        elif p is not None:
            behind = p < 1 - LEVEL and sign * (score.difference or 0.0) < 0
            verdict = WORSE if behind else ALIKE
        found.append(replace(score, adjusted=p, verdict=verdict))
    return found


def _with_failures(
    scores: Sequence[MethodScore],
    records: Sequence[Record],
    failures: Sequence[Mapping[str, Any]],
) -> list[MethodScore]:
    """With the number of failed folds; a method of which all failed comes last."""
    failed = {row.title: row.failed for row in summarise(records, failures)}
    known = [replace(score, failed=failed.pop(score.method, 0)) for score in scores]
    return known + [MethodScore(title, failed=count) for title, count in failed.items() if count]
