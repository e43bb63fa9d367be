"""The tables of the report: conditions as columns, settings of a method in a table of their own."""

from __future__ import annotations

from collections.abc import Sequence

from viewgap.bench.analyse.label_gains import label_gains
from viewgap.bench.analyse.published import published_beside
from viewgap.bench.analyse.summary import (
    MISSING,
    Row,
    assignments,
    by_heading,
    by_method,
    grouped,
    method_settings,
)
from viewgap.bench.results.record import Record
from viewgap.bench.show.contents import (
    calibration_table,
    cost_table,
    gains_table,
    has_calibration,
    main_metric,
    marked_rows,
    metric_entry,
    metrics_table,
    shown_metrics,
)
from viewgap.bench.show.tables import Line, Table, TableEntry, TitledTable
from viewgap.metrics import get_metric

MOST_COLUMNS = 8


def result_tables(rows: Sequence[Row]) -> list[TitledTable]:
    """The results of every data set.

    With one condition and one setting of every method, a table of all metrics. Otherwise one metric
    first, conditions as columns, and settings of a method in a table of their own; all metrics of
    every condition are folded below.
    """
    found = []
    for dataset, own in grouped(rows, lambda row: row.dataset).items():
        headings = by_heading(own)
        overview = len(headings) > 1 or any(row.varied_by_method for row in own)
        if overview and any(row.mean for row in own):
            metric = main_metric(kind.name for kind in shown_metrics(own))
            found.append(TitledTable(f"{dataset}: {metric}", _overview(own, metric)))
            for twins in by_method(own).values():
                if any(row.varied_by_method for row in twins):
                    title = f"{dataset}: {metric} of {twins[0].base_title} by its settings"
                    found.append(
                        TitledTable(title, _settings_table(twins, metric), row_name="settings")
                    )
        for heading, alike in headings.items():
            comparable = all(row.variant == "field" for row in alike)
            published = comparable and any(published_beside(alike))
            title = f"{heading}: all metrics" if overview else heading
            found.append(TitledTable(title, metrics_table(alike, published), folded=overview))
    return found


def part_tables(rows: Sequence[Row], records: Sequence[Record]) -> dict[str, list[TitledTable]]:
    """Cost, calibration and gains label by label under every heading that has the data."""
    gains = grouped(label_gains(records), lambda own: own.row.heading)
    headings = by_heading(rows)
    tables = {
        "cost": {h: cost_table(own) for h, own in headings.items() if any(r.records for r in own)},
        "calibration": {
            h: calibration_table(own) for h, own in headings.items() if has_calibration(own)
        },
        "labels": {heading: gains_table(own) for heading, own in gains.items()},
    }
    return {
        name: [TitledTable(title, table, folded=len(own) > 2) for title, table in own.items()]
        for name, own in tables.items()
    }


def _overview(rows: Sequence[Row], metric: str) -> Table:
    """One line per method, one column per condition; a span where a method has several settings."""
    conditions = list(dict.fromkeys(row.condition for row in rows))
    methods = list(by_method(rows).values())
    columns = [
        _spans([[row for row in twins if row.condition == c] for twins in methods], metric)
        for c in conditions
    ]
    lines = [
        Line(rows[0].dataset, twins[0].base_title, entries)
        for twins, entries in zip(methods, zip(*columns, strict=True), strict=True)
    ]
    notes = [_metric_note(metric)]
    if any(row.varied_by_method for row in rows):
        notes.append("a span is from the lowest to the highest of the settings of a method")
    return Table(tuple(c or metric for c in conditions), lines, notes)


def _spans(methods: Sequence[Sequence[Row]], metric: str) -> list[TableEntry]:
    """Of every method; the best is marked only where no method could choose among settings."""
    kind = get_metric(metric)
    several = any(len(own) > 1 for own in methods)
    marked = {} if several else marked_rows([[row for own in methods for row in own]], kind)
    result = []
    for own in methods:
        known = [row.mean[metric] for row in own if metric in row.mean]
        if not known:
            result.append(TableEntry(MISSING))
        elif len(own) > 1:
            low, high = f"{min(known):.{kind.digits}f}", f"{max(known):.{kind.digits}f}"
            result.append(TableEntry(f"{low} to {high}", f" ({len(own)} settings)"))
        else:
            result.append(metric_entry(own[0], kind, marked.get(id(own[0]), "")))
    return result


def _settings_table(rows: Sequence[Row], metric: str) -> Table:
    """Settings of one method: all but one as lines, that one and the conditions as columns."""
    names = sorted({name for row in rows for name in row.varied_by_method})
    conditions = list(dict.fromkeys(row.condition for row in rows))
    across = names[-1:] if len(names) > 1 else []
    values = list(dict.fromkeys(_assigned(row, across) for row in rows))
    if len(values) * len(conditions) > MOST_COLUMNS:
        across, values = [], [""]
    along = [name for name in names if name not in across]
    by_place = {(_assigned(r, along), r.condition, _assigned(r, across)): r for r in rows}
    lines = {
        title: [by_place.get((title, c, value)) for c in conditions for value in values]
        for title in dict.fromkeys(_assigned(row, along) for row in rows)
    }
    kind = get_metric(metric)
    marked = marked_rows(grouped(rows, lambda row: row.condition).values(), kind)
    columns = [", ".join(filter(None, (c, v))) or metric for c in conditions for v in values]
    return Table(
        tuple(columns),
        [
            Line(
                rows[0].dataset,
                title,
                tuple(metric_entry(row, kind, marked.get(id(row), "")) for row in found),
            )
            for title, found in lines.items()
        ],
        [_metric_note(metric), "marked: the best of the settings under a condition"],
    )


def _metric_note(metric: str) -> str:
    kind = get_metric(metric)
    return f"{kind.name}: {kind.title}, {kind.direction} is better"


def _assigned(row: Row, names: Sequence[str]) -> str:
    return assignments(method_settings(row.settings), names)
