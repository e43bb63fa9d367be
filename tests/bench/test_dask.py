"""A grid on a Dask cluster: a real one, of which a worker is killed."""

from __future__ import annotations

import importlib
import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from viewgap.bench.results.journal import read_lines
from viewgap.bench.results.record import RECORDS, read_records
from viewgap.bench.run import cluster
from viewgap.bench.run.cluster import Cluster
from viewgap.bench.run.progress import LineProgress
from viewgap.bench.run.runner import run_tasks
from viewgap.bench.run.task import Task
from viewgap.cli import run
from viewgap.errors import RunError, SettingError

TINY = {"n_samples": 60}


class Watch(LineProgress):
    """Calls a function when a certain task has been sent."""

    def __init__(self, task: Task, function: Callable[[], None]) -> None:
        super().__init__()
        self.task, self.function = task, function

    def task_started(self, task: Task) -> None:
        super().task_started(task)
        if task == self.task:
            self.function()


def kill_a_busy_worker(local: Any) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        for state in list(local.scheduler.workers.values()):
            if state.processing:
                os.kill(local.workers[state.name].pid, signal.SIGKILL)
                return
        time.sleep(0.001)


@pytest.mark.slow
def test_a_killed_worker_loses_nothing(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    forest = Task("synthetic", "random_forest", dataset_options=TINY, params={"n_estimators": 40})
    tasks = [
        Task("synthetic", "label_frequency", fold=fold, dataset_options=TINY) for fold in range(8)
    ]
    tasks.insert(3, forest)  # takes long enough to be killed
    tasks.append(Task("absent", "label_frequency"))
    with distributed.LocalCluster(
        processes=True,
        n_workers=2,
        threads_per_worker=1,
        host="127.0.0.1",
        dashboard_address=None,
    ) as local:
        watch = Watch(forest, lambda: kill_a_busy_worker(local))
        address = local.scheduler_address
        tally = run_tasks(tasks, tmp_path / "out", progress=watch, scheduler=address)
        again = run_tasks(tasks[:-1], tmp_path / "out", scheduler=address)
    assert (tally.done, tally.failed, tally.elsewhere) == (9, 1, 0)
    assert (again.done, again.skipped) == (0, 9)
    lines = Counter(entry["task"] for entry in read_lines(tmp_path / "out" / RECORDS))
    assert lines == Counter({task.id: 1 for task in tasks[:-1]})
    run_tasks(tasks[:-1], tmp_path / "here")
    here = {record.task: record.metrics for record in read_records(tmp_path / "here")}
    assert {r.task: r.metrics for r in read_records(tmp_path / "out")} == here


def test_a_scheduler_that_does_not_answer_is_a_run_error(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 0.5)
    with pytest.raises(RunError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:1"):
        Cluster("tcp://127.0.0.1:1").__enter__()


def test_the_missing_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def absent(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", absent)
    with pytest.raises(SettingError, match=r"viewgap\[cluster\]"):
        Cluster("tcp://127.0.0.1:1").__enter__()


class Empty:
    """A client of a cluster without workers."""

    def nthreads(self) -> dict[str, int]:
        return {}


def test_a_cluster_without_workers_is_given_up() -> None:
    patient, impatient = Cluster("here"), Cluster("here", patience=-1.0)
    for found in (patient, impatient):
        found._client = Empty()
        assert found.slots() == 1
    assert patient.wait(0.0) == []
    with pytest.raises(RunError, match="has had no worker"):
        impatient.wait(0.0)


def test_a_scheduler_that_went_away_is_a_run_error() -> None:
    found = Cluster("here")
    found._client = None
    with pytest.raises(RunError, match="does not answer any more"):
        found.slots()


def test_jobs_and_scheduler_exclude_each_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["bench", "run", "x.toml", "--out", str(tmp_path), "--jobs", "2"]
    assert run([*command, "--scheduler", "tcp://127.0.0.1:1"]) == 2
    assert "exclude each other" in capsys.readouterr().err
