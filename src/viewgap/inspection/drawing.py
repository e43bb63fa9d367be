"""Samples per pattern of views as a picture: bars over a matrix of dots (UpSet)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from viewgap.notebook import escape

if TYPE_CHECKING:
    import pandas as pd

MOST_PATTERNS, MOST_VIEWS = 24, 40
_BAR_HEIGHT, _ROW, _DOT = 120, 24, 6.5
_LETTER, _LONGEST_NAME = 6.7, 24


def upset(patterns: pd.DataFrame, names_of_views: Sequence[str]) -> str:
    """SVG of the most frequent patterns of the first views.

    Colours come from the page: `currentColor`, and `--viewgap-main` for what is there.
    """
    views = list(names_of_views)[:MOST_VIEWS]
    present: Counter[str] = Counter()
    for own, samples in zip(patterns["views"], patterns["samples"], strict=True):
        present.update(dict.fromkeys(own, int(samples)))
    counts = [int(count) for count in patterns["samples"][:MOST_PATTERNS]]
    totals = [f"{present[view]:,}" for view in views]
    longest, widest = (max(map(len, own), default=0) for own in (map(_cut, views), totals))
    left = round((longest + widest + 2) * _LETTER) + 20
    step = max(26, round(max((len(f"{count:,}") for count in counts), default=1) * _LETTER) + 8)
    width, height = left + step * len(counts) + 8, _BAR_HEIGHT + 34 + _ROW * len(views)
    parts = [_names(views, totals, (left - 12 - (widest + 2) * _LETTER, left - 12), width)]
    for place, (count, own) in enumerate(zip(counts, patterns["views"], strict=False)):
        flags = [view in own for view in views]
        parts.append(_pattern(left + step * (place + 0.5), count, max(counts), flags, views))
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'aria-label="Samples per pattern of views" font-size="12" fill="currentColor" '
        f'style="min-width:{width}px">{"".join(parts)}</svg>'
    )


def _cut(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"


def _y(row: int) -> float:
    return _BAR_HEIGHT + 34 + _ROW * (row + 0.5) - 4


def _names(views: list[str], totals: list[str], ends: tuple[float, float], width: int) -> str:
    """Names and numbers apart: a number in the text of a right-to-left name would stand in it."""
    lines = []
    for row, (view, total) in enumerate(zip(views, totals, strict=True)):
        if row % 2 == 0:
            top = _y(row) - _ROW / 2
            lines.append(
                f'<rect x="0" y="{top:.1f}" width="{width}" height="{_ROW}" fill-opacity=".05"/>'
            )
        lines.append(
            f'<text x="{ends[0]:.1f}" y="{_y(row) + 4:.1f}" text-anchor="end">{escape(_cut(view))}'
            f"<title>{escape(view)}</title></text>"
            f'<text x="{ends[1]:.1f}" y="{_y(row) + 4:.1f}" text-anchor="end" '
            f'fill-opacity=".7">{total}</text>'
        )
    return "".join(lines)


def _pattern(x: float, count: int, most: int, there: list[bool], views: list[str]) -> str:
    """A bar with its number, and a dot per view, joined where the view is there."""
    height = max(1.0, _BAR_HEIGHT * count / max(1, most))
    top = _BAR_HEIGHT + 18 - height
    has = [view for view, flag in zip(views, there, strict=True) if flag]
    title = f"{count:,} samples: {', '.join(has) if has else 'no view'}"
    rows = [row for row, flag in enumerate(there) if flag]
    parts = [
        f"<g><title>{escape(title)}</title>",
        f'<rect x="{x - 9:.1f}" y="{top:.1f}" width="18" height="{height:.1f}" rx="2" '
        'fill="var(--viewgap-main, #3b8fc4)"/>',
        f'<text x="{x:.1f}" y="{top - 5:.1f}" text-anchor="middle">{count:,}</text>',
    ]
    if len(rows) > 1:
        parts.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_y(rows[0]):.1f}" y2="{_y(rows[-1]):.1f}" '
            'stroke="var(--viewgap-main, #3b8fc4)" stroke-width="2"/>'
        )
    for row, flag in enumerate(there):
        fill = 'fill="var(--viewgap-main, #3b8fc4)"' if flag else 'fill-opacity=".16"'
        parts.append(f'<circle cx="{x:.1f}" cy="{_y(row):.1f}" r="{_DOT}" {fill}/>')
    return "".join([*parts, "</g>"])
