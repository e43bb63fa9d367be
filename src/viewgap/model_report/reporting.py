"""`viewgap.report`: everything that the page of a model shows, measured once."""

from __future__ import annotations

import os
import warnings
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from viewgap.constraints import Integer
from viewgap.constraints import check as check_value
from viewgap.data.labels import Labels
from viewgap.data.validation import as_labels
from viewgap.data.viewset import ViewSet
from viewgap.errors import InputError, ViewgapWarning
from viewgap.fsio import check_file_writable, write_file
from viewgap.inspection.findings import Finding, in_order
from viewgap.methods.base import MultiViewClassifier, fitted_model
from viewgap.methods.estimator.one_label import as_column, is_one_label
from viewgap.methods.estimator.training_rows import TrainingRows, find_training_rows
from viewgap.model_report.card import Card, model_card, out_of_fold
from viewgap.model_report.measures import Measures, measure, thresholds
from viewgap.model_report.sets import SetsOnData, set_findings, sets_on_data, with_words
from viewgap.model_report.stories import Contributions, Story, choose_samples, contributions, tell
from viewgap.model_report.told import page_findings
from viewgap.prediction.contract import check
from viewgap.strict_json import plain

if TYPE_CHECKING:
    import pandas as pd

    from viewgap.decide import LabelSets

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ModelReport:
    """A model on data: findings, figures, and the page that shows them.

    Attributes
    ----------
    title : str
    findings : list of Finding
        What to know first, warnings before notes.
    views : ViewSet
        The data, views in the order of the model.
    measures : Measures or None
        Scores, labels, calibration, patterns, hidden views; None without labels.
    out_of_fold : dict or None
        Scores of the training samples, of methods that have them.
    contributions : Contributions
    stories : list of Story
    training_rows : TrainingRows
    card : list of (str, list of str)
    label_sets : SetsOnData or None
        What label sets say of the data, where they were given.
    """

    title: str
    findings: list[Finding]
    views: ViewSet
    measures: Measures | None
    out_of_fold: dict[str, Any] | None
    contributions: Contributions
    stories: list[Story]
    training_rows: TrainingRows
    card: Card
    label_names: tuple[str, ...]
    label_sets: SetsOnData | None = None

    @cached_property
    def patterns(self) -> pd.DataFrame:
        """Samples per pattern of views."""
        from viewgap.inspection.patterns import pattern_table

        return pattern_table(self.views)

    def to_html(self) -> str:
        """The page as one text that needs no other file."""
        from viewgap.model_report.page import render_page

        return render_page(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page; the file is the old one or the new one."""
        write_file(path, self.to_html().encode())

    def to_dict(self) -> dict[str, Any]:
        """The figures as plain values for JSON."""
        means = self.contributions.by_label.mean(axis=1).tolist()
        return {
            "title": self.title,
            "samples": len(self.views),
            "findings": [finding.to_dict() for finding in self.findings],
            "training_rows": {**asdict(self.training_rows), "found": self.training_rows.found},
            "out_of_fold": self.out_of_fold,
            **_figures(self.measures, self.views),
            "contributions": {
                "rows": len(self.contributions.rows),
                "mean_absolute": dict(zip(self.views.names, means, strict=True)),
                "reason": self.contributions.reason or None,
            },
            "label_sets": None if self.label_sets is None else plain(self.label_sets),
            "card": dict(self.card),
        }


def report(
    model: MultiViewClassifier,
    X: Any,
    y: Any = None,
    path: str | os.PathLike[str] | None = None,
    *,
    title: str | None = None,
    random_state: int = 0,
    label_sets: LabelSets | None = None,
) -> ModelReport:
    """Measure a fitted model on data, and show all of it on one page.

    Parameters
    ----------
    model : MultiViewClassifier
        A fitted method. It is not changed.
    X : ViewSet, dict, list or DataFrame
        The views of samples, as for `predict_proba`; best such that the model has not seen.
    y : array or DataFrame of shape (n_samples, n_labels), optional
        Their labels, NaN where not observed. Without them, the page says what cannot be shown.
    path : str or path, optional
        Write the page to this file: one HTML file that loads nothing from outside.
    title : str, optional
        Heading of the page.
    random_state : int, default=0
        Seed of the intervals and of the rows whose contributions are computed (at most 200).
    label_sets : LabelSets, optional
        Sets of this model: the page says what they make of the data, and how often their promise
        held.

    Returns
    -------
    ModelReport

    Examples
    --------
    >>> import numpy as np, viewgap
    >>> rng = np.random.default_rng(0)
    >>> X = {"a": rng.normal(size=(90, 3)), "b": rng.normal(size=(90, 2))}
    >>> y = (X["a"][:, :2] + X["b"] > 0).astype(float)
    >>> train, test = ({k: v[rows] for k, v in X.items()} for rows in (slice(60), slice(60, 90)))
    >>> model = viewgap.LateFusionRidge().fit(train, y[:60])
    >>> found = viewgap.report(model, test, y[60:])
    >>> found.training_rows.found, sorted(found.measures.scores)
    (False, ['AP', 'macro AUC'])
    """
    if path is not None:
        check_file_writable(path)  # before the work, not after it
    fitted_model(model)
    check_value("random_state", Integer(0), random_state)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ViewgapWarning)  # `check` makes findings of them
        views = model._match(X, model.nan)
        checked = check(model, views).findings
    if not len(views):
        raise InputError("there is no sample to report on")
    labels = None if y is None else _labels(model, views, y)
    decided = None if label_sets is None else sets_on_data(label_sets, model, views, labels)
    found = _measured(model, views, labels, checked, title, random_state, decided)
    if path is not None:
        found.save(path)
    return found


def _labels(model: MultiViewClassifier, views: ViewSet, y: Any) -> Labels | None:
    if model.one_label_ and is_one_label(y):
        y = as_column(y, model.classes_)
    labels = as_labels(y, views, names=model.label_names_)
    return labels if labels.observed.any() else None


def _measured(
    model: MultiViewClassifier,
    views: ViewSet,
    labels: Labels | None,
    checked: list[Finding],
    title: str | None,
    seed: int,
    decided: SetsOnData | None,
) -> ModelReport:
    truth = None if labels is None else labels.as_float()
    probabilities, limits = model._checked_probabilities(views), thresholds(model)
    measures = None if truth is None else measure(model, views, truth, probabilities, seed)
    rows = find_training_rows(model, views, labels)
    own = out_of_fold(model)
    chosen = choose_samples(views, truth, probabilities, limits)
    explained = contributions(model, views, np.array(sorted(chosen.values()), np.intp), seed)
    stories = tell(model, views, truth, probabilities, limits, chosen, explained)
    findings = page_findings(measures, rows, views, checked, own)
    return ModelReport(
        title=title or f"{type(model).__name__} on {len(views):,} samples",
        findings=in_order([*findings, *set_findings(decided)]),
        views=views,
        measures=measures,
        out_of_fold=own,
        contributions=explained,
        stories=with_words(stories, list(chosen.values()), model.label_names_, decided),
        training_rows=rows,
        card=model_card(model, rows, labels is not None),
        label_names=model.label_names_,
        label_sets=decided,
    )


def _figures(measures: Measures | None, views: ViewSet) -> dict[str, Any]:
    names = ("scores", "labels", "decisions", "calibration", "patterns", "hidden_views")
    if measures is None:
        return dict.fromkeys(names)
    found = {
        "scores": {name: own.to_dict() for name, own in measures.scores.items()},
        "labels": measures.labels,
        "decisions": measures.totals,
        "calibration": {
            "error": measures.calibration_error,
            "beyond_chance": measures.beyond_chance,
            "bins": [asdict(own) for own in measures.bins],
        },
        "patterns": [
            {"views": own.views, "samples": own.n_samples, measures.metric: own.score}
            for own in measures.patterns
        ],
        "hidden_views": [
            {
                "view": own.view,
                "samples": own.n_samples,
                measures.metric: own.score,
                "loss": own.loss,
                "left_without_view": [str(views.sample_ids[row]) for row in own.left_without],
            }
            for own in measures.hidden
        ],
    }
    return dict(plain(found))
