from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from viewgap.bench.results.record import Record, read_failures, read_records
from viewgap.bench.run import runner as grid
from viewgap.bench.run import workers
from viewgap.bench.run.runner import make_workers, run_tasks
from viewgap.bench.run.task import Task
from viewgap.bench.run.workers import Here, Outcome, Processes, deal

TINY = {"n_samples": 40}


def cells_of(count: int) -> list[Task]:
    return [
        Task("synthetic", "label_frequency", fold=fold, dataset_options=TINY)
        for fold in range(count)
    ]


def test_devices_are_dealt_out_one_after_the_other() -> None:
    gpus = ["cuda:0", "cuda:1", "cuda:2"]
    assert [deal(number, gpus) for number in range(5)] == [*gpus, "cuda:0", "cuda:1"]
    assert deal(3, ["cuda:0"]) is None  # shared: the method finds it by itself
    assert deal(3, []) is None


def test_workers_are_as_many_as_are_asked_for() -> None:
    assert isinstance(make_workers(1), Here)
    with make_workers(3) as found:
        assert isinstance(found, Processes)
        assert found.slots() == 3


def test_the_device_reaches_the_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str | None] = []

    def look(task: Task, device: str | None = None) -> Record:
        seen.append(device)
        raise RuntimeError("enough")

    monkeypatch.setattr(workers, "run_task", look)
    assert workers.attempt(cells_of(1)[0], device="cuda:1").error == "RuntimeError: enough"
    assert seen == ["cuda:1"]


@pytest.mark.slow
def test_a_killed_process_loses_its_task_and_the_pool_goes_on() -> None:
    task = cells_of(1)[0]
    with Processes(2) as pool:
        pool.submit(task)
        for process in list(pool._executor._processes):  # they are still importing
            os.kill(process, signal.SIGKILL)
        (lost,) = pool.wait(120)
        assert lost.lost
        assert lost.record is None
        pool.submit(task)
        (outcome,) = pool.wait(120)
        assert outcome.record is not None


class Careless(Here):
    """Loses one task again and again."""

    def __init__(self, task: Task, times: int) -> None:
        super().__init__()
        self.task, self.times = task, times

    def wait(self, seconds: float) -> list[Outcome]:
        if self._tasks == [self.task] and self.times:
            self.times -= 1
            self._tasks.clear()
            return [Outcome(self.task, error="its process died", lost=True)]
        return super().wait(seconds)


@pytest.mark.parametrize("times", [2, 3])
def test_a_lost_task_runs_again_but_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    tasks = cells_of(3)
    monkeypatch.setattr(grid, "make_workers", lambda *_: Careless(tasks[0], times))
    tally = run_tasks(tasks, tmp_path)
    assert (tally.done, tally.failed) == ((3, 0) if times == 2 else (2, 1))
    assert len(read_records(tmp_path)) == tally.done
    errors = [entry["error"] for entry in read_failures(tmp_path)]
    assert errors == ["its process died"] * tally.failed
