"""Runs many cells, in processes, and never loses a finished one."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib

from viewgap import methods
from viewgap.bench.cells import Cell
from viewgap.bench.journal import append_line, cut_torn_line, read_lines
from viewgap.bench.progress import Progress, make_progress
from viewgap.bench.record import Record
from viewgap.bench.runner import build_method, run_cell
from viewgap.errors import DataFileError, RunError

RECORDS = "records.jsonl"
FAILURES = "failures.jsonl"


@dataclass(frozen=True)
class Outcome:
    """How a cell ended: with a record, or with an error and its traceback."""

    cell: Cell
    record: Record | None = None
    error: str = ""
    traceback: str = ""


@dataclass(frozen=True)
class Tally:
    """How a run ended: how many cells were there already, done now, failed now."""

    skipped: int = 0
    done: int = 0
    failed: int = 0


def run_cells(
    cells: list[Cell], out: Path, jobs: int = 1, progress: Progress | None = None
) -> Tally:
    """Run the cells that are not recorded in `out` yet; one line on the disk per finished cell.

    A failing cell goes to failures.jsonl with its traceback and the others go on; a later run
    tries it again. Killed at any time, the next run repeats only what had not finished.
    """
    for cell in cells:
        build_method(cell)  # a wrong parameter is found before hours of work, not after
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"cannot create {out}: {error.strerror}") from error
    finished = {record.cell for record in read_records(out)}
    cut_torn_line(out / RECORDS)
    cut_torn_line(out / FAILURES)
    todo = [cell for cell in cells if cell.id not in finished]
    done = failed = 0
    with progress or make_progress() as display:
        display.start(total=len(cells), skipped=len(cells) - len(todo))
        for outcome in _outcomes(todo, jobs):
            _keep(outcome, out)
            done += outcome.record is not None
            failed += outcome.record is None
            display.cell_ended(outcome.cell, outcome.record, outcome.error)
    return Tally(skipped=len(cells) - len(todo), done=done, failed=failed)


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
    latest = {entry["cell"]: entry for entry in read_lines(out / FAILURES)}
    return [entry for cell, entry in latest.items() if cell not in finished]


def _outcomes(cells: list[Cell], jobs: int) -> Iterator[Outcome]:
    jobs = max(1, min(jobs, len(cells)))
    if jobs == 1:
        yield from map(_attempt, cells)
        return
    threads = max(1, joblib.cpu_count() // jobs)
    with joblib.parallel_config(backend="loky", inner_max_num_threads=threads):
        workers = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered")
        yield from workers(joblib.delayed(_attempt)(cell, threads) for cell in cells)


def _attempt(cell: Cell, threads: int | None = None) -> Outcome:
    try:
        if threads is not None:
            _pin_threads(cell, threads)
        return Outcome(cell, record=run_cell(cell))
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        return Outcome(cell, error=text, traceback=traceback.format_exc())


def _pin_threads(cell: Cell, threads: int) -> None:
    methods.get(cell.method)  # imports torch, where the method needs it
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(threads)


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
