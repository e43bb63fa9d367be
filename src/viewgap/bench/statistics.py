"""Whether differences between methods are more than luck: ranks over blocks, paired gaps.

A block is one fold of one data set (and one seed): only blocks that every compared method has
count. Folds of one data set share their samples, so that blocks are not independent and the
Friedman test says too much rather than too little; the paired test corrects for it.

References: Demšar, Statistical comparisons of classifiers over multiple data sets, JMLR 2006;
Nadeau and Bengio, Inference for the generalization error, Machine Learning 2003; Holm, A simple
sequentially rejective multiple test procedure, 1979.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from viewgap.bench.record import Record
from viewgap.bench.rows import RECONSTRUCTION, one_variant, titles
from viewgap.errors import InputError
from viewgap.metrics import SIX

Block = tuple[str, int, int]
REFERENCES = ("scsd (paper)", "scsd")


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
    cannot be told apart.
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

    `p_value` is of the corrected resampled t-test over the common folds, `adjusted` the same
    after Holm's correction over the methods of the data set. Both are None below two folds.
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


def common_blocks(records: Sequence[Record], metric: str = "AP") -> Blocks:
    """Scores by block and method; a block that some method lacks is left out."""
    check_metric(metric)
    found: dict[Block, dict[str, float]] = {}
    for title, group in by_title(records).items():
        for block, record in group.items():
            found.setdefault(block, {})[title] = record.metrics[metric]
    names = tuple(sorted({name for scores in found.values() for name in scores}))
    whole = tuple(sorted(block for block, scores in found.items() if len(scores) == len(names)))
    table = np.array([[found[block][name] for name in names] for block in whole], dtype=float)
    table = table.reshape(len(whole), len(names))
    return Blocks(names, whole, table, len(found) - len(whole))


def check_metric(metric: str) -> None:
    """Refuse a metric that no record has."""
    if metric not in SIX:
        raise InputError(f"unknown metric {metric!r}; available: {', '.join(SIX)}")


def average_ranks(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Average rank of every column over the rows, 1 = highest; equals share the mean rank."""
    ranks: NDArray[np.float64] = stats.rankdata(-scores, method="average", axis=1)
    return np.asarray(ranks.mean(axis=0), dtype=np.float64)


def nemenyi_difference(n_methods: int, n_blocks: int, alpha: float = 0.05) -> float:
    """Critical difference of average ranks: q_α √(k (k + 1) / (6 N))."""
    quantile = stats.studentized_range.ppf(1 - alpha, n_methods, np.inf) / math.sqrt(2)
    return float(quantile * math.sqrt(n_methods * (n_methods + 1) / (6 * n_blocks)))


def rank_test(records: Sequence[Record], metric: str = "AP", alpha: float = 0.05) -> RankTest:
    """Friedman's test over the common blocks, and Nemenyi's critical difference."""
    blocks = common_blocks(records, metric)
    n_blocks, n_methods = blocks.scores.shape
    if n_methods < 3 or n_blocks < 2:
        raise InputError(
            "ranks need at least three methods with two folds in common; found "
            f"{n_methods} methods with {n_blocks} common folds ({blocks.left_out} left out)"
        )
    alike = bool((blocks.scores == blocks.scores[:, :1]).all())  # no rank differs: 0 / 0
    test = (0.0, 1.0) if alike else stats.friedmanchisquare(*blocks.scores.T)
    return RankTest(
        metric=metric,
        methods=blocks.methods,
        ranks=tuple(average_ranks(blocks.scores).tolist()),
        statistic=float(test[0]),
        p_value=float(test[1]),
        critical_difference=nemenyi_difference(n_methods, n_blocks, alpha),
        alpha=alpha,
        blocks=n_blocks,
        left_out=blocks.left_out,
    )


def corrected_t_test(differences: NDArray[np.float64], test_to_train: float) -> float:
    """Two-sided p-value of the corrected resampled t-test that the mean difference is 0.

    The variance of the mean is (1/J + n_test/n_train) s² over J folds: training sets that
    overlap make the plain 1/J too small.
    """
    count = len(differences)
    if count < 2:
        raise InputError(f"a paired test needs at least two folds, found {count}")
    mean, spread = float(differences.mean()), float(differences.std(ddof=1))
    if spread <= 1e-12 * abs(mean) or spread == 0.0:  # the same difference on every fold
        return 1.0 if mean == 0 else 0.0
    statistic = mean / (math.sqrt(1 / count + test_to_train) * spread)
    return float(2 * stats.t.sf(abs(statistic), count - 1))


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
    """The gap of every method to the reference on every data set that has both.

    `reference` is the title of a row, with or without its dagger, such as "scsd (paper)", which
    is the default; where there is none, "scsd" is.
    """
    check_metric(metric)
    groups = by_title(records)
    reference = find_reference(groups, reference)
    gaps: list[Gap] = []
    for dataset in dict.fromkeys(block[0] for block in groups[reference]):
        gaps += _gaps_of_dataset(dataset, groups, reference, metric)
    return gaps


def find_reference(titles_found: Collection[str], reference: str | None) -> str:
    """The title that is meant, spelled with its dagger; the default where none is asked for."""
    if reference is None:
        reference = next((name for name in REFERENCES if name in titles_found), REFERENCES[0])
    spelled = {title.replace(RECONSTRUCTION, ""): title for title in titles_found}
    reference = spelled.get(reference.replace(RECONSTRUCTION, ""), reference)
    if reference not in titles_found:
        found = ", ".join(sorted(titles_found))
        raise InputError(f"no record of the reference {reference!r}; found {found}")
    return reference


def by_title(records: Sequence[Record]) -> dict[str, dict[Block, Record]]:
    """The records of every title, by block; two records of one block are an error."""
    one_variant(records)
    found: dict[str, dict[Block, Record]] = {}
    for title, record in zip(titles(records), records, strict=True):
        group = found.setdefault(title, {})
        block = (record.dataset, record.fold, record.seed)
        if block in group:
            raise InputError(
                f"{title} has two records on {record.dataset} fold {record.fold} seed "
                f"{record.seed}; is a folder given twice?"
            )
        group[block] = record
    return found


def _gaps_of_dataset(
    dataset: str, groups: dict[str, dict[Block, Record]], reference: str, metric: str
) -> list[Gap]:
    theirs = {block: r for block, r in groups[reference].items() if block[0] == dataset}
    gaps = []
    for title, records in groups.items():
        own = {block: record for block, record in records.items() if block[0] == dataset}
        if title != reference and own.keys() & theirs.keys():
            gaps.append(_gap(title, own, reference, theirs, metric))
    adjusted = iter(holm([gap.p_value for gap in gaps if gap.p_value is not None]))
    return [gap if gap.p_value is None else replace(gap, adjusted=next(adjusted)) for gap in gaps]


def _gap(
    title: str, own: dict[Block, Record], reference: str, theirs: dict[Block, Record], metric: str
) -> Gap:
    common = sorted(own.keys() & theirs.keys())
    differences = np.array([own[b].metrics[metric] - theirs[b].metrics[metric] for b in common])
    ratio = _test_to_train(theirs[common[0]])
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


def _test_to_train(record: Record) -> float:
    """Rows of the test part to rows of training: the protocol halves what training leaves."""
    share = float(record.settings.get("train_share", 0.7))
    return (1 - share) / 2 / share
