"""Renders the story: chooses the words, prepares the charts, fills the template.

Autoescape is on and no text is ever marked safe, so a label called `<script>` stays a text.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from viewgap.report import charts
from viewgap.report.images import png_uri
from viewgap.report.story import MethodResult, Story

if TYPE_CHECKING:
    from jinja2 import Environment

_CURVES = ("main", "rival")
EVEN = 0.01  # weights closer than this are told as equal


def render_report(story: Story) -> str:
    """The whole page as one HTML text without any outside resource."""
    return template_environment().get_template("report.html.j2").render(**_context(story))


def template_environment() -> Environment:
    """Where the templates of this package are filled: escaped, and an unknown name is an error."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("viewgap.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["three"] = lambda value: f"{value:.3f}"
    environment.filters["percent"] = lambda value: f"{100 * value:.0f} %"
    environment.filters["seconds"] = lambda value: f"{value:.1f}" if value >= 0.05 else "< 0.1"
    return environment


def _context(story: Story) -> dict[str, Any]:
    ranked = sorted(story.results, key=lambda r: -r.metrics["AP"])
    best = {name: max(round(r.metrics[name], 3) for r in ranked) for name in ranked[0].metrics}
    return {
        "story": story,
        "ranked": ranked,
        "metrics": list(ranked[0].metrics),
        "best": best,
        "headline": headline(story, ranked),
        "summary": summary(story, ranked),
        "strips": charts.strips(story.observed, story.view_names),
        "views_chart": _views_chart(story, ranked),
        "training": _training_charts(story),
        "trust": sorted(story.trust, key=lambda v: (-round(v.weight, 2), -(v.alone or 0.0))),
        "trust_note": trust_note(story),
        "trust_top": max((view.weight for view in story.trust), default=1.0),
        "gallery": _gallery(story),
        "bar_height": charts.BAR_HEIGHT,
    }


# ---------------------------------------------------------------------------------- the words


def headline(story: Story, ranked: Sequence[MethodResult]) -> str:
    """What happened, in one or two short sentences that the numbers back."""
    gone = f"{_share(story.view_rate)} of the views and {_share(story.label_rate)} of the labels"
    gone = _sentence_start(gone)
    if ranked[0].title == story.main:
        return f"{gone} are missing. {story.main} still ranks the {story.label_noun[1]} best."
    place = [result.title for result in ranked].index(story.main) + 1
    winner = _sentence_start(ranked[0].title)
    return (
        f"{gone} are missing. {winner} ranks the {story.label_noun[1]} best; "
        f"{story.main} is number {place} of {len(ranked)}."
    )


def summary(story: Story, ranked: Sequence[MethodResult]) -> str:
    """The headline's number, and its distance to the best other method."""
    main = next(result for result in ranked if result.title == story.main)
    ap = main.metrics["AP"]
    folds = f", mean of {story.folds} folds" if story.folds > 1 else ""
    text = (
        f"Average precision {ap:.3f} on {story.n_test:,} {story.sample_noun[1]} "
        f"it has never seen{folds}"
    )
    rivals = [result for result in ranked if result.title != story.main]
    if not rivals:
        return text + "."
    gap = ap - rivals[0].metrics["AP"]
    side = "above" if gap >= 0 else "below"
    return f"{text}: {abs(gap):.3f} {side} the best of the simple picks, {rivals[0].title}."


def trust_note(story: Story) -> str:
    """What the weights say, before one reads them."""
    weights = [view.weight for view in story.trust]
    if not weights or max(weights) - min(weights) < EVEN:
        return "The views are trusted alike."
    top = max(story.trust, key=lambda view: view.weight)
    return f"{_sentence_start(top.name)} is trusted most."


def _sentence_start(text: str) -> str:
    return text[:1].upper() + text[1:]


def _share(rate: float) -> str:
    return "half" if math.isclose(rate, 0.5) else f"{100 * rate:.0f} %"


# ---------------------------------------------------------------------------------- the pictures


def _views_chart(story: Story, ranked: Sequence[MethodResult]) -> charts.LineChart | None:
    main_first = sorted(ranked, key=lambda r: r.title != story.main)
    curves = {
        result.title: (style, result.by_views)
        for result, style in zip(main_first, _CURVES, strict=False)
        if result.by_views
    }
    kept = np.bincount(story.observed.sum(axis=1), minlength=1)
    counts = {views: int(count) for views, count in enumerate(kept)}
    label = "Average precision by the number of views a sample kept"
    return charts.views_chart(label, curves, counts)


def _training_charts(story: Story) -> list[dict[str, Any]]:
    kept = None if story.best_epoch is None else story.best_epoch - 1
    wanted = (
        (
            "validation_score",
            "Validation score",
            "higher is better; decides which epoch is kept",
            0,
        ),
        ("loss", "Training loss", "all terms together", 0),
        ("codebook_use", "Codebook use", "share of the codes in use", 1),
    )
    found = []
    for key, title, note, percent in wanted:
        mark = kept if key == "validation_score" else None
        values = [float(v) for v in story.history.get(key, ())]
        chart = charts.epoch_chart(title, values, mark=mark, percent=bool(percent))
        if chart is not None:
            last = (
                f"{100 * values[-1]:.0f} % at the end"
                if percent
                else f"{values[-1]:.3f} at the end"
            )
            if mark is not None:
                last = f"{values[mark]:.3f} kept"
            found.append({"title": title, "note": note, "chart": chart, "last": last})
    return found


def _gallery(story: Story) -> list[dict[str, Any]]:
    return [
        {
            "name": example.name,
            "image": png_uri(example.image),
            "chart": charts.example_chart(
                story.label_names, example.truth, example.probability, story.thresholds
            ),
            "truth": [n for n, t in zip(story.label_names, example.truth, strict=True) if t],
            "views": list(zip(story.view_names, example.observed, strict=True)),
            "kept": sum(map(bool, example.observed)),
        }
        for example in story.examples
    ]
