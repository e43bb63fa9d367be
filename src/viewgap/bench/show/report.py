"""The report of an experiment: tables, figures, tests, failures and every task on one HTML page.

Nothing is loaded from outside, and the only script that may run is the one of this package: the
page names its hash. The same records give the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from viewgap.bench.analyse.summary import AVERAGE_RANK, Row, standings, summarise
from viewgap.bench.results.record import Record
from viewgap.bench.show.inline_svg import InlineFigure, inline_figures
from viewgap.bench.show.page import environment, script_hash, trusted
from viewgap.bench.show.report_sections import failure_lines, metadata, significance, task_lines
from viewgap.bench.show.report_tables import part_tables, result_tables
from viewgap.bench.show.showcase import Showcase
from viewgap.bench.show.tables import TitledTable
from viewgap.errors import InputError, RunError, counted

SCRIPT = "report.js"
MOST_LEADERS = 3

# Sections beside the results, by the kind of their figures: heading and what to know.
PARTS = {
    "cost": ("Cost", "What the results took, a fold each. A dash is what no record says."),
    "calibration": (
        "Calibration and decisions",
        "Whether a probability means what it says, and how good the decisions made from it are. "
        "Chance alone gives an error of calibration to small test sets: compare within a table.",
    ),
    "labels": (
        "Label by label",
        "Where a method gains over the reference: a mean over labels hides the rare ones.",
    ),
}


def render_report(
    records: Sequence[Record],
    failures: Sequence[Mapping[str, Any]] = (),
    title: str | None = None,
    showcase: Showcase | None = None,
    *,
    reference: str | None = None,
    tables: Sequence[TitledTable] = (),
) -> str:
    """The page as one HTML text.

    `failures` are tasks that failed and have no record since. `showcase`, a fitted model and its
    test samples, stands beside the results, `tables` before the tables of all metrics. `reference`
    is the row that the others are tested against; see `gaps_to`.
    """
    if not records and not failures:
        raise InputError("there is no task to report")
    rows = summarise(records, failures)
    figures, figures_note = _figures(records)
    script = files("viewgap.bench.show").joinpath("templates", SCRIPT).read_text(encoding="utf-8")
    return (
        environment()
        .get_template("report.html.j2")
        .render(
            title=title or (showcase.headline if showcase else _title(rows)),
            lead=showcase.summary if showcase else _lead(records, failures, rows),
            showcase=showcase,
            leaders=leaders(rows),
            tables=[*tables, *result_tables(rows)],
            figures=[figure for figure in figures if figure.kind not in PARTS],
            figures_note=figures_note,
            parts=_parts(part_tables(rows, records), figures),
            tests=significance(records, reference),
            failures=failure_lines(failures, rows),
            tasks=task_lines(records, failures, rows),
            metadata=metadata(records, failures),
            script=trusted(script),
            script_hash=script_hash(script),
        )
    )


def _parts(tables: Mapping[str, Any], figures: Sequence[InlineFigure]) -> list[dict[str, Any]]:
    """The sections with tables and figures of one kind, where the records have the data."""
    return [
        {
            "id": kind,
            "title": title,
            "note": note,
            "tables": tables[kind],
            "figures": [figure for figure in figures if figure.kind == kind],
        }
        for kind, (title, note) in PARTS.items()
        if tables[kind]
    ]


def leaders(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """For every heading the rows with the best average rank, in words."""
    found: dict[str, list[str]] = {}
    for row, standing in zip(rows, standings(rows), strict=True):
        if AVERAGE_RANK in standing.best:
            rank = f"average rank {standing.average_rank:.2f}"
            ap = f", AP {row.mean['AP']:.3f}" if "AP" in row.mean else ""
            words = f"{row.title} ({rank}{ap})"
            found.setdefault(row.heading, []).append(words)
    return [
        (heading, f"{len(words)} rows alike" if len(words) > MOST_LEADERS else _listed(words))
        for heading, words in found.items()
    ]


def _title(rows: Sequence[Row]) -> str:
    return "Results on " + _listed(list(dict.fromkeys(row.dataset for row in rows)))


def _lead(
    records: Sequence[Record], failures: Sequence[Mapping[str, Any]], rows: Sequence[Row]
) -> str:
    datasets = len({row.dataset for row in rows})
    methods = len({row.method for row in rows})
    work = f"{counted(methods, 'method')} on {counted(datasets, 'data set')}: "
    work += f"{counted(len(records), 'task')} finished"
    return f"{work}, {len(failures)} failed." if failures else f"{work}, none failed."


def _figures(records: Sequence[Record]) -> tuple[list[InlineFigure], str]:
    try:
        return inline_figures(records), ""
    except (InputError, RunError) as error:  # matplotlib is an extra; the page does without it
        return [], str(error)


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
