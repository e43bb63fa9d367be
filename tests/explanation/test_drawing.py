"""Drawings of explanations: what they show adds up, names are only text, nothing is loaded."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree as Xml

import numpy as np
import pandas as pd
import pytest

import viewgap
from viewgap.bench.show.svg_charts import waterfall_chart
from viewgap.explanation import explain
from viewgap.explanation.drawing import MOST_LABELS, render_page, render_svg

pytestmark = pytest.mark.filterwarnings("ignore:.*without any view:viewgap.errors.ViewgapWarning")
EVIL = '<script>alert("1")</script>'


@pytest.fixture(scope="module")
def evil() -> pd.DataFrame:
    """Views, labels and samples whose names are markup."""
    rng = np.random.default_rng(0)
    ids = [f"{EVIL}{i}" for i in range(30)]
    frames = {
        f"{EVIL} {name}": pd.DataFrame(rng.normal(size=(30, 2)), index=ids) for name in ("a", "b")
    }
    truth = (rng.random((30, 2)) < 0.5).astype(float)
    labels = pd.DataFrame(truth, columns=[EVIL, "b"], index=ids)
    return explain(viewgap.LateFusionRidge().fit(frames, labels), frames)


def test_bars_lead_from_the_start_to_the_end() -> None:
    text = waterfall_chart(("start", 0.2), [("a", 0.3), ("gone", None), ("b", -0.1)], "end", "all")
    svg = Xml.fromstring(text)
    circles = [float(own.attrib["cx"]) for own in svg.iter("circle")]
    bars = [(float(own.attrib["x"]), float(own.attrib["width"])) for own in svg.iter("rect")]
    assert len(bars) == 2
    scale = bars[0][1] / 0.3
    assert bars[0][0] == pytest.approx(circles[0], abs=0.1)
    assert bars[1][0] + bars[1][1] == pytest.approx(bars[0][0] + bars[0][1], abs=0.2)
    assert bars[1][0] == pytest.approx(circles[1], abs=0.2)
    assert circles[1] - circles[0] == pytest.approx(0.2 * scale, abs=0.3)
    assert "missing" in text
    assert [own.text for own in svg.iter("text")].count("0.400") == 1


def test_the_page_draws_the_labels_that_views_change_most(model: Any, samples: Any) -> None:
    table = explain(model, samples)
    page = render_page(table, "eight samples")
    assert page.count("<section") == 8
    assert page.count('class="chart"') == 8 * min(MOST_LABELS, len(model.label_names_))
    assert "<script" not in page
    assert not re.search(r'(src|href)="(?!data:,)', page)
    own = table[table["sample"] == samples.sample_ids[7]]
    change = own.groupby("label", sort=False)["contribution"].sum().abs()
    section = page.split("<section")[8]
    assert section.split("<h3>")[1].startswith(change.idxmax() + "<")
    assert f"{own['probability'][own['label'] == change.idxmax()].iloc[0]:.3f}" in section


def test_names_are_only_text(evil: pd.DataFrame) -> None:
    page, svg = render_page(evil, EVIL), render_svg(evil)
    notebook = evil._repr_html_()  # type: ignore[operator]
    for text in (page, svg, notebook):
        assert "<script" not in text
        assert "&lt;script" in text
    root = Xml.fromstring(svg)
    assert root.attrib["width"] == "312"
    assert len([own for own in root if own.tag.endswith("svg")]) == 40  # 20 samples, both labels
    assert "10 more samples" in page


def test_interactions_and_log_odds_are_drawn_as_sums(model: Any, samples: Any) -> None:
    plain = render_page(explain(model, samples), "t")
    pairs = render_page(explain(model, samples, interactions=True), "t")
    numbers = re.compile(r"[+-]?\d\.\d{3}")
    assert numbers.findall(plain)[:20] == numbers.findall(pairs)[:20]
    odds = explain(model, samples[[7]], labels="label0", scale="log_odds")
    line = odds.iloc[0]
    start = np.log(line["base"] / (1 - line["base"]))
    assert "in log-odds" in render_page(odds, "t")
    assert f">{start:.3f}<" in render_svg(odds)


def test_notebooks_draw_the_first_sample_and_cut_tables_stay_tables(
    model: Any, samples: Any
) -> None:
    table = explain(model, samples)
    assert table._repr_html_().count('class="chart"') == 3
    assert type(table[table["observed"]]) is pd.DataFrame
    del table["base"]
    assert "chart" not in table._repr_html_()
    nothing = table.iloc[:0]
    assert "chart" not in nothing._repr_html_()  # type: ignore[operator]


def test_a_label_never_observed_is_not_drawn(data: Any) -> None:
    labels = np.array(data.labels[:80], dtype=float)
    labels[:, 1] = np.nan
    with pytest.warns(viewgap.errors.ViewgapWarning, match="never observed"):
        model = viewgap.LateFusionRidge().fit(data.views[:80], labels)
    table = explain(model, data.views[[100]], labels=["label0", "label1"])
    assert render_page(table, "t").count('class="chart"') == 1


def test_no_number_of_an_axis_is_cut_at_the_left_edge() -> None:
    page = waterfall_chart(("without any view", 0.4), [("a", -0.04), ("b", 0.05)], "its answer", "")
    found = re.findall(r'<text x="([0-9.]+)" [^>]*text-anchor="(\w+)" fill="var\(--faint\)', page)
    assert found
    assert all(anchor == "start" or float(at) >= 15 for at, anchor in found)
