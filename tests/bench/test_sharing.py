"""Several runners on one folder, and runners that are killed: no task is lost or done twice."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from viewgap.bench.analyse.summary import summarise
from viewgap.bench.results.journal import Follower, append_line, read_lines
from viewgap.bench.results.record import FAILURES, RECORDS, read_records
from viewgap.bench.run import runner as grid
from viewgap.bench.run.claims import FOLDER, STALE_SECONDS, Claims
from viewgap.bench.run.experiment import read_experiment
from viewgap.bench.run.progress import LineProgress
from viewgap.bench.run.runner import run_tasks
from viewgap.bench.run.task import Task
from viewgap.bench.show.contents import metrics_table
from viewgap.bench.show.tables import to_markdown
from viewgap.errors import ViewgapWarning

FOLDS = 24
CONFIG = f"""
[experiment]
dataset = "multidigits"
dataset_options = {{n_samples = 60}}
folds = {FOLDS}
[[method]]
name = "label_frequency"
"""
# One process that imports once, then real processes that all begin at the same moment.
RUNNERS = """
import json, os, sys
from pathlib import Path
from viewgap.bench.run.experiment import read_experiment
from viewgap.bench.run.runner import run_tasks
config, out, count = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
tasks = read_experiment(config)
gate, start = os.pipe()
children = []
for number in range(count):
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(start)
            os.read(gate, 1)
            tally = run_tasks(tasks, out)
            (out / f"tally-{number}.json").write_text(json.dumps(vars(tally)))
            code = 0
        finally:
            os._exit(code)
    children.append(child)
os.close(start)
sys.exit(any(os.waitpid(child, 0)[1] for child in children))
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "experiment.toml"
    path.write_text(CONFIG)
    return path


def lines_per_cell(out: Path) -> Counter[str]:
    return Counter(entry["task"] for entry in read_lines(out / RECORDS))


def dead_process() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait(timeout=60)
    return process.pid


def leave_claim(out: Path, task: str, **changes: Any) -> Path:
    """A claim as a runner makes it, with other facts in it."""
    claims = Claims(out, out / RECORDS)
    claims.folder.mkdir(parents=True, exist_ok=True)
    assert claims.take(task)
    path = claims.folder / task
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    return path


# ---------------------------------------------------------------------------------- claims


def test_a_claim_is_exclusive_and_is_given_back(tmp_path: Path) -> None:
    first, second = (Claims(tmp_path, tmp_path / RECORDS) for _ in range(2))
    with first, second:
        assert first.take("a")
        assert not second.take("a")
        assert second.take("b")
        assert f"process {os.getpid()} on " in second.holder("a")
        first.release("a")
        assert second.take("a")
    assert list((tmp_path / FOLDER).iterdir()) == []


@pytest.mark.parametrize("reason", ["dead", "reused", "silent", "empty"])
def test_a_stale_claim_is_taken_over_with_a_notice(tmp_path: Path, reason: str) -> None:
    changes: dict[str, Any] = {
        "dead": {"pid": dead_process()},
        "reused": {"born": "1"},
        "silent": {"host": "elsewhere"},
    }.get(reason, {})
    path = leave_claim(tmp_path, "a", **changes)
    if reason == "empty":
        path.write_text("")
    if reason in ("silent", "empty"):
        old = time.time() - STALE_SECONDS - 60
        os.utime(path, (old, old))
    with Claims(tmp_path, tmp_path / RECORDS) as claims:
        with pytest.warns(
            ViewgapWarning, match="task a was claimed by process .*claim was removed"
        ):
            assert claims.take("a")
        assert claims.holds("a")


@pytest.mark.parametrize(
    "changes", [{}, {"host": "elsewhere", "pid": 1}, {"space": "another container"}]
)
def test_a_living_claim_is_left_alone(tmp_path: Path, changes: dict[str, Any]) -> None:
    leave_claim(tmp_path, "a", **changes)
    with Claims(tmp_path, tmp_path / RECORDS) as claims:
        assert not claims.take("a")
    assert (tmp_path / FOLDER / "a").exists()


def test_a_held_claim_has_a_heartbeat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("viewgap.bench.run.claims.BEAT_SECONDS", 0.01)
    with Claims(tmp_path, tmp_path / RECORDS) as claims:
        assert claims.take("a")
        path = tmp_path / FOLDER / "a"
        os.utime(path, (1.0, 1.0))
        end = time.monotonic() + 60
        while path.stat().st_mtime == 1.0 and time.monotonic() < end:
            time.sleep(0.01)
        assert path.stat().st_mtime > 1.0


def test_a_runner_that_lost_its_claim_leaves_the_new_one(tmp_path: Path) -> None:
    with Claims(tmp_path, tmp_path / RECORDS) as sleeper:
        assert sleeper.take("a")
        path = tmp_path / FOLDER / "a"
        path.write_text(json.dumps({**json.loads(path.read_text()), "token": "of another"}))
        assert not sleeper.holds("a")
    assert path.exists()


def test_claims_of_finished_tasks_are_swept(tmp_path: Path) -> None:
    dead = dead_process()
    for task in ("done", "open"):
        leave_claim(tmp_path, task, pid=dead)
    leave_claim(tmp_path, "living")
    Claims(tmp_path, tmp_path / RECORDS).sweep({"done", "living"})
    assert sorted(path.name for path in (tmp_path / FOLDER).iterdir()) == ["living", "open"]


def test_a_follower_sees_what_others_append(tmp_path: Path) -> None:
    path = tmp_path / "j"
    early = Follower(path)
    append_line(path, {"task": "a"})
    late = Follower(path)
    append_line(path, {"task": "b"})
    with path.open("ab") as file:
        file.write(b'{"task": "to')
    assert [entry["task"] for entry in early.new()] == ["a", "b"]
    assert [entry["task"] for entry in late.new()] == ["b"]
    append_line(path, {"task": "c"})  # cuts off what the kill left
    assert early.new() == late.new() == [{"task": "c"}]
    assert early.new() == []


# ---------------------------------------------------------------------------------- sharing


class Meanwhile(LineProgress):
    """Another runner does a task of this run as soon as the run begins."""

    def __init__(self, out: Path, journal: str, entry: dict[str, Any]) -> None:
        super().__init__()
        self.after_start = lambda: append_line(out / journal, entry)

    def start(self, *details: Any) -> None:
        super().start(*details)
        self.after_start()


@pytest.mark.slow
@pytest.mark.parametrize("journal", [RECORDS, FAILURES])
def test_what_another_runner_did_meanwhile_is_not_done_again(
    tmp_path: Path, journal: str, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = [
        Task("synthetic", "label_frequency", fold=fold, dataset_options={"n_samples": 40})
        for fold in range(3)
    ]
    run_tasks(tasks, tmp_path / "reference")
    entry = read_lines(tmp_path / "reference" / RECORDS)[1]
    tally = run_tasks(tasks, tmp_path, progress=Meanwhile(tmp_path, journal, entry))
    failed = journal == FAILURES
    assert (tally.done, tally.elsewhere, tally.failed) == (2, int(not failed), int(failed))
    assert f"{'FAILED' if failed else 'done'} in another run" in capsys.readouterr().err
    assert not list((tmp_path / FOLDER).iterdir())


def test_tasks_of_living_runners_are_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = [Task("synthetic", "label_frequency", dataset_options={"n_samples": 40})]
    path = leave_claim(tmp_path, tasks[0].id, host="elsewhere", pid=7)
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            path.unlink()  # the other runner was interrupted and gave the task back

    monkeypatch.setattr(grid, "time", SimpleNamespace(sleep=pause))
    assert run_tasks(tasks, tmp_path).done == 1
    assert len(pauses) == 3
    waiting = "waiting for 1 tasks that other runs have (process 7 on elsewhere)"
    assert capsys.readouterr().err.count(waiting) == 1


@pytest.mark.slow
def test_runners_share_the_tasks(config: Path, tmp_path: Path) -> None:
    tasks, out, count = read_experiment(config), tmp_path / "out", 8
    dead = dead_process()
    for task in tasks[::3]:  # some tasks were claimed by a runner that is gone
        leave_claim(out, task.id, pid=dead)
    command = [sys.executable, "-c", RUNNERS, str(config), str(out), str(count)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert lines_per_cell(out) == Counter({task.id: 1 for task in tasks})
    tallies = [json.loads(path.read_text()) for path in out.glob("tally-*.json")]
    assert len(tallies) == count
    assert sum(tally["done"] for tally in tallies) == FOLDS
    for tally in tallies:
        assert tally["failed"] == 0
        assert tally["done"] + tally["elsewhere"] + tally["skipped"] == FOLDS
    assert done.stderr.count("claim was removed") == len(tasks[::3])
    assert not list((out / FOLDER).iterdir())


# ---------------------------------------------------------------------------------- kills


def table(out: Path) -> str:
    """The table of a folder; times differ from run to run, all else must not."""
    return to_markdown(
        metrics_table(summarise([replace(record, seconds=0.0) for record in read_records(out)]))
    )


def wait_for_records(process: subprocess.Popen[bytes], journal: Path) -> None:
    end = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < end:
        if journal.exists() and b"\n" in journal.read_bytes():
            return
        time.sleep(0.005)


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_killed_run_goes_on_where_it_was(config: Path, tmp_path: Path, jobs: int) -> None:
    out, chance = tmp_path / "out", random.Random(jobs)
    command = [sys.executable, "-m", "viewgap", "bench", "run", str(config), "--out", str(out)]
    command += ["--jobs", str(jobs), "--json"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
        wait_for_records(run, out / RECORDS)
        time.sleep(chance.uniform(0.0, 0.1))
        os.kill(run.pid, signal.SIGKILL)
    known = (out / RECORDS).read_bytes().count(b"\n")
    assert known > 0
    last = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert json.loads(last.stdout) == {"skipped": known, "done": FOLDS - known, "failed": 0}
    tasks = read_experiment(config)
    assert lines_per_cell(out) == Counter({task.id: 1 for task in tasks})
    run_tasks(tasks, tmp_path / "reference")
    assert table(out) == table(tmp_path / "reference")
    assert not list((out / FOLDER).iterdir())
