from __future__ import annotations

import base64
import math
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from viewgap.report import charts
from viewgap.report.images import png_uri

numbers = st.floats(-1e6, 1e6, allow_nan=False)


@given(low=numbers, span=st.floats(0, 1e6))
def test_a_range_encloses_its_values_on_round_steps(low: float, span: float) -> None:
    start, end, step = charts.nice_range(low, low + span)
    slack = 1e-6 * max(step, abs(low), 1e-12)
    assert start <= low + slack
    assert end >= low + span - slack
    assert step > 0
    assert end > start
    assert (end - start) / step < 9


def test_a_line_stays_inside_its_box_and_marks_the_epoch() -> None:
    chart = charts.epoch_chart("score", [0.2, 0.5, math.nan, 0.45], mark=1)
    assert chart is not None
    points = [tuple(map(float, p.split())) for p in chart.lines[0].path[1:].split(" L")]
    assert len(points) == 3
    for x, y in points:
        assert chart.left <= x <= chart.right
        assert chart.top <= y <= chart.bottom
    assert points[0][1] > points[1][1]  # a higher value lies higher, and y grows downwards
    assert chart.mark is not None
    assert (chart.mark.x, chart.mark.y) == points[1]
    assert chart.mark.text == "kept: epoch 2"


@pytest.mark.parametrize("values", [[], [1.0], [math.nan, 1.0]])
def test_one_point_is_no_line(values: list[float]) -> None:
    assert charts.epoch_chart("score", values) is None


@pytest.mark.parametrize("count", [2, 3, 7, 20, 99, 100, 137, 500, 5000, 12345])
def test_epoch_ticks_are_few_and_inside(count: int) -> None:
    chart = charts.epoch_chart("loss", [float(i) for i in range(count)])
    assert chart is not None
    ticks = [int(tick.text) for tick in chart.x_ticks]
    assert 1 <= len(ticks) <= 7
    assert ticks[0] == 1
    assert ticks == sorted(set(ticks))
    assert ticks[-1] <= count


def test_tick_texts_are_different() -> None:
    for low, high in ((0.612, 0.618), (0.1, 0.9), (100.0, 900.0), (0.25, 1.0)):
        chart = charts.epoch_chart("x", [low, high])
        assert chart is not None
        texts = [tick.text for tick in chart.y_ticks]
        assert len(texts) == len(set(texts))


def test_strips_show_who_is_missing() -> None:
    observed = np.array([[True, False], [True, True], [False, True]])
    first, second = charts.strips(observed, ["a", "b"])
    assert (first.present, first.absent) == ([0, 1], [2])  # the sample with most views comes first
    assert (second.present, second.absent) == ([0, 2], [1])
    assert first.missing == pytest.approx(1 / 3)


def test_hits_misses_and_false_alarms() -> None:
    chart = charts.example_chart(
        "abcde", [True, True, False, False, True], [0.9, 0.5, 0.6, 0.1, math.nan]
    )
    assert [mark.kind for mark in chart.marks] == ["hit", "miss", "alarm", "none", "miss"]
    assert chart.summary == "found a; missed b, e; false alarm c"
    assert chart.marks[0].height == pytest.approx(0.9 * charts.BAR_HEIGHT)
    assert chart.marks[4].height == 0


def test_every_label_has_a_threshold_of_its_own() -> None:
    chart = charts.example_chart("ab", [True, False], [0.3, 0.6], [0.2, 0.7])
    assert [mark.kind for mark in chart.marks] == ["hit", "none"]
    assert chart.marks[1].limit == pytest.approx(0.7 * charts.BAR_HEIGHT)


def test_views_chart_counts_samples() -> None:
    curves = {"SCSD": ("main", {1: 0.5, 2: 0.6}), "other": ("rival", {1: 0.4, 2: 0.5})}
    chart = charts.views_chart("x", curves, {1: 10, 2: 30})
    assert chart is not None
    assert [tick.note for tick in chart.x_ticks] == ["n=10", "n=30"]
    assert charts.views_chart("x", {"SCSD": ("main", {1: 0.5})}, {1: 10}) is None


def test_a_picture_is_a_png_with_these_grey_values() -> None:
    ink = np.array([[0.0, 1.0, 0.5], [2.0, -1.0, math.nan]])
    content = base64.b64decode(png_uri(ink).removeprefix("data:image/png;base64,"))
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    assert struct.unpack(">II", content[16:24]) == (3, 2)
    start = content.index(b"IDAT") + 4
    rows = zlib.decompress(content[start : content.index(b"IEND") - 8])
    assert list(rows) == [0, 255, 0, 128, 0, 0, 255, 255]
