"""How far an experiment has got: what is done, failed, being worked on and left, of its folders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from viewgap.bench.results.record import RECORDS, read_failures, read_records
from viewgap.bench.run.claims import Claims
from viewgap.bench.run.queue import Job, Part, jobs_of
from viewgap.bench.run.task import Task

STATES = ("done", "running", "failed", "left")


@dataclass(frozen=True)
class TaskStatus:
    """Where a task is.

    Attributes
    ----------
    state : {"done", "running", "failed", "left"}
        `failed`: its last attempt failed; the next run tries it again.
    told : str
        Who runs it, or why it failed.
    """

    task: Task
    out: Path
    state: str
    told: str = ""


def status_of(parts: Sequence[Part]) -> list[TaskStatus]:
    """Where every task of these parts is; folders are read, and nothing is written."""
    folders = {part.out: _Folder(part.out) for part in parts}
    return [_status(job, [folders[out] for out in job.outs]) for job in jobs_of(parts)]


class _Folder:
    def __init__(self, out: Path) -> None:
        self.living = Claims(out, out / RECORDS).living()  # first: what ends meanwhile is recorded
        self.recorded = {record.task for record in read_records(out)}
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
    """One row of counts for the tasks of a method on a data set in a folder."""
    rows: dict[tuple[str, str, str], dict[str, Any]] = {}
    for one in found:
        title = f"{one.task.method} ({one.task.profile})"
        key = (str(one.out), one.task.dataset, title)
        first = dict(zip(("folder", "data set", "method"), key, strict=True))
        row = rows.setdefault(key, {**first, "tasks": 0, **dict.fromkeys(STATES, 0)})
        row["tasks"] += 1
        row[one.state] += 1
    return list(rows.values())
