"""Figures of cost, calibration and labels: what they show, legible, escaped, the same bytes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from viewgap.bench.analyse.summary import summarise
from viewgap.bench.results.record import Record
from viewgap.bench.show.diagnostics import draw_costs, name_points
from viewgap.bench.show.figures import Drawing, draw, drawings
from viewgap.bench.show.style import matplotlib_ready, new_figure, rendered

pytest.importorskip("matplotlib")

Make = Callable[..., Record]
pytestmark = pytest.mark.slow
SVG = "{http://www.w3.org/2000/svg}"
POSITIVES = [1, 3, 8, 40, 200, 0]


def full(make: Make, methods: tuple[str, ...] = ("scsd", "drls"), **changes: Any) -> list[Record]:
    """Two folds of every method, with memory and details."""
    records = []
    for place, method in enumerate(methods):
        for fold in range(2):
            ap = [0.1 * (place + 1) + 0.02 * j if n else None for j, n in enumerate(POSITIVES)]
            details = {
                **{"macro AUC": 0.8 - 0.1 * place, "macro F1": 0.3, "micro F1": 0.4},
                "calibration error": 0.05 + 0.01 * place,
                "labels": {"positives": POSITIVES, "AP": ap},
            }
            memory = {"host": 1e9 * (place + 1), "host_of": "process" if place else "task"}
            fields: dict[str, Any] = {
                "method": method,
                "fold": fold,
                "seconds": 10.0**place,
                "details": details,
                "provenance": {"device": "cpu", "memory": memory},
            }
            records.append(make(0.5 - 0.05 * place + 0.01 * fold, **{**fields, **changes}))
    return records


def svg(records: list[Record], kind: str, **options: Any) -> bytes:
    with matplotlib_ready():
        (drawing,) = drawings(records, kind, **options)
        return rendered(drawing.figure, ("svg",))["svg"]


def words(content: bytes) -> str:
    root = ElementTree.fromstring(content)
    return "\n".join("".join(node.itertext()) for node in root.iter(f"{SVG}text"))


def test_auto_draws_what_the_records_have(make_record: Make) -> None:
    with matplotlib_ready():
        kinds = [(d.kind, d.name) for d in drawings(full(make_record))]
        older = [d.kind for d in drawings(full(make_record, details={}))]
    assert kinds == [
        ("bars", "tiny_methods"),
        ("cost", "tiny_cost"),
        ("calibration", "tiny_calibration"),
        ("labels", "tiny_label_gains"),
    ]
    assert older == ["bars", "cost"]


def test_cost_shows_time_memory_and_upper_bounds(make_record: Make) -> None:
    text = words(svg(full(make_record), "cost"))
    for word in ("scsd", "drls†", "AP", "seconds a fold, cpu", "1.00 GB", "≤ 2.00 GB", "host"):
        assert word in text
    assert "≤: of the whole process" in text
    assert "† reconstruction" in text
    assert {"1", "2", "5", "10"} <= set(text.split("\n"))  # plain numbers on an axis of factors


def test_cost_tells_devices_apart_and_numbers_long_names(make_record: Make) -> None:
    records = full(make_record)
    settings = {"params": {"a_parameter_with_a_long_name": 1}}
    records += full(
        make_record,
        ("scsd",),
        settings=settings,
        provenance={"device": "NVIDIA", "memory": {"host": 1e9, "host_of": "task", "cuda": 5e8}},
    )
    text = words(svg(records, "cost"))
    assert {"cpu", "NVIDIA", "GPU", "500 MB", "–"} <= set(text.split("\n"))
    assert "1  scsd [" in text


def test_calibration_marks_the_best_in_each_direction(make_record: Make) -> None:
    with matplotlib_ready():
        (drawing,) = drawings(full(make_record), "calibration")
    found = {}
    for axes in drawing.figure.axes:
        marked = [text.get_text() for text in axes.texts if text.get_color() == "#D55E00"]
        found[axes.get_title()] = marked
    assert found["calibration error (lower is better)"] == ["0.0500"]
    assert found["macro AUC (higher is better)"] == ["0.800"]
    assert found["macro F1 (higher is better)"] == ["0.300", "0.300"]


def test_gains_per_label_with_their_summary(make_record: Make) -> None:
    text = words(svg(full(make_record, ("scsd", "drls", "mtd")), "labels"))
    assert "better on 5 of 5; rare +0.200; frequent +0.200" in text
    assert "AP of every label minus that of scsd" in text
    assert "drls†" in text
    other = words(svg(full(make_record), "labels", reference="drls"))
    assert "better on 0 of 5" in other
    assert "minus that of drls†" in other


@pytest.mark.parametrize("kind", ["cost", "calibration", "labels"])
def test_names_are_text_and_the_bytes_repeat(make_record: Make, kind: str) -> None:
    nasty = "</text><script>alert(1)</script>&$x_{$\x00\x1b"
    provenance = {"device": nasty, "memory": {"host": 1e9, "host_of": "task"}}
    records = full(make_record, profile=nasty, dataset=nasty, provenance=provenance)
    options = {"reference": f"scsd ({nasty})"} if kind == "labels" else {}
    first = svg(records, kind, **options)
    assert first == svg(records, kind, **options)
    assert "script>alert(1)" in words(first)
    assert b"<script" not in first


def test_plot_writes_both_forms(make_record: Make, tmp_path: Path) -> None:
    paths = draw(full(make_record), tmp_path, "labels")
    assert [path.name for path in paths] == ["tiny_label_gains.svg", "tiny_label_gains.png"]
    assert all(path.stat().st_size > 1000 for path in paths)


def test_names_do_not_cover_each_other_where_there_is_room() -> None:
    rng = np.random.default_rng(1)
    points = [(float(x), float(y)) for x, y in rng.random((14, 2))]
    points[1] = points[0]  # two methods at one point
    with matplotlib_ready():
        figure = new_figure(6, 5)
        axes = figure.subplots()
        axes.plot(*zip(*points, strict=True), "o")
        axes.margins(0.1)
        name_points(figure, axes, points, [0.0] * 14, [f"method {i}" for i in range(14)])
        boxes = [text.get_window_extent() for text in axes.texts]
        frame = axes.get_window_extent()
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    assert all(frame.x0 <= box.x0 and box.x1 <= frame.x1 for box in boxes)


def test_a_time_of_zero_has_a_place(make_record: Make) -> None:
    rows = summarise(full(make_record, seconds=0.0))
    with matplotlib_ready():
        drawing = Drawing("cost", "cost", draw_costs(rows))
        assert "0.001" in words(rendered(drawing.figure, ("svg",))["svg"])
