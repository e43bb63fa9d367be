"""Shows how a run gets on: a live bar in a terminal, one line per cell everywhere else.

All of it goes to stderr, so that stdout stays free for results.
"""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any, Protocol, Self

from viewgap.bench.cells import Cell
from viewgap.bench.record import Record


class Progress(Protocol):
    """What the runner tells whoever watches."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def start(self, total: int, skipped: int) -> None:
        """Called once, before the first cell."""

    def cell_ended(self, cell: Cell, record: Record | None, error: str) -> None:
        """Called after each cell; without record it failed with `error`."""


def make_progress() -> Progress:
    """A live bar when stderr is a terminal, lines otherwise."""
    return BarProgress() if sys.stderr.isatty() else LineProgress()


def describe(cell: Cell, record: Record | None, error: str) -> str:
    """One line about a cell that ended."""
    if record is None:
        return f"{cell.title} · FAILED: {error}"
    return f"{cell.title} · AP {record.metrics['AP']:.3f} · {record.seconds:.1f} s"


class LineProgress:
    """One line per cell."""

    def __init__(self) -> None:
        self.total = self.ended = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def start(self, total: int, skipped: int) -> None:
        """Say how much is there already."""
        self.total, self.ended = total, skipped
        if skipped:
            print(f"{skipped} of {total} cells are recorded already", file=sys.stderr, flush=True)

    def cell_ended(self, cell: Cell, record: Record | None, error: str) -> None:
        """Print the cell's line."""
        self.ended += 1
        line = f"[{self.ended}/{self.total}] {describe(cell, record, error)}"
        print(line, file=sys.stderr, flush=True)


class BarProgress:
    """A live bar with the time left; finished cells scroll above it."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )
        from rich.progress import Progress as Bar

        self._bar: Any = Bar(
            TextColumn("cells"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self._task: Any = None

    def __enter__(self) -> Self:
        self._bar.__enter__()
        return self

    def __exit__(self, *details: Any) -> None:
        self._bar.__exit__(*details)

    def start(self, total: int, skipped: int) -> None:
        """Start the bar where the last run ended."""
        self._task = self._bar.add_task("cells", total=total, completed=skipped)

    def cell_ended(self, cell: Cell, record: Record | None, error: str) -> None:
        """Move the bar by one cell."""
        self._bar.console.print(describe(cell, record, error), markup=False, highlight=False)
        self._bar.advance(self._task)
