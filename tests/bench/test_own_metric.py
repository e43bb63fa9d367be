"""A metric that a user registers is measured, kept, and shown everywhere."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from viewgap.bench.analyse.statistics import gaps_to, rank_tests
from viewgap.bench.analyse.summary import standings, summarise
from viewgap.bench.results.record import Record, read_records
from viewgap.bench.run.runner import run_tasks
from viewgap.bench.run.task import Task
from viewgap.bench.show.contents import metrics_table
from viewgap.bench.show.report import render_report
from viewgap.bench.show.tables import to_csv, to_latex, to_markdown
from viewgap.metrics import Prediction, registry

NAME = "mean error"


@pytest.fixture
def own_metric() -> Iterator[str]:
    @registry.register_metric(NAME, "mean absolute error of the entries", greater_is_better=False)
    def mean_error(prediction: Prediction) -> float:
        return float(np.nanmean(np.abs(prediction.Y - prediction.P)))

    yield NAME
    del registry._METRICS[NAME]


@pytest.mark.usefixtures("own_metric")
def test_it_is_in_record_table_and_report(tiny_dataset: str, tmp_path: Path) -> None:
    methods = ("label_frequency", "late_fusion_ridge", "imputed_logistic")
    tasks = [Task(tiny_dataset, name, fold=fold) for name in methods for fold in range(2)]
    run_tasks(tasks, tmp_path)
    records = read_records(tmp_path)
    values = {
        name: float(np.mean([r.metrics[NAME] for r in records if r.method == name]))
        for name in methods
    }
    rows = summarise(records)
    best = min(values, key=values.__getitem__)
    for row, standing in zip(rows, standings(rows), strict=True):
        assert (NAME in standing.best) == (row.method == best)
    table = metrics_table(rows)
    assert table.columns[6] == NAME
    assert f"higher ({NAME}: lower) is better" in table.notes[0]
    assert "averaged over the 7 metrics" in table.notes[0]
    text = to_markdown(table)
    for value in values.values():
        assert f"{value:.3f} ± " in text
        assert f"{value:.3f}" in to_latex(table)
    for line in csv.DictReader(to_csv(table).splitlines()):
        assert float(line[f"{NAME}_mean"]) == pytest.approx(values[line["method"]], abs=1e-6)
    page = render_report(records)
    assert f'<th scope="col">{NAME}</th>' in page
    assert f"<b>{values[best]:.3f}</b>" in page
    (test,), _ = rank_tests(records, NAME)
    assert test.methods[int(np.argmin(test.ranks))] == best
    assert {gap.metric for gap in gaps_to(records, None, NAME)} == {NAME}


@pytest.mark.usefixtures("own_metric")
def test_records_with_and_without_it_stand_in_one_table(
    make_record: Callable[..., Record],
) -> None:
    older = make_record(method="scsd")
    newer = make_record(method="mtd", metrics={**older.metrics, NAME: 0.25})
    old_line, new_line = metrics_table(summarise([older, newer])).lines
    assert (old_line.entries[6].text, new_line.entries[6].text) == ("–", "0.250")


def test_a_metric_that_nothing_registers_is_shown_as_a_score(
    make_record: Callable[..., Record],
) -> None:
    records = [
        make_record(method=name, metrics={"AP": 0.5, "theirs": value})
        for name, value in (("scsd", 0.25), ("mtd", 0.75))
    ]
    table = metrics_table(summarise(records))
    assert table.columns[:2] == ("AP", "theirs")
    assert [line.entries[1].mark for line in table.lines] == ["second", "best"]
