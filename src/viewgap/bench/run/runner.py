"""Runs many tasks, here, in processes or on a cluster, and never loses a finished one."""

from __future__ import annotations

import json
import time
import warnings
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from viewgap.bench.run.cluster import Cluster
from viewgap.bench.run.execute import build_method, load_task_data, take_fold
from viewgap.bench.run.limits import Estimate, Limits
from viewgap.bench.run.notes import Notes
from viewgap.bench.run.progress import LineProgress, make_progress
from viewgap.bench.run.queue import Job, Part, jobs_of
from viewgap.bench.run.run_folder import RunFolder, estimates_of
from viewgap.bench.run.task import Task
from viewgap.bench.run.workers import Here, Outcome, Processes, Workers, cuda_devices
from viewgap.errors import SettingError, ViewgapDeprecationWarning, parameter_words
from viewgap.methods.fitting.processes import refuse_group

POLL_SECONDS = 1.0
PAUSE_SECONDS = 0.5
# A task that was running in so many workers when they died is taken for the cause.
MOST_LOSSES = 3


@dataclass(frozen=True)
class Left:
    """A task that a run did not get to: its folder, and what it is expected to take.

    `stopped`: it was running when the time was over.
    """

    task: Task
    out: Path
    estimate: Estimate
    stopped: bool = False


@dataclass(frozen=True)
class Tally:
    """How a run ended: how many tasks were there already, done now, failed now.

    `elsewhere`: tasks that another runner on the same folder recorded in the meantime.
    `left`: tasks that a limit of the run kept from being done.
    """

    skipped: int = 0
    done: int = 0
    failed: int = 0
    elsewhere: int = 0
    left: tuple[Left, ...] = ()


def run_tasks(
    tasks: list[Task],
    out: Path,
    jobs: int = 1,
    progress: LineProgress | None = None,
    *,
    scheduler: str | None = None,
    limits: Limits | None = None,
) -> Tally:
    """Run the tasks that are not recorded in `out` yet; one line on the disk per finished task.

    A failing task goes to failures.jsonl with its traceback and the others go on; a later run
    tries it again. Killed at any time, the next run repeats only what had not finished. Several
    runs on one folder share the tasks. `scheduler` is the address of a Dask cluster to use.
    """
    return run_parts([Part(out, tasks)], jobs, progress, scheduler=scheduler, limits=limits)


def run_parts(
    parts: Sequence[Part],
    jobs: int = 1,
    progress: LineProgress | None = None,
    *,
    scheduler: str | None = None,
    limits: Limits | None = None,
    wait: bool = True,
) -> Tally:
    """Run the tasks of several experiments in their order, each with a folder of its own.

    A task that several of them have is run once, and its record kept in the folder of each.
    Without `wait`, the run ends where living runners have all tasks that are left. What fits have
    to say is told at the end, each note once.
    """
    refuse_group("run_tasks", "out")
    limits = limits or Limits()
    wanted = jobs_of(parts)
    check_parameters([job.task for job in wanted])  # before hours of work, not after
    folders = {part.out: RunFolder(part.out) for part in parts}
    todo = [job for job in wanted if not _is_recorded(job, folders)]
    check_data([job.task for job in todo])
    skipped, notes = len(wanted) - len(todo), Notes()
    try:
        with progress or make_progress() as display:
            if not todo:
                display.start([], len(wanted), 1)
                return Tally(skipped)
            with ExitStack() as held:
                for folder in folders.values():
                    held.enter_context(folder.claims)
                count = min(jobs, len(todo))
                workers = held.enter_context(make_workers(count, scheduler, limits.has_deadline))
                display.start([job.task for job in todo], len(wanted), workers.slots())
                run = _Run(folders, workers, limits, display, notes, wait)
                run.through(todo)
        return Tally(skipped, run.done, run.failed, run.elsewhere, run.left())
    finally:
        notes.tell()  # when no progress is shown any more, however the run ends


def _is_recorded(job: Job, folders: dict[Path, RunFolder]) -> bool:
    """Whether a folder has the record; the others that want it are given a copy."""
    name = job.task.id
    having = [folders[out] for out in job.outs if name in folders[out].records]
    if not having:
        return False
    for out in job.outs:
        if name not in folders[out].records:
            folders[out].keep_record(having[0].records[name])
    return True


def check_parameters(tasks: Sequence[Task]) -> None:
    """Refuse a task whose method has no such parameter or value."""
    with parameter_words(), warnings.catch_warnings():  # a config has parameters, not options
        warnings.simplefilter("once", ViewgapDeprecationWarning)
        for task in tasks:
            try:
                build_method(task, warn=True)
            except SettingError as error:
                raise SettingError(f"{task.title}: {error}") from error


def check_data(tasks: Sequence[Task]) -> None:
    """Read the user's own files of all tasks, and deal their folds, before the first task."""
    seen: set[str] = set()
    with parameter_words():  # a config has parameters, not options
        for task in tasks:
            mark = json.dumps([dict(task.files), dict(task.dataset_options), task.cv])
            if task.files and mark not in seen:
                take_fold(load_task_data(task), task)
            seen.add(mark)


def make_workers(jobs: int, scheduler: str | None = None, stoppable: bool = False) -> Workers:
    """Whoever is to run the tasks: a cluster, processes, or this process.

    `stoppable` ones can be ended in the middle of a task, which this process cannot.
    """
    if scheduler is not None:
        return Cluster(scheduler)
    return Processes(jobs, cuda_devices()) if jobs > 1 or stoppable else Here()


class _Run:
    """One runner at work: claims a task, has it run, keeps what came of it, gives it back."""

    def __init__(
        self,
        folders: dict[Path, RunFolder],
        workers: Workers,
        limits: Limits,
        display: LineProgress,
        notes: Notes,
        wait: bool = True,
    ) -> None:
        self.done = self.failed = self.elsewhere = 0
        self._notes = notes
        self._folders, self._workers, self._wait = folders, workers, wait
        self._limits, self._display = limits, display
        self._estimates = estimates_of(folders.values())
        self._waiting: deque[Job] = deque()
        self._running: dict[str, tuple[Job, float]] = {}
        self._losses: Counter[str] = Counter()
        self._told = False

    def through(self, jobs: list[Job]) -> None:
        """Work until every task has ended, here or elsewhere, or nothing may be begun."""
        self._waiting.extend(jobs)
        while self._waiting or self._running:
            self._fill()
            if self._running:
                seconds = min(POLL_SECONDS, self._limits.seconds_left)
                for outcome in self._workers.wait(seconds):
                    self._end(outcome)
                if not self._limits.seconds_left:
                    self._stop()
                    return  # what still runs ends with the workers; its claim is given back
            elif self._wait and any(map(self._may_begin, self._waiting)):
                self._pause()
            else:
                return

    def _stop(self) -> None:
        """Keep how long the tasks ran that the end of the time stops."""
        for job, begun in self._running.values():
            seconds = self._limits.clock() - begun
            self._estimates.add_stopped(job.task, seconds)
            for folder in self._of(job):
                folder.keep_stopped(job.task, seconds)

    def left(self) -> tuple[Left, ...]:
        """What was running when the time was over, and what was not begun."""
        stopped = [self._left(job, stopped=True) for job, _ in self._running.values()]
        return (*stopped, *(self._left(job) for job in self._waiting))

    def _left(self, job: Job, stopped: bool = False) -> Left:
        return Left(job.task, job.outs[0], self._estimates.of(job.task), stopped)

    def _may_begin(self, job: Job) -> bool:
        return self._limits.allow(self._estimates.of(job.task).seconds)

    def _pause(self) -> None:
        """Living runners have the rest; one may yet die, and its task be taken over."""
        if not self._told:
            job = self._waiting[0]
            holder = self._folders[job.outs[0]].claims.holder(job.task.id)
            self._display.waiting(len(self._waiting), holder)
            self._told = True
        time.sleep(PAUSE_SECONDS)

    def _fill(self) -> None:
        """Start tasks until all slots are taken, or others have what is left."""
        free = self._workers.slots() - len(self._running)
        passed: list[Job] = []
        while self._waiting and free > 0 and self._limits.allow(0.0):
            job = self._waiting.popleft()
            if not self._may_begin(job):
                passed.append(job)
            elif self._take(job):
                free -= self._start(job)
            elif not self._ended_elsewhere(job):
                passed.append(job)
        self._waiting.extendleft(reversed(passed))  # the order says what matters most

    def _take(self, job: Job) -> bool:
        """Claim a task in all of its folders, or in none."""
        claimed: list[RunFolder] = []
        for folder in self._of(job):
            if not folder.claims.take(job.task.id):
                for other in claimed:
                    other.claims.release(job.task.id)
                return False
            claimed.append(folder)
        return True

    def _release(self, job: Job) -> None:
        for folder in self._of(job):
            folder.claims.release(job.task.id)

    def _of(self, job: Job) -> Iterable[RunFolder]:
        return (self._folders[out] for out in job.outs)

    def _start(self, job: Job) -> bool:
        # Only now: its last holder wrote what came of it before giving it back.
        if self._ended_elsewhere(job):
            self._release(job)
            return False
        self._running[job.task.id] = job, self._limits.clock()
        self._limits.begin()
        self._workers.submit(job.task)
        self._display.task_started(job.task)
        return True

    def _ended_elsewhere(self, job: Job) -> bool:
        """Whether another runner has recorded the task, or its failure, since this one started."""
        for folder in self._of(job):
            folder.look()
        failed = not _is_recorded(job, self._folders)
        if failed and not any(job.task.id in folder.failed for folder in self._of(job)):
            return False
        self.failed += failed
        self.elsewhere += not failed
        self._display.task_elsewhere(job.task, failed)
        return True

    def _end(self, outcome: Outcome) -> None:
        task = outcome.task
        job, begun = self._running.pop(task.id)
        self._losses[task.id] += outcome.lost
        if outcome.lost and self._losses[task.id] < MOST_LOSSES:
            self._release(job)
            self._limits.give_back()
            self._waiting.append(job)  # behind the others: it may be what kills its worker
            self._display.task_lost(task, outcome.error)
            return
        if outcome.record is not None:
            self._estimates.add(task, self._limits.clock() - begun)
        held = all(folder.claims.holds(task.id) for folder in self._of(job))
        if held or not self._ended_elsewhere(job):
            self._keep(job, outcome)
        self._release(job)

    def _keep(self, job: Job, outcome: Outcome) -> None:
        for folder in self._of(job):
            folder.keep(outcome)
        self.done += outcome.record is not None
        self.failed += outcome.record is None
        self._notes.add(job.task, outcome.notes)
        self._display.task_ended(job.task, outcome.record, outcome.error)
