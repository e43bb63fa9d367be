"""Shows how a run gets on: a live table in a terminal, one line per cell everywhere else.

All of it goes to stderr, so that stdout stays free for results.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from viewgap.bench.results.record import Record
from viewgap.bench.run.task import Cell
from viewgap.errors import printable

if TYPE_CHECKING:
    from rich.console import RenderableType

SHOWN_RUNNING = 8


class Progress(Protocol):
    """What the runner tells whoever watches."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def start(self, todo: Sequence[Cell], total: int, slots: int) -> None:
        """Called once, before the first cell."""

    def cell_started(self, cell: Cell) -> None:
        """Called when a cell is handed to a worker."""

    def cell_ended(self, cell: Cell, record: Record | None, error: str) -> None:
        """Called after each cell; without record it failed with `error`."""

    def cell_lost(self, cell: Cell, error: str) -> None:
        """Called when a cell was lost with its worker; it will be started again."""

    def cell_elsewhere(self, cell: Cell, failed: bool) -> None:
        """Called for a cell that another runner on the same folder has done."""

    def waiting(self, count: int, holder: str) -> None:
        """Called when other runners, such as `holder`, have all cells that are left."""


def make_progress() -> Progress:
    """A live table when stderr is a terminal, lines otherwise."""
    return TableProgress() if sys.stderr.isatty() else LineProgress()


class Counts:
    """How many cells are where, and how long the rest will take."""

    def __init__(self, todo: Sequence[Cell] = (), total: int = 0, slots: int = 1) -> None:
        self.total, self.slots = total, max(1, slots)
        self.done, self.failed = total - len(todo), 0
        self.running: dict[str, tuple[Cell, float]] = {}
        self._left = {cell.id: _kind(cell) for cell in todo}
        self._seconds: dict[tuple[str, str, str], list[float]] = {}

    @property
    def ended(self) -> int:
        """Cells that will not run again in this run."""
        return self.done + self.failed

    def started(self, cell: Cell, now: float) -> None:
        """A cell runs from now on."""
        self.running[cell.id] = (cell, now)

    def stopped(self, cell: Cell) -> None:
        """A cell runs no longer, and is still to be done."""
        self.running.pop(cell.id, None)

    def over(self, cell: Cell, failed: bool, now: float | None = None) -> None:
        """A cell is done or has failed; with a time, it tells how long such cells take."""
        _, start = self.running.pop(cell.id, (cell, None))
        self._left.pop(cell.id, None)
        self.failed += failed
        self.done += not failed
        if start is not None and now is not None and not failed:
            self._seconds.setdefault(_kind(cell), []).append(now - start)

    def time_left(self, now: float) -> float | None:
        """Seconds until all is done; None as long as nothing is known.

        A cell takes as long as those of its method on its data set did, or as all did.
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


def _kind(cell: Cell) -> tuple[str, str, str]:
    return cell.dataset, cell.method, cell.profile


def describe(cell: Cell, record: Record | None, error: str) -> str:
    """One line about a cell that ended."""
    if record is None:
        return f"{cell.title} · FAILED: {error}"
    return f"{cell.title} · AP {record.metrics['AP']:.3f} · {record.seconds:.1f} s"


def duration(seconds: float | None) -> str:
    """A length of time as people say it."""
    if seconds is None:
        return "?"
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02d} min"


class LineProgress:
    """One line per cell."""

    def __init__(self) -> None:
        self.counts = Counts()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def start(self, todo: Sequence[Cell], total: int, slots: int) -> None:
        """Say how much is there already."""
        self.counts = Counts(todo, total, slots)
        if self.counts.done:
            self._print(f"{self.counts.done} of {total} cells are recorded already")

    def cell_started(self, cell: Cell) -> None:
        """Only count: lines tell what came of a cell."""
        self.counts.started(cell, time.monotonic())

    def cell_ended(self, cell: Cell, record: Record | None, error: str) -> None:
        """Print the cell's line, and how long the rest will take."""
        self.counts.over(cell, record is None, time.monotonic())
        self._line(describe(cell, record, error))

    def cell_lost(self, cell: Cell, error: str) -> None:
        """Print why the cell starts again."""
        self.counts.stopped(cell)
        self._print(f"{cell.title} · starts again: {error}")

    def cell_elsewhere(self, cell: Cell, failed: bool) -> None:
        """Print the line of a cell that another runner did."""
        self.counts.over(cell, failed)
        self._line(f"{cell.title} · {'FAILED' if failed else 'done'} in another run")

    def waiting(self, count: int, holder: str) -> None:
        """Print whom the run waits for."""
        self._print(f"waiting for {count} cells that other runs have ({holder})")

    def _line(self, text: str) -> None:
        counts = self.counts
        left = counts.time_left(time.monotonic())
        unknown = left is None or counts.ended == counts.total
        rest = "" if unknown else f" · {duration(left)} left"
        self._print(f"[{counts.ended}/{counts.total}] {text}{rest}")

    def _print(self, text: str) -> None:
        print(printable(text), file=sys.stderr, flush=True)


class TableProgress(LineProgress):
    """A live table of cells done, running and failed; finished cells scroll above it."""

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


def live_table(counts: Counts, began: float, now: float) -> RenderableType:
    """How many cells are where, the time left, and the cells that run."""
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    summary = Table(box=box.SIMPLE_HEAD)
    for name in ("cells", "done", "running", "failed", "waiting", "elapsed", "left"):
        summary.add_column(name, justify="right")
    waiting = counts.total - counts.ended - len(counts.running)
    numbers = (counts.total, counts.done, len(counts.running), counts.failed, waiting)
    left = "" if waiting + len(counts.running) == 0 else duration(counts.time_left(now))
    failed = "bold red" if counts.failed else ""
    texts = [Text(str(number)) for number in numbers]
    texts[3].stylize(failed)
    summary.add_row(*texts, duration(now - began), left)
    running = list(counts.running.values())
    shown = [(printable(cell.title), now - at) for cell, at in running[:SHOWN_RUNNING]]
    lines = [Text(f"  {title} · {duration(seconds)}") for title, seconds in shown]
    if len(running) > SHOWN_RUNNING:
        lines.append(Text(f"  and {len(running) - SHOWN_RUNNING} more"))
    return Group(summary, *lines)
