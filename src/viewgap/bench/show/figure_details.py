"""Figures of what results cost, what probabilities are worth, and where a method gains."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from viewgap.bench.analyse.costs import AT_MOST, Cost, cost_of, memory_text
from viewgap.bench.analyse.label_gains import RARE, Floats, LabelGains
from viewgap.bench.analyse.summary import HOLE, Row
from viewgap.bench.show.decisions import ORDER, decisions_of, digits_of, direction_of
from viewgap.bench.show.figure_panels import Panel, draw_panels
from viewgap.bench.show.figure_parts import (
    BLACK,
    BLUE,
    GREY,
    MARKERS,
    ORANGE,
    PALETTE,
    VERMILLION,
    add_footnote,
    folds_text,
    log_axis,
    new_figure,
    spread_of,
)
from viewgap.bench.show.label_places import name_points
from viewgap.bench.show.sheets import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_NAMES, LONGEST_NAME = 20, 26  # beyond these, points have numbers
GIGA = 1e9
_ABOVE: dict[str, Any] = {
    "loc": "lower center",
    "bbox_to_anchor": (0.5, 1.0),
    "ncols": 3,
    "fontsize": 9,
    "handlelength": 1.4,
}
RARE_WORDS = f"line: mean gain; left of the dots, below {RARE} positives: rare labels"
SHORTEST = 1e-3  # seconds: an axis of factors has no place for 0


def draw_costs(rows: Sequence[Row], metric: str = "AP") -> Figure:
    """A metric against seconds, every point named; beside it the peak memory where it is known."""
    order = sorted(rows, key=lambda row: row.mean[metric])
    costs = [cost_of(row) for row in order]
    names = [printable(row.title) for row in order]
    numbered = len(names) > MOST_NAMES or max(map(len, names)) > LONGEST_NAME
    numbers = [str(len(names) - i) for i in range(len(names))]
    listed = [f"{n}  {name}" for name, n in zip(names, numbers, strict=True)] if numbered else names
    memory = any(cost.host is not None or cost.gpu is not None for cost in costs)
    beside = 0.08 * max(map(len, listed)) if memory or numbered else 0.0
    size = 5.8 + beside + (3.0 if memory else 0.0), max(4.2, 1.6 + 0.3 * len(order))
    figure = new_figure(*size)
    widths = (5.2, 2.6)[: 1 + memory]
    panels = figure.subplots(1, len(widths), squeeze=False, width_ratios=widths)[0]
    points = _cost_points(panels[0], order, costs, metric)
    if memory:
        _memory_bars(panels[1], costs, listed)
    elif numbered:
        blank = [panels[0].plot([], [], linestyle="none")[0] for _ in listed]
        figure.legend(blank, listed[::-1], loc="outside right center", handlelength=0)
    figure.suptitle(f"{printable(rows[0].heading)}: {folds_text(rows)}")
    add_footnote(figure, names)
    spreads = spread_of(order, metric)
    name_points(figure, panels[0], points, spreads, numbers if numbered else names)
    return figure


def _cost_points(
    axes: Axes, rows: Sequence[Row], costs: Sequence[Cost], metric: str
) -> list[tuple[float, float]]:
    devices = sorted({", ".join(cost.devices) for cost in costs})
    points = []
    for row, cost in zip(rows, costs, strict=True):
        place = devices.index(", ".join(cost.devices))
        seconds = max(cost.seconds or 0.0, SHORTEST)
        points.append((seconds, row.mean[metric]))
        axes.errorbar(
            *points[-1],
            yerr=row.spread[metric] if row.folds > 1 else None,
            fmt=MARKERS[place % len(MARKERS)],
            color=PALETTE[place % len(PALETTE)],
            elinewidth=0.6,
            label=printable(devices[place]),
            zorder=3,
        )
    if len(devices) > 1:
        handles, labels = axes.get_legend_handles_labels()
        known = dict(zip(labels, handles, strict=True))
        axes.legend(known.values(), known, **_ABOVE)
    seconds_found = [seconds for seconds, _ in points]
    log_axis(axes, min(seconds_found), max(seconds_found))
    axes.margins(x=0.14, y=0.1)
    device = f", {printable(devices[0])}" if len(devices) == 1 else ""
    axes.set_xlabel(f"seconds a fold{device}")
    axes.set_ylabel(metric)
    axes.grid()
    return points


def _memory_bars(axes: Axes, costs: Sequence[Cost], names: Sequence[str]) -> None:
    kinds = {
        "host": (BLUE, [cost.host for cost in costs]),
        "GPU": (ORANGE, [cost.gpu for cost in costs]),
    }
    known = {name: own for name, own in kinds.items() if any(size for size in own[1])}
    height = 0.72 / max(1, len(known))
    for number, (name, (color, sizes)) in enumerate(known.items()):
        shift = height * ((len(known) - 1) / 2 - number)
        places = [place + shift for place in range(len(costs))]
        values = [(size or 0.0) / GIGA for size in sizes]
        axes.barh(places, values, height=0.9 * height, color=color, label=name)
        for place, size, cost in zip(places, sizes, costs, strict=True):
            _bar_text(axes, place, size, name == "host" and cost.at_most, 8 if height > 0.5 else 7)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(-0.6, len(names) - 0.4)
    axes.margins(x=0.34)  # room for the figures behind the bars
    axes.set_xlim(left=0)
    axes.tick_params(axis="y", length=0)
    axes.locator_params(axis="x", nbins=4)
    words = "peak memory, GB" + (f" ({next(iter(known))})" if len(known) == 1 else "")
    if any(cost.at_most for cost in costs):
        words += f"\n{AT_MOST.strip()}: of the whole process"
    axes.set_xlabel(words)
    if len(known) > 1:
        axes.legend(**_ABOVE)
    axes.grid(axis="x")


def _bar_text(axes: Axes, place: float, size: float | None, at_most: bool, font: float) -> None:
    words = HOLE if size is None else (AT_MOST if at_most else "") + memory_text(size)
    where = (size or 0.0) / GIGA, place
    axes.annotate(
        words, where, xytext=(3, 0), textcoords="offset points", va="center", fontsize=font
    )


def draw_decisions(rows: Sequence[Row]) -> Figure:
    """Calibration error, macro AUC and F1 of every row that has them, each in its direction."""
    known = [(row, own) for row in rows if (own := decisions_of(row)).mean]
    order = sorted(known, key=lambda pair: -pair[1].mean.get(ORDER[0], math.inf))
    panels = [
        Panel(
            f"{name} ({direction_of(name)} is better)",
            [own.mean.get(name, math.nan) for _, own in order],
            [own.spread.get(name, 0.0) for _, own in order],
            direction_of(name) == "lower",
            digits_of(name),
        )
        for name in ORDER
        if any(name in own.mean for _, own in order)
    ]
    figure = draw_panels([row.title for row, _ in order], panels, columns=2)
    figure.suptitle(f"{printable(rows[0].heading)}: {folds_text([row for row, _ in order])}")
    return figure


def draw_label_gains(gains: Sequence[LabelGains]) -> Figure:
    """A panel per method, the best first: the gain of every label over its number of positives."""
    order = sorted(gains, key=lambda own: -(own.mean()[0] or 0.0))
    columns = min(3, len(order))
    lines = math.ceil(len(order) / columns)
    figure = new_figure(max(6.4, 0.8 + 3.3 * columns), 1.2 + 2.75 * lines)
    grid = figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False)
    for axes in grid.flat[len(order) :]:
        axes.set_visible(False)
    for axes, own in zip(grid.flat, order, strict=False):
        _gain_panel(axes, own)
    every = np.concatenate([own.positives[own.folds > 0] for own in order])
    log_axis(grid[0, 0], every.min(initial=1.0), every.max(initial=1.0))
    for axes in grid.flat[max(0, len(order) - columns) : len(order)]:
        axes.set_xlabel("positives among the test rows")
        axes.tick_params(labelbottom=True)
    for axes in grid[:, 0]:
        axes.set_ylabel("gain in AP")
    first = order[0]
    title = f"{printable(first.row.heading)}: AP of every label minus that of "
    title += printable(first.reference)
    figure.suptitle("\n".join([*textwrap.wrap(title, 24 * columns + 24), RARE_WORDS]))
    add_footnote(figure, [own.row.title for own in order])
    return figure


def _gain_panel(axes: Axes, own: LabelGains) -> None:
    known = own.folds > 0
    positives, gains = own.positives[known], own.gains[known]
    axes.axhline(0, color=GREY, linewidth=0.8)
    axes.axvline(RARE, color=GREY, linewidth=0.8, linestyle=":")
    for wanted, color, marker in ((gains >= 0, BLUE, "o"), (gains < 0, VERMILLION, "v")):
        look: dict[str, Any] = {"markersize": 3.2, "alpha": 0.55, "markeredgewidth": 0}
        axes.plot(positives[wanted], gains[wanted], marker, color=color, **look)
    axes.plot(*_trend(positives, gains), color=BLACK, linewidth=1.8)
    words = [*textwrap.wrap(printable(own.row.title), 40), own.words()]
    axes.set_title("\n".join(words), fontsize=9)
    axes.grid()


def _trend(positives: Floats, gains: Floats) -> tuple[Floats, Floats]:
    """Mean gain of groups of labels with about as many positives: eight at most, of five labels."""
    order = np.argsort(positives, kind="stable")
    groups = np.array_split(order, max(1, min(8, len(order) // 5)))
    middle = [float(np.exp(np.log(positives[group]).mean())) for group in groups if len(group)]
    means = [float(gains[group].mean()) for group in groups if len(group)]
    return np.array(middle), np.array(means)
