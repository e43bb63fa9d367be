"""The table of results: six metrics, average rank, time and folds, with the published figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from viewgap.bench.analyse.published import Figure, published_beside
from viewgap.bench.analyse.summary import (
    AVERAGE_RANK,
    DIRECTION,
    FOOTNOTE,
    HOLE,
    Row,
    Standing,
    is_reconstruction,
    standings,
    summarise,
)
from viewgap.bench.show.sheets import (
    BEST,
    NAMES,
    SECOND,
    Cell,
    Line,
    Sheet,
    sheet_markdown,
    sheet_rich,
    sheet_text,
)
from viewgap.metrics import SIX

if TYPE_CHECKING:
    from rich.table import Table

__all__ = [
    "FOOTNOTE",
    "HOLE",
    "Row",
    "as_markdown",
    "as_rich",
    "as_text",
    "summarise",
    "table_lines",
]

COLUMNS = (*NAMES, *SIX, AVERAGE_RANK, "seconds", "folds")
PUBLISHED = "published"


def table_lines(rows: Sequence[Row], published: bool = False) -> list[Line]:
    """The lines of a table; with `published` the printed figures follow the rows that have any."""
    figures = published_beside(rows) if published else [{} for _ in rows]
    lines = []
    for row, standing, printed in zip(rows, standings(rows), figures, strict=True):
        lines.append(Line(row.heading, row.title, _cells(row, standing), _tail(row)))
        if printed:
            cells = _printed_cells(row, printed)
            lines.append(Line(row.heading, PUBLISHED, cells, ("", ""), published=True))
    return lines


def notes_of(rows: Sequence[Row], published: bool = False) -> list[str]:
    """What a reader has to know about a table, one sentence each."""
    variant = rows[0].variant if rows else "field"
    within = "data set and condition" if any(row.condition for row in rows) else "data set"
    notes = [
        f"{variant} metrics, {DIRECTION} is better; {AVERAGE_RANK}: rank within the {within}, "
        "averaged over the six metrics"
    ]
    if published:
        notes.append("published: printed in the SCSD paper (measured here minus printed)")
    return [*notes, *reconstruction_note(rows)]


def reconstruction_note(rows: Sequence[Row]) -> list[str]:
    """What the dagger means, where a row has one."""
    return [FOOTNOTE] if any(is_reconstruction(row.method) for row in rows) else []


def metrics_sheet(rows: Sequence[Row], published: bool = False) -> Sheet:
    """The table of the six metrics."""
    return Sheet(COLUMNS[2:], table_lines(rows, published), notes_of(rows, published))


def as_markdown(rows: Sequence[Row], published: bool = False) -> str:
    """GitHub table, best value per heading and metric in bold, second best underlined."""
    return sheet_markdown(metrics_sheet(rows, published))


def as_rich(rows: Sequence[Row], title: str | None = None, published: bool = False) -> Table:
    """Table for the terminal, best value per heading and metric bold, second underlined."""
    return sheet_rich(metrics_sheet(rows, published), title)


def as_text(rows: Sequence[Row], published: bool = False) -> str:
    """The table of the terminal as plain text, for a file."""
    return sheet_text(metrics_sheet(rows, published))


def _cells(row: Row, standing: Standing) -> tuple[Cell, ...]:
    cells = []
    for name in SIX:
        if name not in row.mean:
            cells.append(Cell(HOLE))
            continue
        after = f" ± {row.spread[name]:.3f}" if row.folds > 1 else ""
        cells.append(Cell(f"{row.mean[name]:.3f}", after, _mark(name, standing)))
    rank = HOLE if standing.average_rank is None else f"{standing.average_rank:.2f}"
    return (*cells, Cell(rank, mark=_mark(AVERAGE_RANK, standing)))


def _mark(name: str, standing: Standing) -> str:
    return BEST if name in standing.best else SECOND if name in standing.second else ""


def _printed_cells(row: Row, printed: Mapping[str, Figure]) -> tuple[Cell, ...]:
    cells = []
    for name in SIX:
        if name not in printed:
            cells.append(Cell(HOLE))
            continue
        mean = printed[name].mean
        after = f" ({difference(row.mean[name], mean)})" if name in row.mean else ""
        cells.append(Cell(f"{mean:.3f}", after))
    return (*cells, Cell(""))


def difference(here: float, printed: float) -> str:
    """Measured minus printed, both to the printed digits, so that a reader can check it."""
    return f"{round(here, 3) - printed + 0.0:+.3f}".replace("-0.000", "+0.000")


def _tail(row: Row) -> tuple[str, str]:
    seconds = HOLE if row.seconds is None else f"{row.seconds:.1f}"
    return seconds, folds_of(row)


def folds_of(row: Row) -> str:
    """How many folds a row is over, and of how many where some failed."""
    return f"{row.folds} of {row.folds + row.failed}" if row.failed else str(row.folds)
