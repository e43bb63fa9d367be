"""Numbers into geometry. Only coordinates are made here; the templates write and escape the SVG."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

WIDTH, HEIGHT = 360, 210
LEFT, RIGHT, TOP, BOTTOM = 44, 16, 16, 34


@dataclass(frozen=True)
class Tick:
    """A place on an axis and its text."""

    at: float
    text: str
    note: str = ""


@dataclass(frozen=True)
class Line:
    """A line of a chart: its path, its points, and where its last point lies."""

    name: str
    path: str
    points: list[tuple[float, float]]
    style: str


@dataclass(frozen=True)
class Mark:
    """One highlighted point."""

    x: float
    y: float
    text: str
    anchor: str


@dataclass(frozen=True)
class LineChart:
    """A line chart in a box of WIDTH x HEIGHT units."""

    label: str
    lines: list[Line]
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    x_title: str
    mark: Mark | None = None
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT
    top: int = TOP
    bottom: int = HEIGHT - BOTTOM


@dataclass(frozen=True)
class Strip:
    """Which samples have one view: x positions of the observed ones, of `count` in all."""

    name: str
    present: list[int]
    absent: list[int]
    count: int
    missing: float


def epoch_chart(
    label: str, values: Sequence[float], *, mark: int | None = None, percent: bool = False
) -> LineChart | None:
    """One quantity over epochs, counted from 1; None when there is nothing to draw.

    `mark` is the index of an epoch to point at; a share (`percent`) is drawn from 0 to 100 %.
    """
    finite = [v for v in values if math.isfinite(v)]
    if len(finite) < 2:
        return None
    low, high, step = (0.0, 1.0, 0.25) if percent else nice_range(min(finite), max(finite))
    x_of = _scale(1, len(values), LEFT, WIDTH - RIGHT)
    y_of = _scale(low, high, HEIGHT - BOTTOM, TOP)
    points = [(x_of(i), y_of(v)) for i, v in enumerate(values, 1) if math.isfinite(v)]
    return LineChart(
        label=label,
        lines=[Line(label, _path(points), [], "main")],
        x_ticks=[Tick(x_of(e), str(e)) for e in _epoch_ticks(len(values))],
        y_ticks=_y_ticks(low, high, step, y_of, percent),
        x_title="epoch",
        mark=None if mark is None else _mark(mark, values, x_of, y_of),
    )


def views_chart(
    label: str, curves: Mapping[str, tuple[str, Mapping[int, float]]], counts: Mapping[int, int]
) -> LineChart | None:
    """Average precision against the number of views left: {name: (style, {views: AP})}."""
    used = sorted({n for _, curve in curves.values() for n in curve})
    if len(used) < 2:
        return None
    values = [v for _, curve in curves.values() for v in curve.values()]
    low, high, step = nice_range(min(values), max(values))
    x_of = _scale(used[0], used[-1], LEFT + 14, WIDTH - RIGHT - 14)
    y_of = _scale(low, high, HEIGHT - BOTTOM - 8, TOP)
    lines = []
    for name, (style, curve) in curves.items():
        points = [(x_of(n), y_of(curve[n])) for n in sorted(curve)]
        lines.append(Line(name, _path(points), points, style))
    return LineChart(
        label=label,
        lines=lines,
        x_ticks=[Tick(x_of(n), str(n), f"n={counts.get(n, 0)}") for n in used],
        y_ticks=_y_ticks(low, high, step, y_of, percent=False),
        x_title="",
        bottom=HEIGHT - BOTTOM - 8,
    )


def strips(observed: NDArray[np.bool_], names: Sequence[str], limit: int = 90) -> list[Strip]:
    """The first `limit` samples, those with most views first, as one strip per view."""
    shown = observed[:limit]
    order = np.lexsort((*(~shown.T)[::-1], -shown.sum(axis=1)))
    found = []
    for index, name in enumerate(names):
        column = shown[order, index]
        present = [int(i) for i in np.flatnonzero(column)]
        absent = [int(i) for i in np.flatnonzero(~column)]
        missing = float(1 - observed[:, index].mean()) if len(observed) else 0.0
        found.append(Strip(name, present, absent, len(column), missing))
    return found


def nice_range(low: float, high: float, steps: int = 4) -> tuple[float, float, float]:
    """A range around the values that starts and ends on round numbers, and the step between."""
    size = max(abs(low), abs(high))
    if high - low <= 1e-6 * size or size < 1e-12:  # a constant lies in the middle
        low, high = low - (0.1 * size or 1.0), high + (0.1 * size or 1.0)
    rough = (high - low) / steps
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * f for f in (1, 2, 2.5, 5, 10) if power * f >= rough * 0.999)
    return math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step, step


@dataclass(frozen=True)
class _Scale:
    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        share = (value - self.low) / ((self.high - self.low) or 1.0)
        return round(self.start + share * (self.end - self.start), 2)


def _scale(low: float, high: float, start: float, end: float) -> _Scale:
    return _Scale(low, high, start, end)


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + " L".join(f"{x:g} {y:g}" for x, y in points)


def _epoch_ticks(count: int) -> list[int]:
    step = next(s for s in (1, 2, 5, 10, 20, 25, 50, 100, 200, 500, 1000, count) if count / s <= 5)
    ticks = [1, *range(step, count + 1, step)]
    return sorted({tick for tick in ticks if tick == 1 or tick - 1 >= step / 2})


def _y_ticks(low: float, high: float, step: float, y_of: _Scale, percent: bool) -> list[Tick]:
    values = [low + i * step for i in range(round((high - low) / step) + 1)]
    if percent:
        return [Tick(y_of(v), f"{100 * v:.3g} %") for v in values]
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    digits += not math.isclose(step * 10**digits, round(step * 10**digits))
    return [Tick(y_of(v), f"{v:.{digits}f}") for v in values]


def _mark(index: int, values: Sequence[float], x_of: _Scale, y_of: _Scale) -> Mark:
    x = x_of(index + 1)
    anchor = "end" if x > WIDTH * 0.6 else "start"
    return Mark(x, y_of(values[index]), f"kept: epoch {index + 1}", anchor)


@dataclass(frozen=True)
class LabelMark:
    """One label in an example: how sure the model was, and whether it was right."""

    text: str
    name: str
    x: float
    height: float
    limit: float
    probability: float
    kind: str


@dataclass(frozen=True)
class ExampleChart:
    """Probabilities of all labels of one example, as small bars."""

    marks: list[LabelMark]
    width: float
    summary: str
    hits: list[str] = field(default_factory=list)


BAR_HEIGHT = 46.0
COLUMN = 22.0


def example_chart(
    names: Sequence[str],
    truth: Sequence[bool],
    probability: Sequence[float],
    thresholds: Sequence[float] = (),
) -> ExampleChart:
    """Bars and hit/miss/false-alarm marks; a label counts as predicted above its threshold.

    Without thresholds that is one half.
    """
    limits = thresholds or [0.5] * len(names)
    marks = []
    groups: dict[str, list[str]] = {"hit": [], "miss": [], "alarm": [], "none": []}
    columns = zip(names, truth, probability, limits, strict=True)
    for index, (name, true, p, limit) in enumerate(columns):
        sure = 0.0 if math.isnan(p) else p
        kind = _KINDS[bool(true), sure > limit]
        groups[kind].append(name)
        height = round(BAR_HEIGHT * sure, 2)
        line = round(BAR_HEIGHT * limit, 2)
        marks.append(LabelMark(name[:3], name, COLUMN * (index + 0.5), height, line, sure, kind))
    return ExampleChart(marks, COLUMN * len(marks), _sentence(groups), groups["hit"])


_KINDS = {
    (True, True): "hit",
    (True, False): "miss",
    (False, True): "alarm",
    (False, False): "none",
}


def _sentence(groups: Mapping[str, list[str]]) -> str:
    parts = [
        f"{word} {', '.join(groups[kind])}"
        for kind, word in (("hit", "found"), ("miss", "missed"), ("alarm", "false alarm"))
        if groups[kind]
    ]
    return "; ".join(parts) or "nothing to find, nothing found"
