"""How far an experiment has got: what is done, failed, being worked on and left, of its folders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from viewgap.bench.results.record import RECORDS, read_failures, read_records
from viewgap.bench.run.claims import Claims
from viewgap.bench.run.limits import Estimates
from viewgap.bench.run.queue import Job, Part, jobs_of
from viewgap.bench.run.task import Task
from viewgap.errors import SettingError

STATES = ("done", "running", "failed", "left")


@dataclass(frozen=True)
class TaskStatus:
    """Where a task is.

    A task whose last attempt failed is tried again by the next run. `told` says who runs it, or why
    it failed; `seconds` what it is expected to take, where that was asked for and it is not done,
    and `source` where that comes from.
    """

    task: Task
    out: Path
    state: str
    told: str = ""
    seconds: float | None = None
    source: str = ""


def status_of(parts: Sequence[Part], device: str | None = None) -> list[TaskStatus]:
    """Where every task of these parts is; folders are read, and nothing is written.

    With `device`, "cpu" or the name of a GPU, also what is expected of every task that is not done:
    as `--time-limit` has it, the longest of the records that are like it and ran there.
    """
    folders = {part.out: _Folder(part.out) for part in parts}
    found = [_status(job, [folders[out] for out in job.outs]) for job in jobs_of(parts)]
    if device is None:
        return found
    records = [record for folder in folders.values() for record in folder.records]
    known = sorted({str(record.provenance.get("device", "cpu")) for record in records})
    if device not in known:
        raise SettingError(
            f"no record of these folders ran on {device!r}; they have: {', '.join(known) or 'none'}"
        )
    estimates = Estimates(records, gpus=set() if device == "cpu" else {device})
    return [_expected(one, estimates) for one in found]


def _expected(one: TaskStatus, estimates: Estimates) -> TaskStatus:
    if one.state == "done":
        return one
    estimate = estimates.of(one.task)
    return replace(one, seconds=estimate.seconds, source=estimate.source)


class _Folder:
    def __init__(self, out: Path) -> None:
        self.living = Claims(out, out / RECORDS).living()  # first: what ends meanwhile is recorded
        self.records = read_records(out)
        self.recorded = {record.task for record in self.records}
        self.failures = {str(entry["task"]): str(entry["error"]) for entry in read_failures(out)}


def _status(job: Job, folders: Sequence[_Folder]) -> TaskStatus:
    name, out = job.task.id, job.outs[0]
    if any(name in folder.recorded for folder in folders):
        return TaskStatus(job.task, out, "done")
    for state in ("running", "failed"):
        for folder in folders:
            told = (folder.living if state == "running" else folder.failures).get(name)
            if told is not None:
                return TaskStatus(job.task, out, state, told)
    return TaskStatus(job.task, out, "left")


def counted(found: Sequence[TaskStatus]) -> list[dict[str, Any]]:
    """One row of counts for the tasks of a method on a data set in a folder.

    With expected seconds, the minutes that its tasks take one after the other, and how many of them
    are of a method without a record there, and only assumed to take as long as the longest.
    """
    rows: dict[tuple[str, str, str], dict[str, Any]] = {}
    for one in found:
        title = f"{one.task.method} ({one.task.profile})"
        key = (str(one.out), one.task.dataset, title)
        first = dict(zip(("folder", "data set", "method"), key, strict=True))
        row = rows.setdefault(key, {**first, "tasks": 0, **dict.fromkeys(STATES, 0)})
        row["tasks"] += 1
        row[one.state] += 1
        if one.seconds is not None:
            row["minutes"] = row.get("minutes", 0.0) + one.seconds / 60
            row["assumed"] = row.get("assumed", 0) + one.source.startswith("assumed")
    return list(rows.values())
