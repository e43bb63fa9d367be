"""One training for several tests, and the losses read off the records."""

from __future__ import annotations

import math

import pytest

from benchmarks import robustness
from viewgap.bench.results.record import Record
from viewgap.bench.run.execute import run_task
from viewgap.bench.run.experiment import read_experiment
from viewgap.bench.run.task import Task
from viewgap.metrics import SIX

pytestmark = pytest.mark.slow


def test_tasks_of_one_training_are_together() -> None:
    tasks = [task for task in read_experiment(robustness.CONFIG) if task.method == "scsd"]
    groups = robustness.trainings(tasks)
    assert sorted(task.id for group in groups for task in group) == sorted(c.id for c in tasks)
    for group in groups:
        assert [task.test_view_rate for task in group] == [0.3, 0.7]
        same = {(c.dataset, c.fold, c.profile, c.view_rate, c.scale_on) for c in group}
        assert len(same) == 1
    assert [group[0].fold for group in groups] == sorted(group[0].fold for group in groups)


def test_a_training_gives_the_records_of_its_tasks() -> None:
    options = {"n_samples": 60}
    tasks = [
        Task("synthetic", "late_fusion_ridge", dataset_options=options, test_view_rate=rate)
        for rate in (0.3, 0.6)
    ]
    found = robustness.run(tasks)
    alone = [run_task(task) for task in tasks]
    assert [record.task for record in found] == [record.task for record in alone]
    assert [record.metrics for record in found] == [record.metrics for record in alone]
    assert found[0].metrics != found[1].metrics


def test_losses_are_differences_of_means() -> None:
    values = {(0.3, 0.3): (0.5, 0.7), (0.3, 0.7): (0.4, 0.6), (0.7, 0.3): (0.1, 0.3)}
    records = [
        Record(
            dataset="tiny",
            method="scsd",
            profile="default",
            fold=fold,
            seed=1,
            metrics=dict.fromkeys(SIX, value),
            seconds=1.0,
            task="0123456789abcdef",
            settings={"view_rate": trained, "test_view_rate": used},
        )
        for (trained, used), pair in values.items()
        for fold, value in enumerate(pair)
    ]
    (found,) = robustness.means(records, "AP").values()
    assert found == pytest.approx({(0.3, 0.3): 0.6, (0.3, 0.7): 0.5, (0.7, 0.3): 0.2})
    lost = robustness.losses(found)
    assert lost["in use"] == pytest.approx(0.1)
    assert lost["in training"] == pytest.approx(0.4)
    assert math.isnan(lost["in both"])
