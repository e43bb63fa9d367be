"""One training for several tests, and the losses read off the records."""

from __future__ import annotations

import math

import pytest

from benchmarks import robustness
from viewgap.bench.results.record import Record
from viewgap.bench.run.execute import run_cell
from viewgap.bench.run.experiment import read_experiment
from viewgap.bench.run.task import Cell
from viewgap.metrics import SIX

pytestmark = pytest.mark.slow


def test_cells_of_one_training_are_together() -> None:
    cells = [cell for cell in read_experiment(robustness.CONFIG) if cell.method == "scsd"]
    groups = robustness.trainings(cells)
    assert sorted(cell.id for group in groups for cell in group) == sorted(c.id for c in cells)
    for group in groups:
        assert [cell.test_view_rate for cell in group] == [0.3, 0.7]
        same = {(c.dataset, c.fold, c.profile, c.view_rate, c.scale_on) for c in group}
        assert len(same) == 1
    assert [group[0].fold for group in groups] == sorted(group[0].fold for group in groups)


def test_a_training_gives_the_records_of_its_cells() -> None:
    options = {"n_samples": 60}
    cells = [
        Cell("synthetic", "late_fusion_ridge", dataset_options=options, test_view_rate=rate)
        for rate in (0.3, 0.6)
    ]
    found = robustness.run(cells)
    alone = [run_cell(cell) for cell in cells]
    assert [record.cell for record in found] == [record.cell for record in alone]
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
            cell="0123456789abcdef",
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
