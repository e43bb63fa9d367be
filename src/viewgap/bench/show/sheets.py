"""A sheet: what stands in a table, the same in every format; in a terminal and in Markdown.

The best value of a column is bold, the second underlined, a hole is a hole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from viewgap.bench.analyse.summary import PRINTED_DIGITS

if TYPE_CHECKING:
    from rich.table import Table

BEST, SECOND = "best", "second"
NAMES = ("data set", "method")


@dataclass(frozen=True)
class Cell:
    """One number as text, its deviation or difference after it, and whether it stands out."""

    text: str
    after: str = ""
    mark: str = ""


@dataclass(frozen=True)
class Line:
    """One line of a table: a row of results, or the published figures that belong to one.

    `dataset` is the heading of the row, the condition included where there are several.
    """

    dataset: str
    title: str
    cells: tuple[Cell, ...]
    tail: tuple[str, ...] = ()
    published: bool = False


@dataclass(frozen=True)
class Sheet:
    """A table: `columns` name what stands after data set and method, `notes` are sentences."""

    columns: tuple[str, ...]
    lines: Sequence[Line]
    notes: Sequence[str]

    @property
    def several(self) -> bool:
        """Whether the lines are of several data sets, so that their names have to be shown."""
        return len({line.dataset for line in self.lines}) > 1


def marks(
    values: Sequence[float | None], lower_is_better: bool = False, digits: int = PRINTED_DIGITS
) -> list[str]:
    """Which values stand out, as they are printed: equals share the mark, a hole has none."""
    printed = [None if value is None else round(value, digits) for value in values]
    levels = sorted({v for v in printed if v is not None}, reverse=not lower_is_better)
    words = dict(zip(levels, (BEST, SECOND), strict=False))
    return ["" if value is None else words.get(value, "") for value in printed]


def sheet_markdown(sheet: Sheet) -> str:
    """GitHub table, the best bold, the second underlined; the notes below it."""
    columns = (*NAMES, *sheet.columns)
    lines = ["| " + " | ".join(columns) + " |", "|---|---|" + "---:|" * len(sheet.columns)]
    for line in sheet.lines:
        cells = [_MARKDOWN_MARKS[cell.mark].format(cell.text + cell.after) for cell in line.cells]
        words = [_markdown(text) for text in (line.dataset, line.title)]
        tail = [_markdown(text) for text in line.tail]
        lines.append("| " + " | ".join([*words, *cells, *tail]) + " |")
    return "\n".join([*lines, "", "; ".join(map(_markdown, sheet.notes))]) + "\n"


def sheet_rich(sheet: Sheet, title: str | None = None) -> Table:
    """Table for the terminal; the name of the data set is left out where there is one only."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.title_justify = table.caption_justify = "left"
    notes = [printable(note) for note in sheet.notes]
    table.caption = Text("\n".join(notes), style="table.caption")
    for name in NAMES[0 if sheet.several else 1 :]:
        table.add_column(name, overflow="fold")  # a long name is folded before a number is cut
    for name in sheet.columns:
        table.add_column(name, justify="right", no_wrap=True)
    for line in sheet.lines:
        names = [line.dataset, line.title] if sheet.several else [line.title]
        cells = [Text(cell.text + cell.after, style=_STYLES[cell.mark]) for cell in line.cells]
        words = [Text(printable(name)) for name in names]
        tail = [Text(printable(text)) for text in line.tail]
        table.add_row(*words, *cells, *tail, style="dim" if line.published else None)
    return table


def sheet_text(sheet: Sheet) -> str:
    """The table of the terminal as plain text, for a file."""
    import io

    from rich.console import Console

    stream = io.StringIO()
    Console(width=160, file=stream).print(sheet_rich(sheet))
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n"


def printable(text: str) -> str:
    """Text without line breaks and control characters, which could rewrite a terminal."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


_STYLES = {"": "", BEST: "bold", SECOND: "underline"}
_MARKDOWN_MARKS = {"": "{}", BEST: "**{}**", SECOND: "<u>{}</u>"}
_MARKDOWN_LETTERS = {"\\": "\\\\", "|": "\\|", "<": "&lt;", "&": "&amp;", "*": "\\*", "`": "\\`"}


def _markdown(text: str) -> str:
    letters = (_MARKDOWN_LETTERS.get(letter, letter) for letter in printable(text))
    return "".join(letters).replace("](", "]\\(")  # no text becomes a link
