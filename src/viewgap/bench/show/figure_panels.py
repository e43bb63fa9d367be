"""Methods side by side: a panel per figure of merit, one point per row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from viewgap.bench.analyse.summary import HOLE, PRINTED_DIGITS, Row
from viewgap.bench.show.figure_parts import (
    BLUE,
    GREY,
    VERMILLION,
    add_footnote,
    folds_text,
    new_figure,
    spread_of,
)
from viewgap.bench.show.sheets import printable
from viewgap.metrics import SIX

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Panel:
    """One figure of merit of all rows: means (NaN is a hole), deviations, and its direction."""

    title: str
    means: Sequence[float]
    spreads: Sequence[float]
    lower_is_better: bool = False
    digits: int = PRINTED_DIGITS


def draw_methods(rows: Sequence[Row], metrics: Sequence[str] = SIX) -> Figure:
    """A panel per metric with one point per row, the best on top and marked; bars: deviation."""
    order = sorted(rows, key=lambda row: row.mean[metrics[0]])
    panels = [
        Panel(metric, [row.mean[metric] for row in order], spread_of(order, metric))
        for metric in metrics
    ]
    figure = draw_panels([row.title for row in order], panels, min(3, len(metrics)))
    figure.suptitle(f"{printable(rows[0].heading)}: {folds_text(rows)}, higher is better")
    return figure


def draw_panels(titles: Sequence[str], panels: Sequence[Panel], columns: int) -> Figure:
    """The panels in `columns`, sharing the names of the rows; the first row is at the bottom."""
    lines = math.ceil(len(panels) / columns)
    height = 0.9 + 0.27 * len(titles)
    names = [printable(title) for title in titles]
    margin = 0.09 * max(map(len, names))
    figure = new_figure(margin + (5.5 if columns == 1 else 3.1 * columns), 0.6 + height * lines)
    grid = figure.subplots(lines, columns, sharey=True, squeeze=False)
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    for axes, panel in zip(grid.flat, panels, strict=False):
        _points(axes, panel)
    for axes in grid[:, 0]:
        axes.set_yticks(range(len(names)), names)
    add_footnote(figure, names)
    return figure


def _points(axes: Axes, panel: Panel) -> None:
    known = [round(mean, panel.digits) for mean in panel.means if not math.isnan(mean)]
    best = (min if panel.lower_is_better else max)(known, default=math.nan)
    for place, (mean, spread) in enumerate(zip(panel.means, panel.spreads, strict=True)):
        leads = round(mean, panel.digits) == best
        hole = math.isnan(mean)
        if not hole:
            marker, color = ("D", VERMILLION) if leads else ("o", BLUE)
            axes.errorbar(mean, place, xerr=spread or None, fmt=marker, color=color)
        axes.annotate(
            HOLE if hole else f"{mean:.{panel.digits}f}",
            (1.0, place),
            xycoords=("axes fraction", "data"),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=8.5,
            color=GREY if hole else VERMILLION if leads else "#333333",
        )
    axes.set_title(panel.title)
    axes.grid(axis="x")
    axes.grid(axis="y", linestyle=":")
    axes.margins(x=0.08)
    axes.set_ylim(-0.6, len(panel.means) - 0.4)
    axes.locator_params(axis="x", nbins=4)
    axes.tick_params(axis="y", length=0)
