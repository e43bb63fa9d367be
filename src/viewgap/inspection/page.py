"""An inspection as one HTML page, and as a block of a notebook; no script in either."""

from __future__ import annotations

from typing import TYPE_CHECKING

from viewgap.bench.show.page import environment
from viewgap.errors import printable
from viewgap.inspection.drawing import MOST_PATTERNS, upset
from viewgap.inspection.findings import SEVERITIES
from viewgap.inspection.shown import ShownTable, shown_tables
from viewgap.notebook import card, escape, soft, table

if TYPE_CHECKING:
    from viewgap.inspection.inspection import Inspection

_NOTEBOOK_LINES = 12


def render_page(inspection: Inspection, title: str) -> str:
    """The page as one text that needs no other file."""
    from markupsafe import Markup

    patterns = inspection.patterns
    drawing = upset(patterns, list(inspection.views["view"]))
    return (
        environment("viewgap.inspection")
        .get_template("inspection.html.j2")
        .render(
            title=printable(title),
            summary=inspection.size,
            findings=[
                {
                    "severity": finding.severity,
                    "text": printable(finding.text),  # may begin with the name of a file
                    "remedy": _sentence(finding.remedy),
                    "named": _named(finding.columns, finding.labels, finding.ids),
                }
                for finding in inspection.findings
            ],
            counts=[(kind, inspection.count(kind)) for kind in SEVERITIES],
            drawing=Markup(drawing),  # noqa: S704 - every text in it is escaped
            left_out=max(0, len(patterns) - MOST_PATTERNS),
            tables=[_printable(own) for own in shown_tables(inspection)],
        )
    )


def _sentence(text: str) -> str:
    return printable(text[:1].upper() + text[1:])


def _named(columns: tuple[str, ...], labels: tuple[str, ...], ids: tuple[str, ...]) -> list[str]:
    """What a finding names, in words."""
    parts = {"columns": columns, "labels": labels, "ids": ids}
    return [
        printable(f"{what}: {', '.join(items)}") for what, items in parts.items() if len(items) > 1
    ]


def _printable(own: ShownTable) -> ShownTable:
    from dataclasses import replace

    lines = [tuple(map(printable, line)) for line in own.lines]
    return replace(own, columns=tuple(map(printable, own.columns)), lines=lines)


def render_notebook(inspection: Inspection) -> str:
    """Findings, the picture of the patterns, and the tables folded."""
    found = "".join(
        f"<li><b>{escape(finding.severity)}</b> {escape(finding.text)}; {soft(finding.remedy)}</li>"
        for finding in inspection.findings
    )
    drawing = upset(inspection.patterns, list(inspection.views["view"]))
    picture = f'<div class="vg-scroll">{drawing}</div>'
    tables = [
        f"<details><summary>{escape(own.title)}</summary>{table(own.columns, own.lines)}"
        f"{soft(f'{own.left_out:,} more') if own.left_out else ''}</details>"
        for own in shown_tables(inspection, _NOTEBOOK_LINES)
    ]
    head = f"<b>Inspection</b> {escape(inspection.summary)}"
    return card(head, f"<ul>{found}</ul>", picture, *tables)
