"""Runs with a limit of time or tasks, and several experiments in one run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from viewgap.bench.results.journal import append_line
from viewgap.bench.results.record import RECORDS, Record, read_records
from viewgap.bench.run import runner
from viewgap.bench.run.limits import ASSUMED_SECONDS, Estimates, Limits, parse_duration
from viewgap.bench.run.queue import Part, read_queue
from viewgap.bench.run.run_folder import STOPPED
from viewgap.bench.run.runner import Tally, run_parts
from viewgap.bench.run.task import Task
from viewgap.bench.run.workers import Here, Outcome, Workers
from viewgap.cli import run
from viewgap.errors import DataFileError, SettingError

CONFIGS = Path(__file__).parents[2] / "configs"
MakeRecord = Callable[..., Record]


def tasks_of(method: str = "label_frequency", folds: int = 3, dataset: str = "d") -> list[Task]:
    return [Task(dataset, method, fold=fold) for fold in range(folds)]


class Simulated(Workers):
    """Tasks take a number of seconds of a clock that only they move."""

    def __init__(self, make_record: MakeRecord, slots: int = 1, **seconds: float) -> None:
        self.now = 0.0
        self.started: list[Task] = []
        self._make, self._slots, self._seconds = make_record, slots, seconds
        self._ends: list[tuple[float, Task]] = []

    def slots(self) -> int:
        return self._slots

    def submit(self, task: Task) -> None:
        self.started.append(task)
        self._ends.append((self.now + self._seconds[task.method], task))

    def wait(self, seconds: float) -> list[Outcome]:
        self.now = min([self.now + seconds, *(end for end, _ in self._ends)])
        over = [task for end, task in self._ends if end <= self.now]
        self._ends = [(end, task) for end, task in self._ends if end > self.now]
        return [Outcome(task, record=self._record(task)) for task in over]

    def _record(self, task: Task) -> Record:
        seconds = self._seconds[task.method]
        return self._make(**task.identity, settings=task.settings, seconds=seconds)


@pytest.fixture
def simulate(
    make_record: MakeRecord, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[Simulated, Tally]]:
    def simulated(
        parts: list[Part],
        seconds: float | None = None,
        tasks: int | None = None,
        slots: int = 1,
        **lengths: float,
    ) -> tuple[Simulated, Tally]:
        workers = Simulated(make_record, slots, **lengths)
        monkeypatch.setattr(runner, "make_workers", lambda *_: workers)
        limits = Limits(seconds, tasks, clock=lambda: workers.now)
        return workers, run_parts(parts, limits=limits)

    return simulated


Simulate = Callable[..., tuple[Simulated, Tally]]


# ---------------------------------------------------------------------- limits


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("25m", 1500), ("2h", 7200), ("1h30m", 5400)]
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["25", "", "m", "2.5h", "-3m", "25 minutes", "0s", "30s2m", "٣s"])
def test_a_length_of_time_without_its_unit_is_refused(text: str) -> None:
    with pytest.raises(SettingError, match="--time-limit must be"):
        parse_duration(text)


def test_a_bare_number_is_asked_about() -> None:
    with pytest.raises(SettingError, match="25s, 25m or 25h"):
        parse_duration("25")


def test_estimates_take_the_longest_of_what_is_most_alike(make_record: MakeRecord) -> None:
    (task,) = tasks_of(folds=1)
    usual = {"dataset": "d", "method": "label_frequency"}
    records = [
        make_record(**usual, seconds=5.0, settings=task.settings),
        make_record(**usual, seconds=7.0, settings=task.settings),
        make_record(**usual, seconds=50.0, settings=task.settings | {"view_rate": 0.1}),
        make_record(**usual, seconds=900.0, settings=task.settings, provenance={"device": "GPU"}),
    ]
    estimates = Estimates(records)
    assert estimates.of(task).seconds == 7.0
    (other,) = [Task("d", "label_frequency", view_rate=0.2)]
    assert estimates.of(other).seconds == 50.0
    assert estimates.of(Task("d", "late_fusion_ridge")).source.startswith("assumed: as the longest")
    assert estimates.of(Task("e", "late_fusion_ridge")).seconds == ASSUMED_SECONDS
    estimates.add(other, 9.0)  # records of the very settings tell better
    assert estimates.of(task).seconds == 7.0
    estimates.add(task, 2.0)
    assert estimates.of(task) == Estimates.of(estimates, task)
    assert (estimates.of(task).seconds, estimates.of(task).source) == (2.0, "1 of this run")


def test_without_records_of_its_settings_the_nearest_settings_tell(make_record: MakeRecord) -> None:
    def task(view_rate: float = 0.5, **params: int) -> Task:
        return Task("d", "scsd", params=params, view_rate=view_rate)

    recorded = (
        (task(alpha=1, codes=256), 10.0),
        (task(alpha=1, codes=512), 20.0),
        (task(alpha=20, codes=256, view_rate=0.1), 300.0),
    )
    records = [
        make_record(**one.identity, settings=one.settings, seconds=seconds, provenance={})
        for one, seconds in recorded
    ]
    estimates = Estimates(records)
    assert estimates.of(task(alpha=1, codes=1024)).seconds == 20.0  # one differs, and not three
    assert estimates.of(task(alpha=20, codes=256)).seconds == 300.0
    estimates.add(task(alpha=1, codes=1024), 50.0)
    assert estimates.of(task(alpha=1, codes=2048)).seconds == 50.0  # this run and records count


def test_records_count_as_much_longer_as_this_run_takes(make_record: MakeRecord) -> None:
    tasks = [Task("d", "scsd", view_rate=rate) for rate in (0.1, 0.2, 0.3, 0.4)]
    records = [
        make_record(**one.identity, settings=one.settings, seconds=20.0, provenance={})
        for one in tasks
    ]
    estimates = Estimates(records)
    estimates.add(tasks[0], 10.0)  # never as shorter
    assert estimates.of(tasks[3]).seconds == 20.0
    estimates.add(tasks[1], 30.0)
    estimates.add(tasks[2], 30.0)
    assert estimates.of(tasks[3]).seconds == 30.0
    assert estimates.of(tasks[0]).seconds == 10.0


def test_a_method_without_records_takes_as_long_as_its_other_profile_or_those_on_its_device(
    make_record: MakeRecord,
) -> None:
    known = (("random_forest", "default", "cpu", 900.0), ("mtd", "default", "GPU", 70.0))
    records = [
        make_record(
            dataset="d",
            method=method,
            profile=profile,
            seconds=seconds,
            settings={},
            provenance={"device": device},
        )
        for method, profile, device, seconds in (*known, ("pcve", "paper", "GPU", 40.0))
    ]
    estimates = Estimates(records, gpus={"GPU"})
    other = estimates.of(Task("d", "pcve"))
    assert (other.seconds, other.source) == (40.0, "assumed: as another profile of the method")
    assert estimates.of(Task("d", "sip")).seconds == 70.0  # a forest on a CPU tells nothing of it
    assert estimates.of(Task("d", "extra_trees")).seconds == 900.0


# ---------------------------------------------------------------------- runs with a limit


def test_nothing_begins_that_is_not_expected_to_end(simulate: Simulate, tmp_path: Path) -> None:
    slow, quick = tasks_of("late_fusion_ridge"), tasks_of("label_frequency")
    parts = [Part(tmp_path, [*slow, *quick])]
    workers, tally = simulate(parts, 120.0, late_fusion_ridge=50.0, label_frequency=15.0)
    # A third slow one would end at 150; a quick one is assumed to take as long, and waits too.
    assert workers.started == slow[:2]
    assert workers.now == 100.0
    assert (tally.done, len(tally.left)) == (2, 4)
    assert not any(left.stopped for left in tally.left)
    workers, tally = simulate(parts, 120.0, late_fusion_ridge=50.0, label_frequency=15.0)
    assert workers.started == [slow[2], quick[0], quick[1], quick[2]]
    assert (tally.skipped, tally.done, tally.left) == (2, 4, ())


def test_a_shorter_task_takes_the_time_that_is_left(
    simulate: Simulate, tmp_path: Path, make_record: MakeRecord
) -> None:
    slow, quick = tasks_of("late_fusion_ridge"), tasks_of("label_frequency")
    for task, seconds in ((slow[2], 50.0), (quick[2], 10.0)):
        record = make_record(**task.identity, settings=task.settings, seconds=seconds)
        append_line(tmp_path / RECORDS, record.to_dict())
    parts = [Part(tmp_path, [*slow, *quick])]
    workers, tally = simulate(parts, 75.0, late_fusion_ridge=50.0, label_frequency=10.0)
    assert workers.started == [slow[0], quick[0], quick[1]]
    assert [left.task for left in tally.left] == [slow[1]]
    assert (tally.left[0].estimate.seconds, workers.now) == (50.0, 70.0)


def test_a_task_that_runs_when_the_time_is_over_is_stopped_and_left(
    simulate: Simulate, tmp_path: Path
) -> None:
    tasks = tasks_of("late_fusion_ridge", 4)
    workers, tally = simulate([Part(tmp_path, tasks)], 70.0, slots=2, late_fusion_ridge=100.0)
    assert workers.now == 70.0
    assert [left.stopped for left in tally.left] == [True, True, False, False]
    assert read_records(tmp_path) == []
    assert list((tmp_path / "claims").iterdir()) == []
    assert [left.estimate.seconds for left in tally.left] == [87.5] * 4
    # In the same time it would be stopped again, and again: it is not begun.
    workers, tally = simulate([Part(tmp_path, tasks)], 70.0, late_fusion_ridge=100.0)
    assert (workers.started, len(tally.left)) == ([], 4)
    assert tally.left[0].estimate.source == "stopped after 70 s"
    workers, tally = simulate([Part(tmp_path, tasks)], 150.0, late_fusion_ridge=100.0)
    assert (tally.done, len(tally.left)) == (1, 3)
    assert simulate([Part(tmp_path, tasks)], late_fusion_ridge=100.0)[1].done == 3


def test_a_damaged_note_of_a_stopped_task_is_refused(tmp_path: Path) -> None:
    append_line(tmp_path / STOPPED, {"dataset": "d"})
    with pytest.raises(DataFileError, match="method is missing"):
        run_parts([Part(tmp_path, tasks_of())])


def test_stop_after_counts_tasks_that_begin(simulate: Simulate, tmp_path: Path) -> None:
    parts = [Part(tmp_path, tasks_of(folds=5))]
    for done, left in ((2, 3), (2, 1), (1, 0)):
        _, tally = simulate(parts, tasks=2, slots=3, label_frequency=1.0)
        assert (tally.done, len(tally.left)) == (done, left)


def test_workers_of_a_run_with_a_time_limit_can_be_stopped() -> None:
    assert isinstance(runner.make_workers(1), Here)
    assert not isinstance(runner.make_workers(1, None, True), Here)


# ---------------------------------------------------------------------- several experiments


def test_a_task_of_two_folders_runs_once_and_is_recorded_in_both(
    simulate: Simulate, tmp_path: Path
) -> None:
    tasks = tasks_of(folds=3)
    first, second = Part(tmp_path / "a", tasks[:2]), Part(tmp_path / "b", tasks[1:])
    workers, tally = simulate([first, second], label_frequency=1.0)
    assert (workers.started, tally.done) == (tasks, 3)
    for part in (first, second):
        assert {record.task for record in read_records(part.out)} == {t.id for t in part.tasks}
    third = Part(tmp_path / "c", tasks[:1])
    workers, tally = simulate([first, third], label_frequency=1.0)
    assert (workers.started, tally.skipped) == ([], 2)  # the record of `a` was copied
    assert read_records(third.out) == [r for r in read_records(first.out) if r.fold == 0]


EXPERIMENT = """
[experiment]
datasets = ["synthetic"]
dataset_options = {{synthetic = {{n_samples = 40}}}}
folds = 3
label_rate = {rate}
[[method]]
name = ["label_frequency", "late_fusion_ridge"]
"""
QUEUE = """
[[queue]]
config = "b.toml"
out = "two"
folds = 1
[[queue]]
config = "a.toml"
out = "deep/one"
methods = ["label_frequency"]
"""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for name, rate in (("a", 0.5), ("b", 0.2)):
        (tmp_path / f"{name}.toml").write_text(EXPERIMENT.format(rate=rate))
    (tmp_path / "queue.toml").write_text(QUEUE)
    return tmp_path


def test_a_queue_file_lists_parts_of_experiments_with_their_folders(files: Path) -> None:
    two, one = read_queue([files / "queue.toml"], files / "out")
    assert (two.out, one.out) == (files / "out" / "two", files / "out" / "deep" / "one")
    assert [(t.method, t.fold, t.label_rate) for t in two.tasks] == [
        ("label_frequency", 0, 0.2),
        ("late_fusion_ridge", 0, 0.2),
    ]
    assert [(t.method, t.fold) for t in one.tasks] == [("label_frequency", f) for f in range(3)]
    (part,) = read_queue([files / "queue.toml"], files, methods=["late_fusion_ridge"])
    assert part.out == files / "two"


def test_an_entry_of_a_queue_takes_profiles_of_an_experiment(files: Path) -> None:
    more = '[[method]]\nname = "scsd"\nprofile = "paper"\n[[method]]\nname = "scsd"\n'
    (files / "b.toml").write_text(EXPERIMENT.format(rate=0.2) + more)
    (files / "queue.toml").write_text(QUEUE.replace("folds = 1", 'profiles = ["paper"]'))
    two, _ = read_queue([files / "queue.toml"], files / "out")
    assert [(t.method, t.profile, t.fold) for t in two.tasks] == [
        ("scsd", "paper", fold) for fold in range(3)
    ]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('out = "two"', "", "'out' is missing"),
        ('out = "two"', 'out = "../two"', "below the folder of the run"),
        ("folds = 1", "folds = 0", "at least 1"),
        ("folds = 1", "jobs = 1", "unknown key 'jobs'"),
        ("folds = 1", 'profiles = ["paper"]', "has no profile 'paper'; it has: default"),
        ('"label_frequency"', '"absent"', r"queue\]\] 2: the experiment has no method 'absent'"),
        ("b.toml", "absent.toml", "cannot read"),
    ],
)
def test_a_wrong_queue_is_refused(files: Path, old: str, new: str, message: str) -> None:
    path = files / "queue.toml"
    path.write_text(QUEUE.replace(old, new))
    with pytest.raises((SettingError, DataFileError), match=message):
        read_queue([path], files / "out")


def test_the_command_line_tells_what_is_left_and_how_to_go_on(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    configs = [str(files / "b.toml"), str(files / "a.toml")]
    command = ["bench", "run", *configs, "--out", str(files / "out"), "--stop-after", "4"]
    assert run(command) == 0
    printed = capsys.readouterr()
    assert "4 tasks done, 0 were there, 0 failed, 8 left" in printed.err
    assert f"go on with: viewgap {' '.join(command)}" in printed.err
    assert "late_fusion_ridge (default)" in printed.out
    assert run([*command[:-1], "7", "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (found["done"], found["skipped"]) == (7, 4)
    (left,) = found["left"]
    assert (left["data set"], left["tasks"], left["stopped"]) == ("synthetic", 1, 0)
    assert run([*command[:-2], "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"skipped": 11, "done": 1, "failed": 0}
    assert run([*command[:-2], "--time-limit", "25"]) == 2
    assert "25s, 25m or 25h" in capsys.readouterr().err


@pytest.mark.slow
def test_a_task_in_a_process_is_ended_when_the_time_is_over(tmp_path: Path) -> None:
    options = {"n_samples": 3000}
    tasks = [
        Task("synthetic", "random_forest", dataset_options=options, params={"n_estimators": 9999})
    ]
    limits = Limits(2.0)
    limits.allow = lambda expected: True  # type: ignore[method-assign]  # as if it could end
    tally = run_parts([Part(tmp_path, tasks)], limits=limits)
    assert (tally.done, tally.failed, tally.left[0].stopped) == (0, 0, True)
    assert list((tmp_path / "claims").iterdir()) == []


# ---------------------------------------------------------------------- the queue of this project


def test_the_queue_of_the_project_has_ten_folds_on_corel5k_but_for_grids() -> None:
    results = CONFIGS.parent / "results"
    parts = read_queue([CONFIGS / "queue.toml"], results)
    folds = {
        part.out.name: {task.fold for task in part.tasks}
        for part in parts
        if part.out.parent == results / "corel5k"
    }
    grids = {name for name, found in folds.items() if len(found) < 10}
    assert grids <= {"sensitivity_alpha_lambda", "sensitivity_tau", "codebook"}
    assert all(len(folds[name]) >= 3 for name in grids)


def test_the_queue_of_small_sets_is_every_small_experiment_once() -> None:
    parts = read_queue([CONFIGS / "queue_small.toml"], CONFIGS.parent / "results")
    folders = [part.out.name for part in parts]
    files = {path.stem.removeprefix("small_") for path in CONFIGS.glob("small_*.toml")}
    assert len(folders) == len(set(folders))
    assert set(folders) == files
    assert all(task.fold < 3 for part in parts for task in part.tasks)
