"""One result folder of a run: what it has, what others add to it, claims on its tasks."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from viewgap.bench.results.journal import Follower, append_line, cut_torn_line, read_lines
from viewgap.bench.results.record import FAILURES, RECORDS, Record, read_records
from viewgap.bench.run.claims import Claims
from viewgap.bench.run.limits import Estimates, stopped_entry
from viewgap.bench.run.task import Task
from viewgap.bench.run.workers import Outcome
from viewgap.fsio import make_folder

STOPPED = "stopped.jsonl"
_STOPPED_TYPES: dict[str, Any] = {
    **dict.fromkeys(("dataset", "method", "profile"), str),
    "settings": dict,
    "seconds": (int, float),
    "gpus": list,
}


class RunFolder:
    """The journals and claims of one folder; used as a context while tasks run.

    `records` are by task, and `look` adds what other runners have recorded since. `failed` are the
    tasks that failed in other runners since this one started, `stopped` what earlier runs kept of
    those that they stopped when their time was over.
    """

    def __init__(self, out: Path) -> None:
        make_folder(out)
        self.out = out
        self._news = {name: Follower(out / name) for name in (RECORDS, FAILURES)}
        self.records = {record.task: record for record in read_records(out)}
        self.failed: set[str] = set()
        self.stopped = read_lines(out / STOPPED, _STOPPED_TYPES)
        for name in (RECORDS, FAILURES, STOPPED):
            cut_torn_line(out / name)
        self.claims = Claims(out, out / RECORDS)
        self.claims.sweep(set(self.records))

    def look(self) -> None:
        """Read what was appended since the last look."""
        for entry in self._news[RECORDS].new():
            record = Record.from_dict(entry, f"{self.out / RECORDS}, a new line")
            self.records[record.task] = record
        # An older version of the library may have written them.
        failures = self._news[FAILURES].new()
        self.failed.update(str(entry.get("task", entry.get("cell"))) for entry in failures)

    def keep(self, outcome: Outcome) -> None:
        """Write what came of a task, at once."""
        if outcome.record is not None:
            self.keep_record(outcome.record)
            return
        task = outcome.task
        failure = {"error": outcome.error, "traceback": outcome.traceback}
        entry = {**task.identity, "settings": task.settings, **failure}
        append_line(self.out / FAILURES, entry)

    def keep_record(self, record: Record) -> None:
        """Write a record."""
        append_line(self.out / RECORDS, record.to_dict())
        self.records[record.task] = record

    def keep_stopped(self, task: Task, seconds: float) -> None:
        """Write how long a task ran that was stopped: the next run must know."""
        append_line(self.out / STOPPED, stopped_entry(task, seconds))


def estimates_of(folders: Collection[RunFolder]) -> Estimates:
    """What tasks can be expected to take on this machine, by what these folders hold."""
    return Estimates(
        (record for folder in folders for record in folder.records.values()),
        (entry for folder in folders for entry in folder.stopped),
    )
