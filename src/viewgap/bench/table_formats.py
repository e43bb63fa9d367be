"""Tables of results for other programs: CSV for spreadsheets and scripts, LaTeX for papers."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from itertools import pairwise

from viewgap.bench.published import Figure, published_beside
from viewgap.bench.rows import DIRECTION, HOLE, RECONSTRUCTION, Row, is_reconstruction, standings
from viewgap.bench.tables import (
    BEST,
    COLUMNS,
    SECOND,
    Cell,
    Line,
    notes_of,
    printable,
    table_lines,
)
from viewgap.metrics import SIX

_FORMULA_STARTS = ("=", "+", "-", "@")
_LATEX_LETTERS = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "[": "{[}",  # after the end of a row it would begin an optional argument
    "*": "{*}",
    RECONSTRUCTION: r"\textsuperscript{\dag}",
    HOLE: "--",
    "±": r"$\pm$",
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
}
_LATEX_MARKS = {"": "%s", BEST: r"\textbf{%s}", SECOND: r"\underline{%s}"}


def as_csv(rows: Sequence[Row], published: bool = False) -> str:
    """One line per row with plain numbers; what is not known is an empty field.

    Mean and standard deviation have a column each. Text that a spreadsheet would run as a formula
    is preceded by an apostrophe.
    """
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    names = ["dataset", "method", "profile", "settings", "reconstruction", "variant", "direction"]
    numbers = [f"{name}_{part}" for name in SIX for part in ("mean", "std")]
    printed = [
        f"{name}_{part}"
        for name in SIX
        for part in ("published", "published_std", "difference")
        if published
    ]
    writer.writerow([*names, *numbers, "average_rank", "seconds", "folds", "failed", *printed])
    figures = published_beside(rows) if published else [{} for _ in rows]
    for row, standing, known in zip(rows, standings(rows), figures, strict=True):
        words = [csv_text(text) for text in (row.dataset, row.method, row.profile, row.note)]
        words += ["yes" if is_reconstruction(row.method) else "no", row.variant, DIRECTION]
        values = [_number(value) for value in (*_means(row), standing.average_rank, row.seconds)]
        extra = _printed(row, known) if published else []
        writer.writerow([*words, *values, row.folds, row.failed, *extra])
    return stream.getvalue()


def csv_text(text: str) -> str:
    """Text for a CSV field that no spreadsheet takes for a formula."""
    plain = printable(text)
    return f"'{plain}" if plain.lstrip().startswith(_FORMULA_STARTS) else plain


def as_latex(rows: Sequence[Row], published: bool = False) -> str:
    r"""A `tabular` with the rules of booktabs, best value in bold, second best underlined."""
    width = len(COLUMNS)
    head = " & ".join(latex_text(name) for name in COLUMNS)
    body = table_lines(rows, published)
    text = [
        r"% needs \usepackage{booktabs}",
        rf"\begin{{tabular}}{{ll*{{{width - 2}}}{{r}}}}",
        r"\toprule",
        rf"{head} \\",
        r"\midrule",
    ]
    for line, following in pairwise([*body, None]):
        if line is not None:
            text.append(_latex_line(line))
        if line and following and line.dataset != following.dataset:
            text.append(r"\midrule")
    notes = [
        rf"\multicolumn{{{width}}}{{l}}{{\footnotesize {latex_text(note)}}} \\"
        for note in notes_of(rows, published)
    ]
    return "\n".join([*text, r"\bottomrule", *notes, r"\end{tabular}"]) + "\n"


def latex_text(text: str) -> str:
    """Text as LaTeX prints it, whatever it contains."""
    return "".join(_LATEX_LETTERS.get(letter, letter) for letter in printable(text))


def _latex_line(line: Line) -> str:
    names = [latex_text(line.dataset), latex_text(line.title)]
    if line.published:
        names[1] = rf"\quad {names[1]}"
    cells = [_latex_cell(cell) for cell in line.cells]
    return " & ".join([*names, *cells, *map(latex_text, line.tail)]) + r" \\"


def _latex_cell(cell: Cell) -> str:
    after = cell.after.replace("(", "($").replace(")", "$)")  # a minus sign, not a hyphen
    number = latex_text(cell.text) + after.replace("±", r"$\pm$")
    return _LATEX_MARKS[cell.mark] % number


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
    return [_number(value) for value in values]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6f}".rstrip("0").rstrip(".")
