"""Names beside the points of a figure, where they cover neither each other nor a point."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from viewgap.bench.show.figure_parts import GREY

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Box = tuple[float, float, float, float]  # left, bottom, right, top in pixels
_DOT = 5.0
_NEAR, _RINGS = 7.0, (1.0, 2.0, 3.2, 4.6, 6.2)
_ANGLES = (0, 180, 45, -45, 135, -135, 90, -90, 20, -20, 160, -160)
_OUTSIDE = 4.0  # a name beyond the panel is worse than one on top of another


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
