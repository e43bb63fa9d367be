"""Every test recomputed in naive loops, by scipy, or from printed tables of its inventors."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from viewgap.bench.analyse.statistics import (
    common_blocks,
    corrected_t_test,
    gaps_to,
    holm,
    nemenyi_difference,
    rank_test,
    rank_tests,
)
from viewgap.bench.analyse.summary import descending_ranks, entries
from viewgap.bench.results.record import Record
from viewgap.errors import InputError
from viewgap.metrics import SIX

Make = Callable[..., Record]
METHODS = ("scsd", "mtd", "sip", "rank")


def many(make: Make, folds: int = 6, seed: int = 0, levels: int = 5) -> list[Record]:
    """Four methods on two data sets; few levels, so that there are ties."""
    rng = np.random.default_rng(seed)
    return [
        make(float(rng.integers(levels)) / levels, method=method, dataset=dataset, fold=fold)
        for dataset in ("a", "b")
        for fold in range(folds)
        for method in METHODS
    ]


def one_set(make: Make, **changes: int) -> list[Record]:
    return [record for record in many(make, **changes) if record.dataset == "a"]


@pytest.mark.parametrize("seed", range(5))
def test_ranks_are_those_of_scipy(seed: int) -> None:
    scores = np.random.default_rng(seed).integers(0, 4, size=(9, 5)).astype(float)
    assert (descending_ranks(scores) == stats.rankdata(-scores, axis=1)).all()


def test_friedman_without_ties_is_the_formula(make_record: Make) -> None:
    records = one_set(make_record, levels=10**6)
    test = rank_test(entries(records))
    k, n = 4, 6
    formula = 12 * n / (k * (k + 1)) * (sum(r**2 for r in test.ranks) - k * (k + 1) ** 2 / 4)
    assert test.statistic == pytest.approx(formula)
    assert test.p_value == pytest.approx(stats.chi2.sf(formula, k - 1))


@pytest.mark.parametrize("seed", range(3))
def test_friedman_with_ties_is_the_corrected_formula(make_record: Make, seed: int) -> None:
    records = one_set(make_record, seed=seed, folds=12)
    test = rank_test(entries(records))
    scores = common_blocks(entries(records)).scores
    n, k = scores.shape
    ties = 0
    for row in scores:
        for value in set(row):
            count = list(row).count(value)
            ties += count**3 - count
    sums = sum((n * rank) ** 2 for rank in test.ranks)
    plain = 12 / (n * k * (k + 1)) * sums - 3 * n * (k + 1)
    assert test.statistic == pytest.approx(plain / (1 - ties / (n * k * (k**2 - 1))))


def test_methods_that_never_differ_are_alike(make_record: Make) -> None:
    test = rank_test(entries(many(make_record, levels=1)))
    assert test.p_value == 1.0
    assert test.ranks == (2.5,) * 4
    assert test.cliques() == [(0, 3)]


@pytest.mark.parametrize(
    ("k", "quantile"), [(2, 1.960), (3, 2.343), (4, 2.569), (6, 2.850), (9, 3.102), (10, 3.164)]
)
def test_nemenyi_has_the_quantiles_of_demsars_table(k: int, quantile: float) -> None:
    found = nemenyi_difference(k, 14) / math.sqrt(k * (k + 1) / (6 * 14))
    assert found == pytest.approx(quantile, abs=1e-3)  # the table is cut, not rounded


def test_cliques_are_the_longest_groups_within_reach(make_record: Make) -> None:
    rng = np.random.default_rng(3)
    records = [
        make_record(0.1 * place + 0.05 * rng.random(), method=method, fold=fold)
        for place, method in enumerate(("scsd", "mtd", "sip", "rank", "drls", "dicnet"))
        for fold in range(12)
    ]
    test = rank_test(entries(records))
    ranks = sorted(test.ranks)
    naive = [
        (i, j)
        for i in range(6)
        for j in range(i + 1, 6)
        if ranks[j] - ranks[i] < test.critical_difference
        and (i == 0 or ranks[j] - ranks[i - 1] >= test.critical_difference)
        and (j == 5 or ranks[j + 1] - ranks[i] >= test.critical_difference)
    ]
    assert test.cliques() == naive
    assert naive


def test_only_common_blocks_count_and_the_rest_is_told(make_record: Make) -> None:
    records = many(make_record)
    kept = [r for r in records if not (r.dataset == "b" and r.fold < 2 and r.method == "sip")]
    blocks = common_blocks(entries(kept))
    assert len(blocks.blocks) == 10
    assert blocks.left_out == 2
    assert rank_test(entries([r for r in kept if r.dataset == "b"])).left_out == 2
    for block, row in zip(blocks.blocks, blocks.scores, strict=True):
        for method, score in zip(blocks.methods, row, strict=True):
            (one,) = [
                r for r in records if (r.dataset, r.fold, r.seed) == block and r.method == method
            ]
            assert one.metrics["AP"] == score


def test_parameters_may_differ_between_data_sets(make_record: Make) -> None:
    records = [
        make_record(0.5, method="scsd", dataset=dataset, settings={"params": {"alpha": alpha}})
        for dataset, alpha in (("a", 0.1), ("b", 10.0))
    ]
    assert common_blocks(entries(records)).methods == ("scsd",)


def test_too_little_for_ranks_is_an_error_that_says_so(make_record: Make) -> None:
    two = [r for r in one_set(make_record) if r.method in ("scsd", "mtd")]
    with pytest.raises(InputError, match="2 methods with 6 common folds"):
        rank_test(entries(two))
    apart = [r for r in many(make_record) if (r.method == "sip") == (r.dataset == "a")]
    with pytest.raises(InputError, match=r"0 common data sets \(2 left out\)"):
        rank_test(entries(apart))


def test_the_same_fold_twice_is_an_error(make_record: Make) -> None:
    with pytest.raises(InputError, match="given twice"):
        rank_tests([make_record(), make_record()])
    with pytest.raises(InputError, match="given twice"):
        gaps_to([make_record(method="scsd"), make_record(method="scsd")])


def test_variants_cannot_be_mixed_and_metrics_must_exist(make_record: Make) -> None:
    mixed = [make_record(), make_record(variant="clean", fold=1)]
    for test in (rank_tests, gaps_to):
        with pytest.raises(InputError, match="variants"):
            test(mixed)
        with pytest.raises(InputError, match="unknown metric 'F1'"):
            test([make_record()], metric="F1")


def test_uncorrected_the_paired_test_is_scipys() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(2, 10))
    expected = stats.ttest_rel(first, second).pvalue
    assert corrected_t_test(first - second, 0.0) == pytest.approx(expected)


def test_the_corrected_test_is_the_formula_of_nadeau_and_bengio() -> None:
    d = np.array([0.02, 0.01, 0.03, -0.01, 0.02])
    mean = sum(d) / 5
    variance = sum((x - mean) ** 2 for x in d) / 4
    t = mean / math.sqrt((1 / 5 + 0.15 / 0.7) * variance)
    assert corrected_t_test(d, 0.15 / 0.7) == pytest.approx(2 * stats.t.sf(t, 4))


def test_differences_without_spread() -> None:
    assert corrected_t_test(np.zeros(3), 0.2) == 1.0
    assert corrected_t_test(np.full(3, 0.1), 0.2) == 0.0
    with pytest.raises(InputError, match="two folds"):
        corrected_t_test(np.ones(1), 0.2)


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_gaps_are_per_data_set_over_common_folds_with_holm(make_record: Make) -> None:
    records = [r for r in many(make_record, levels=10**6) if r.method != "mtd" or r.fold < 4]
    gaps = {(gap.dataset, gap.method): gap for gap in gaps_to(records, "scsd")}
    assert set(gaps) == {(d, m) for d in "ab" for m in ("mtd", "sip", "rank")}
    for dataset in "ab":
        plain = []
        for method in ("mtd", "sip", "rank"):
            values = {
                name: {
                    r.fold: r.metrics["AP"]
                    for r in records
                    if (r.dataset, r.method) == (dataset, name)
                }
                for name in (method, "scsd")
            }
            d = np.array([values[method][f] - values["scsd"][f] for f in sorted(values[method])])
            gap = gaps[dataset, method]
            assert gap.gap == pytest.approx(d.mean())
            assert (gap.folds, gap.left_out) == ((4, 2) if method == "mtd" else (6, 0))
            assert gap.p_value == pytest.approx(corrected_t_test(d, 0.15 / 0.7))
            plain.append(gap.p_value)
        adjusted = [gaps[dataset, method].adjusted for method in ("mtd", "sip", "rank")]
        assert adjusted == pytest.approx(holm(plain))


def test_the_reference_is_scsd_unless_another_is_named(make_record: Make) -> None:
    records = many(make_record)
    assert {gap.reference for gap in gaps_to(records)} == {"scsd"}
    paper = [make_record(0.3, method="scsd", profile="paper", dataset="a", fold=f) for f in (0, 1)]
    found = {(gap.dataset, gap.reference) for gap in gaps_to([*records, *paper])}
    assert found == {("a", "scsd (paper)"), ("b", "scsd")}  # each has the best known that it has
    drls = [make_record(0.3, method="drls", dataset="a", fold=f) for f in (0, 1)]
    assert {gap.reference for gap in gaps_to([*records, *drls], "drls")} == {"drls†"}
    with pytest.raises(InputError, match="found mtd, rank, scsd, sip"):
        gaps_to(records, "absent")


@pytest.mark.parametrize(
    ("methods", "folds", "reference"),
    [
        (("mtd", "late_fusion_ridge", "sip"), (3, 3, 3), "late_fusion_ridge"),
        (("sip", "mtd", "rank"), (3, 3, 3), "sip"),
        (("sip", "mtd", "rank"), (2, 3, 3), "mtd"),
        (("sip",), (3,), None),
    ],
)
def test_without_scsd_the_reference_is_one_that_exists(
    make_record: Make, methods: tuple[str, ...], folds: tuple[int, ...], reference: str | None
) -> None:
    records = [
        make_record(0.5, method=method, fold=fold)
        for method, count in zip(methods, folds, strict=True)
        for fold in range(count)
    ]
    gaps = gaps_to(records)
    assert {gap.reference for gap in gaps} == ({reference} if reference else set())
    assert {gap.method for gap in gaps} == (set(methods) - {reference} if reference else set())


def test_one_common_fold_gives_a_gap_but_no_test(make_record: Make) -> None:
    (gap,) = gaps_to([make_record(0.4, method="mtd"), make_record(0.5, method="scsd")])
    assert gap.gap == pytest.approx(-0.1)
    assert gap.p_value is None
    assert gap.adjusted is None


def test_the_metric_that_was_asked_for_is_compared(make_record: Make) -> None:
    rng = np.random.default_rng(0)
    records = [
        make_record(method=m, fold=f, metrics=dict(zip(SIX, rng.random(6).tolist(), strict=True)))
        for m in METHODS
        for f in range(3)
    ]
    for metric in SIX:
        scores = [[-r.metrics[metric] for r in records if r.fold == f] for f in range(3)]
        naive = dict(zip(METHODS, stats.rankdata(scores, axis=1).mean(axis=0), strict=True))
        test = rank_test(entries(records), metric)
        assert dict(zip(test.methods, test.ranks, strict=True)) == pytest.approx(naive)
