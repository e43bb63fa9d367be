from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from viewgap.bench.results.record import FAILURES, RECORDS, Record, read_failures, read_records
from viewgap.bench.run import workers
from viewgap.bench.run.execute import build_method, run_task
from viewgap.bench.run.progress import LineProgress
from viewgap.bench.run.runner import run_tasks
from viewgap.bench.run.task import Task
from viewgap.errors import (
    DataFileError,
    RunError,
    SettingError,
    ViewgapWarning,
    command_line_words,
)

pytestmark = pytest.mark.slow


def cells_of(dataset: str, folds: int = 2) -> list[Task]:
    names = ("label_frequency", "late_fusion_ridge")
    return [Task(dataset, name, fold=fold) for name in names for fold in range(folds)]


def counting(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    ran: list[str] = []
    genuine = run_task

    def count(task: Task, device: str | None = None) -> Record:
        ran.append(task.id)
        return genuine(task)

    monkeypatch.setattr(workers, "run_task", count)
    return ran


def test_every_task_gets_one_line(tiny_dataset: str, tmp_path: Path) -> None:
    tasks = cells_of(tiny_dataset)
    tally = run_tasks(tasks, tmp_path / "out")
    assert (tally.done, tally.skipped, tally.failed) == (4, 0, 0)
    lines = (tmp_path / "out" / RECORDS).read_text().splitlines()
    assert [json.loads(line)["task"] for line in lines] == [task.id for task in tasks]


def test_recorded_tasks_are_not_run_again(
    tiny_dataset: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = cells_of(tiny_dataset)
    run_tasks(tasks[:3], tmp_path)
    before = (tmp_path / RECORDS).read_bytes()
    ran = counting(monkeypatch)
    tally = run_tasks(tasks, tmp_path)
    assert ran == [tasks[3].id]
    assert (tally.done, tally.skipped) == (1, 3)
    assert (tmp_path / RECORDS).read_bytes().startswith(before)


def test_a_torn_line_is_run_again(
    tiny_dataset: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = cells_of(tiny_dataset)
    run_tasks(tasks, tmp_path)
    complete = read_records(tmp_path)
    journal = tmp_path / RECORDS
    journal.write_bytes(journal.read_bytes()[:-20])
    ran = counting(monkeypatch)
    with pytest.warns(ViewgapWarning, match="incomplete"):
        run_tasks(tasks, tmp_path)
    assert ran == [tasks[3].id]
    again = read_records(tmp_path)
    assert [r.metrics for r in again] == [r.metrics for r in complete]


def test_a_failing_task_is_kept_and_the_others_go_on(
    tiny_dataset: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = cells_of(tiny_dataset)
    genuine = run_task

    def fail_once(task: Task, device: str | None = None) -> Record:
        if task == tasks[1]:
            raise RuntimeError("a fault on purpose")
        return genuine(task)

    monkeypatch.setattr(workers, "run_task", fail_once)
    tally = run_tasks(tasks, tmp_path)
    assert (tally.done, tally.failed) == (3, 1)
    failures = read_failures(tmp_path)
    assert [entry["task"] for entry in failures] == [tasks[1].id]
    assert "a fault on purpose" in failures[0]["traceback"]
    assert failures[0]["error"] == "RuntimeError: a fault on purpose"

    monkeypatch.setattr(workers, "run_task", genuine)
    assert run_tasks(tasks, tmp_path).done == 1
    assert read_failures(tmp_path) == []
    assert (tmp_path / FAILURES).exists()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"params": {"typo": 1}}, "scsd has no parameter 'typo'"),
        ({"params": {"hidden": 8}}, r"scsd \(default\) · fold 0 · hidden=8: hidden must"),
        ({"params": {"batch_size": 2.5}}, "batch_size must be a whole number"),
        ({"params": {"embedding": 6, "code_dim": 4}}, "embedding must be a multiple of"),
        ({"seed": -1}, "random_state must be a whole number of at least 0"),
        ({"profile": "papre"}, "profile must be one of 'default', 'paper'"),
    ],
)
def test_a_wrong_value_stops_before_any_work(
    tiny_dataset: str, tmp_path: Path, wrong: dict[str, Any], message: str
) -> None:
    tasks = [*cells_of(tiny_dataset), Task(tiny_dataset, "scsd", **wrong)]
    with command_line_words(), pytest.raises(SettingError, match=message):
        run_tasks(tasks, tmp_path)  # an experiment file has parameters, not options
    assert not (tmp_path / RECORDS).exists()


def test_a_device_of_other_machines_may_stand_in_an_experiment(
    tiny_dataset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    build_method(Task(tiny_dataset, "scsd", params={"device": "cuda:3"}))  # a worker may have it


def test_an_interrupt_keeps_what_is_done(
    tiny_dataset: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = cells_of(tiny_dataset)
    genuine = run_task

    def stop_at_third(task: Task, device: str | None = None) -> Record:
        if task == tasks[2]:
            raise KeyboardInterrupt
        return genuine(task)

    monkeypatch.setattr(workers, "run_task", stop_at_third)
    with pytest.raises(KeyboardInterrupt):
        run_tasks(tasks, tmp_path)
    assert [record.task for record in read_records(tmp_path)] == [tasks[0].id, tasks[1].id]


@pytest.mark.slow
def test_processes_give_the_same_records(tiny_dataset: str, tmp_path: Path) -> None:
    tasks = [*cells_of(tiny_dataset), Task("absent", "label_frequency")]
    alone = run_tasks(tasks, tmp_path / "one")
    together = run_tasks(tasks, tmp_path / "two", jobs=2)
    assert (together.done, together.failed) == (alone.done, alone.failed) == (4, 1)
    by_cell = {record.task: record.metrics for record in read_records(tmp_path / "two")}
    assert by_cell == {record.task: record.metrics for record in read_records(tmp_path / "one")}


def test_the_order_of_the_journal_does_not_matter(tiny_dataset: str, tmp_path: Path) -> None:
    run_tasks(cells_of(tiny_dataset), tmp_path)
    before = read_records(tmp_path)
    journal = tmp_path / RECORDS
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(reversed(lines)))
    assert read_records(tmp_path) == before


def test_two_different_results_of_one_task_are_an_error(tiny_dataset: str, tmp_path: Path) -> None:
    run_tasks(cells_of(tiny_dataset)[:1], tmp_path)
    journal = tmp_path / RECORDS
    entry: dict[str, Any] = json.loads(journal.read_text())
    entry["metrics"]["AP"] = 0.123
    journal.write_text(journal.read_text() + json.dumps(entry) + "\n")
    with pytest.raises(DataFileError, match="not deterministic"):
        read_records(tmp_path)


def test_an_out_folder_that_is_a_file_is_a_run_error(tiny_dataset: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="in the way"):
        run_tasks(cells_of(tiny_dataset), tmp_path / "file")


def test_progress_lines_go_to_stderr(
    tiny_dataset: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = [*cells_of(tiny_dataset), Task("absent", "label_frequency")]
    run_tasks(tasks[:1], tmp_path, progress=LineProgress())
    run_tasks(tasks, tmp_path, progress=LineProgress())
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "1 of 5 tasks are recorded already" in printed.err
    assert "[4/5] tiny · late_fusion_ridge (default) · fold 1 · AP 0." in printed.err
    assert "[5/5] absent · label_frequency (default) · fold 0 · FAILED: " in printed.err
