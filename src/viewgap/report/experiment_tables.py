"""The tables of an experiment's report, one per heading: results, cost, calibration, labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from viewgap.bench.analyse.costs import cost_sheet
from viewgap.bench.analyse.label_gains import LabelGains, gains_sheet, label_gains
from viewgap.bench.analyse.published import published_beside
from viewgap.bench.analyse.summary import Row, by_heading
from viewgap.bench.results.record import Record
from viewgap.bench.show.decisions import decisions_of, decisions_sheet
from viewgap.bench.show.sheets import Line, Sheet
from viewgap.bench.show.tables import metrics_sheet


@dataclass(frozen=True)
class ResultTable:
    """One table of one data set, under one condition; `dataset` is the heading."""

    dataset: str
    columns: Sequence[str]
    lines: Sequence[Line]
    notes: Sequence[str]

    @classmethod
    def of(cls, dataset: str, sheet: Sheet) -> Self:
        """The sheet of one heading, which stands above it."""
        return cls(dataset, ("method", *sheet.columns), sheet.lines, sheet.notes)


def result_tables(rows: Sequence[Row]) -> list[ResultTable]:
    """A table per heading; the published figures stand in it where some are known."""
    found = []
    for heading, own in by_heading(rows).items():
        comparable = all(row.variant == "field" for row in own)
        published = comparable and any(published_beside(own))
        found.append(ResultTable.of(heading, metrics_sheet(own, published)))
    return found


def cost_tables(rows: Sequence[Row]) -> list[ResultTable]:
    """Seconds and memory under every heading that has results."""
    return [
        ResultTable.of(heading, cost_sheet(own))
        for heading, own in by_heading(rows).items()
        if any(row.records for row in own)
    ]


def calibration_tables(rows: Sequence[Row]) -> list[ResultTable]:
    """Calibration, macro AUC and F1 under every heading whose records have them."""
    return [
        ResultTable.of(heading, decisions_sheet(own))
        for heading, own in by_heading(rows).items()
        if any(decisions_of(row).mean for row in own)
    ]


def label_tables(records: Sequence[Record]) -> list[ResultTable]:
    """Gains label by label under every heading with figures per label of two methods."""
    found: dict[str, list[LabelGains]] = {}
    for own in label_gains(records):
        found.setdefault(own.row.heading, []).append(own)
    return [ResultTable.of(heading, gains_sheet(gains)) for heading, gains in found.items()]
