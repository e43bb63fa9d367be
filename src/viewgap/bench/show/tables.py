"""A table and its formats: terminal, Markdown, CSV and LaTeX.

The best value of a column is bold, the second underlined, and what is not known is a dash.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from viewgap.bench.analyse.summary import MISSING, RECONSTRUCTION

if TYPE_CHECKING:
    from rich.table import Table as RichTable

BEST, SECOND = "best", "second"
NAMES = ("data set", "method")
ROW_COLUMNS = ("dataset", "method", "profile", "settings", "reconstruction", "variant")


@dataclass(frozen=True)
class TableEntry:
    """One number as text, its deviation or difference after it, and its mark."""

    text: str
    after: str = ""
    mark: str = ""


@dataclass(frozen=True)
class Line:
    """One line of a table: a row of results, or the published figures that belong to one.

    `heading` is the data set, with the condition where there are several.
    """

    heading: str
    title: str
    entries: tuple[TableEntry, ...]
    tail: tuple[str, ...] = ()
    published: bool = False


@dataclass(frozen=True)
class Table:
    """A table of results.

    `columns` name what stands after data set and method; `notes` are sentences that a reader needs.
    `csv_columns` and `csv_lines` are the same with plain numbers. A CSV line begins with the fields
    of `ROW_COLUMNS`, which `csv_columns` does not repeat.
    """

    columns: tuple[str, ...]
    lines: Sequence[Line]
    notes: Sequence[str]
    csv_columns: Sequence[str] = ()
    csv_lines: Sequence[Sequence[str]] = ()

    @property
    def has_headings(self) -> bool:
        """Whether the lines are of several headings, which have to be shown."""
        return len({line.heading for line in self.lines}) > 1


@dataclass(frozen=True)
class TitledTable:
    """A table of the report with its heading; `folded` ones open on a click."""

    title: str
    table: Table
    folded: bool = False
    row_name: str = "method"


def marks(
    values: Sequence[float | None], greater_is_better: bool = True, digits: int = 3
) -> list[str]:
    """Mark the best and second value as they are printed; equals share the mark."""
    printed = [None if value is None else round(value, digits) for value in values]
    levels = sorted({v for v in printed if v is not None}, reverse=greater_is_better)
    words = dict(zip(levels, (BEST, SECOND), strict=False))
    return ["" if value is None else words.get(value, "") for value in printed]


def printable(text: str) -> str:
    """Text without line breaks and control characters, which could rewrite a terminal."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


# ---------------------------------------------------------------------- Markdown and terminal

_STYLES = {"": "", BEST: "bold", SECOND: "underline"}
_MARKDOWN_MARKS = {"": "{}", BEST: "**{}**", SECOND: "<u>{}</u>"}
_MARKDOWN_LETTERS = {"\\": "\\\\", "|": "\\|", "<": "&lt;", "&": "&amp;", "*": "\\*", "`": "\\`"}


def to_markdown(table: Table) -> str:
    """GitHub table, the notes below it."""
    columns = (*NAMES, *table.columns)
    lines = ["| " + " | ".join(columns) + " |", "|---|---|" + "---:|" * len(table.columns)]
    for line in table.lines:
        entries = [_MARKDOWN_MARKS[own.mark].format(own.text + own.after) for own in line.entries]
        words = [_markdown(text) for text in (line.heading, line.title)]
        tail = [_markdown(text) for text in line.tail]
        lines.append("| " + " | ".join([*words, *entries, *tail]) + " |")
    return "\n".join([*lines, "", "; ".join(map(_markdown, table.notes))]) + "\n"


def _markdown(text: str) -> str:
    letters = (_MARKDOWN_LETTERS.get(letter, letter) for letter in printable(text))
    return "".join(letters).replace("](", "]\\(")  # no text becomes a link


def to_rich(table: Table, title: str | None = None) -> RichTable:
    """Table for the terminal; the heading is left out where there is one only."""
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    made = RichTable(title=title, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    made.title_justify = made.caption_justify = "left"
    notes = [printable(note) for note in table.notes]
    made.caption = Text("\n".join(notes), style="table.caption")
    for name in NAMES[0 if table.has_headings else 1 :]:
        made.add_column(name, overflow="fold")  # a long name is folded before a number is cut
    for name in table.columns:
        made.add_column(name, justify="right", no_wrap=True)
    for line in table.lines:
        names = [line.heading, line.title] if table.has_headings else [line.title]
        entries = [Text(own.text + own.after, style=_STYLES[own.mark]) for own in line.entries]
        words = [Text(printable(name)) for name in names]
        tail = [Text(printable(text)) for text in line.tail]
        made.add_row(*words, *entries, *tail, style="dim" if line.published else None)
    return made


def to_text(table: Table) -> str:
    """The table of the terminal as plain text, for a file."""
    from rich.console import Console

    stream = io.StringIO()
    Console(width=160, file=stream).print(to_rich(table))
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n"


# ---------------------------------------------------------------------- CSV

_FORMULA_STARTS = ("=", "+", "-", "@")
_NUMBER = re.compile(r"-?\d+(\.\d+)?", flags=re.ASCII)


def to_csv(table: Table) -> str:
    """Plain numbers; what is not known is an empty field.

    Text that a spreadsheet would run as a formula is preceded by an apostrophe.
    """
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([*ROW_COLUMNS, *table.csv_columns])
    for line in table.csv_lines:
        writer.writerow([_csv_field(text) for text in line])
    return stream.getvalue()


def _csv_field(text: str) -> str:
    plain = printable(text)
    is_formula = plain.lstrip().startswith(_FORMULA_STARTS) and not _NUMBER.fullmatch(text)
    return f"'{plain}" if is_formula else plain


def csv_number(value: float | None) -> str:
    """A number with six decimals at most; what is not known is empty."""
    return "" if value is None else f"{value:.6f}".rstrip("0").rstrip(".")


# ---------------------------------------------------------------------- LaTeX

_LATEX_LETTERS = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\symbol{34}",  # \textquotedbl is not in every font encoding
    "[": "{[}",  # after the end of a row it would begin an optional argument
    "*": "{*}",
    RECONSTRUCTION: r"\textsuperscript{\dag}",
    MISSING: "--",
    "±": r"$\pm$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "−": "$-$",
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
}
_LATEX_MARKS = {"": "%s", BEST: r"\textbf{%s}", SECOND: r"\underline{%s}"}


def to_latex(table: Table) -> str:
    r"""A `tabular` with the rules of booktabs, best value in bold, second best underlined.

    Deviations are subscripts, and what is still wider than the line is scaled down to it. The
    notes stand below the table: inside they would widen its last column.
    """
    names = NAMES if table.has_headings else NAMES[1:]
    head = " & ".join(latex_text(name) for name in (*names, *table.columns))
    text = [
        r"% needs \usepackage{booktabs, graphicx}",
        r"\begingroup\small\setlength{\tabcolsep}{4pt}%",
        r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
        rf"\begin{{tabular}}{{{'l' * len(names)}*{{{len(table.columns)}}}{{r}}}}",
        r"\toprule",
        rf"{head} \\",
        r"\midrule",
    ]
    for line, following in pairwise([*table.lines, None]):
        if line is not None:
            text.append(_latex_line(line, table.has_headings))
        if line and following and line.heading != following.heading:
            text.append(r"\midrule")
    notes = r"\newline ".join(latex_text(note) for note in table.notes)
    text += [r"\bottomrule", r"\end{tabular}}\endgroup"]
    text += [r"\par\smallskip", rf"\parbox{{\linewidth}}{{\footnotesize\raggedright {notes}}}"]
    return "\n".join(text) + "\n"


def latex_text(text: str) -> str:
    """Text as LaTeX prints it, whatever it contains."""
    return "".join(_LATEX_LETTERS.get(letter, letter) for letter in printable(text))


def _latex_line(line: Line, with_heading: bool) -> str:
    title = latex_text(line.title)
    names = [rf"\quad {title}" if line.published else title]
    if with_heading:
        names.insert(0, latex_text(line.heading))
    entries = [_latex_entry(entry) for entry in line.entries]
    return " & ".join([*names, *entries, *map(latex_text, line.tail)]) + r" \\"


def _latex_entry(entry: TableEntry) -> str:
    number = _LATEX_MARKS[entry.mark] % latex_text(entry.text)
    if entry.after.startswith(" ± "):
        return rf"{number}$_{{\pm {entry.after[3:]}}}$"
    return number + entry.after.replace("(", "($").replace(")", "$)")  # a minus sign, no hyphen
