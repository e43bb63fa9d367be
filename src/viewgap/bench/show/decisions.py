"""Whether probabilities and decisions can be trusted: calibration error, macro AUC and F1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from viewgap.bench.analyse.summary import HOLE, PRINTED_DIGITS, Row, by_heading
from viewgap.bench.results.details import CALIBRATION, FIGURES, LOWER_IS_BETTER, figure_of
from viewgap.bench.show.sheets import Cell, Line, Sheet, marks
from viewgap.bench.show.table_formats import csv_lines, csv_number, row_words
from viewgap.bench.show.tables import reconstruction_note

# What the probabilities are worth comes before the decisions made from them.
ORDER = (*CALIBRATION, *(name for name in FIGURES if name not in CALIBRATION))


@dataclass(frozen=True)
class Decisions:
    """Mean and population standard deviation of the figures of one row, by name.

    A fold counts where it has details and its data define the figure. `folds` have details.
    """

    mean: Mapping[str, float]
    spread: Mapping[str, float]
    folds: int


def decisions_of(row: Row) -> Decisions:
    """The figures of a row; what no fold knows is left out."""
    values = {name: [figure_of(record, name) for record in row.records] for name in ORDER}
    known = {name: [v for v in column if v is not None] for name, column in values.items()}
    return Decisions(
        mean={name: float(np.mean(column)) for name, column in known.items() if column},
        spread={name: float(np.std(column)) for name, column in known.items() if len(column) > 1},
        folds=sum(bool(record.details) for record in row.records),
    )


def direction_of(name: str) -> str:
    """Whether higher or lower is better."""
    return "lower" if name in LOWER_IS_BETTER else "higher"


def digits_of(name: str) -> int:
    """How many are printed: errors of rare labels are small."""
    return PRINTED_DIGITS + (name in CALIBRATION)


def decisions_sheet(rows: Sequence[Row]) -> Sheet:
    """The figures of every row, the best of each heading marked in its own direction."""
    found = [decisions_of(row) for row in rows]
    standing = [_standing(rows, found, name) for name in ORDER]
    lines = []
    for place, (row, own) in enumerate(zip(rows, found, strict=True)):
        cells = [
            _cell(own, name, column[place]) for name, column in zip(ORDER, standing, strict=True)
        ]
        lines.append(Line(row.heading, row.title, tuple(cells), (_folds(row, own),)))
    notes = [
        "calibration error: expected, of ten equal bins, mean over the labels; lower is better",
        "beyond chance: what is left of it without what chance does to few rows; right is 0",
        "F1 of the decisions that the method makes; macro AUC and F1: higher is better",
    ]
    if any(own.folds < row.folds for row, own in zip(rows, found, strict=True)):
        notes.append("folds: those whose records have these figures, of all")
    return Sheet((*ORDER, "folds"), lines, [*notes, *reconstruction_note(rows)])


def decisions_csv(rows: Sequence[Row]) -> str:
    """The same with plain numbers; every figure says in which direction it is better."""
    names = [f"{name}_{part}" for name in ORDER for part in ("mean", "std", "direction")]
    lines = []
    for row in rows:
        own = decisions_of(row)
        values: list[str] = []
        for name in ORDER:
            values += [csv_number(own.mean.get(name)), csv_number(own.spread.get(name))]
            values.append(direction_of(name))
        lines.append([*row_words(row), *values, str(own.folds), str(row.folds), str(row.failed)])
    return csv_lines((*names, "folds_with_figures", "folds", "failed"), lines)


def _standing(rows: Sequence[Row], found: Sequence[Decisions], name: str) -> list[str]:
    standing = [""] * len(rows)
    for heading in by_heading(rows):
        places = [place for place, row in enumerate(rows) if row.heading == heading]
        values = [found[place].mean.get(name) for place in places]
        found_marks = marks(values, name in LOWER_IS_BETTER, digits_of(name))
        for place, mark in zip(places, found_marks, strict=True):
            standing[place] = mark
    return standing


def _cell(own: Decisions, name: str, mark: str) -> Cell:
    if name not in own.mean:
        return Cell(HOLE)
    digits = digits_of(name)
    after = f" ± {own.spread[name]:.{digits}f}" if name in own.spread else ""
    return Cell(f"{own.mean[name]:.{digits}f}", after, mark)


def _folds(row: Row, own: Decisions) -> str:
    total = row.folds + row.failed
    return str(total) if own.folds == total else f"{own.folds} of {total}"
