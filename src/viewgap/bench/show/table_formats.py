"""Tables of results for other programs: CSV for spreadsheets and scripts, LaTeX for papers."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

from viewgap.bench.analyse.published import Figure, published_beside
from viewgap.bench.analyse.summary import (
    DIRECTION,
    HOLE,
    RECONSTRUCTION,
    Row,
    is_reconstruction,
    standings,
)
from viewgap.bench.show.sheets import BEST, NAMES, SECOND, Cell, Line, Sheet, printable
from viewgap.bench.show.tables import metrics_sheet
from viewgap.metrics import SIX

ROW_COLUMNS = ("dataset", "method", "profile", "settings", "reconstruction", "variant")
_FORMULA_STARTS = ("=", "+", "-", "@")
_NUMBER = re.compile(r"-?\d+(\.\d+)?", flags=re.ASCII)
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
    HOLE: "--",
    "±": r"$\pm$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "−": "$-$",
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
}
_LATEX_MARKS = {"": "%s", BEST: r"\textbf{%s}", SECOND: r"\underline{%s}"}


def as_csv(rows: Sequence[Row], published: bool = False) -> str:
    """One line per row with plain numbers; what is not known is an empty field.

    Mean and standard deviation have a column each. Text that a spreadsheet would run as a formula
    is preceded by an apostrophe.
    """
    numbers = [f"{name}_{part}" for name in SIX for part in ("mean", "std")]
    printed = [
        f"{name}_{part}"
        for name in SIX
        for part in ("published", "published_std", "difference")
        if published
    ]
    figures = published_beside(rows) if published else [{} for _ in rows]
    lines = []
    for row, standing, known in zip(rows, standings(rows), figures, strict=True):
        measured = (*_means(row), standing.average_rank, row.seconds)
        values = [DIRECTION, *map(csv_number, measured), str(row.folds), str(row.failed)]
        lines.append([*row_words(row), *values, *(_printed(row, known) if published else [])])
    names = ("direction", *numbers, "average_rank", "seconds", "folds", "failed", *printed)
    return csv_lines(names, lines)


def row_words(row: Row) -> list[str]:
    """The fields that say which row a line is about, `ROW_COLUMNS`."""
    known = "yes" if is_reconstruction(row.method) else "no"
    settings = ", ".join(filter(None, (row.condition, row.note)))
    return [row.dataset, row.method, row.profile, settings, known, row.variant]


def csv_lines(columns: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A CSV whose lines begin with `row_words`; `columns` name what follows them."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([*ROW_COLUMNS, *columns])
    for line in lines:
        writer.writerow([_field(text) for text in line])
    return stream.getvalue()


def _field(text: str) -> str:
    """A number stays one, a minus sign before it included."""
    return text if _NUMBER.fullmatch(text) else csv_text(text)


def csv_text(text: str) -> str:
    """Text for a CSV field that no spreadsheet takes for a formula."""
    plain = printable(text)
    return f"'{plain}" if plain.lstrip().startswith(_FORMULA_STARTS) else plain


def as_latex(rows: Sequence[Row], published: bool = False) -> str:
    """The table of the six metrics for a paper."""
    return sheet_latex(metrics_sheet(rows, published))


def sheet_latex(sheet: Sheet) -> str:
    r"""A `tabular` with the rules of booktabs, best value in bold, second best underlined.

    Deviations are subscripts, and what is still wider than the line is scaled down to it. The
    notes stand below the table: inside they would widen its last column.
    """
    names = NAMES if sheet.several else NAMES[1:]
    head = " & ".join(latex_text(name) for name in (*names, *sheet.columns))
    text = [
        r"% needs \usepackage{booktabs, graphicx}",
        r"\begingroup\small\setlength{\tabcolsep}{4pt}%",
        r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
        rf"\begin{{tabular}}{{{'l' * len(names)}*{{{len(sheet.columns)}}}{{r}}}}",
        r"\toprule",
        rf"{head} \\",
        r"\midrule",
    ]
    for line, following in pairwise([*sheet.lines, None]):
        if line is not None:
            text.append(_latex_line(line, sheet.several))
        if line and following and line.dataset != following.dataset:
            text.append(r"\midrule")
    notes = r"\newline ".join(latex_text(note) for note in sheet.notes)
    text += [r"\bottomrule", r"\end{tabular}}\endgroup"]
    text += [r"\par\smallskip", rf"\parbox{{\linewidth}}{{\footnotesize\raggedright {notes}}}"]
    return "\n".join(text) + "\n"


def latex_text(text: str) -> str:
    """Text as LaTeX prints it, whatever it contains."""
    return "".join(_LATEX_LETTERS.get(letter, letter) for letter in printable(text))


def _latex_line(line: Line, several: bool) -> str:
    title = latex_text(line.title)
    names = [rf"\quad {title}" if line.published else title]
    if several:
        names.insert(0, latex_text(line.dataset))
    cells = [_latex_cell(cell) for cell in line.cells]
    return " & ".join([*names, *cells, *map(latex_text, line.tail)]) + r" \\"


def _latex_cell(cell: Cell) -> str:
    number = _LATEX_MARKS[cell.mark] % latex_text(cell.text)
    if cell.after.startswith(" ± "):
        return rf"{number}$_{{\pm {cell.after[3:]}}}$"
    return number + cell.after.replace("(", "($").replace(")", "$)")  # a minus sign, no hyphen


def _means(row: Row) -> list[float | None]:
    values: list[float | None] = []
    for name in SIX:
        spread = row.spread.get(name) if row.folds > 1 else None
        values += [row.mean.get(name), spread]
    return values


def _printed(row: Row, known: Mapping[str, Figure]) -> list[str]:
    values: list[float | None] = []
    for name in SIX:
        figure, here = known.get(name), row.mean.get(name)
        gap = None if figure is None or here is None else here - figure.mean
        values += [figure.mean if figure else None, figure.std if figure else None, gap]
    return [csv_number(value) for value in values]


def csv_number(value: float | None) -> str:
    """A number with six decimals at most; what is not known is empty."""
    return "" if value is None else f"{value:.6f}".rstrip("0").rstrip(".")
