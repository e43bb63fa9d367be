"""Tables of results in a terminal and in Markdown, best bold, second underlined, holes as holes.

What stands in a table is the same in every format: `table_lines` makes it once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from viewgap.bench.published import Figure, published_beside
from viewgap.bench.rows import (
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

COLUMNS = ("data set", "method", *SIX, AVERAGE_RANK, "seconds", "folds")
BEST, SECOND = "best", "second"
PUBLISHED = "published"


@dataclass(frozen=True)
class Cell:
    """One number as text, its deviation or difference after it, and whether it stands out."""

    text: str
    after: str = ""
    mark: str = ""


@dataclass(frozen=True)
class Line:
    """One line of a table: a row of results, or the published figures that belong to one."""

    dataset: str
    title: str
    cells: tuple[Cell, ...]
    tail: tuple[str, str]
    published: bool = False


def table_lines(rows: Sequence[Row], published: bool = False) -> list[Line]:
    """The lines of a table; with `published` the printed figures follow the rows that have any."""
    figures = published_beside(rows) if published else [{} for _ in rows]
    lines = []
    for row, standing, printed in zip(rows, standings(rows), figures, strict=True):
        lines.append(Line(row.dataset, row.title, _cells(row, standing), _tail(row)))
        if printed:
            cells = _printed_cells(row, printed)
            lines.append(Line(row.dataset, PUBLISHED, cells, ("", ""), published=True))
    return lines


def notes_of(rows: Sequence[Row], published: bool = False) -> list[str]:
    """What a reader has to know about a table, one sentence each."""
    variant = rows[0].variant if rows else "field"
    notes = [
        f"{variant} metrics, {DIRECTION} is better; {AVERAGE_RANK}: rank within the data set, "
        "averaged over the six metrics"
    ]
    if published:
        notes.append("published: printed in the SCSD paper (measured here minus printed)")
    if any(is_reconstruction(row.method) for row in rows):
        notes.append(FOOTNOTE)
    return notes


def as_markdown(rows: Sequence[Row], published: bool = False) -> str:
    """GitHub table, best value per data set and metric in bold, second best underlined."""
    lines = ["| " + " | ".join(COLUMNS) + " |", "|---|---|" + "---:|" * (len(COLUMNS) - 2)]
    for line in table_lines(rows, published):
        cells = [_MARKDOWN_MARKS[cell.mark].format(cell.text + cell.after) for cell in line.cells]
        names = [_markdown(line.dataset), _markdown(line.title)]
        lines.append("| " + " | ".join([*names, *cells, *line.tail]) + " |")
    return "\n".join([*lines, "", "; ".join(notes_of(rows, published))]) + "\n"


def as_rich(rows: Sequence[Row], title: str | None = None, published: bool = False) -> Table:
    """Table for the terminal, best value per data set and metric bold, second underlined."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.title_justify = table.caption_justify = "left"
    table.caption = "\n".join(notes_of(rows, published))
    several = len({row.dataset for row in rows}) > 1
    for name in COLUMNS[0 if several else 1 : 2]:
        table.add_column(name, overflow="fold")  # a long name is folded before a number is cut
    for name in COLUMNS[2:]:
        table.add_column(name, justify="right", no_wrap=True)
    for line in table_lines(rows, published):
        names = [line.dataset, line.title] if several else [line.title]
        cells = [Text(cell.text + cell.after, style=_STYLES[cell.mark]) for cell in line.cells]
        style = "dim" if line.published else None
        words = [Text(printable(name)) for name in names]
        table.add_row(*words, *cells, *map(Text, line.tail), style=style)
    return table


def as_text(rows: Sequence[Row], published: bool = False) -> str:
    """The table of the terminal as plain text, for a file."""
    import io

    from rich.console import Console

    stream = io.StringIO()
    Console(width=160, file=stream).print(as_rich(rows, published=published))
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n"


def printable(text: str) -> str:
    """Text without line breaks and control characters, which could rewrite a terminal."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


_STYLES = {"": "", BEST: "bold", SECOND: "underline"}
_MARKDOWN_MARKS = {"": "{}", BEST: "**{}**", SECOND: "<u>{}</u>"}
_MARKDOWN_LETTERS = {"\\": "\\\\", "|": "\\|", "<": "&lt;", "&": "&amp;", "*": "\\*", "`": "\\`"}


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
    folds = f"{row.folds} of {row.folds + row.failed}" if row.failed else str(row.folds)
    return seconds, folds


def _markdown(text: str) -> str:
    letters = (_MARKDOWN_LETTERS.get(letter, letter) for letter in printable(text))
    return "".join(letters).replace("](", "]\\(")  # no text becomes a link
