"""What a reader of a model page must know first, as findings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from viewgap.data.viewset import ViewSet
from viewgap.errors import counted, first_few
from viewgap.inspection.findings import Finding, in_order, named
from viewgap.methods.estimator.training_rows import TrainingRows
from viewgap.model_report.bootstrap import METRICS, as_text
from viewgap.model_report.measures import HiddenView, Measures

FEW_POSITIVES = 10


def page_findings(
    measures: Measures | None,
    rows: TrainingRows,
    views: ViewSet,
    checked: list[Finding],
    out_of_fold: dict[str, Any] | None,
) -> list[Finding]:
    """Warnings first; `checked` are those of `viewgap.check` about the data."""
    found = [*_training_rows(rows, out_of_fold)]
    if measures is None:
        found.append(_no_labels())
    else:
        found += [*_scores(measures), *_views(measures, views), *_patterns(measures)]
        found += [*_labels(measures), *_calibration(measures)]
    return in_order([*found, *(own for own in checked if own.severity != "note")])


def _no_labels() -> Finding:
    text = (
        "the data has no labels: scores, calibration, decisions, scores by pattern of views and "
        "the loss of a view cannot be shown"
    )
    return Finding("warning", "no_labels", text, "give labels to see them")


def _training_rows(rows: TrainingRows, out_of_fold: dict[str, Any] | None) -> Iterator[Finding]:
    if rows.found:
        share = rows.share
        part = "the data is" if rows.same_counts else "rows of the data are"
        told = "" if share is None or rows.same_counts else f" (about {share:.0%} of them)"
        text = f"{part} what the model was trained on{told}: the scores below are too good"
        remedy = "measure on samples that the model has not seen"
        remedy += ", or take the out-of-fold scores" if out_of_fold else ""
        yield Finding("warning", "training_rows", text, remedy)
    elif rows.found is None:
        text = "whether the model was trained on these rows cannot be told"
        yield Finding("note", "training_rows_unknown", text, "make sure that it was not")


def _scores(measures: Measures) -> Iterator[Finding]:
    text = ", ".join(f"{METRICS[name]} {as_text(own)}" for name, own in measures.scores.items())
    remedy = f"from {measures.n_entries:,} observed label entries; 95 % intervals over samples"
    yield Finding("note", "scores", text, remedy)


def _is_loss(own: HiddenView) -> bool:
    return own.loss.low is not None and own.loss.low > 0


def _views(measures: Measures, views: ViewSet) -> Iterator[Finding]:
    name = METRICS[measures.metric]
    losing = [own for own in measures.hidden if _is_loss(own)]
    if losing:
        worst = losing[0]
        text = f"without view {worst.view!r}, {name} falls by {as_text(worst.loss)}"
        remedy = "the view that would be missed most"
        yield Finding("note", "most_needed_view", text, remedy, view=worst.view)
    idle = [own.view for own in measures.hidden if not _is_loss(own)]
    if idle:
        text = (
            f"no loss of {name} can be shown without {first_few(idle)}, one view hidden at a time"
        )
        remedy = "other views may tell the same, or too few samples have it"
        yield Finding("note", "views_not_needed", text, remedy)
    lost = [own for own in measures.hidden if len(own.left_without)]
    if lost:
        told = [f"{len(own.left_without):,} without {own.view!r}" for own in lost]
        rows = np.unique(np.concatenate([own.left_without for own in lost]))
        text = f"{counted(len(rows), 'sample')} with one view only would be left with none: "
        remedy = "they would be answered with the label frequencies of training"
        ids = named(views.sample_ids[rows])
        yield Finding("note", "only_view", text + ", ".join(told), remedy, ids=ids)


def _patterns(measures: Measures) -> Iterator[Finding]:
    overall = measures.scores[measures.metric].value
    for own in measures.patterns:
        if own.score.high is not None and own.score.high < overall:
            who = " + ".join(own.views) or "no view"
            text = (
                f"samples with exactly {who} score {as_text(own.score)}, all {overall:.3f} "
                f"({METRICS[measures.metric]}, {counted(own.score.n_samples, 'sample')})"
            )
            remedy = "expect that, not the score of all, for new samples of this pattern"
            yield Finding("warning", "weak_pattern", text, remedy)


def _labels(measures: Measures) -> Iterator[Finding]:
    chance = [
        line["label"]
        for line in measures.labels
        if line["AUC"].low is not None and line["AUC"].low <= 0.5
    ]
    if chance:
        text = f"{counted(len(chance), 'label')} not told from chance (AUC): {first_few(chance)}"
        remedy = "do not act on them without more samples"
        yield Finding("warning", "labels_at_chance", text, remedy, labels=named(chance))
    silent = [
        line["label"]
        for line in measures.labels
        if line["positives"] and not line["found"] + line["false_alarms"]
    ]
    if silent:
        text = (
            f"{counted(len(silent), 'label')} with observed positives, but never predicted at "
            f"their thresholds: {first_few(silent)}"
        )
        remedy = "use the probabilities, or thresholds of your own, where they matter"
        yield Finding("warning", "never_predicted", text, remedy, labels=named(silent))
    rare = [line["label"] for line in measures.labels if line["positives"] < FEW_POSITIVES]
    if rare:
        text = (
            f"{counted(len(rare), 'label')} with fewer than {FEW_POSITIVES} observed positives "
            f"here: {first_few(rare)}"
        )
        remedy = "too few to judge them: no intervals are given"
        yield Finding("note", "rare_labels", text, remedy, labels=named(rare))


def _calibration(measures: Measures) -> Iterator[Finding]:
    if np.isnan(measures.beyond_chance):
        return
    text = (
        f"calibration error {measures.calibration_error:.3f}, of which "
        f"{max(0.0, measures.beyond_chance):.3f} is beyond chance"
    )
    yield Finding("note", "calibration", text, "mean over labels, ten bins of equal width")
