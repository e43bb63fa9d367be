"""Contributions of views drawn: one page, one SVG, or a block of a notebook; no script in any."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from viewgap.bench.show.page import environment, trusted
from viewgap.bench.show.svg_charts import waterfall_chart
from viewgap.errors import printable
from viewgap.notebook import card, escape, soft

if TYPE_CHECKING:
    import pandas as pd

MOST_SAMPLES = 20
MOST_LABELS = 6
_IN_NOTEBOOK = 3
_WIDTH, _GAP = 312, 24
_PROB_EPS = 1e-6
_LIGHT = "--main: #0072b2; --rival: #d55e00; --rule: #e4e2dc; --faint: #6c747e; color: #16191d"
_DARK = "--main: #56b4e9; --rival: #ef8a3c; --rule: #272d35; --faint: #8d96a1; color: #eceef0"


@dataclass(frozen=True)
class Drawn:
    """One sample: its views, whether it has them, and a chart for each label that is shown."""

    sample: str
    views: list[tuple[str, bool]]
    charts: list[tuple[str, str, str]]  # label, sentence, SVG
    left_out: int


def render_page(table: pd.DataFrame, title: str) -> str:
    """The page as one text that needs no other file.

    Of many samples the first are drawn, of many labels those that views change most.
    """
    drawn, left_out = _drawn(table, MOST_SAMPLES, MOST_LABELS)
    return (
        environment("viewgap.explanation")
        .get_template("explanation.html.j2")
        .render(
            title=printable(title),
            samples=[_for_page(own) for own in drawn],
            left_out=left_out,
            log_odds=_scale(table) == "log_odds",
        )
    )


def _for_page(own: Drawn) -> dict[str, Any]:
    return {
        "sample": printable(own.sample),
        "views": [(printable(name), there) for name, there in own.views],
        "charts": [(printable(label), said, trusted(svg)) for label, said, svg in own.charts],
        "left_out": own.left_out,
    }


def render_svg(table: pd.DataFrame) -> str:
    """The charts below each other as one SVG file, for dark and light pages."""
    drawn, _ = _drawn(table, MOST_SAMPLES, MOST_LABELS)
    parts, top = [], 0.0
    for own in drawn:
        for label, said, svg in own.charts:
            height = float(svg.partition('viewBox="')[2].partition('"')[0].split()[3])
            inner = svg.replace("<svg ", f'<svg x="0" y="{top + 46:g}" width="{_WIDTH}" ', 1)
            inner = inner.replace("<svg ", f'<svg height="{height:g}" ', 1)
            head = escape(_short(f"{own.sample}: {label}"))
            parts.append(
                f'<text x="6" y="{top + 18:g}" font-weight="600">{head}</text>'
                f'<text x="6" y="{top + 36:g}" fill="var(--faint)">{escape(said)}</text>{inner}'
            )
            top += height + 46 + _GAP
    style = (
        f"<style>svg {{ {_LIGHT}; font: 13px system-ui, sans-serif }} .paper {{ fill: #ffffff }} "
        f"@media (prefers-color-scheme: dark) {{ svg {{ {_DARK} }} "
        ".paper { fill: #171b21 } }</style>"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {top:g}" '
        f'width="{_WIDTH}" height="{top:g}" fill="currentColor">{style}'
        f'<rect class="paper" width="100%" height="100%"/>{"".join(parts)}</svg>\n'
    )


def render_notebook(table: pd.DataFrame) -> str:
    """The first sample drawn, and the table folded."""
    drawn, left_out = _drawn(table, 1, _IN_NOTEBOOK)
    [first] = drawn
    charts = "".join(
        f'<div style="width: {_WIDTH}px; max-width: 100%"><b>{escape(label)}</b><br>'
        f"{soft(said)}{svg}</div>"
        for label, said, svg in first.charts
    )
    colours = "--main: #3b8fc4; --rival: #d9772b; --rule: rgb(128 128 128 / 35%); --faint: #8a8f96"
    more = f"{left_out:,} more samples" if left_out else ""
    more += (", " if more and first.left_out else "") + (
        f"{first.left_out:,} more labels of this one" if first.left_out else ""
    )
    return card(
        f"<b>Explanation</b> sample {escape(first.sample)}",
        f'<div style="display: flex; flex-wrap: wrap; gap: 12px 32px; {colours}">{charts}</div>',
        soft(more),
        f"<details><summary>{len(table):,} lines</summary>{table._repr_html_()}</details>",  # type: ignore[operator]
    )


# ---------------------------------------------------------------------- what is drawn


def _scale(table: pd.DataFrame) -> str:
    return str(table.attrs.get("scale", "probability"))


def _drawn(table: pd.DataFrame, samples: int, labels: int) -> tuple[list[Drawn], int]:
    """The first samples with their most changed labels, and how many samples are left out."""
    # samples stand one after the other, each with as many lines
    n_labels = table["label"].nunique()
    pairs = table["view"].nunique() ** (2 if "with_view" in table.columns else 1)
    per_sample = n_labels * pairs
    n = len(table) // per_sample
    scale = _scale(table)
    found = [
        _sample(table.iloc[start : start + per_sample], pairs, labels, scale)
        for start in range(0, min(n, samples) * per_sample, per_sample)
    ]
    return found, max(0, n - samples)


def _sample(lines: pd.DataFrame, per_label: int, most: int, scale: str) -> Drawn:
    parts = [lines.iloc[start : start + per_label] for start in range(0, len(lines), per_label)]
    known = [own for own in parts if not math.isnan(own["probability"].iloc[0])]
    change = [-abs(float(own["contribution"].sum())) for own in known]
    chosen = [known[place] for place in np.argsort(change, kind="stable")[:most]]
    steps = _steps(parts[0])
    views = [(name, value is not None) for name, value in steps]
    return Drawn(
        str(lines["sample"].iloc[0]),
        views,
        [_chart(own, scale) for own in chosen],
        len(parts) - len(chosen),
    )


def _steps(lines: pd.DataFrame) -> list[tuple[str, float | None]]:
    """Every view with its contribution; None where the sample lacks it."""
    found: dict[str, float | None] = {}
    for view, observed, value in zip(
        lines["view"], lines["observed"], lines["contribution"], strict=True
    ):
        before = found.get(str(view)) or 0.0
        found[str(view)] = before + float(value) if observed else None
    return list(found.items())


def _chart(lines: pd.DataFrame, scale: str) -> tuple[str, str, str]:
    base, probability = float(lines["base"].iloc[0]), float(lines["probability"].iloc[0])
    label = str(lines["label"].iloc[0])
    said = f"probability {probability:.3f}, without any view {base:.3f}"
    start = base if scale == "probability" else _log_odds(base)
    steps: Sequence[tuple[str, float | None]] = _steps(lines)
    title = f"{label}: {said}"
    return label, said, waterfall_chart(("without any view", start), steps, "its answer", title)


def _log_odds(probability: float) -> float:
    bounded = min(max(probability, _PROB_EPS), 1 - _PROB_EPS)
    return math.log(bounded / (1 - bounded))


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:39] + "…"
