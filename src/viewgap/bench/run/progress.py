"""Shows how a run gets on: a live table in a terminal, one line per task everywhere else.

All of it goes to stderr, so that stdout stays free for results.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from textwrap import shorten
from typing import TYPE_CHECKING, Any, Self

from viewgap.bench.results.record import Record
from viewgap.bench.run.task import Task
from viewgap.errors import printable

if TYPE_CHECKING:
    from rich.console import RenderableType

SHOWN_RUNNING = 8
_MOST_LETTERS = 90  # of an error that was told in full before


def make_progress() -> LineProgress:
    """A live table when stderr is a terminal, lines otherwise."""
    return TableProgress() if sys.stderr.isatty() else LineProgress()


class TaskCounts:
    """How many tasks are where, and how long the rest will take."""

    def __init__(self, todo: Sequence[Task] = (), total: int = 0, slots: int = 1) -> None:
        self.total, self.slots = total, max(1, slots)
        self.done, self.failed = total - len(todo), 0
        self.running: dict[str, tuple[Task, float]] = {}
        self._left = {task.id: _kind(task) for task in todo}
        self._seconds: dict[tuple[str, str, str], list[float]] = {}

    @property
    def ended(self) -> int:
        """Tasks that will not run again in this run."""
        return self.done + self.failed

    def started(self, task: Task, now: float) -> None:
        """A task runs from now on."""
        self.running[task.id] = (task, now)

    def stopped(self, task: Task) -> None:
        """A task runs no longer, and is still to be done."""
        self.running.pop(task.id, None)

    def over(self, task: Task, failed: bool, now: float | None = None) -> None:
        """A task is done or has failed; with a time, it tells how long such tasks take."""
        _, start = self.running.pop(task.id, (task, None))
        self._left.pop(task.id, None)
        self.failed += failed
        self.done += not failed
        if start is not None and now is not None and not failed:
            self._seconds.setdefault(_kind(task), []).append(now - start)

    def time_left(self, now: float) -> float | None:
        """Seconds until all is done; None as long as nothing is known.

        A task takes as long as those of its method on its data set did, or as all did.
        """
        known = {kind: sum(times) / len(times) for kind, times in self._seconds.items()}
        if not known:
            return None
        usual = sum(map(sum, self._seconds.values())) / sum(map(len, self._seconds.values()))
        left = 0.0
        for name, kind in self._left.items():
            spent = now - self.running[name][1] if name in self.running else 0.0
            left += max(0.0, known.get(kind, usual) - spent)
        return left / self.slots


def _kind(task: Task) -> tuple[str, str, str]:
    return task.dataset, task.method, task.profile


def describe(task: Task, record: Record | None, error: str) -> str:
    """One line about a task that ended."""
    if record is None:
        return f"{task.title} · FAILED: {error}"
    name = "AP" if "AP" in record.metrics else next(iter(record.metrics))
    return f"{task.title} · {name} {record.metrics[name]:.3f} · {record.seconds:.1f} s"


def duration(seconds: float | None) -> str:
    """A length of time as people say it."""
    if seconds is None:
        return "?"
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02d} min"


class LineProgress:
    """What the runner tells whoever watches: one line per task."""

    def __init__(self) -> None:
        self.counts = TaskCounts()
        self._errors: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def start(self, todo: Sequence[Task], total: int, slots: int) -> None:
        """Called once, before the first task."""
        self.counts = TaskCounts(todo, total, slots)
        if self.counts.done:
            self._print(f"{self.counts.done} of {total} tasks are recorded already")

    def task_started(self, task: Task) -> None:
        """Called when a task is handed to a worker; no line: those tell what came of a task."""
        self.counts.started(task, time.monotonic())

    def task_ended(self, task: Task, record: Record | None, error: str) -> None:
        """Called after each task; without record it failed with `error`."""
        self.counts.over(task, record is None, time.monotonic())
        again = error in self._errors  # as where a data set is not there, for all of its tasks
        self._errors.add(error)
        told = shorten(error, _MOST_LETTERS, placeholder=" ... (as above)") if again else error
        self._line(describe(task, record, told))

    def task_lost(self, task: Task, error: str) -> None:
        """Called when a task was lost with its worker; it will be started again."""
        self.counts.stopped(task)
        self._print(f"{task.title} · starts again: {error}")

    def task_elsewhere(self, task: Task, failed: bool) -> None:
        """Called for a task that another runner on the same folder has done."""
        self.counts.over(task, failed)
        self._line(f"{task.title} · {'FAILED' if failed else 'done'} in another run")

    def waiting(self, count: int, holder: str) -> None:
        """Called when other runners, such as `holder`, have all tasks that are left."""
        self._print(f"waiting for {count} tasks that other runs have ({holder})")

    def _line(self, text: str) -> None:
        counts = self.counts
        left = counts.time_left(time.monotonic())
        unknown = left is None or counts.ended == counts.total
        rest = "" if unknown else f" · {duration(left)} left"
        self._print(f"[{counts.ended}/{counts.total}] {text}{rest}")

    def _print(self, text: str) -> None:
        print(printable(text), file=sys.stderr, flush=True)


class TableProgress(LineProgress):
    """A live table of tasks done, running and failed; finished tasks scroll above it."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        super().__init__()
        self._began = time.monotonic()
        self._live: Any = Live(
            get_renderable=lambda: live_table(self.counts, self._began, time.monotonic()),
            console=Console(stderr=True),
            refresh_per_second=2,
        )

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(self, *details: Any) -> None:
        self._live.__exit__(*details)

    def _print(self, text: str) -> None:
        self._live.console.print(printable(text), markup=False, highlight=False)


def live_table(counts: TaskCounts, began: float, now: float) -> RenderableType:
    """How many tasks are where, the time left, and the tasks that run."""
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    summary = Table(box=box.SIMPLE_HEAD)
    for name in ("tasks", "done", "running", "failed", "waiting", "elapsed", "left"):
        summary.add_column(name, justify="right")
    waiting = counts.total - counts.ended - len(counts.running)
    numbers = (counts.total, counts.done, len(counts.running), counts.failed, waiting)
    left = "" if waiting + len(counts.running) == 0 else duration(counts.time_left(now))
    failed = "bold red" if counts.failed else ""
    texts = [Text(str(number)) for number in numbers]
    texts[3].stylize(failed)
    summary.add_row(*texts, duration(now - began), left)
    running = list(counts.running.values())
    shown = [(printable(task.title), now - at) for task, at in running[:SHOWN_RUNNING]]
    lines = [Text(f"  {title} · {duration(seconds)}") for title, seconds in shown]
    if len(running) > SHOWN_RUNNING:
        lines.append(Text(f"  and {len(running) - SHOWN_RUNNING} more"))
    return Group(summary, *lines)
