"""The model card: data, settings, versions, what was assumed, and what is not known."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from viewgap.methods.base import MultiViewClassifier
from viewgap.methods.estimator.training_rows import TrainingRows

Card = list[tuple[str, list[str]]]
_PACKAGES = ("viewgap", "numpy", "torch", "scikit-learn")


def model_card(model: MultiViewClassifier, rows: TrainingRows, has_labels: bool) -> Card:
    """(what, lines of text), in the order of reading."""
    return [
        ("method", _method(model)),
        ("training data", _training(model)),
        ("settings that differ from the defaults", changed_settings(model)),
        ("thresholds", [_thresholds(model)]),
        ("were these rows learned from?", [training_rows_text(rows)]),
        ("assumptions", _assumptions(has_labels)),
        ("limits", _limits(model)),
        ("versions that made this page", _versions()),
    ]


def changed_settings(model: MultiViewClassifier) -> list[str]:
    """Parameters that are not at their defaults, as `name=value`."""
    defaults = type(model)().get_params(deep=False)
    params = model.get_params(deep=False)
    found = [f"{k}={v!r}" for k, v in params.items() if repr(v) != repr(defaults.get(k))]
    return found or ["none"]


def _method(model: MultiViewClassifier) -> list[str]:
    said = [f"{type(model).__name__}: {model.summary}", model.reference]
    said += [f"written from: {model.certainty}"] if model.certainty else []
    said += ["a signal ended the fit early"] if model.interrupted_ else []
    return [text for text in said if text]


def _training(model: MultiViewClassifier) -> list[str]:
    known = model.training_summary_
    if known is None:
        return [f"{len(model.label_names_):,} labels; the model file holds no counts of samples"]
    found = [f"{known.n_samples:,} samples, {len(model.label_names_):,} labels"]
    if model.one_label_:
        other, own = model.classes_.tolist()
        found.append(f"{model.label_names_[0]} is the class {own!r} of y, not {other!r}")
    parts = zip(model.view_names_, model.view_dims_, known.n_observed_views, strict=True)
    found += [f"{name}: {dim:,} columns, {count:,} samples" for name, dim, count in parts]
    entries, ones = sum(known.n_observed_labels), sum(known.n_positives)
    total = known.n_samples * len(model.label_names_)
    found.append(f"{entries:,} of {total:,} label entries observed, {ones:,} of them positive")
    return [*found, f"{known.n_patterns:,} patterns of views"]


def _thresholds(model: MultiViewClassifier) -> str:
    if np.ndim(model.thresholds_) == 0:
        return f"one for all labels, {float(model.thresholds_):g}"
    return (
        "one per label, chosen for F1 on training samples that the answering model had not been "
        "fitted on (out-of-fold or validation rows); none was chosen on the data of this page"
    )


def training_rows_text(rows: TrainingRows) -> str:
    """What is known about training rows in the data, in one sentence."""
    if rows.same_counts:
        return "yes: every count of samples, views, labels and patterns is that of training"
    if rows.found is None:
        return (
            "not known: the model keeps no rows, and too few columns are continuous to tell by "
            "their extremes"
        )
    told = f"{rows.n_found:,} of {rows.n_extremes:,} extreme values of training are in the data"
    return f"{'yes, at least some' if rows.found else 'no sign of it'}: {told}"


def _assumptions(has_labels: bool) -> list[str]:
    found = [
        "samples in use resemble those of training: same units, same population, same patterns of "
        "missing views"
    ]
    if has_labels:
        found += [
            "labels are missing at random: scores are of observed label entries, and speak for the "
            "others only if those do not differ",
            "samples are independent: intervals draw samples anew, and are too narrow where "
            "several samples come from one patient, site or day",
        ]
    return found


def _limits(model: MultiViewClassifier) -> list[str]:
    found = [
        "a sample without any view is answered with the label frequencies of training",
        "intervals tell the chance of these samples, not that of another fit of the model",
    ]
    never = int(np.isnan(model.label_frequency_).sum())
    if never:
        found.append(f"{never:,} labels were never observed in training and have no answer")
    known = model.training_summary_
    if known is not None:
        rare = sum(0 < count < 10 for count in known.n_positives)
        if rare:
            found.append(f"{rare:,} labels had fewer than 10 positive samples in training")
    return found


def _versions() -> list[str]:
    found = [f"python {platform.python_version()}"]
    for name in _PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return found


def out_of_fold(model: MultiViewClassifier) -> dict[str, Any] | None:
    """Scores of training samples, each answered by a model that left it out; None without any."""
    known = model.training_summary_
    if known is None or known.scores is None:
        return None
    own = known.scores
    return {
        "AP": own.average_precision,
        "macro AUC": own.macro_auc,
        "n_labels": own.n_labels,
        "n_entries": own.n_entries,
    }
