"""Whether differences between methods are more than luck: ranks over blocks, paired gaps.

Methods are compared within one condition (see `summary`): a result with no view missing is no rival
of one with half of them missing. Ranks are averaged over blocks, and only blocks that every
compared method has count. With several data sets a block is a data set, as Demšar has it; with one
it is a fold (and seed) of that set. Folds of one set share their samples, so that they are not
independent and the Friedman test over them says too much rather than too little, which is why a
`RankTest` says what its blocks are; the paired test corrects for it.

References: Demšar, Statistical comparisons of classifiers over multiple data sets, JMLR 2006;
Nadeau and Bengio, Inference for the generalization error, Machine Learning 2003; Holm, A simple
sequentially rejective multiple test procedure, 1979.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viewgap.bench.analyse.summary import (
    RECONSTRUCTION,
    Entry,
    descending_ranks,
    entries,
    grouped,
    one_variant,
)
from viewgap.bench.results.record import Record
from viewgap.errors import InputError
from viewgap.metrics import get_metric

Block = tuple[str, int, int]  # heading, fold, seed
REFERENCES = ("scsd (paper)", "scsd", "late_fusion_ridge")
FEWEST_METHODS, FEWEST_BLOCKS = 3, 2


@dataclass(frozen=True)
class Blocks:
    """Scores of all methods on the blocks they have in common, (blocks, methods).

    `left_out` counts the blocks that some method lacks.
    """

    methods: tuple[str, ...]
    blocks: tuple[Block, ...]
    scores: NDArray[np.float64]
    left_out: int


@dataclass(frozen=True)
class RankTest:
    """Average ranks (1 is best) and the Friedman test that all methods are alike.

    Two methods whose ranks differ by less than `critical_difference` (Nemenyi, level `alpha`)
    cannot be told apart. `unit` says what the blocks are, "data sets" or "folds"; `scope` names
    the data set (and condition) whose folds they are, or the condition of the data sets where the
    records have several.
    """

    metric: str
    methods: tuple[str, ...]
    ranks: tuple[float, ...]
    statistic: float
    p_value: float
    critical_difference: float
    alpha: float
    blocks: int
    left_out: int
    unit: str
    scope: str

    @classmethod
    def of(
        cls,
        scores: NDArray[np.float64],
        methods: tuple[str, ...],
        metric: str,
        alpha: float,
        **blocks: Any,
    ) -> RankTest:
        """Test scores (blocks, methods), higher is better; `blocks` are the last three fields."""
        n_blocks, n_methods = scores.shape
        statistic, p_value = friedman(scores)
        return cls(
            metric=metric,
            methods=methods,
            ranks=tuple(descending_ranks(scores).mean(axis=0).tolist()),
            statistic=statistic,
            p_value=p_value,
            critical_difference=nemenyi_difference(n_methods, n_blocks, alpha),
            alpha=alpha,
            blocks=n_blocks,
            **blocks,
        )

    @property
    def over(self) -> str:
        """The blocks in words: "10 folds of corel5k", "5 data sets with view_rate=0.5"."""
        joint = " of " if self.unit.startswith("folds") else " with "
        return f"{self.blocks} {self.unit}" + (joint + self.scope if self.scope else "")

    @property
    def iman_davenport(self) -> tuple[float, float]:
        """Iman and Davenport's F = (N - 1) χ² / (N (k - 1) - χ²), less cautious, and its p-value.

        F has k - 1 and (k - 1) (N - 1) degrees of freedom; it is infinite where all blocks agree.
        """
        from scipy import stats

        free, blocks = len(self.methods) - 1, self.blocks
        rest = blocks * free - self.statistic
        if rest <= 1e-9 * blocks * free:
            return math.inf, 0.0
        value = (blocks - 1) * self.statistic / rest
        return value, float(stats.f.sf(value, free, free * (blocks - 1)))

    def cliques(self) -> list[tuple[int, int]]:
        """Groups that cannot be told apart: first and last place in the order of the ranks."""
        ranks = sorted(self.ranks)
        found: list[tuple[int, int]] = []
        for first, rank in enumerate(ranks):
            last = max(
                i for i, other in enumerate(ranks) if other - rank < self.critical_difference
            )
            if last > first and (not found or last > found[-1][1]):
                found.append((first, last))
        return found


@dataclass(frozen=True)
class Gap:
    """How far a method is from the reference on one data set: method minus reference.

    `dataset` is the heading: the data set, and the condition where there are several. `p_value` is
    of the corrected resampled t-test over the common folds, `adjusted` the same after Holm's
    correction over the methods of the heading. Both are None below two folds.
    """

    dataset: str
    method: str
    reference: str
    metric: str
    gap: float
    folds: int
    left_out: int
    p_value: float | None
    adjusted: float | None


def common_blocks(own: Sequence[Entry], metric: str = "AP") -> Blocks:
    """Scores by block and method, higher is better; a block that some method lacks is left out."""
    sign = 1.0 if get_metric(metric).greater_is_better else -1.0
    found: dict[Block, dict[str, float]] = {}
    for title, group in records_by_title(own).items():
        for block, record in group.items():
            found.setdefault(block, {})[title] = sign * record.metrics[metric]
    names = tuple(sorted({name for scores in found.values() for name in scores}))
    whole = tuple(sorted(block for block, scores in found.items() if len(scores) == len(names)))
    table = np.array([[found[block][name] for name in names] for block in whole], dtype=float)
    table = table.reshape(len(whole), len(names))
    return Blocks(names, whole, table, len(found) - len(whole))


def with_metric(records: Sequence[Record], metric: str) -> list[Record]:
    """The records that have a metric; a metric that none has is an error."""
    known = dict.fromkeys(name for record in records for name in record.metrics)
    if records and metric not in known:
        raise InputError(f"unknown metric {metric!r}; available: {', '.join(known)}")
    return [record for record in records if metric in record.metrics]


def nemenyi_difference(n_methods: int, n_blocks: int, alpha: float = 0.05) -> float:
    """Critical difference of average ranks: q_α √(k (k + 1) / (6 N))."""
    from scipy import stats

    quantile = stats.studentized_range.ppf(1 - alpha, n_methods, np.inf) / math.sqrt(2)
    return float(quantile * math.sqrt(n_methods * (n_methods + 1) / (6 * n_blocks)))


def rank_tests(
    records: Sequence[Record], metric: str = "AP", by_fold: bool = False
) -> tuple[list[RankTest], dict[str, InputError]]:
    """`rank_test` of every condition, and the reasons by scope where one has too little.

    Where fewer than two data sets have all methods of a condition, or with `by_fold`, every data
    set is tested by itself, over its folds.
    """
    records = with_metric(records, metric)
    tests: list[RankTest] = []
    reasons: dict[str, InputError] = {}
    for own in grouped(entries(records), lambda entry: entry.condition).values():
        sets = grouped(own, lambda entry: entry.heading).values()
        whole = {heading for heading, *_ in common_blocks(own, metric).blocks}
        together = len(whole) >= FEWEST_BLOCKS and not by_fold
        for group in [own] if together else sets:
            try:
                tests.append(rank_test(group, metric))
            except InputError as error:
                reasons[_scope(group)] = error
    return tests, reasons


def rank_test(own: Sequence[Entry], metric: str = "AP", alpha: float = 0.05) -> RankTest:
    """Friedman's test and Nemenyi's critical difference for entries of one condition.

    The blocks are data sets, on each of which a method counts with its mean over the folds that
    all methods have there; or folds where the entries are of one data set.
    """
    conditions = sorted({entry.condition for entry in own})
    if len(conditions) > 1:
        raise InputError(
            "records of different conditions cannot be ranked together; found "
            + "; ".join(conditions)
        )
    blocks = common_blocks(own, metric)
    n_sets = len({entry.heading for entry in own})
    if n_sets > 1:
        blocks, unit = _by_data_set(blocks, n_sets), "data sets"
    else:
        unit = "folds and seeds" if len({seed for *_, seed in blocks.blocks}) > 1 else "folds"
    n_blocks, n_methods = blocks.scores.shape
    if n_methods < FEWEST_METHODS or n_blocks < FEWEST_BLOCKS:
        raise InputError(
            f"ranks need at least three methods with two {unit} in common; found "
            f"{n_methods} methods with {n_blocks} common {unit} ({blocks.left_out} left out)"
        )
    told = {"left_out": blocks.left_out, "unit": unit, "scope": _scope(own)}
    return RankTest.of(blocks.scores, blocks.methods, metric, alpha, **told)


def friedman(scores: NDArray[np.float64]) -> tuple[float, float]:
    """Friedman's χ² over (blocks, methods), corrected for ties, and its p-value."""
    from scipy import stats

    if bool((scores == scores[:, :1]).all()):  # no rank differs: 0 / 0
        return 0.0, 1.0
    statistic, p_value = stats.friedmanchisquare(*scores.T)
    return float(statistic), float(p_value)


def _scope(own: Sequence[Entry]) -> str:
    """The data set (and condition) of the entries, or the condition that several sets share."""
    headings = {entry.heading for entry in own}
    return headings.pop() if len(headings) == 1 else own[0].condition


def _by_data_set(blocks: Blocks, n_sets: int) -> Blocks:
    """One block per data set: the mean over its common folds."""
    names = tuple(dict.fromkeys(heading for heading, *_ in blocks.blocks))
    rows = [[k for k, block in enumerate(blocks.blocks) if block[0] == name] for name in names]
    means = np.array([blocks.scores[own].mean(axis=0) for own in rows], dtype=float)
    means = means.reshape(len(names), len(blocks.methods))
    firsts = tuple(blocks.blocks[own[0]] for own in rows)
    return Blocks(blocks.methods, firsts, means, n_sets - len(names))


def corrected_t_test(differences: NDArray[np.float64], test_to_train: float) -> float:
    """Two-sided p-value of the corrected resampled t-test that the mean difference is 0.

    The variance of the mean is (1/J + n_test/n_train) s² over J folds: training sets that
    overlap make the plain 1/J too small.
    """
    from scipy import stats

    count = len(differences)
    if count < 2:
        raise InputError(f"a paired test needs at least two folds, found {count}")
    mean, spread = float(differences.mean()), float(differences.std(ddof=1))
    if spread <= 1e-12 * abs(mean) or spread == 0.0:  # the same difference on every fold
        return 1.0 if mean == 0 else 0.0
    statistic = mean / (math.sqrt(1 / count + test_to_train) * spread)
    return float(2 * stats.t.sf(abs(statistic), count - 1))


def corrected_half_width(
    values: NDArray[np.float64], test_to_train: float, level: float = 0.95
) -> float:
    """Half of the confidence interval of the mean over J folds, by the corrected t-test.

    t √(1/J + n_test/n_train) s, with t of J - 1 degrees of freedom: the means for which
    `corrected_t_test` of the differences to them does not reject at 1 - `level`.
    """
    from scipy import stats

    count = len(values)
    if count < 2:
        raise InputError(f"an interval needs at least two folds, found {count}")
    quantile = float(stats.t.ppf(0.5 + level / 2, count - 1))
    return quantile * math.sqrt(1 / count + test_to_train) * float(values.std(ddof=1))


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values adjusted for their number: the smallest times m, the next times m - 1, ..."""
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for step, place in enumerate(np.argsort(p_values, kind="stable")):
        largest = max(largest, min(1.0, (len(p_values) - step) * p_values[place]))
        adjusted[place] = largest
    return adjusted


def gaps_to(
    records: Sequence[Record], reference: str | None = None, metric: str = "AP"
) -> list[Gap]:
    """The gap of every method to the reference on every data set and condition that has both.

    `reference` is the title of a row, with or without its dagger. Without one, each heading is
    compared with "scsd (paper)", "scsd" or "late_fusion_ridge", whichever of these it has, else
    with the row that has most folds, the first of equals.
    """
    headings, reference = split_by_heading(with_metric(records, metric), reference)
    gaps: list[Gap] = []
    for own in headings.values():
        if reference is None or reference in own:
            gaps += _gaps_of_heading(own, find_reference(own, reference), metric)
    return gaps


def headings_without(records: Sequence[Record], reference: str) -> list[str]:
    """The headings that have no record of the reference."""
    headings, title = split_by_heading(records, reference)
    return [heading for heading, own in headings.items() if title not in own]


def find_reference(groups: Mapping[str, Sized], reference: str | None) -> str:
    """The title that is meant, spelled with its dagger; the default where none is asked for."""
    if reference is None:
        known = next((name for name in REFERENCES if name in groups), None)
        return known or max(groups, key=lambda title: len(groups[title]))
    spelled = {title.replace(RECONSTRUCTION, ""): title for title in groups}
    reference = spelled.get(reference.replace(RECONSTRUCTION, ""), reference)
    if reference not in groups:
        found = ", ".join(sorted(groups))
        raise InputError(f"no record of the reference {reference!r}; found {found}")
    return reference


def records_by_title(own: Sequence[Entry]) -> dict[str, dict[Block, Record]]:
    """The records of every title, by block; two records of one block are an error."""
    one_variant([entry.record for entry in own])
    found: dict[str, dict[Block, Record]] = {}
    for entry in own:
        group = found.setdefault(entry.title, {})
        block = (entry.heading, entry.record.fold, entry.record.seed)
        if block in group:
            raise InputError(
                f"{entry.title} has two records on {entry.heading} fold {block[1]} seed "
                f"{block[2]}; is a folder given twice?"
            )
        group[block] = entry.record
    return found


def split_by_heading(
    records: Sequence[Record], reference: str | None
) -> tuple[dict[str, dict[str, dict[Block, Record]]], str | None]:
    """{heading: {title: {block: record}}}, and the title of the reference if one is asked for."""
    groups = records_by_title(entries(records))
    found: dict[str, dict[str, dict[Block, Record]]] = {}
    for title, group in groups.items():
        for block, record in group.items():
            found.setdefault(block[0], {}).setdefault(title, {})[block] = record
    return found, None if reference is None else find_reference(groups, reference)


def _gaps_of_heading(
    groups: dict[str, dict[Block, Record]], reference: str, metric: str
) -> list[Gap]:
    theirs = groups[reference]
    gaps = [
        _gap(title, own, reference, theirs, metric)
        for title, own in groups.items()
        if title != reference and own.keys() & theirs.keys()
    ]
    adjusted = iter(holm([gap.p_value for gap in gaps if gap.p_value is not None]))
    return [gap if gap.p_value is None else replace(gap, adjusted=next(adjusted)) for gap in gaps]


def _gap(
    title: str, own: dict[Block, Record], reference: str, theirs: dict[Block, Record], metric: str
) -> Gap:
    common = sorted(own.keys() & theirs.keys())
    differences = np.array([own[b].metrics[metric] - theirs[b].metrics[metric] for b in common])
    ratio = test_to_train_ratio(theirs[common[0]])
    return Gap(
        dataset=common[0][0],
        method=title,
        reference=reference,
        metric=metric,
        gap=float(differences.mean()),
        folds=len(common),
        left_out=len(own.keys() | theirs.keys()) - len(common),
        p_value=corrected_t_test(differences, ratio) if len(common) > 1 else None,
        adjusted=None,
    )


def test_to_train_ratio(record: Record) -> float:
    """Rows of the test part to rows of training: the protocol halves what training leaves.

    A cross-validation (`cv`) has no validation rows: it tests on all that training leaves.
    """
    share = float(record.settings.get("train_share", 0.7))
    return (1 - share) / (1 if record.settings.get("cv") else 2) / share
