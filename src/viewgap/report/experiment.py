"""The report of an experiment: tables, figures, tests, failures and every cell on one HTML page.

Nothing is loaded from outside, and the only script that may run is the one of this package: the
page names its hash. The same records give the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from viewgap.bench.analyse.summary import AVERAGE_RANK, Row, standings, summarise
from viewgap.bench.results.record import Record
from viewgap.errors import InputError
from viewgap.report.experiment_parts import (
    cell_lines,
    facts,
    failure_lines,
    significance,
)
from viewgap.report.experiment_tables import (
    calibration_tables,
    cost_tables,
    label_tables,
    result_tables,
)
from viewgap.report.inline_svg import InlineFigure, inline_figures
from viewgap.report.page import template_environment

SCRIPT = "experiment.js"
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


def render_experiment(
    records: Sequence[Record], failures: Sequence[Mapping[str, Any]] = (), title: str | None = None
) -> str:
    """The page as one HTML text. `failures` are cells that failed and have no record since."""
    if not records and not failures:
        raise InputError("there is no cell to report")
    rows = summarise(records, failures)
    figures, figures_note = _figures(records)
    script = files("viewgap.report").joinpath("templates", SCRIPT).read_text(encoding="utf-8")
    return (
        template_environment()
        .get_template("experiment.html.j2")
        .render(
            title=title or _title(rows),
            lead=_lead(records, failures, rows),
            leaders=leaders(rows),
            tables=result_tables(rows),
            figures=[figure for figure in figures if figure.kind not in PARTS],
            figures_note=figures_note,
            parts=_parts(records, rows, figures),
            tests=significance(records),
            failures=failure_lines(failures, rows),
            cells=cell_lines(records, failures, rows),
            facts=facts(records, failures),
            script=_trusted(script),
            script_hash=_hash(script),
        )
    )


def _parts(
    records: Sequence[Record], rows: Sequence[Row], figures: Sequence[InlineFigure]
) -> list[dict[str, Any]]:
    """The sections with tables and figures of one kind, where the records have the data."""
    tables = {
        "cost": cost_tables(rows),
        "calibration": calibration_tables(rows),
        "labels": label_tables(records),
    }
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
            words = f"{row.title} ({rank}, AP {row.mean['AP']:.3f})"
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
    work = f"{_counted(methods, 'method')} on {_counted(datasets, 'data set')}: "
    work += f"{_counted(len(records), 'cell')} finished"
    return f"{work}, {len(failures)} failed." if failures else f"{work}, none failed."


def _figures(records: Sequence[Record]) -> tuple[list[InlineFigure], str]:
    try:
        return inline_figures(records), ""
    except InputError as error:  # the rest of the page does not depend on the drawings
        return [], str(error)


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("s" if count != 1 else "")


def _hash(script: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _trusted(script: str) -> Any:
    from markupsafe import Markup

    return Markup(script)  # noqa: S704 - a file of this package, no text from data in it
