"""The contract of prediction: does new data fit a model, before anything is predicted?"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from viewgap.data.renamed_views import renamed_view
from viewgap.data.rows.ids import form_only
from viewgap.data.validation import as_viewset, match_views
from viewgap.data.viewset import ViewSet
from viewgap.errors import ViewgapWarning, counted, first_few
from viewgap.inspection.findings import Finding, in_order, named
from viewgap.methods.base import MultiViewClassifier
from viewgap.methods.estimator.numeric_checks import some_columns
from viewgap.methods.estimator.training_summary import TrainingSummary, pattern_counts
from viewgap.prediction.shifts import shifted_columns

Verdict = Literal["fine", "refused", "suspicious"]

_MANY_ALONE = 0.1  # share of training samples with a pattern of their own; with fewer, all is told
_UNUSUAL = 0.05  # probability of so many new patterns or more from which on they are no surprise


@dataclass(frozen=True)
class DataCheck:
    """What was found when data was held against a model.

    Attributes
    ----------
    n_samples : int
        Number of samples; 0 where the data could not be read.
    findings : list of Finding
        `error`: `predict` would refuse the data; `warning`: it would answer, but the answers may
        be wrong; `note`: what will be done about something.
    """

    n_samples: int
    findings: list[Finding]

    @property
    def verdict(self) -> Verdict:
        """`"refused"`, `"suspicious"` or `"fine"`."""
        severities = {finding.severity for finding in self.findings}
        if "error" in severities:
            return "refused"
        return "suspicious" if "warning" in severities else "fine"

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        findings = [finding.to_dict() for finding in self.findings]
        return {"verdict": self.verdict, "samples": self.n_samples, "findings": findings}


def check(
    model: MultiViewClassifier, X: Any, label_names: Sequence[str] | None = None
) -> DataCheck:
    """Hold data against what a model was fitted on; nothing is predicted.

    Parameters
    ----------
    model : MultiViewClassifier
        A fitted method.
    X : ViewSet, dict, list or DataFrame
        The views of new samples, as for `predict_proba`.
    label_names : sequence of str, optional
        Names of labels that the data has, to be compared with those of the model.

    Returns
    -------
    DataCheck
        Findings about views, columns, values, ids, patterns of missing views, and labels.

    Examples
    --------
    >>> import numpy as np, viewgap
    >>> X = {"a": np.random.default_rng(0).normal(size=(30, 3))}
    >>> model = viewgap.LateFusionRidge().fit(X, (X["a"] > 0).astype(float))
    >>> viewgap.check(model, {"a": X["a"][:5]}).verdict
    'fine'
    >>> print(viewgap.check(model, {"a": 1000 * X["a"][:5]}).findings[0].kind)
    far_values
    """
    model._check_fitted()
    views = as_viewset(X, views=model.views, nan=model.nan)
    findings = [*_views(model, views), *_columns(model, views), *_ids(views)]
    if label_names is not None:
        findings += _labels(model, label_names)
    if not any(finding.severity == "error" for finding in findings):
        findings += _values(model, _matched(model, views))
    return DataCheck(len(views), in_order(findings))


def shifted(model: MultiViewClassifier, views: ViewSet) -> list[Finding]:
    """Findings about columns all of whose values lie on one side of those of training.

    `views` are data that the model would answer.
    """
    return list(shifted_columns(model, _matched(model, views)))


def _matched(model: MultiViewClassifier, views: ViewSet) -> ViewSet:
    known = views.select([name for name in views.names if name in model.view_names_])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ViewgapWarning)  # they are findings already
        return match_views(known, model.view_names_, model.view_dims_, model.feature_names_in_)


# ---------------------------------------------------------------------- views and columns


def _views(model: MultiViewClassifier, views: ViewSet) -> Iterator[Finding]:
    observed = views.observed
    present = {name: bool(observed[:, j].any()) for j, name in enumerate(views.names)}
    extra = [name for name in views.names if name not in model.view_names_]
    if len(extra) == views.n_views:
        text = f"none of the views is one of the model: found {first_few(extra)}"
        known = first_few(model.view_names_)
        yield Finding("error", "no_known_view", text, f"name the views like those: {known}")
        return
    own = (model.view_names_, model.view_dims_, model.feature_names_in_)
    renamed = renamed_view(views, *own)
    if renamed is not None:
        text = renamed.question(f"view {renamed.given!r}")
        yield Finding("error", "renamed_view", text, renamed.remedy, view=renamed.given)
        extra.remove(renamed.given)
    for name in extra:
        text = f"view {name!r} was not there when the model was fitted"
        yield Finding("note", "extra_view", text, "it is left out", view=name)
    for name in model.view_names_:
        if not present.get(name, False) and (renamed is None or name != renamed.known):
            told = "has no observed row" if name in present else "is not there"
            text = f"view {name!r} {told}: it is missing for every sample"
            remedy = "make sure that it was not forgotten or named otherwise"
            yield Finding("warning", "view_absent", text, remedy, view=name)


def _columns(model: MultiViewClassifier, views: ViewSet) -> Iterator[Finding]:
    widths = dict(zip(model.view_names_, model.view_dims_, strict=True))
    for name, width in zip(views.names, views.dims, strict=True):
        if name not in widths or width == 0:
            continue
        given, fitted = views.feature_names[name], model.feature_names_in_.get(name)
        counted_names = tuple(map(str, range(min(widths[name], width))))
        if given is not None and (fitted is not None or set(given) == set(counted_names)):
            yield from _named_columns(name, given, fitted or counted_names)
        elif width != widths[name]:
            text = f"view {name!r}: {width:,} columns, the model was fitted on {widths[name]:,}"
            yield Finding("error", "column_count", text, "give the same columns", view=name)
        elif (given is None) != (fitted is None):
            text = f"view {name!r}: only one of the model and this data has column names"
            remedy = "columns are taken in the order given; name them as in the fit"
            yield Finding("warning", "columns_by_position", text, remedy, view=name)


def _named_columns(name: str, given: Sequence[str], fitted: Sequence[str]) -> Iterator[Finding]:
    here, wanted = set(given), set(fitted)
    absent = [column for column in fitted if column not in here]
    extra = [column for column in given if column not in wanted]
    if absent:
        text = (
            f"view {name!r}: {len(absent):,} of the {len(fitted):,} columns the model was fitted "
            f"on are absent: {first_few(absent)}{form_only(extra, absent)}"
        )
        remedy = "add them (NaN where they were not measured), or rename the columns"
        yield Finding("error", "missing_columns", text, remedy, view=name, columns=named(absent))
    if extra:
        text = f"view {name!r}: {counted(len(extra), 'column')} not known: {first_few(extra)}"
        yield Finding("note", "extra_columns", text, "left out", view=name, columns=named(extra))
    common = [column for column in given if column in wanted]
    if not absent and common != list(fitted):
        text = f"view {name!r}: the columns are in another order than in the fit"
        yield Finding("note", "column_order", text, "they are matched by name", view=name)


# ---------------------------------------------------------------------- samples and labels


def _ids(views: ViewSet) -> Iterator[Finding]:
    if not views.has_ids:
        text = "the data has no sample ids"
        remedy = "answers are numbered from 0 in the order of the rows"
        yield Finding("note", "no_ids", text, remedy)


def _labels(model: MultiViewClassifier, names: Sequence[str]) -> Iterator[Finding]:
    absent = [name for name in model.label_names_ if name not in names]
    extra = [name for name in names if name not in model.label_names_]
    if not absent and not extra:
        text = "the data holds the labels of the model"
        yield Finding("note", "labels", text, "predict does not read them")
        return
    kinds = {"unknown": extra, "absent": absent}
    told = (f"{len(own):,} {kind} ({first_few(own)})" for kind, own in kinds.items() if own)
    text = f"the data has other labels than the model: {', '.join(told)}"
    remedy = "predict does not read them; make sure that this is the right model"
    yield Finding("warning", "other_labels", text, remedy, labels=named([*extra, *absent]))


def _values(model: MultiViewClassifier, views: ViewSet) -> Iterator[Finding]:
    """What the values and gaps of matched views say."""
    far = list(_far_values(model, views))
    yield from far
    yield from shifted_columns(model, views, {finding.view for finding in far})
    lost = ~views.has_view
    if lost.any():
        text = f"{counted(int(lost.sum()), 'sample')} without any view"
        remedy = "answered with the label frequencies of the training data (no_view)"
        ids = named(views.sample_ids[lost])
        yield Finding("warning", "samples_without_view", text, remedy, ids=ids)
    yield from _patterns(model, views)
    for name, count in views.n_missing_values.items():
        if count:
            text = f"view {name!r}: {counted(count, 'single missing value')}"
            remedy = "filled with the means of the training data"
            yield Finding("note", "missing_values", text, remedy, view=name)


def _far_values(model: MultiViewClassifier, views: ViewSet) -> Iterator[Finding]:
    ranges = model.column_ranges_
    if ranges is None:
        return
    for view, fitted in zip(views.names, ranges.views, strict=True):
        far = type(ranges)([fitted], {}).farthest(views.select([view]))
        if far is None:
            continue
        column = some_columns(views, view, [far.column])
        text = (
            f"view {view!r}: {counted(far.n_values, 'value')} in "
            f"{counted(far.n_samples, 'sample')} far outside of what was seen in training; the "
            f"farthest: column {column}, {far.value:g}, where training had {far.low:g} to "
            f"{far.high:g}"
        )
        remedy = "check units, columns and codes for unknown values"
        names = views.feature_names[view]
        columns = named([far.column if names is None else names[far.column]])
        ids = named([views.sample_ids[far.row]])
        yield Finding("warning", "far_values", text, remedy, view=view, columns=columns, ids=ids)


def _patterns(model: MultiViewClassifier, views: ViewSet) -> Iterator[Finding]:
    training = model.training_summary_
    if training is None:
        text = "the model file does not hold the patterns of views of its training data"
        yield Finding("note", "no_patterns", text, "fit and save it anew to have them compared")
        return
    known = set(training.patterns) | {"0" * views.n_views}  # no view at all is a finding already
    new = {text: n for text, n in pattern_counts(views.observed).items() if text not in known}
    if not new:
        return
    shown = first_few(_pattern_text(views.names, text) for text in new)
    rare = "" if training.all_patterns_kept else " (or seldom: the model keeps the most frequent)"
    total = sum(new.values())
    text = (
        f"{counted(total, 'sample')} with {counted(len(new), 'pattern')} of missing views that "
        f"training never had{rare}: {shown}"
    )
    first = np.array([flag == "1" for flag in next(iter(new))])
    ids = named(views.sample_ids[(views.observed == first).all(axis=1)])
    alone = _patterns_of_their_own(training)
    if _is_usual(total, len(views), alone / training.n_samples):
        remedy = (
            f"as in training, where {alone:,} of {counted(training.n_samples, 'sample')} had a "
            "pattern of their own: its scores are about such samples, too"
        )
        yield Finding("note", "unseen_patterns", text, remedy, ids=ids)
        return
    remedy = "no score of the model is about such samples; answers may be worse than its scores"
    yield Finding("warning", "unseen_patterns", text, remedy, ids=ids)


def _patterns_of_their_own(training: TrainingSummary) -> int:
    """How many training samples had a pattern that no other had, or one that was not kept."""
    once = sum(count == 1 for count in training.patterns.values())
    return once + training.n_samples - sum(training.patterns.values())


def _is_usual(n_new: int, n: int, share: float) -> bool:
    """Whether so many new patterns are to be expected where this share of training had its own.

    The share of samples with a pattern of their own estimates that of new patterns (Good, 1953).
    """
    from scipy.special import bdtrc

    return share >= _MANY_ALONE and float(bdtrc(n_new - 1, n, min(share, 1.0))) > _UNUSUAL


def _pattern_text(names: Sequence[str], pattern: str) -> str:
    there = [name for name, flag in zip(names, pattern, strict=True) if flag == "1"]
    return "only " + " + ".join(there)
