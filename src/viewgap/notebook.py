"""What notebooks show: small HTML without script, every text escaped, for dark and light pages.

Colours are those of the text around, more or less transparent: a notebook has a theme of its own,
which need not be that of the system.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from viewgap.errors import printable

_STYLE = """<style>
.viewgap { font: 13px/1.5 system-ui, sans-serif; color: inherit; max-width: 62em; }
.viewgap .vg-head { font-size: 14px; margin: 0 0 6px; }
.viewgap .vg-soft { opacity: .72; }
.viewgap .vg-scroll { overflow-x: auto; }
.viewgap table { border-collapse: collapse; margin: 4px 0 10px; border: 0; color: inherit;
  font-size: 12px; font-variant-numeric: tabular-nums; }
.viewgap th, .viewgap td { padding: 2px 12px 2px 0; border: 0; text-align: left;
  background: none; vertical-align: middle; white-space: nowrap; }
.viewgap tr { background: none !important; }
.viewgap th { font-weight: 600; opacity: .72; white-space: normal; }
.viewgap .vg-number { text-align: right; }
.viewgap td.vg-text { white-space: normal; overflow-wrap: break-word; max-width: 24em; }
.viewgap svg { display: block; }
.viewgap td svg { width: 100%; min-width: 80px; max-width: 240px; }
.viewgap ul { margin: 4px 0 10px; padding-left: 1.3em; }
.viewgap summary { cursor: pointer; }
</style>"""
_STRIP_WIDTH, _STRIP_HEIGHT = 240, 11
MOST_PATTERNS = 40
_WRAPPED = 24  # letters; shorter texts, an interval say, stay on one line


def escape(text: object) -> str:
    """Return text that is only text in HTML, also inside an attribute."""
    return html.escape(printable(str(text)), quote=True)


def card(head: str, *parts: str) -> str:
    """Return a block with a heading; `head` and the parts are HTML that is escaped already."""
    return f'{_STYLE}<div class="viewgap"><p class="vg-head">{head}</p>{"".join(parts)}</div>'


def soft(text: object) -> str:
    """Return text that is less important than the rest."""
    return f'<span class="vg-soft">{escape(text)}</span>'


def table(
    columns: Sequence[str], lines: Iterable[Sequence[object]], raw: Sequence[int] = ()
) -> str:
    """Return a table; numbers stand right, and cells of the columns `raw` are HTML already."""
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join(f"<tr>{_cells(line, raw)}</tr>" for line in lines)
    return (
        f'<div class="vg-scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _cells(line: Sequence[object], raw: Sequence[int]) -> str:
    cells = []
    for place, value in enumerate(line):
        kind = ' class="vg-number"' if isinstance(value, int | float) else ""
        if isinstance(value, str) and place not in raw and len(value) > _WRAPPED:
            kind = ' class="vg-text"'
        cells.append(f"<td{kind}>{value if place in raw else escape(number_text(value))}</td>")
    return "".join(cells)


def number_text(value: object) -> str:
    """Return a number as tables show it: 1,234 and 0.1235; a dash for none."""
    if value is None or value != value:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def strip(present: Sequence[bool], counts: Sequence[int]) -> str:
    """Return a picture of one view: patterns of views side by side, as wide as they are frequent.

    `present` says for every pattern whether it has the view, `counts` how many samples have it.
    """
    total = max(1, sum(counts))
    marks, start = [], 0.0
    for there, count in zip(present, counts, strict=True):
        width = _STRIP_WIDTH * count / total
        if there:
            marks.append(f'<rect x="{start:.2f}" width="{width:.2f}" height="{_STRIP_HEIGHT}"/>')
        start += width
    return (
        f'<svg viewBox="0 0 {_STRIP_WIDTH} {_STRIP_HEIGHT}" preserveAspectRatio="none" '
        f'width="{_STRIP_WIDTH}" height="{_STRIP_HEIGHT}" role="img" '
        f'aria-label="samples that have the view"><rect width="{_STRIP_WIDTH}" '
        f'height="{_STRIP_HEIGHT}" fill="currentColor" fill-opacity=".12"/>'
        f'<g fill="#3b8fc4">{"".join(marks)}</g></svg>'
    )
