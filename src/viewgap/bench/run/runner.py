"""Runs many tasks, here, in processes or on a cluster, and never loses a finished one."""

from __future__ import annotations

import time
import warnings
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from viewgap.bench.results.journal import Follower, append_line, cut_torn_line
from viewgap.bench.results.record import FAILURES, RECORDS, read_records
from viewgap.bench.run.claims import Claims
from viewgap.bench.run.cluster import Cluster
from viewgap.bench.run.execute import build_method
from viewgap.bench.run.progress import LineProgress, make_progress
from viewgap.bench.run.task import Task
from viewgap.bench.run.workers import Here, Outcome, Processes, Workers, cuda_devices
from viewgap.errors import SettingError, ViewgapDeprecationWarning, parameter_words
from viewgap.fsio import make_folder

POLL_SECONDS = 1.0
PAUSE_SECONDS = 0.5
# A task that was running in so many workers when they died is taken for the cause.
MOST_LOSSES = 3


@dataclass(frozen=True)
class Tally:
    """How a run ended: how many tasks were there already, done now, failed now.

    `elsewhere`: tasks that another runner on the same folder recorded in the meantime.
    """

    skipped: int = 0
    done: int = 0
    failed: int = 0
    elsewhere: int = 0


def run_tasks(
    tasks: list[Task],
    out: Path,
    jobs: int = 1,
    progress: LineProgress | None = None,
    *,
    scheduler: str | None = None,
) -> Tally:
    """Run the tasks that are not recorded in `out` yet; one line on the disk per finished task.

    A failing task goes to failures.jsonl with its traceback and the others go on; a later run
    tries it again. Killed at any time, the next run repeats only what had not finished. Several
    runs on one folder share the tasks. `scheduler` is the address of a Dask cluster to use.
    """
    _check_parameters(tasks)  # before hours of work, not after
    make_folder(out)
    news = {name: Follower(out / name) for name in (RECORDS, FAILURES)}
    finished = {record.task for record in read_records(out)}
    cut_torn_line(out / RECORDS)
    cut_torn_line(out / FAILURES)
    todo = [task for task in tasks if task.id not in finished]
    skipped = len(tasks) - len(todo)
    claims = Claims(out, out / RECORDS)
    claims.sweep(finished)
    with progress or make_progress() as display:
        if not todo:
            display.start(todo, len(tasks), 1)
            return Tally(skipped)
        with claims, make_workers(min(jobs, len(todo)), scheduler) as workers:
            display.start(todo, len(tasks), workers.slots())
            run = _Run(out, news, workers, claims, display)
            run.through(todo)
    return Tally(skipped, run.done, run.failed, run.elsewhere)


def _check_parameters(tasks: list[Task]) -> None:
    with parameter_words(), warnings.catch_warnings():  # a config has parameters, not options
        warnings.simplefilter("once", ViewgapDeprecationWarning)
        for task in tasks:
            try:
                build_method(task, warn=True)
            except SettingError as error:
                raise SettingError(f"{task.title}: {error}") from error


def make_workers(jobs: int, scheduler: str | None = None) -> Workers:
    """Whoever is to run the tasks: a cluster, processes, or this process."""
    if scheduler is not None:
        return Cluster(scheduler)
    return Processes(jobs, cuda_devices()) if jobs > 1 else Here()


class _Run:
    """One runner at work: claims a task, has it run, keeps what came of it, gives it back."""

    def __init__(
        self,
        out: Path,
        news: dict[str, Follower],
        workers: Workers,
        claims: Claims,
        display: LineProgress,
    ) -> None:
        self.done = self.failed = self.elsewhere = 0
        self._out, self._news = out, news
        self._workers, self._claims, self._display = workers, claims, display
        self._waiting: deque[Task] = deque()
        self._running: set[str] = set()
        self._losses: Counter[str] = Counter()
        self._recorded: set[str] = set()
        self._failed: set[str] = set()
        self._told = False

    def through(self, tasks: list[Task]) -> None:
        """Work until every task is recorded or has failed, here or elsewhere."""
        self._waiting.extend(tasks)
        while self._waiting or self._running:
            self._fill()
            if self._running:
                for outcome in self._workers.wait(POLL_SECONDS):
                    self._end(outcome)
            elif self._waiting:
                self._pause()

    def _pause(self) -> None:
        """Living runners have the rest; one may yet die, and its task be taken over."""
        if not self._told:
            holder = self._claims.holder(self._waiting[0].id)
            self._display.waiting(len(self._waiting), holder)
            self._told = True
        time.sleep(PAUSE_SECONDS)

    def _fill(self) -> None:
        """Start tasks until all slots are taken, or others have what is left."""
        free = self._workers.slots() - len(self._running)
        for _ in range(len(self._waiting)):
            if free < 1:
                return
            task = self._waiting.popleft()
            if self._claims.take(task.id):
                free -= self._start(task)
            elif not self._ended_elsewhere(task):
                self._waiting.append(task)

    def _start(self, task: Task) -> bool:
        # Only now: its last holder wrote what came of it before giving it back.
        if self._ended_elsewhere(task):
            self._claims.release(task.id)
            return False
        self._running.add(task.id)
        self._workers.submit(task)
        self._display.task_started(task)
        return True

    def _ended_elsewhere(self, task: Task) -> bool:
        """Whether another runner has recorded the task, or its failure, since this one started."""
        self._recorded.update(_task_ids(self._news[RECORDS]))
        self._failed.update(_task_ids(self._news[FAILURES]))
        failed = task.id not in self._recorded
        if failed and task.id not in self._failed:
            return False
        self.failed += failed
        self.elsewhere += not failed
        self._display.task_elsewhere(task, failed)
        return True

    def _end(self, outcome: Outcome) -> None:
        task = outcome.task
        self._running.remove(task.id)
        self._losses[task.id] += outcome.lost
        if outcome.lost and self._losses[task.id] < MOST_LOSSES:
            self._claims.release(task.id)
            self._waiting.append(task)  # behind the others: it may be what kills its worker
            self._display.task_lost(task, outcome.error)
            return
        overtaken = not self._claims.holds(task.id) and self._ended_elsewhere(task)
        if not overtaken:
            _keep(outcome, self._out)
            self.done += outcome.record is not None
            self.failed += outcome.record is None
            self._display.task_ended(task, outcome.record, outcome.error)
        self._claims.release(task.id)


def _task_ids(news: Follower) -> Iterator[str]:
    """Of the new lines; an older version of the library may have written them."""
    return (str(entry.get("task", entry.get("cell"))) for entry in news.new())


def _keep(outcome: Outcome, out: Path) -> None:
    if outcome.record is not None:
        append_line(out / RECORDS, outcome.record.to_dict())
        return
    task = outcome.task
    failure = {"error": outcome.error, "traceback": outcome.traceback}
    append_line(out / FAILURES, {**task.identity, "settings": task.settings, **failure})
