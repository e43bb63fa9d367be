"""Charts drawn without matplotlib, in the colours of the page: intervals, calibration, steps.

Colours come from the style of the page (`currentColor`, `--main`, ...): dark and light alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import accumulate

from viewgap.notebook import escape

Scale = Callable[[float], float]
Interval = tuple[float, float | None, float | None]
_LINE, _PLOT, _RIGHT, _LETTER = 30, 400, 70, 7.2
_LONGEST = 44
_SIDE = 320
_NARROW, _STEP, _MOST_LETTERS = 300, 38, 38
_NUMBER = 30  # width of a number at an axis


def interval_chart(
    lines: Sequence[tuple[str, Interval]], label: str, reference: float | None = None
) -> str:
    """A dot with its interval per line, its value beside it, and a line at the reference."""
    known = [v for _, own in lines for v in own if v is not None and not math.isnan(v)]
    known += [] if reference is None or math.isnan(reference) else [reference]
    low, high = min(known, default=0.0), max(known, default=1.0)
    margin = 0.05 * (high - low) or 0.05
    low, high = low - margin, high + margin
    names = [_short(name) for name, _ in lines]
    left = round(max(map(len, names), default=0) * _LETTER) + 16
    bottom = _LINE * len(lines) + 8

    def x(value: float) -> float:
        return left + _PLOT * (value - low) / (high - low)

    parts = [_axis(low, high, x, bottom)]
    if reference is not None and not math.isnan(reference):
        parts.append(
            f'<line x1="{x(reference):.1f}" x2="{x(reference):.1f}" y1="0" y2="{bottom}" '
            'stroke="var(--rival)" stroke-dasharray="4 3"/>'
        )
    for place, (name, own) in enumerate(lines):
        parts.append(_dot(name, own, x, _LINE * (place + 0.5), left))
    return _svg(left + _PLOT + _RIGHT, bottom + 26, label, parts)


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…"


def _dot(name: str, own: Interval, x: Scale, y: float, left: float) -> str:
    value, low, high = own
    parts = [
        f'<text x="{left - 14}" y="{y + 4:.1f}" text-anchor="end">{escape(_short(name))}'
        f"<title>{escape(name)}</title></text>"
    ]
    right = left + _PLOT + 12
    if math.isnan(value):
        return parts[0] + f'<text x="{right}" y="{y + 4:.1f}">–</text>'
    if low is not None and high is not None:
        parts.append(
            f'<line x1="{x(low):.1f}" x2="{x(high):.1f}" y1="{y:.1f}" y2="{y:.1f}" '
            'stroke="var(--main)" stroke-width="2.5" stroke-opacity=".55"/>'
        )
    parts.append(f'<circle cx="{x(value):.1f}" cy="{y:.1f}" r="5" fill="var(--main)"/>')
    parts.append(f'<text x="{right}" y="{y + 4:.1f}">{value:.3f}</text>')
    return "".join(parts)


def _axis(low: float, high: float, x: Scale, bottom: float) -> str:
    step = 10 ** math.floor(math.log10((high - low) / 2))
    step *= next(f for f in (1, 2, 5, 10) if (high - low) / (step * f) <= 5)
    parts = [
        f'<line x1="{x(low):.1f}" x2="{x(high):.1f}" y1="{bottom}" y2="{bottom}" '
        'stroke="var(--rule)"/>'
    ]
    for number in range(math.ceil(low / step), math.floor(high / step) + 1):
        at = x(number * step)
        anchor = "start" if at < _NUMBER / 2 else "middle"  # nothing is drawn left of 0
        parts.append(
            f'<line x1="{at:.1f}" x2="{at:.1f}" y1="0" y2="{bottom}" stroke="var(--rule)"/>'
            f'<text x="{at:.1f}" y="{bottom + 18}" text-anchor="{anchor}" fill="var(--faint)">'
            f"{number * step:.10g}</text>"
        )
    return "".join(parts)


def calibration_chart(bins: Sequence[tuple[float, float, int]]) -> str:
    """Share of positives over mean probability; the area of a dot grows with its entries."""
    most = max((count for _, _, count in bins), default=1)
    left, size = 46, _SIDE

    def place(p: float, q: float) -> tuple[float, float]:
        return left + size * p, 8 + size * (1 - q)

    (x0, y0), (x1, y1) = place(0, 0), place(1, 1)
    parts = [
        f'<rect x="{x0}" y="{y1}" width="{size}" height="{size}" fill="none" '
        'stroke="var(--rule)"/>',
        f'<line x1="{x0}" y1="{y0}" x2="{x1}" y2="{y1}" stroke="var(--quiet)" '
        'stroke-dasharray="4 3"/>',
    ]
    for tick in (0.0, 0.5, 1.0):
        x, y = place(tick, tick)
        parts.append(f'<text x="{x}" y="{y0 + 18}" text-anchor="middle">{tick:g}</text>')
        parts.append(f'<text x="{x0 - 8}" y="{y + 4}" text-anchor="end">{tick:g}</text>')
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(p, q) for p, q, _ in bins))
    parts.append(f'<polyline points="{points}" fill="none" stroke="var(--main)"/>')
    for p, q, count in bins:
        x, y = place(p, q)
        radius = 3 + 7 * math.sqrt(count / most)
        said = f"said {p:.3f}, was {q:.3f} ({count:,} label entries)"
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="var(--main)" '
            f'fill-opacity=".75"><title>{said}</title></circle>'
        )
    middle = left + size / 2
    parts.append(f'<text x="{middle}" y="{y0 + 38}" text-anchor="middle">probability said</text>')
    parts.append(
        f'<text transform="translate(12 {8 + size / 2}) rotate(-90)" text-anchor="middle">'
        "share that was so</text>"
    )
    return _svg(left + size + 16, size + 54, "Calibration curve", parts)


def waterfall_chart(
    start: tuple[str, float], steps: Sequence[tuple[str, float | None]], end: str, label: str
) -> str:
    """Bars that lead from a start to its sum with all steps; a step of None is missing.

    As narrow as a phone: names stand above their bars.
    """
    ends = list(accumulate((step or 0.0 for _, step in steps), initial=start[1]))
    low, high = min(ends), max(ends)
    margin = 0.05 * (high - low) or 0.05
    low, high = low - margin, high + margin
    bottom = _STEP * (len(steps) + 2) + 4

    def x(value: float) -> float:
        return 6 + _NARROW * (value - low) / (high - low)

    parts = [_axis(low, high, x, bottom), _level(start[0], ends[0], x, 0)]
    for place, (name, step) in enumerate(steps):
        parts.append(_step(name, step, ends[place], x, _STEP * (place + 1)))
    parts.append(_level(end, ends[-1], x, _STEP * (len(steps) + 1)))
    return _svg(_NARROW + 12, bottom + 26, label, parts)


def _step(name: str, step: float | None, start: float, x: Scale, y: float) -> str:
    if step is None:
        return _named(name, "missing", y, ' fill="var(--faint)"')
    left, right = sorted((x(start), x(start + step)))
    colour = "var(--rival)" if step < 0 else "var(--main)"
    return (
        _named(name, f"{step:+.3f}", y)
        + f'<rect x="{left:.1f}" y="{y + 20:.1f}" width="{max(right - left, 1):.1f}" height="11" '
        f'rx="1.5" fill="{colour}"/><line x1="{x(start):.1f}" x2="{x(start):.1f}" '
        f'y1="{y - 3:.1f}" y2="{y + 31:.1f}" stroke="currentColor" stroke-opacity=".3"/>'
    )


def _level(name: str, value: float, x: Scale, y: float) -> str:
    """The start or the end: a dot."""
    dot = f'<circle cx="{x(value):.1f}" cy="{y + 25:.1f}" r="5" fill="currentColor"/>'
    return _named(name, f"{value:.3f}", y) + dot


def _named(name: str, text: str, y: float, look: str = "") -> str:
    most = _MOST_LETTERS - len(text)
    shown = name if len(name) <= most else name[: most - 1] + "…"
    return (
        f'<text x="6" y="{y + 14:.1f}"{look}>{escape(shown)}<title>{escape(name)}</title></text>'
        f'<text x="{6 + _NARROW}" y="{y + 14:.1f}" text-anchor="end"{look}>{escape(text)}</text>'
    )


def _svg(width: float, height: float, label: str, parts: Sequence[str]) -> str:
    return (
        f'<svg class="chart" viewBox="0 0 {width:g} {height:g}" role="img" '
        f'aria-label="{escape(label)}" font-size="13" fill="currentColor" '
        f'style="--natural: {width:g}px; overflow: visible">{"".join(parts)}</svg>'
    )
