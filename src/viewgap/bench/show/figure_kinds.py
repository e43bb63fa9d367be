"""Figures of the six metrics: radar, curve over a setting, map over two, codebook, ranks."""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from viewgap.bench.analyse.statistics import RankTest
from viewgap.bench.analyse.summary import HOLE, PRINTED_DIGITS, Row, condition_of
from viewgap.bench.show.figure_parts import (
    BLACK,
    BLUE,
    GREY,
    NAMES,
    VERMILLION,
    add_footnote,
    folds_text,
    new_figure,
    setting_of,
    setting_text,
    spread_of,
    style_of,
)
from viewgap.bench.show.sheets import printable
from viewgap.metrics import SIX

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw_radar(rows: Sequence[Row]) -> Figure:
    """The six metrics around a circle, each from the worst row (inner ring) to the best (rim)."""
    figure = new_figure(8.8, 5.6)
    axes: Any = figure.add_subplot(projection="polar")
    axes.set_theta_offset(math.pi / 2)
    axes.set_theta_direction(-1)
    angles = np.linspace(0, 2 * math.pi, len(SIX), endpoint=False)
    means = np.array([[row.mean[name] for name in SIX] for row in rows])
    low, high = means.min(axis=0), means.max(axis=0)
    flat = high - low < 0.5 * 10**-PRINTED_DIGITS  # printed alike: nobody is worst
    share = np.where(flat, 1.0, (means - low) / np.where(flat, 1.0, high - low))
    radius = _INNER + (1 - _INNER) * share
    closed = np.append(angles, angles[0])
    for place, row in enumerate(rows):
        look = style_of(place)
        axes.plot(
            closed,
            np.append(radius[place], radius[place, 0]),
            color=look.color,
            linestyle=look.dash,
            marker=look.marker,
            markersize=4.5,
            label=printable(row.title),
        )
    _radar_axes(axes, angles, low, high)
    figure.legend(loc="outside right center")
    figure.suptitle(f"{printable(rows[0].heading)}: rim = best of these, inner ring = worst")
    add_footnote(figure, [row.title for row in rows])
    return figure


_INNER = 0.15
_SIDES = {True: "left", False: "right"}


def _radar_axes(axes: Any, angles: Any, low: Any, high: Any) -> None:
    ends = zip(SIX, low, high, strict=True)
    axes.set_xticks(angles, [f"{name}\n{worst:.3f} to {best:.3f}" for name, worst, best in ends])
    axes.tick_params(axis="x", pad=8)
    for angle, label in zip(angles, axes.get_xticklabels(), strict=True):
        side = math.sin(angle)  # labels grow away from the circle
        label.set_horizontalalignment("center" if abs(side) < 0.1 else _SIDES[side > 0])
    axes.set_yticks([_INNER, (1 + _INNER) / 2, 1.0], ["", "", ""])
    axes.set_ylim(0, 1.04)
    axes.spines["polar"].set_visible(False)


def draw_curve(rows: Sequence[Row], name: str, metrics: Sequence[str]) -> Figure:
    """Metrics over one setting: two of one method on two axes, else one panel per metric."""
    groups = _lines(rows, name)
    title = f"{printable(rows[0].dataset)}: {folds_text(rows)}"
    if len(groups) == 1 and len(metrics) == 2:
        ((label, own),) = groups.items()
        figure = _two_axes(own, name, metrics)
        figure.suptitle(f"{printable(rows[0].dataset)}, {label}: {folds_text(rows)}", fontsize=11)
        return figure
    figure = new_figure(0.6 + 4.2 * len(metrics) + 1.8, 3.9)
    panels = figure.subplots(1, len(metrics), squeeze=False)[0]
    for axes, metric in zip(panels, metrics, strict=True):
        for place, (label, own) in enumerate(groups.items()):
            look = style_of(place)
            style = {"color": look.color, "marker": look.marker, "linestyle": look.dash}
            _curve(axes, own, name, metric, label=label, **style)
        axes.set_ylabel(metric)
        _setting_axis(axes, rows, name)
        axes.grid()
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center")
    figure.suptitle(title)
    add_footnote(figure, groups)
    return figure


def _two_axes(rows: Sequence[Row], name: str, metrics: Sequence[str]) -> Figure:
    from matplotlib.ticker import MaxNLocator

    figure = new_figure(5.6, 3.9)
    left = figure.subplots()
    right = left.twinx()
    right.spines["right"].set_visible(True)
    looks = ((left, BLUE, "o", "-", 1), (right, VERMILLION, "s", "--", 0))
    for (axes, color, marker, dash, upper), metric in zip(looks, metrics, strict=True):
        _curve(axes, rows, name, metric, color=color, marker=marker, linestyle=dash, label=metric)
        axes.set_ylabel(metric, color=color)
        axes.tick_params(axis="y", colors=color)
        low, high = axes.get_ylim()  # one line in the upper part, one in the lower: both legible
        room = 0.9 * (high - low)
        axes.set_ylim(low - room * upper, high + room * (1 - upper))
        ticks = MaxNLocator(5, steps=[1, 2, 5, 10]).tick_values(low, high)
        axes.set_yticks([tick for tick in ticks if low <= tick <= high])
    _setting_axis(left, rows, name)
    left.grid()
    figure.legend(loc="outside lower center", ncols=2)
    return figure


def _curve(axes: Axes, rows: Sequence[Row], name: str, metric: str, **look: Any) -> None:
    points = sorted(rows, key=lambda row: float(setting_of(row, name)))
    axes.errorbar(
        [setting_of(row, name) for row in points],
        [row.mean[metric] for row in points],
        yerr=spread_of(points, metric),
        **look,
    )


def _setting_axis(axes: Axes, rows: Sequence[Row], name: str) -> None:
    """Ticks at the values that were run; values that grow by factors get an axis of factors."""
    values = sorted({float(setting_of(row, name)) for row in rows})
    if values[0] > 0 and values[-1] / values[0] >= 16:
        axes.set_xscale("log")
    axes.set_xticks(values, [setting_text(name, value) for value in values])
    axes.set_xticks([], minor=True)
    axes.set_xlabel(printable(NAMES.get(name, name)))


def _lines(rows: Sequence[Row], *on_axes: str) -> dict[str, list[Row]]:
    """Rows that belong to one line or map: what varies along an axis leaves their title."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        others = [name for name in row.varied if name not in on_axes]
        values = {name: setting_of(row, name) for name in others}
        words = [f"{name}={json.dumps(v)}" for name, v in values.items() if v is not None]
        title = row.title.partition(" [")[0] + (f" [{', '.join(words)}]" if words else "")
        groups.setdefault(printable(title), []).append(row)
    return groups


def draw_map(rows: Sequence[Row], names: tuple[str, str], metric: str) -> Figure:
    """A metric over two settings, what was not run stays empty.

    The best cell is framed: of the map, of every row or column whose setting is a condition of the
    data, or none where both are.
    """
    xs, ys = (sorted({float(setting_of(row, name)) for row in rows}) for name in names)
    means = np.full((len(ys), len(xs)), np.nan)
    for row in rows:
        x, y = (float(setting_of(row, name)) for name in names)
        means[ys.index(y), xs.index(x)] = row.mean[metric]
    figure = new_figure(2.4 + 0.72 * len(xs), 1.6 + 0.52 * len(ys))
    axes = figure.subplots()
    picture = axes.imshow(means, cmap="cividis", origin="lower", aspect="auto")
    for (y, x), value in np.ndenumerate(means):
        _map_text(axes, x, y, float(value), picture)
    conditions = [name in condition_of(rows[0].settings) for name in names]
    for x, y in _best_cells(means, *conditions):
        _frame(axes, x, y)
    axes.set_xticks(range(len(xs)), [setting_text(names[0], x) for x in xs])
    axes.set_yticks(range(len(ys)), [setting_text(names[1], y) for y in ys])
    axes.set_xlabel(printable(NAMES.get(names[0], names[0])))
    axes.set_ylabel(printable(NAMES.get(names[1], names[1])))
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    figure.colorbar(picture, ax=axes, label=metric).outline.set_visible(False)
    (label,) = _lines(rows, *names)
    axes.set_title(f"{printable(rows[0].dataset)}, {label}")
    return figure


def _best_cells(means: NDArray[np.float64], by_column: bool, by_row: bool) -> list[tuple[int, int]]:
    """Column and row of the best cell of the map, or of each column or row; of neither if both."""
    if by_column and by_row:
        return []
    if by_column:
        return [(y, x) for x, y in _best_cells(means.T, False, True)]
    lines = [(y, line) for y, line in enumerate(means) if np.isfinite(line).any()]
    best = [(int(np.nanargmax(line)), y) for y, line in lines]
    return best if by_row else [max(best, key=lambda cell: means[cell[1], cell[0]])]


def _map_text(axes: Axes, x: int, y: int, value: float, picture: Any) -> None:
    if math.isnan(value):
        axes.text(x, y, HOLE, ha="center", va="center", color=GREY)
        return
    red, green, blue, _ = picture.cmap(picture.norm(value))
    dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.46
    color = "white" if dark else BLACK
    axes.text(x, y, f"{value:.3f}", ha="center", va="center", color=color, fontsize=9)


def _frame(axes: Axes, x: int, y: int) -> None:
    from matplotlib.patches import Rectangle

    axes.add_patch(
        Rectangle((x - 0.48, y - 0.48), 0.96, 0.96, fill=False, edgecolor=VERMILLION, linewidth=2.2)
    )


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
        style = {"color": look.color, "marker": look.marker, "linestyle": look.dash}
        axes.plot(epochs, mean, markersize=3.5, label=printable(name), **style)
        low, high = np.clip([mean - spread, mean + spread], 0, 100)
        axes.fill_between(epochs, low, high, color=look.color, alpha=0.18, linewidth=0)
    axes.set_xlim(1, shown)
    axes.xaxis.set_major_locator(MaxNLocator(10, integer=True))
    axes.set_ylim(0, 104)
    axes.set_xlabel("epoch")
    axes.set_ylabel("codes in use, %")
    axes.grid()
    figure.legend(loc="outside right center")
    figure.suptitle("Share of the codebook used in every epoch")
    return figure


def draw_ranks(test: RankTest) -> Figure:
    """Critical-difference diagram: bars join methods that cannot be told apart."""
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
    words += f"(Friedman p = {test.p_value:.2g})"
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
