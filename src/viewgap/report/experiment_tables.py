"""The tables of an experiment's report, one per data set: results, cost, calibration, labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from viewgap.bench.costs import cost_sheet
from viewgap.bench.decisions import decisions_of, decisions_sheet
from viewgap.bench.label_gains import gains_sheet, required_gains
from viewgap.bench.published import published_beside
from viewgap.bench.record import Record
from viewgap.bench.rows import Row
from viewgap.bench.sheets import Line, Sheet
from viewgap.bench.tables import metrics_sheet
from viewgap.errors import InputError


@dataclass(frozen=True)
class ResultTable:
    """One table of one data set."""

    dataset: str
    columns: Sequence[str]
    lines: Sequence[Line]
    notes: Sequence[str]

    @classmethod
    def of(cls, dataset: str, sheet: Sheet) -> Self:
        """The sheet of one data set, whose name stands above it."""
        return cls(dataset, ("method", *sheet.columns), sheet.lines, sheet.notes)


def by_dataset(items: Sequence[Any]) -> dict[str, list[Any]]:
    """Rows or records of every data set, in the order of first appearance."""
    found: dict[str, list[Any]] = {}
    for item in items:
        found.setdefault(item.dataset, []).append(item)
    return found


def result_tables(rows: Sequence[Row]) -> list[ResultTable]:
    """A table per data set; the published figures stand in it where some are known."""
    found = []
    for dataset, own in by_dataset(rows).items():
        comparable = all(row.variant == "field" for row in own)
        published = comparable and any(published_beside(own))
        found.append(ResultTable.of(dataset, metrics_sheet(own, published)))
    return found


def cost_tables(rows: Sequence[Row]) -> list[ResultTable]:
    """Seconds and memory on every data set that has results."""
    return [
        ResultTable.of(dataset, cost_sheet(own))
        for dataset, own in by_dataset(rows).items()
        if any(row.records for row in own)
    ]


def calibration_tables(rows: Sequence[Row]) -> list[ResultTable]:
    """Calibration, macro AUC and F1 on every data set whose records have them."""
    return [
        ResultTable.of(dataset, decisions_sheet(own))
        for dataset, own in by_dataset(rows).items()
        if any(decisions_of(row).mean for row in own)
    ]


def label_tables(records: Sequence[Record]) -> list[ResultTable]:
    """Gains label by label on every data set with figures per label and the reference."""
    found = []
    for dataset, own in by_dataset(records).items():
        try:
            found.append(ResultTable.of(dataset, gains_sheet(required_gains(own))))
        except InputError:  # older records, or no reference among them
            continue
    return found
