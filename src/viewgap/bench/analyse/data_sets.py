"""Methods compared over data sets, as Demšar (2006) has it: one score per method and data set.

The score is the mean over the folds that all compared methods have on the data set. Data sets are
the blocks of Friedman's test, with Iman and Davenport's correction; Nemenyi's critical difference
is for all pairs, Wilcoxon's signed-rank test with Holm's correction for all against one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from viewgap.bench.analyse.statistics import (
    FEWEST_BLOCKS,
    FEWEST_METHODS,
    RankTest,
    find_reference,
    holm,
    records_by_title,
    with_metric,
)
from viewgap.bench.analyse.summary import entries, grouped
from viewgap.bench.results.record import Record
from viewgap.errors import InputError, SettingError
from viewgap.metrics import get_metric

MISSING = ("methods", "data sets", "refuse")

Folds = dict[tuple[int, int], Record]  # fold and seed
Scores = dict[str, dict[str, Folds]]  # data set, title


@dataclass(frozen=True)
class AgainstControl:
    """Wilcoxon's signed-rank test of a method against the control, over the data sets.

    `gap` is the mean of method minus control, in the direction of the metric; `adjusted` the
    p-value after Holm's correction over all methods.
    """

    method: str
    gap: float
    wins: int
    losses: int
    statistic: float
    p_value: float
    adjusted: float


@dataclass(frozen=True, eq=False)
class Comparison:
    """Methods over data sets.

    Attributes
    ----------
    test : RankTest
        Average ranks with the data sets as blocks.
    data_sets : tuple of str
        In the order of the rows of `means`, each with its condition where records have several.
    means : array of shape (data sets, methods)
        Of the metric; columns as `test.methods`.
    folds : tuple of int
        How many folds of each data set all methods have.
    control : str
        The method that the others are compared with.
    against : list of AgainstControl
    left_out : dict of str to list of str
        Methods (or data sets) that do not count, and where (or by which method) they lack records.
    """

    test: RankTest
    data_sets: tuple[str, ...]
    means: NDArray[np.float64]
    folds: tuple[int, ...]
    control: str
    against: list[AgainstControl]
    left_out: dict[str, list[str]]


def compare_over_data_sets(
    records: Sequence[Record],
    metric: str = "AP",
    control: str | None = None,
    missing: str = "methods",
    alpha: float = 0.05,
) -> Comparison:
    """Compare all methods of the records over their data sets.

    `missing` says what happens where a method has no record on a data set: the method does not
    count, the data set does not count, or nothing is compared.
    """
    if missing not in MISSING:
        raise SettingError(f"missing must be one of {', '.join(MISSING)}; found {missing!r}")
    scores = _by_data_set(with_metric(records, metric))
    scores, left_out = _complete(scores, missing)
    methods = tuple(sorted(next(iter(scores.values()), {})))
    if len(methods) < FEWEST_METHODS or len(scores) < FEWEST_BLOCKS:
        raise InputError(
            f"a comparison over data sets needs at least {FEWEST_METHODS} methods on "
            f"{FEWEST_BLOCKS} data sets; found {len(methods)} methods on {len(scores)} data sets "
            f"({_words(left_out) or 'none'} left out)"
        )
    common = {name: _common_folds(name, own) for name, own in scores.items()}
    means = np.array(
        [
            [
                np.mean([own[title][fold].metrics[metric] for fold in common[name]])
                for title in methods
            ]
            for name, own in scores.items()
        ]
    )
    sign = 1.0 if get_metric(metric).greater_is_better else -1.0
    chosen = find_reference(dict.fromkeys(methods, ()), control)
    return Comparison(
        test=RankTest.of(
            *(sign * means, methods, metric, alpha),
            left_out=len(left_out) if missing == "data sets" else 0,
            unit="data sets",
            scope="",
        ),
        data_sets=tuple(scores),
        means=means,
        folds=tuple(len(folds) for folds in common.values()),
        control=chosen,
        against=_against(means, sign, methods, chosen),
        left_out=left_out,
    )


def _by_data_set(records: Sequence[Record]) -> Scores:
    """Folds of every method on every data set; each data set has one condition."""
    own = entries(records)
    for name, group in grouped(own, lambda entry: entry.record.dataset).items():
        headings = sorted({entry.heading for entry in group})
        if len(headings) > 1:
            raise InputError(
                f"{name} has records of several conditions, which are no data sets of their own: "
                f"{'; '.join(headings)}. Give folders with one condition per data set"
            )
    found: Scores = {}
    for title, blocks in records_by_title(own).items():
        for (_, fold, seed), record in blocks.items():
            sets = found.setdefault(record.dataset, {})
            sets.setdefault(title, {})[fold, seed] = record
    return found


def _complete(scores: Scores, missing: str) -> tuple[Scores, dict[str, list[str]]]:
    """The methods, or the data sets, that have all of the others; and who does not."""
    titles = sorted({title for own in scores.values() for title in own})
    lacking = {t: [name for name, own in scores.items() if t not in own] for t in titles}
    lacking = {title: names for title, names in lacking.items() if names}
    if not lacking:
        return scores, {}
    if missing == "refuse":
        raise InputError(f"methods without a record on a data set: {_words(lacking)}")
    if missing == "methods":
        kept = {
            name: {title: folds for title, folds in own.items() if title not in lacking}
            for name, own in scores.items()
        }
        return kept, lacking
    by_set = {
        name: [title for title in titles if title not in own]
        for name, own in scores.items()
        if len(own) < len(titles)
    }
    return {name: own for name, own in scores.items() if name not in by_set}, by_set


def _words(left_out: dict[str, list[str]]) -> str:
    return "; ".join(f"{name} ({', '.join(where)})" for name, where in left_out.items())


def _common_folds(name: str, own: dict[str, Folds]) -> list[tuple[int, int]]:
    common = sorted(set.intersection(*(set(folds) for folds in own.values())))
    if not common:
        raise InputError(f"the methods have no fold of {name} in common")
    return common


def _against(
    means: NDArray[np.float64], sign: float, methods: tuple[str, ...], control: str
) -> list[AgainstControl]:
    """Every other method against the control."""
    theirs = means[:, methods.index(control)]
    others = [name for name in methods if name != control]
    differences = [means[:, methods.index(name)] - theirs for name in others]
    tests = [signed_rank_test(difference) for difference in differences]
    adjusted = holm([p_value for _, p_value in tests])
    return [
        AgainstControl(
            method=name,
            gap=float(difference.mean()),
            wins=int((sign * difference > 0).sum()),
            losses=int((sign * difference < 0).sum()),
            statistic=statistic,
            p_value=p_value,
            adjusted=after,
        )
        for name, difference, (statistic, p_value), after in zip(
            others, differences, tests, adjusted, strict=True
        )
    ]


def signed_rank_test(differences: NDArray[np.float64]) -> tuple[float, float]:
    """Wilcoxon's statistic and two-sided p-value; ranks of zeros are split, as Demšar has it.

    Examples
    --------
    >>> signed_rank_test(np.array([1.0, 2.0, 3.0, 4.0, -5.0]))
    (5.0, 0.625)
    """
    from scipy import stats

    exact = np.round(differences, 12)  # equal in decimals: 0.768 - 0.763 and 0.936 - 0.931
    if not exact.any():
        return 0.0, 1.0
    found = stats.wilcoxon(exact, zero_method="zsplit")
    return float(found.statistic), float(found.pvalue)
