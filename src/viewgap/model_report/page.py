"""The page of a model: findings first, then figures, labels, views, samples and the card."""

from __future__ import annotations

import math
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from viewgap.bench.show.page import environment, script_hash, trusted
from viewgap.bench.show.svg_charts import calibration_chart, interval_chart
from viewgap.errors import printable
from viewgap.inspection.drawing import MOST_PATTERNS, upset
from viewgap.inspection.findings import SEVERITIES
from viewgap.model_report.bootstrap import METRICS, Estimate, as_text
from viewgap.model_report.sets import verdict

if TYPE_CHECKING:
    from viewgap.model_report.measures import Measures
    from viewgap.model_report.reporting import ModelReport

LABEL_COLUMNS = (
    "label",
    "observed",
    "positives",
    "AUC",
    "from",
    "to",
    "AP",
    "threshold",
    "precision",
    "recall",
    "F1",
    "found",
    "missed",
    "false alarms",
    "rightly not",
)
_MOST_LABELS = 24
_MOST_SETS = 60


def render_page(report: ModelReport) -> str:
    """The page as one text that needs no other file."""
    script = files("viewgap.bench.show").joinpath("templates", "report.js").read_text("utf-8")
    measures = report.measures
    return (
        environment("viewgap.inspection", "viewgap.model_report")
        .get_template("model_report.html.j2")
        .render(
            title=printable(report.title),
            summary=_summary(report),
            counts=[(kind, _count(report, kind)) for kind in SEVERITIES if _count(report, kind)],
            findings=[_finding(own) for own in report.findings],
            drawing=trusted(upset(report.patterns, list(report.views.names))),
            left_out=max(0, len(report.patterns) - MOST_PATTERNS),
            views=_view_lines(report),
            measured=measures is not None,
            metric="" if measures is None else METRICS[measures.metric],
            columns=LABEL_COLUMNS,
            **(_measured(report, measures) if measures is not None else {}),
            contributions=_contribution_table(report),
            explained=len(report.contributions.rows),
            no_contributions=printable(report.contributions.reason),
            sets=_sets(report),
            stories=[_story(own) for own in report.stories],
            card=[(name, [printable(line) for line in lines]) for name, lines in report.card],
            script=trusted(script),
            script_hash=script_hash(script),
        )
    )


def _count(report: ModelReport, kind: str) -> int:
    return sum(finding.severity == kind for finding in report.findings)


def _summary(report: ModelReport) -> str:
    views = report.views
    missing = 1 - views.observed.mean() if views.observed.size else 0.0
    said = f"{len(views):,} samples, {views.n_views:,} views ({missing:.0%} of the view entries "
    said += f"missing), {len(report.label_names):,} labels"
    if report.measures is None:
        return said + "; no labels in the data"
    total = len(views) * len(report.label_names)
    return said + f" ({report.measures.n_entries / total:.0%} of the label entries observed)"


def _finding(finding: Any) -> dict[str, Any]:
    parts = {"labels": finding.labels, "samples": finding.ids, "columns": finding.columns}
    return {
        "severity": finding.severity,
        "text": _sentence(finding.text),
        "remedy": _sentence(finding.remedy),
        "named": [printable(f"{k}: {', '.join(v)}") for k, v in parts.items() if len(v) > 1],
    }


def _sentence(text: str) -> str:
    end = "" if text.endswith(("...", "…")) else "."
    return printable(text[:1].upper() + text[1:]) + end


def _view_lines(report: ModelReport) -> list[tuple[str, str, str, str]]:
    views = report.views
    share = views.observed.mean(axis=0)
    return [
        (
            printable(name),
            f"{dim:,}",
            f"{int(views.observed[:, j].sum()):,}",
            f"{share[j]:.0%}",
        )
        for j, (name, dim) in enumerate(zip(views.names, views.dims, strict=True))
    ]


def _measured(report: ModelReport, measures: Measures) -> dict[str, Any]:
    now = measures.scores[measures.metric].value
    bins = [(own.probability, own.frequency, own.n_entries) for own in measures.bins]
    patterns = [(_views(own.views), _triple(own.score)) for own in measures.patterns]
    hidden = [(f"without {printable(own.view)}", _triple(own.score)) for own in measures.hidden]
    return {
        "scores": _score_lines(report, measures),
        "calibration": trusted(calibration_chart(bins)),
        "calibration_error": _number(measures.calibration_error),
        "beyond_chance": _number(measures.beyond_chance),
        "bins": [(f"{p:.3f}", f"{q:.3f}", f"{n:,}") for p, q, n in bins],
        "totals": measures.totals,
        "labels": [_label_line(line) for line in measures.labels],
        "pattern_chart": trusted(interval_chart(patterns, "Score by pattern of views", now)),
        "patterns": [
            (
                _views(own.views),
                f"{own.n_samples:,}",
                as_text(own.score),
                f"{own.score.n_samples:,}",
            )
            for own in measures.patterns
        ],
        "hidden_chart": trusted(
            interval_chart(
                [("all views, as now", _triple(measures.scores[measures.metric])), *hidden],
                "Score with a view hidden",
                now,
            )
        ),
        "hidden": [
            (
                printable(own.view),
                f"{own.n_samples:,}",
                as_text(own.score),
                as_text(own.loss, signed=True),
                f"{len(own.left_without):,}",
            )
            for own in measures.hidden
        ],
    }


def _views(names: tuple[str, ...]) -> str:
    return printable(" + ".join(names)) or "no view"


def _triple(own: Estimate) -> tuple[float, float | None, float | None]:
    return own.value, own.low, own.high


def _number(value: float, digits: int = 3) -> str:
    return "–" if math.isnan(value) else f"{value:.{digits}f}"


def _score_lines(report: ModelReport, measures: Measures) -> list[tuple[str, str, str, str]]:
    """Metric, figure, samples, and the out-of-fold figure of the training samples."""
    own = report.out_of_fold or {}
    found = []
    for name, estimate in measures.scores.items():
        before = own.get(name)
        told = "–" if before is None else f"{before:.3f}"
        found.append((METRICS[name], as_text(estimate), f"{estimate.n_samples:,}", told))
    for name in ("micro F1", "macro F1", "precision", "recall"):
        told = f"{name}, decisions at the thresholds"
        found.append((told, _number(measures.totals[name]), f"{len(report.views):,}", "–"))
    return found


def _label_line(line: dict[str, Any]) -> tuple[str, ...]:
    auc: Estimate = line["AUC"]
    ends = ("–" if end is None else f"{end:.3f}" for end in (auc.low, auc.high))
    figures = (_number(line[name]) for name in ("AP", "threshold", "precision", "recall", "F1"))
    counts = (line[name] for name in ("found", "missed", "false_alarms", "rightly_not"))
    return (
        printable(line["label"]),
        str(line["observed"]),
        str(line["positives"]),
        _number(auc.value),
        *ends,
        *figures,
        *map(str, counts),
    )


def _contribution_table(report: ModelReport) -> dict[str, Any]:
    """Views as columns, labels with the largest contributions as lines; shade by size."""
    values = report.contributions.by_label
    order = np.argsort(-values.sum(axis=0), kind="stable")[:_MOST_LABELS]
    most = float(values.max(initial=0.0)) or 1.0
    mean = values.mean(axis=1)

    def cells(numbers: Any) -> list[tuple[str, int]]:
        return [(f"{v:.3f}", round(70 * min(1.0, float(v) / most))) for v in numbers]

    return {
        "views": [printable(name) for name in report.views.names],
        "mean": cells(mean),
        "lines": [(printable(report.label_names[j]), cells(values[:, j])) for j in order],
        "left_out": max(0, values.shape[1] - len(order)),
    }


def _sets(report: ModelReport) -> dict[str, Any] | None:
    found = report.label_sets
    if found is None:
        return None
    labelled = any(own.label is not None for _, own in found.losses)
    lines = []
    order = sorted(found.losses, key=lambda line: (not line[1].broken, -line[1].n_rows))
    for names, own in order[:_MOST_SETS]:
        label = [printable(own.label or "")] if labelled else []
        figure = "–"
        if not math.isnan(own.loss):
            figure = f"{own.loss:.3f} ({own.low:.3f} to {own.high:.3f})"
        figures = (f"{own.n_rows:,}", figure, f"{own.promised:.3f}", f"{own.possible:.0%}")
        lines.append((_views(names), *label, *figures, verdict(own)))
    columns = ("samples", "mean loss", "promised", "left possible", "the promise is")
    return {
        "promise": _sentence(found.promise),
        "assumption": _sentence(found.assumption),
        "shares": [(kind, f"{share:.0%}") for kind, share in found.shares.items()],
        "columns": ("views", *(["label"] if labelled else []), *columns),
        "n_text": 2 if labelled else 1,
        "lines": lines,
        "left_out": max(0, len(order) - _MOST_SETS),
    }


def _story(story: Any) -> dict[str, Any]:
    shown = [printable(name) for name, _ in story.views]
    return {
        "title": story.title,
        "sample": printable(story.sample),
        "views": [(printable(name), there) for name, there in story.views],
        "lines": [_story_line(line, shown) for line in story.lines],
    }


def _story_line(line: dict[str, Any], views: list[str]) -> dict[str, Any]:
    known, decided = line["observed"], line["decided"]
    kinds = {(True, True): "hit", (True, False): "miss", (False, True): "alarm"}
    words = {"hit": "found", "miss": "missed", "alarm": "false alarm", "none": "rightly not"}
    kind = "none" if known is None else kinds.get((known, decided), "none")
    parts = line["contributions"]
    said = "predicted, label unknown" if decided else "label unknown"
    return {
        "label": printable(line["label"]),
        "percent": f"{100 * line['probability']:.0f}",
        "limit": f"{100 * min(1.0, line['threshold']):.0f}",
        "kind": kind,
        "word": said if known is None else words[kind],
        "set": line.get("set"),
        "parts": ""
        if parts is None
        else ", ".join(
            f"{view} {value:+.2f}"
            for view, value in zip(views, parts, strict=True)
            if abs(value) >= 0.005
        ),
        "base": f"{100 * line['base']:.0f}",
    }
