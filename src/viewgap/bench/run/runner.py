"""Runs many cells, here, in processes or on a cluster, and never loses a finished one."""

from __future__ import annotations

import json
import time
import warnings
from collections import Counter, deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from viewgap.bench.results.journal import Follower, append_line, cut_torn_line, read_lines
from viewgap.bench.results.record import Record, checked_failure
from viewgap.bench.run.claims import Claims
from viewgap.bench.run.cluster import Cluster
from viewgap.bench.run.execute import build_method
from viewgap.bench.run.progress import Progress, make_progress
from viewgap.bench.run.task import Cell
from viewgap.bench.run.workers import Here, Outcome, Processes, Workers, cuda_devices
from viewgap.errors import DataFileError, SettingError, ViewgapDeprecationWarning, parameter_words
from viewgap.fsio import make_folder

RECORDS = "records.jsonl"
FAILURES = "failures.jsonl"
POLL_SECONDS = 1.0
PAUSE_SECONDS = 0.5
# A cell that was running in so many workers when they died is taken for the cause.
MOST_LOSSES = 3


@dataclass(frozen=True)
class Tally:
    """How a run ended: how many cells were there already, done now, failed now.

    `elsewhere`: cells that another runner on the same folder recorded in the meantime.
    """

    skipped: int = 0
    done: int = 0
    failed: int = 0
    elsewhere: int = 0


def run_cells(
    cells: list[Cell],
    out: Path,
    jobs: int = 1,
    progress: Progress | None = None,
    *,
    scheduler: str | None = None,
) -> Tally:
    """Run the cells that are not recorded in `out` yet; one line on the disk per finished cell.

    A failing cell goes to failures.jsonl with its traceback and the others go on; a later run
    tries it again. Killed at any time, the next run repeats only what had not finished. Several
    runs on one folder share the cells. `scheduler` is the address of a Dask cluster to use.
    """
    _check_parameters(cells)  # before hours of work, not after
    make_folder(out)
    news = {name: Follower(out / name) for name in (RECORDS, FAILURES)}
    finished = {record.cell for record in read_records(out)}
    cut_torn_line(out / RECORDS)
    cut_torn_line(out / FAILURES)
    todo = [cell for cell in cells if cell.id not in finished]
    skipped = len(cells) - len(todo)
    claims = Claims(out, out / RECORDS)
    claims.sweep(finished)
    with progress or make_progress() as display:
        if not todo:
            display.start(todo, len(cells), 1)
            return Tally(skipped)
        with claims, make_workers(min(jobs, len(todo)), scheduler) as workers:
            display.start(todo, len(cells), workers.slots())
            run = _Run(out, news, workers, claims, display)
            run.through(todo)
    return Tally(skipped, run.done, run.failed, run.elsewhere)


def _check_parameters(cells: list[Cell]) -> None:
    with parameter_words(), warnings.catch_warnings():  # a config has parameters, not options
        warnings.simplefilter("once", ViewgapDeprecationWarning)
        for cell in cells:
            try:
                build_method(cell, warn=True)
            except SettingError as error:
                raise SettingError(f"{cell.title}: {error}") from error


def make_workers(jobs: int, scheduler: str | None = None) -> Workers:
    """Whoever is to run the cells: a cluster, processes, or this process."""
    if scheduler is not None:
        return Cluster(scheduler)
    return Processes(jobs, cuda_devices()) if jobs > 1 else Here()


class _Run:
    """One runner at work: claims a cell, has it run, keeps what came of it, gives it back."""

    def __init__(
        self,
        out: Path,
        news: dict[str, Follower],
        workers: Workers,
        claims: Claims,
        display: Progress,
    ) -> None:
        self.done = self.failed = self.elsewhere = 0
        self._out, self._news = out, news
        self._workers, self._claims, self._display = workers, claims, display
        self._waiting: deque[Cell] = deque()
        self._running: set[str] = set()
        self._losses: Counter[str] = Counter()
        self._recorded: set[str] = set()
        self._broken: set[str] = set()
        self._told = False

    def through(self, cells: list[Cell]) -> None:
        """Work until every cell is recorded or has failed, here or elsewhere."""
        self._waiting.extend(cells)
        while self._waiting or self._running:
            self._fill()
            if self._running:
                for outcome in self._workers.wait(POLL_SECONDS):
                    self._end(outcome)
            elif self._waiting:
                self._pause()

    def _pause(self) -> None:
        """Living runners have the rest; one may yet die, and its cell be taken over."""
        if not self._told:
            holder = self._claims.holder(self._waiting[0].id)
            self._display.waiting(len(self._waiting), holder)
            self._told = True
        time.sleep(PAUSE_SECONDS)

    def _fill(self) -> None:
        """Start cells until all slots are taken, or others have what is left."""
        free = self._workers.slots() - len(self._running)
        for _ in range(len(self._waiting)):
            if free < 1:
                return
            cell = self._waiting.popleft()
            if self._claims.take(cell.id):
                free -= self._start(cell)
            elif not self._ended_elsewhere(cell):
                self._waiting.append(cell)

    def _start(self, cell: Cell) -> bool:
        # Only now: its last holder wrote what came of it before giving it back.
        if self._ended_elsewhere(cell):
            self._claims.release(cell.id)
            return False
        self._running.add(cell.id)
        self._workers.submit(cell)
        self._display.cell_started(cell)
        return True

    def _ended_elsewhere(self, cell: Cell) -> bool:
        """Whether another runner has recorded the cell, or its failure, since this one started."""
        self._recorded.update(str(entry.get("cell")) for entry in self._news[RECORDS].new())
        self._broken.update(str(entry.get("cell")) for entry in self._news[FAILURES].new())
        failed = cell.id not in self._recorded
        if failed and cell.id not in self._broken:
            return False
        self.failed += failed
        self.elsewhere += not failed
        self._display.cell_elsewhere(cell, failed)
        return True

    def _end(self, outcome: Outcome) -> None:
        cell = outcome.cell
        self._running.remove(cell.id)
        self._losses[cell.id] += outcome.lost
        if outcome.lost and self._losses[cell.id] < MOST_LOSSES:
            self._claims.release(cell.id)
            self._waiting.append(cell)  # behind the others: it may be what kills its worker
            self._display.cell_lost(cell, outcome.error)
            return
        overtaken = not self._claims.holds(cell.id) and self._ended_elsewhere(cell)
        if not overtaken:
            _keep(outcome, self._out)
            self.done += outcome.record is not None
            self.failed += outcome.record is None
            self._display.cell_ended(cell, outcome.record, outcome.error)
        self._claims.release(cell.id)


def read_records(out: Path) -> list[Record]:
    """All records of a run folder, in an order that does not depend on who finished first.

    A cell recorded twice must have the same numbers.
    """
    found: dict[str, Record] = {}
    for number, entry in enumerate(read_lines(out / RECORDS), 1):
        record = Record.from_dict(entry, f"{out / RECORDS}, line {number}")
        known = found.setdefault(record.cell, record)
        if dict(known.metrics) != dict(record.metrics):
            raise DataFileError(
                f"{out / RECORDS}, line {number}: cell {record.cell} is recorded twice with "
                "different numbers; one of the two runs was not deterministic"
            )
    return sorted(found.values(), key=_place)


def _place(record: Record) -> tuple[str, str, str, str, int, int]:
    settings = json.dumps(record.settings, sort_keys=True)
    return record.dataset, record.method, record.profile, settings, record.seed, record.fold


def read_failures(out: Path) -> list[dict[str, Any]]:
    """Failed cells of a run folder that have no record since."""
    finished = {record.cell for record in read_records(out)}
    entries = enumerate(read_lines(out / FAILURES), 1)
    failures = [checked_failure(entry, f"{out / FAILURES}, line {n}") for n, entry in entries]
    latest = {entry["cell"]: entry for entry in failures}
    return [entry for cell, entry in latest.items() if cell not in finished]


def _keep(outcome: Outcome, out: Path) -> None:
    if outcome.record is not None:
        append_line(out / RECORDS, outcome.record.to_dict())
        return
    cell = outcome.cell
    failure = {
        "cell": cell.id,
        "dataset": cell.dataset,
        "method": cell.method,
        "profile": cell.profile,
        "fold": cell.fold,
        "seed": cell.seed,
        "settings": cell.settings,
        "error": outcome.error,
        "traceback": outcome.traceback,
    }
    append_line(out / FAILURES, failure)
