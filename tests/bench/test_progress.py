from __future__ import annotations

import io
import sys
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from rich.console import Console

from viewgap.bench.results.record import Record
from viewgap.bench.run.progress import (
    LineProgress,
    TableProgress,
    TaskCounts,
    duration,
    live_table,
    make_progress,
)
from viewgap.bench.run.task import Task

SLOW = [Task("tiny", "scsd", fold=fold) for fold in range(3)]
FAST = [Task("tiny", "label_frequency", fold=fold) for fold in range(3)]


def shown(counts: TaskCounts, now: float) -> str:
    console = Console(file=io.StringIO(), width=120)
    console.print(live_table(counts, 0.0, now))
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return text


def test_the_time_left_follows_from_tasks_of_the_same_kind() -> None:
    counts = TaskCounts([*SLOW, *FAST], total=8, slots=2)
    assert (counts.done, counts.time_left(0.0)) == (2, None)
    counts.started(SLOW[0], 0.0)
    counts.started(FAST[0], 0.0)
    counts.over(FAST[0], False, 10.0)
    counts.over(SLOW[0], False, 100.0)
    assert counts.time_left(100.0) == (2 * 100 + 2 * 10) / 2
    counts.started(SLOW[1], 100.0)
    assert counts.time_left(130.0) == (2 * 100 - 30 + 2 * 10) / 2
    assert counts.time_left(900.0) == (100 + 2 * 10) / 2  # late, but never less than nothing


def test_an_unknown_kind_takes_as_long_as_all_did() -> None:
    counts = TaskCounts([FAST[0], SLOW[0]], total=2)
    counts.started(FAST[0], 0.0)
    counts.over(FAST[0], False, 8.0)
    assert counts.time_left(8.0) == 8.0


def test_failures_and_tasks_of_others_tell_nothing_about_time() -> None:
    counts = TaskCounts(FAST, total=3)
    counts.started(FAST[0], 0.0)
    counts.over(FAST[0], True, 1.0)
    counts.over(FAST[1], False)
    assert counts.time_left(1.0) is None
    assert (counts.done, counts.failed, counts.ended) == (1, 1, 2)
    counts.started(FAST[2], 1.0)
    counts.stopped(FAST[2])
    assert (counts.running, counts.ended) == ({}, 2)


def test_the_live_table_counts_and_names_what_runs() -> None:
    counts = TaskCounts([*SLOW, *FAST], total=7)
    counts.started(SLOW[0], 0.0)
    counts.started(FAST[0], 0.0)
    counts.over(FAST[0], True, 5.0)
    header, _, row, *running = [line for line in shown(counts, 30.0).splitlines() if line.strip()]
    assert header.split() == ["tasks", "done", "running", "failed", "waiting", "elapsed", "left"]
    assert row.split() == ["7", "1", "1", "1", "4", "30", "s", "?"]
    assert running == ["  tiny · scsd (default) · fold 0 · 30 s"]


def test_a_long_list_of_running_tasks_is_cut() -> None:
    tasks = [Task("tiny", "scsd", fold=fold) for fold in range(12)]
    counts = TaskCounts(tasks, total=12)
    for task in tasks:
        counts.started(task, 0.0)
    assert shown(counts, 1.0).rstrip().endswith("and 4 more")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "?"), (0.4, "0 s"), (99, "99 s"), (300, "5 min"), (7500, "2 h 05 min")],
)
def test_times_are_readable(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


def test_lines_where_there_is_no_terminal(
    make_record: Callable[..., Record],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    still = SimpleNamespace(monotonic=lambda: 0.0)
    monkeypatch.setattr("viewgap.bench.run.progress.time", still)
    with make_progress() as progress:
        assert type(progress) is LineProgress
        progress.start(FAST, 4, 1)
        progress.task_started(FAST[0])
        progress.task_lost(FAST[0], "its process died")
        progress.task_started(FAST[0])
        progress.task_ended(FAST[0], make_record(0.5), "")
        progress.task_ended(FAST[1], None, "RuntimeError: oh")
        progress.waiting(1, "process 7 on here")
        progress.task_elsewhere(FAST[2], False)
    title = "tiny · label_frequency (default) · fold"
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines() == [
        "1 of 4 tasks are recorded already",
        f"{title} 0 · starts again: its process died",
        f"[2/4] {title} 0 · AP 0.500 · 1.0 s · 0 s left",
        f"[3/4] {title} 1 · FAILED: RuntimeError: oh · 0 s left",
        "waiting for 1 tasks that other runs have (process 7 on here)",
        f"[4/4] {title} 2 · done in another run",
    ]


def test_an_error_that_many_tasks_have_is_told_in_full_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    error = "InputError: no dataset named 'tiny'; " + "available: others, " * 20
    with make_progress() as progress:
        progress.start(FAST, 4, 1)
        for task in FAST[:2]:
            progress.task_ended(task, None, error)
    first, second = capsys.readouterr().err.splitlines()[1:]
    assert error.strip() in first
    assert "no dataset named 'tiny'" in second
    assert "... (as above)" in second
    assert len(second) < 200


def test_a_table_in_a_terminal(
    make_record: Callable[..., Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal)
    with make_progress() as progress:
        assert type(progress) is TableProgress
        progress.start(FAST[:1], 1, 1)
        progress.task_started(FAST[0])
        progress.task_ended(FAST[0], make_record(0.5, method="[bold]"), "")
    assert "waiting" in terminal.getvalue()
    assert "AP 0.500" in terminal.getvalue()
