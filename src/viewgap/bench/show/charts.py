"""Charts of metrics: methods side by side, radar, curve over a setting, heat map over two."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from viewgap.bench.analyse.summary import (
    MISSING,
    PRINTED_DIGITS,
    Row,
    assignments,
    condition_of,
    grouped,
    metrics_of,
)
from viewgap.bench.show.style import (
    BLACK,
    BLUE,
    GREY,
    NAMES,
    VERMILLION,
    add_footnote,
    folds_text,
    new_figure,
    panel_grid,
    setting_of,
    setting_text,
    spread_of,
    style_of,
)
from viewgap.bench.show.tables import printable
from viewgap.metrics import get_metric

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Panel:
    """One figure of merit of all rows: means (NaN: no value), deviations, and its direction."""

    title: str
    means: Sequence[float]
    spreads: Sequence[float]
    greater_is_better: bool = True
    digits: int = PRINTED_DIGITS


def draw_methods(rows: Sequence[Row], metrics: Sequence[str] = ()) -> Figure:
    """A panel per metric with one point per row, the best on top and marked; bars: deviation."""
    names = metrics or [metric.name for metric in metrics_of(rows)]
    order = sorted(rows, key=lambda row: row.mean.get(names[0], math.inf))
    panels = [_panel(name, name, order) for name in names]
    figure = draw_panels([row.title for row in order], panels, min(3, len(names)))
    figure.suptitle(f"{printable(rows[0].heading)}: {folds_text(rows)}")
    return figure


def draw_conditions(rows: Sequence[Row], metric: str) -> Figure:
    """Small multiples: a panel per condition of one data set, one point per method."""
    conditions = list(dict.fromkeys(row.condition for row in rows))
    by_place = {(row.title, row.condition): row for row in rows}
    means = {
        title: float(np.nanmean([row.mean.get(metric, math.nan) for row in own]))
        for title, own in grouped(rows, lambda row: row.title).items()
    }
    order = sorted(means, key=means.__getitem__)
    panels = [
        _panel(f"{printable(own) or metric}", metric, [by_place.get((t, own)) for t in order])
        for own in conditions
    ]
    figure = draw_panels(order, panels, min(3, len(panels)))
    figure.suptitle(f"{printable(rows[0].dataset)}: {metric}, {folds_text(rows)}")
    return figure


def _panel(title: str, metric: str, rows: Sequence[Row | None]) -> Panel:
    kind = get_metric(metric)
    better = "" if kind.greater_is_better else " (lower is better)"
    return Panel(
        title + better,
        [math.nan if row is None else row.mean.get(metric, math.nan) for row in rows],
        [0.0 if row is None else row.spread.get(metric, 0.0) for row in rows],
        kind.greater_is_better,
        kind.digits,
    )


def draw_panels(titles: Sequence[str], panels: Sequence[Panel], columns: int) -> Figure:
    """The panels in `columns`, sharing the names of the rows; the first row is at the bottom."""
    lines = math.ceil(len(panels) / columns)
    height = 0.9 + 0.27 * len(titles)
    names = [printable(title) for title in titles]
    margin = 0.09 * max(map(len, names))
    figure = new_figure(margin + (5.5 if columns == 1 else 3.1 * columns), 0.6 + height * lines)
    grid = panel_grid(figure, len(panels), columns, sharey=True)
    for axes, panel in zip(grid.flat, panels, strict=False):
        _points(axes, panel)
    for axes in grid[:, 0]:
        axes.set_yticks(range(len(names)), names)
    add_footnote(figure, names)
    return figure


def _points(axes: Axes, panel: Panel) -> None:
    known = [round(mean, panel.digits) for mean in panel.means if not math.isnan(mean)]
    best = (max if panel.greater_is_better else min)(known, default=math.nan)
    for place, (mean, spread) in enumerate(zip(panel.means, panel.spreads, strict=True)):
        leads = round(mean, panel.digits) == best
        is_missing = math.isnan(mean)
        if not is_missing:
            marker, color = ("D", VERMILLION) if leads else ("o", BLUE)
            axes.errorbar(mean, place, xerr=spread or None, fmt=marker, color=color)
        axes.annotate(
            MISSING if is_missing else f"{mean:.{panel.digits}f}",
            (1.0, place),
            xycoords=("axes fraction", "data"),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=8.5,
            color=GREY if is_missing else VERMILLION if leads else "#333333",
        )
    axes.set_title(panel.title)
    axes.grid(axis="x")
    axes.grid(axis="y", linestyle=":")
    axes.margins(x=0.08)
    axes.set_ylim(-0.6, len(panel.means) - 0.4)
    axes.locator_params(axis="x", nbins=4)
    axes.tick_params(axis="y", length=0)


def draw_radar(rows: Sequence[Row]) -> Figure:
    """The metrics around a circle, each from the worst row (inner ring) to the best (rim)."""
    figure = new_figure(8.8, 5.6)
    axes: Any = figure.add_subplot(projection="polar")
    axes.set_theta_offset(math.pi / 2)
    axes.set_theta_direction(-1)
    metrics = [m for m in metrics_of(rows) if all(m.name in row.mean for row in rows)]
    angles = np.linspace(0, 2 * math.pi, len(metrics), endpoint=False)
    means = np.array([[row.mean[metric.name] for metric in metrics] for row in rows])
    upwards = np.array([metric.greater_is_better for metric in metrics])
    low = np.where(upwards, means.min(axis=0), means.max(axis=0))
    high = np.where(upwards, means.max(axis=0), means.min(axis=0))
    flat = abs(high - low) < 0.5 * 10**-PRINTED_DIGITS  # printed alike: nobody is worst
    share = np.where(flat, 1.0, (means - low) / np.where(flat, 1.0, high - low))
    radius = _INNER + (1 - _INNER) * share
    closed = np.append(angles, angles[0])
    unequal = len({row.folds for row in rows}) > 1  # means over other folds are other means
    for place, row in enumerate(rows):
        closed_radius = np.append(radius[place], radius[place, 0])
        counted = f", {row.folds} fold{'s' * (row.folds > 1)}" if unequal else ""
        look = {**style_of(place), "markersize": 4.5, "label": printable(row.title) + counted}
        axes.plot(closed, closed_radius, **look)
    _radar_axes(axes, [metric.name for metric in metrics], angles, low, high)
    figure.legend(loc="outside right center")
    figure.suptitle(f"{printable(rows[0].heading)}: rim = best of these, inner ring = worst")
    add_footnote(figure, [row.title for row in rows])
    return figure


_INNER = 0.15
_SIDES = {True: "left", False: "right"}


def _radar_axes(axes: Any, names: Sequence[str], angles: Any, low: Any, high: Any) -> None:
    ends = zip(names, low, high, strict=True)
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
            _curve(axes, own, name, metric, label=label, **style_of(place))
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

    def title(row: Row) -> str:
        values = {n: setting_of(row, n) for n in row.varied if n not in on_axes}
        words = assignments(values, [n for n, value in values.items() if value is not None])
        return printable(row.base_title + (f" [{words}]" if words else ""))

    return grouped(rows, title)


def draw_map(rows: Sequence[Row], names: tuple[str, str], metric: str) -> Figure:
    """A metric over two settings, a panel per condition of the data; what was not run stays empty.

    Entries of fewer folds than others have a star. The best entry is framed: of a panel, of every
    row or column whose setting is a condition of the data, or none where both are.
    """
    conditions = [name in condition_of(rows[0].settings) for name in names]
    panels = grouped(rows, lambda row: "" if any(conditions) else row.condition)
    xs, ys = (sorted({float(setting_of(row, name)) for row in rows}) for name in names)
    width, height = 0.72 * len(xs) + 1.4, 1.6 + 0.52 * len(ys)
    columns = min(len(panels), max(1, int(9 // width)))
    lines = math.ceil(len(panels) / columns)
    figure = new_figure(1.6 + width * columns, height * lines)
    grid = panel_grid(figure, len(panels), columns)
    (label,) = _lines(rows, *names, *condition_of(rows[0].settings))
    folds = sorted({row.folds for row in rows})
    for axes, (condition, own) in zip(grid.flat, panels.items(), strict=False):
        picture = _map_panel(axes, own, names, (xs, ys), metric, conditions, folds[-1])
        bar = figure.colorbar(picture, ax=axes, label=metric if len(panels) == 1 else "")
        bar.outline.set_visible(False)
        if len(panels) > 1:
            axes.set_title(printable(condition), fontsize=10)
    words = f", {metric}" if len(panels) > 1 else ""
    words += f"; * fewer than {folds[-1]} folds" if len(folds) > 1 else ""
    figure.suptitle(f"{printable(rows[0].dataset)}, {label}{words}")
    return figure


def _map_panel(
    axes: Axes,
    rows: Sequence[Row],
    names: tuple[str, str],
    values: tuple[list[float], list[float]],
    metric: str,
    conditions: Sequence[bool],
    most_folds: int,
) -> Any:
    xs, ys = values
    means = np.full((len(ys), len(xs)), np.nan)
    fewer = np.zeros(means.shape, dtype=bool)
    for row in rows:
        x, y = (float(setting_of(row, name)) for name in names)
        place = ys.index(y), xs.index(x)
        means[place] = row.mean.get(metric, np.nan)
        fewer[place] = row.folds < most_folds
    picture = axes.imshow(means, cmap="cividis", origin="lower", aspect="auto")
    for (y, x), value in np.ndenumerate(means):
        _map_text(axes, x, y, float(value), picture, "*" * bool(fewer[y, x]))
    sign = 1 if get_metric(metric).greater_is_better else -1
    for x, y in _best_entries(sign * means, *conditions):
        _frame(axes, x, y)
    axes.set_xticks(range(len(xs)), [setting_text(names[0], x) for x in xs])
    axes.set_yticks(range(len(ys)), [setting_text(names[1], y) for y in ys])
    axes.set_xlabel(printable(NAMES.get(names[0], names[0])))
    axes.set_ylabel(printable(NAMES.get(names[1], names[1])))
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    return picture


def _best_entries(
    means: NDArray[np.float64], by_column: bool, by_row: bool
) -> list[tuple[int, int]]:
    """Column and row of the best entry of the map, or of each column or row; of neither if both."""
    if by_column and by_row:
        return []
    if by_column:
        return [(y, x) for x, y in _best_entries(means.T, False, True)]
    lines = [(y, line) for y, line in enumerate(means) if np.isfinite(line).any()]
    best = [(int(np.nanargmax(line)), y) for y, line in lines]
    return best if by_row or not best else [max(best, key=lambda place: means[place[1], place[0]])]


def _map_text(axes: Axes, x: int, y: int, value: float, picture: Any, star: str) -> None:
    if math.isnan(value):
        axes.text(x, y, MISSING, ha="center", va="center", color=GREY)
        return
    red, green, blue, _ = picture.cmap(picture.norm(value))
    dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.46
    color = "white" if dark else BLACK
    axes.text(x, y, f"{value:.3f}{star}", ha="center", va="center", color=color, fontsize=9)


def _frame(axes: Axes, x: int, y: int) -> None:
    from matplotlib.patches import Rectangle

    axes.add_patch(
        Rectangle((x - 0.48, y - 0.48), 0.96, 0.96, fill=False, edgecolor=VERMILLION, linewidth=2.2)
    )
