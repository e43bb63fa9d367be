"""Charts of cost, calibration, gains label by label, average ranks and use of the codebook."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from viewgap.bench.analyse.costs import Cost, cost_of, memory_text
from viewgap.bench.analyse.label_gains import RARE, Floats, LabelGains
from viewgap.bench.analyse.statistics import RankTest
from viewgap.bench.analyse.summary import MISSING, Row, metrics_of
from viewgap.bench.show.charts import Panel, draw_panels
from viewgap.bench.show.contents import AT_MOST
from viewgap.bench.show.style import (
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
    panel_grid,
    spread_of,
    style_of,
)
from viewgap.bench.show.tables import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Box = tuple[float, float, float, float]  # left, bottom, right, top in pixels
_DOT = 5.0
_NEAR, _RINGS = 7.0, (1.0, 2.0, 3.2, 4.6, 6.2)
_ANGLES = (0, 180, 45, -45, 135, -135, 90, -90, 20, -20, 160, -160)
_OUTSIDE = 4.0  # a name beyond the panel is worse than one on top of another
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
            yerr=row.spread.get(metric),
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
    words = MISSING if size is None else (AT_MOST if at_most else "") + memory_text(size)
    where = (size or 0.0) / GIGA, place
    axes.annotate(
        words, where, xytext=(3, 0), textcoords="offset points", va="center", fontsize=font
    )


def draw_calibration(rows: Sequence[Row]) -> Figure:
    """Calibration error, macro AUC and F1 of every row that has them, each in its direction."""
    metrics = metrics_of(rows, "calibration")
    known = [row for row in rows if any(metric.name in row.mean for metric in metrics)]
    order = sorted(known, key=lambda row: -row.mean.get(metrics[0].name, math.inf))
    panels = [
        Panel(
            f"{metric.name} ({metric.direction} is better)",
            [row.mean.get(metric.name, math.nan) for row in order],
            [row.spread.get(metric.name, 0.0) for row in order],
            metric.greater_is_better,
            metric.digits,
        )
        for metric in metrics
    ]
    figure = draw_panels([row.title for row in order], panels, columns=2)
    figure.suptitle(f"{printable(rows[0].heading)}: {folds_text(order)}")
    return figure


def draw_label_gains(gains: Sequence[LabelGains]) -> Figure:
    """A panel per method, the best first: the gain of every label over its number of positives."""
    order = sorted(gains, key=lambda own: -(own.mean()[0] or 0.0))
    columns = min(3, len(order))
    lines = math.ceil(len(order) / columns)
    figure = new_figure(max(6.4, 0.8 + 3.3 * columns), 1.2 + 2.75 * lines)
    grid = panel_grid(figure, len(order), columns, sharex=True, sharey=True)
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


def draw_utilisation(curves: Mapping[str, Sequence[Sequence[float]]]) -> Figure:
    """Share of the codebook in use over epochs, {name: one curve per fold}; band: deviation.

    Shown up to the last epoch in which anything changes, and at least ten.
    """
    from matplotlib.ticker import MaxNLocator

    figure = new_figure(7.2, 3.9)
    axes = figure.subplots()
    shown = 10
    for place, (name, folds) in enumerate(curves.items()):
        length = min(map(len, folds))  # every point is over the same folds
        values = 100 * np.array([fold[:length] for fold in folds])
        mean, spread = values.mean(axis=0), values.std(axis=0)
        moving = np.flatnonzero(abs(mean - mean[-1]) > 0.1)
        shown = max(shown, int(moving[-1]) + 3 if len(moving) else 0)
        look, epochs = style_of(place), np.arange(1, length + 1)
        axes.plot(epochs, mean, markersize=3.5, label=printable(name), **look)
        low, high = np.clip([mean - spread, mean + spread], 0, 100)
        axes.fill_between(epochs, low, high, color=look["color"], alpha=0.18, linewidth=0)
    axes.set_xlim(1, shown)
    axes.xaxis.set_major_locator(MaxNLocator(10, integer=True))
    axes.set_ylim(0, 104)
    axes.set_xlabel("epoch")
    axes.set_ylabel("codes in use, %")
    axes.grid()
    figure.legend(loc="outside right center")
    figure.suptitle("Share of the codebook used in every epoch")
    return figure


def draw_ranks(test: RankTest, note: str = "") -> Figure:
    """Critical-difference diagram: bars join methods that cannot be told apart.

    `note` is a sentence for the title, such as what does not count.
    """
    order = sorted(zip(test.ranks, test.methods, strict=True))
    count = len(order)
    half = math.ceil(count / 2)
    cliques = test.cliques()
    top = 0.45 + 0.3 * len(cliques)
    figure = new_figure(8.4, 1.9 + top + 0.3 * half)
    axes = figure.subplots()
    axes.set_xlim(1 - 0.06 * count, count + 0.06 * count)  # the layout makes room for names
    axes.set_ylim(-(top + 0.34 * half), 1.25)
    axes.axis("off")
    _rank_axis(axes, count, test.critical_difference)
    for number, (first, last) in enumerate(cliques):
        height = -0.28 - 0.3 * number
        ends = [order[first][0] - 0.04, order[last][0] + 0.04]
        axes.plot(ends, [height, height], color=BLACK, linewidth=4, solid_capstyle="butt")
    for place, (rank, name) in enumerate(order):
        left = place < half
        height = -(top + 0.34 * (place if left else count - 1 - place))
        end = 1 - 0.06 * count if left else count + 0.06 * count
        axes.plot([rank, rank, end], [0, height, height], color=BLUE, linewidth=1)
        words = f"{printable(name)}  {rank:.2f}" if left else f"{rank:.2f}  {printable(name)}"
        side = "right" if left else "left"
        axes.text(end, height, f" {words} ", ha=side, va="center")
    left_out = f", {test.left_out} {test.unit} left out" if test.left_out else ""
    words = f"Average rank in {test.metric} over {printable(test.over)}{left_out} "
    words += f"(Friedman p = {test.p_value:.2g})" + (f". {printable(note)}" if note else "")
    axes.set_title("\n".join(textwrap.wrap(words, 90)))
    add_footnote(figure, test.methods)
    return figure


def _rank_axis(axes: Axes, count: int, critical: float) -> None:
    axes.plot([1, count], [0, 0], color=BLACK, linewidth=1.2)
    for rank in range(1, count + 1):
        axes.plot([rank, rank], [0, 0.1], color=BLACK, linewidth=1.2)
        axes.text(rank, 0.17, str(rank), ha="center", va="bottom", fontsize=9)
    axes.plot([1, 1 + critical], [0.72, 0.72], color=VERMILLION, linewidth=2)
    for end in (1, 1 + critical):
        axes.plot([end, end], [0.65, 0.79], color=VERMILLION, linewidth=2)
    words = f"critical difference {critical:.2f}"
    axes.text(1 + critical / 2, 0.86, words, ha="center", va="bottom", fontsize=9, color=VERMILLION)


# ---------------------------------------------------------------------- names of points


def name_points(
    figure: Figure,
    axes: Axes,
    points: Sequence[tuple[float, float]],
    spreads: Sequence[float],
    names: Sequence[str],
) -> None:
    """Write every name near its point; a thin line leads to one that had to move away.

    Error bars reach `spreads` up and down from the points, and are not covered either.

    The layout of the figure is fixed first: places are found in pixels.
    """
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    places = [tuple(map(float, axes.transData.transform(point))) for point in points]
    taken: list[Box] = [(x - _DOT, y - _DOT, x + _DOT, y + _DOT) for x, y in places]
    taken += [_bar(axes, point, spread) for point, spread in zip(points, spreads, strict=True)]
    frame = axes.get_window_extent()
    panel = (frame.x0, frame.y0, frame.x1, frame.y1)
    for index in sorted(range(len(names)), key=lambda i: -places[i][1]):
        text = axes.annotate(
            names[index],
            points[index],
            xytext=(0, 0),
            textcoords="offset points",
            va="bottom",
            fontsize=8.5,
            zorder=4,
        )
        size = text.get_window_extent()
        others = taken[:index] + taken[index + 1 :]  # its own dot it may touch
        box, away = _free_box(places[index], (size.width, size.height), others, panel)
        taken.append(box)
        scale = 72 / figure.dpi
        text.xyann = ((box[0] - places[index][0]) * scale, (box[1] - places[index][1]) * scale)
        if away:
            _lead(axes, places[index], box)


def _free_box(
    place: tuple[float, ...], size: tuple[float, float], taken: Sequence[Box], panel: Box
) -> tuple[Box, bool]:
    found: list[tuple[float, Box, bool]] = []
    for ring in _RINGS:
        for angle in _ANGLES:
            box = _beside(place, size, ring * _NEAR, angle)
            cost = sum(_overlap(box, other) for other in taken)
            cost += _OUTSIDE * (size[0] * size[1] - _overlap(box, panel))
            found.append((round(cost, 3), box, ring > 1.0))
    _, box, away = min(found, key=lambda candidate: candidate[0])  # the nearest of the freest
    return box, away


def _beside(
    place: tuple[float, ...], size: tuple[float, float], distance: float, angle: float
) -> Box:
    across, up = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    x = place[0] + distance * across + (across - 1) / 2 * size[0]
    y = place[1] + distance * up + (up - 1) / 2 * size[1]
    return x, y, x + size[0], y + size[1]


def _bar(axes: Axes, point: tuple[float, float], spread: float) -> Box:
    x, low = axes.transData.transform((point[0], point[1] - spread))
    return x - 2.0, low, x + 2.0, axes.transData.transform((point[0], point[1] + spread))[1]


def _overlap(one: Box, other: Box) -> float:
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    return max(0.0, width) * max(0.0, height)


def _lead(axes: Axes, place: tuple[float, ...], box: Box) -> None:
    end = (min(max(place[0], box[0]), box[2]), min(max(place[1], box[1]), box[3]))
    ends = axes.transData.inverted().transform([place, end])
    axes.plot(ends[:, 0], ends[:, 1], color=GREY, linewidth=0.6, zorder=1)
