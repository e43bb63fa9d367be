"""Methods are ranked and tested within a condition of the data, never against another one.

The conditions of these records are much further apart than the methods: whatever compares across
them names a condition as the best method.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import stats

from viewgap.bench.analyse.label_gains import label_gains
from viewgap.bench.analyse.statistics import (
    common_blocks,
    corrected_t_test,
    gaps_to,
    headings_without,
    holm,
    rank_test,
    rank_tests,
)
from viewgap.bench.analyse.summary import by_heading, entries, standings, summarise
from viewgap.bench.results.record import Record
from viewgap.bench.show.contents import calibration_table, metrics_table
from viewgap.bench.show.tables import BEST, to_csv, to_markdown, to_text
from viewgap.errors import InputError
from viewgap.metrics import SIX

Make = Callable[..., Record]
METHODS = ("scsd", "mtd", "sip", "rank")
RATES = (0.0, 0.5)
DATASETS = ("a", "b", "c")


def settings(**changes: Any) -> dict[str, Any]:
    usual = {"view_rate": 0.5, "label_rate": 0.5, "train_share": 0.7}
    return {"dataset_options": {}, **usual, "scale_on": "training", "params": {}, **changes}


def grid(
    make: Make,
    datasets: Iterable[str] = DATASETS,
    rates: Iterable[float] = RATES,
    methods: Iterable[str] = METHODS,
    seed: int = 0,
) -> list[Record]:
    """Every method on every data set at every rate, four folds; more missing is much worse."""
    rng = np.random.default_rng(seed)
    return [
        make(
            method=method,
            dataset=dataset,
            fold=fold,
            settings=settings(view_rate=rate),
            metrics={name: 0.8 - rate + 0.1 * float(rng.random()) for name in SIX},
        )
        for dataset, method, rate, fold in product(datasets, methods, rates, range(4))
    ]


def select(records: list[Record], **wanted: Any) -> list[Record]:
    """The records with these fields; `view_rate` is one of their settings."""
    return [
        record
        for record in records
        if all(getattr(record, k, record.settings.get(k)) == v for k, v in wanted.items())
    ]


# ------------------------------------------------------------------ tables


@pytest.mark.parametrize("seed", range(3))
def test_average_ranks_are_those_of_scipy_within_data_set_and_condition(
    make_record: Make, seed: int
) -> None:
    records = grid(make_record, seed=seed)
    rows = summarise(records)
    assert len(rows) == len(DATASETS) * len(METHODS) * len(RATES)
    for row, standing in zip(rows, standings(rows), strict=True):
        rate = row.settings["view_rate"]
        assert (row.heading, row.title) == (f"{row.dataset}, view_rate={rate}", row.method)
        ranks = []
        for name in SIX:
            means = []
            for method in METHODS:
                own = select(records, dataset=row.dataset, view_rate=rate, method=method)
                means.append(round(float(np.mean([r.metrics[name] for r in own])), 3))
            ranks.append(stats.rankdata(np.negative(means))[METHODS.index(row.method)])
        assert standing.average_rank == pytest.approx(sum(ranks) / len(ranks))


def test_best_is_marked_under_every_heading(make_record: Make) -> None:
    rows = summarise(grid(make_record))
    for place, name in enumerate((*SIX, "Ave.R")):
        marked = [
            line.heading for line in metrics_table(rows).lines if line.entries[place].mark == BEST
        ]
        assert sorted(set(marked)) == sorted(by_heading(rows)), name


def test_rows_of_one_heading_stand_together_in_every_format(make_record: Make) -> None:
    rows = summarise(grid(make_record, datasets=["a"]))
    headings = [row.heading for row in rows]
    assert headings == ["a, view_rate=0.0"] * 4 + ["a, view_rate=0.5"] * 4
    text = to_markdown(metrics_table(rows))
    assert "| a, view_rate=0.0 | scsd |" in text
    assert "rank within the data set and condition" in text
    assert "a, view_rate=0.5" in to_text(metrics_table(rows))
    plain = list(csv.DictReader(to_csv(metrics_table(rows)).splitlines()))
    assert [row["settings"] for row in plain] == [h.partition(", ")[2] for h in headings]
    assert max(float(row["average_rank"]) for row in plain) <= len(METHODS)


def test_one_condition_is_not_spelled_out(make_record: Make) -> None:
    rows = summarise(grid(make_record, rates=[0.5]))
    assert {row.heading for row in rows} == set(DATASETS)
    assert "rank within the data set, averaged" in to_markdown(metrics_table(rows))


@pytest.mark.parametrize(
    ("change", "heading"),
    [
        ({"view_rate": 0.1}, "a, view_rate=0.1"),
        ({"label_rate": 0.1}, "a, label_rate=0.1"),
        ({"train_share": 0.1}, "a, train_share=0.1"),
        ({"test_view_rate": 0.1}, "a, test_view_rate=0.1"),
        ({"dataset_options": {"n_samples": 9}}, "a, n_samples=9"),
    ],
)
def test_what_changes_the_data_is_a_condition(
    make_record: Make, change: dict[str, Any], heading: str
) -> None:
    records = [
        make_record(method="scsd", dataset="a", settings=settings()),
        make_record(method="scsd", dataset="a", settings=settings(**change)),
    ]
    first, second = summarise(records)
    assert second.heading == heading != first.heading
    assert first.title == second.title == "scsd"
    assert [standing.average_rank for standing in standings([first, second])] == [1.0, 1.0]


@pytest.mark.parametrize(
    ("change", "title"),
    [
        ({"params": {"alpha": 2.0}}, "scsd [alpha=2.0]"),
        ({"scale_on": "all"}, 'scsd [scale_on="all"]'),
        ({"unlabeled": True}, "scsd [unlabeled=true]"),
        ({"params": {"view_rate": 3}}, "scsd [view_rate=3]"),  # a parameter of that name
    ],
)
def test_what_changes_the_method_is_a_variant_of_it(
    make_record: Make, change: dict[str, Any], title: str
) -> None:
    records = [
        make_record(0.4, method="scsd", dataset="a", settings=settings()),
        make_record(0.5, method="scsd", dataset="a", settings=settings(**change)),
    ]
    first, second = summarise(records)
    assert first.heading == second.heading == "a"
    assert second.title == title
    assert [standing.average_rank for standing in standings([first, second])] == [2.0, 1.0]


def test_a_method_that_was_given_the_test_rows_says_so_alone(make_record: Make) -> None:
    (row,) = summarise([make_record(method="scsd", settings=settings(unlabeled=True))])
    assert row.title == "scsd [unlabeled=true]"


def test_records_without_a_rate_are_of_the_usual_protocol(make_record: Make) -> None:
    records = [
        make_record(0.4, method="scsd", settings={"params": {}}),
        make_record(0.5, method="mtd", settings=settings()),
    ]
    assert {row.heading for row in summarise(records)} == {"tiny"}


def test_calibration_is_compared_within_a_condition(make_record: Make) -> None:
    details = {"macro AUC": 0.8, "macro F1": 0.3, "micro F1": 0.4, "labels": {}}
    records = [
        make_record(
            method=method,
            settings=settings(view_rate=rate),
            details={**details, "calibration error": 0.01 + rate / 10 + 0.02 * place},
        )
        for (place, method), rate in product(enumerate(METHODS), RATES)
    ]
    lines = calibration_table(summarise(records)).lines
    best = [(line.heading, line.title) for line in lines if line.entries[0].mark == BEST]
    assert best == [("tiny, view_rate=0.0", "scsd"), ("tiny, view_rate=0.5", "scsd")]


# ------------------------------------------------------------------ tests


@pytest.mark.parametrize("seed", range(3))
def test_blocks_are_data_sets_and_every_condition_has_its_test(
    make_record: Make, seed: int
) -> None:
    records = grid(make_record, seed=seed)
    tests, reasons = rank_tests(records)
    assert reasons == {}
    assert [test.scope for test in tests] == [f"view_rate={rate}" for rate in RATES]
    for rate, test in zip(RATES, tests, strict=True):
        means = [
            [
                float(np.mean([r.metrics["AP"] for r in own]))
                for method in sorted(METHODS)
                if (own := select(records, dataset=d, view_rate=rate, method=method))
            ]
            for d in DATASETS
        ]
        ranks = stats.rankdata(np.negative(means), axis=1)
        assert test.methods == tuple(sorted(METHODS))
        assert test.ranks == pytest.approx(ranks.mean(axis=0))
        expected = stats.friedmanchisquare(*np.array(means).T)
        assert (test.statistic, test.p_value) == pytest.approx((expected[0], expected[1]))
        assert (test.blocks, test.left_out, test.unit) == (3, 0, "data sets")
        assert test.over == f"3 data sets with view_rate={rate}"


def test_one_data_set_is_tested_over_its_folds_and_says_so(make_record: Make) -> None:
    records = grid(make_record, datasets=["a"])
    tests, _ = rank_tests(records)
    assert [test.over for test in tests] == [f"4 folds of a, view_rate={rate}" for rate in RATES]
    for rate, test in zip(RATES, tests, strict=True):
        scores = [
            [r.metrics["AP"] for r in sorted(own, key=lambda r: r.method)]
            for fold in range(4)
            if (own := select(records, view_rate=rate, fold=fold))
        ]
        ranks = stats.rankdata(np.negative(scores), axis=1)
        assert test.ranks == pytest.approx(ranks.mean(axis=0))


def test_several_seeds_are_named(make_record: Make) -> None:
    records = [
        make_record(0.1 * place + seed / 100, method=method, seed=seed)
        for (place, method), seed in product(enumerate(METHODS), (1, 2, 3))
    ]
    (test,), _ = rank_tests(records)
    assert test.over == "3 folds and seeds of tiny"


def test_conditions_are_never_ranked_together(make_record: Make) -> None:
    own = entries(grid(make_record))
    with pytest.raises(InputError, match=r"different conditions.*view_rate=0.0; view_rate=0.5"):
        rank_test(own)
    assert {block[0] for block in common_blocks(own).blocks} == {
        f"{dataset}, view_rate={rate}" for dataset, rate in product(DATASETS, RATES)
    }


def test_data_sets_without_all_methods_are_left_out_or_stand_alone(make_record: Make) -> None:
    records = grid(make_record, rates=[0.5])
    (test,), _ = rank_tests([r for r in records if (r.dataset, r.method) != ("c", "sip")])
    assert (test.unit, test.blocks, test.left_out) == ("data sets", 2, 1)
    alone = [r for r in records if r.dataset == "a" or r.method in ("scsd", "mtd")]
    tests, reasons = rank_tests(alone)
    assert [test.over for test in tests] == ["4 folds of a"]
    assert list(reasons) == ["b", "c"]
    assert "found 2 methods" in str(reasons["b"])


def test_a_data_set_counts_with_the_folds_that_all_have(make_record: Make) -> None:
    records = grid(make_record, rates=[0.5])
    kept = [r for r in records if not (r.dataset == "a" and r.method == "sip" and r.fold > 1)]
    (test,), _ = rank_tests(kept)
    (same,), _ = rank_tests([r for r in records if r.dataset != "a" or r.fold < 2])
    assert test == same


def test_data_sets_of_different_conditions_are_not_blocks_of_one_test(make_record: Make) -> None:
    records = grid(make_record, datasets=["a"], rates=[0.0])
    records += grid(make_record, datasets=["b"], rates=[0.5])
    tests, _ = rank_tests(records)
    assert [test.over for test in tests] == ["4 folds of a", "4 folds of b"]


def test_titles_are_those_of_the_whole_table(make_record: Make) -> None:
    """A parameter that goes with the condition still tells the variants of a method apart."""
    records = [
        make_record(
            0.1 * place + rate + fold / 100,
            method=method,
            fold=fold,
            settings=settings(view_rate=rate, params={"alpha": rate} if method == "scsd" else {}),
        )
        for (place, method), rate, fold in product(enumerate(METHODS), RATES, range(2))
    ]
    shown = {row.title for row in summarise(records)}
    tests, _ = rank_tests(records)
    tested = {title for test in tests for title in test.methods}
    assert tested == shown
    assert "scsd [alpha=0.5]" in shown


def test_gaps_are_within_a_condition_with_holm_of_their_own(make_record: Make) -> None:
    records = grid(make_record, datasets=["a"])
    gaps = gaps_to(records)
    assert {gap.dataset for gap in gaps} == {f"a, view_rate={rate}" for rate in RATES}
    assert {gap.reference for gap in gaps} == {"scsd"}
    for rate in RATES:
        own = [gap for gap in gaps if gap.dataset.endswith(str(rate))]
        assert [gap.method for gap in own] == ["mtd", "sip", "rank"]
        plain = []
        for gap in own:
            pairs = zip(
                select(records, view_rate=rate, method=gap.method),
                select(records, view_rate=rate, method="scsd"),
                strict=True,
            )
            d = np.array([x.metrics["AP"] - y.metrics["AP"] for x, y in pairs])
            assert gap.gap == pytest.approx(d.mean())
            plain.append(corrected_t_test(d, 0.15 / 0.7))
        assert [gap.adjusted for gap in own] == pytest.approx(holm(plain))


def test_a_reference_by_name_may_be_absent_under_a_heading_which_is_told(
    make_record: Make,
) -> None:
    records = grid(make_record, datasets=["a"])
    kept = [r for r in records if r.method != "sip" or r.settings["view_rate"] == 0.5]
    assert {gap.dataset for gap in gaps_to(kept, "sip")} == {"a, view_rate=0.5"}
    assert headings_without(kept, "sip") == ["a, view_rate=0.0"]


def test_label_gains_are_within_a_condition(make_record: Make) -> None:
    figures = dict.fromkeys(("macro AUC", "macro F1", "micro F1", "calibration error"), 0.5)
    records = [
        make_record(
            method=method,
            settings=settings(view_rate=rate),
            details={**figures, "labels": {"positives": [20], "AP": [0.9 - rate + gain]}},
        )
        for (method, gain), rate in product((("scsd", 0.0), ("mtd", 0.05)), RATES)
    ]
    gains = label_gains(records)
    assert [own.row.heading for own in gains] == [f"tiny, view_rate={rate}" for rate in RATES]
    for own in gains:
        assert own.gains == pytest.approx([0.05])
        assert (own.row.title, own.reference, own.common_folds) == ("mtd", "scsd", 1)


def test_labels_are_compared_with_a_method_that_has_figures_of_them(make_record: Make) -> None:
    figures = dict.fromkeys(("macro AUC", "macro F1", "micro F1", "calibration error"), 0.5)
    details = {**figures, "labels": {"positives": [20], "AP": [0.9]}}
    records = [make_record(method="scsd")]
    records += [make_record(method=method, details=details) for method in ("mtd", "sip")]
    (own,) = label_gains(records)
    assert (own.row.title, own.reference) == ("sip", "mtd")
    assert label_gains(records, "scsd") == []
