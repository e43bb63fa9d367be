"""Figures label by label: AUC, average precision, precision, recall, F1.

NaN entries of Y or P are left out. A figure that the data do not define is NaN: AUC without both
classes; AP, recall and F1 without positives; precision when nothing was predicted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from viewgap.errors import InputError
from viewgap.metrics._inputs import Floats
from viewgap.metrics.prediction import Prediction, divide, mean_defined
from viewgap.metrics.ranking import pair_auc_per_row
from viewgap.metrics.registry import register_metric


def macro_auc(Y: Any, P: Any) -> float:
    """ROC-AUC (ties one half) averaged over the labels that have both classes observed.

    Shape: Y, P (n, c) -> float; NaN when no label has both classes.
    """
    return _macro_auc(Prediction.of(Y, P))


def f1_scores(Y: Any, P: Any, threshold: Any = 0.5) -> dict[str, float]:
    """`{"macro": ..., "micro": ...}` F1 of the decisions P > threshold.

    Macro: mean over the labels with an observed positive. Micro: counts pooled over all labels;
    NaN without any positive.
    `threshold` is one number or one per label.
    """
    prediction = Prediction.of(Y, P, threshold=threshold)
    return {"macro": _macro_f1(prediction), "micro": _micro_f1(prediction)}


@register_metric(
    "macro AUC", "ROC-AUC, mean over the labels", table="calibration", bounds=(0.0, 1.0)
)
def _macro_auc(prediction: Prediction) -> float:
    return mean_defined(pair_auc_per_row(prediction.label_ranks))


@register_metric(
    "macro F1", "F1 of the decisions, mean over the labels", table="calibration", bounds=(0.0, 1.0)
)
def _macro_f1(prediction: Prediction) -> float:
    return mean_defined(prediction.decision_counts.f1())


@register_metric(
    "micro F1", "F1 of the decisions, all labels pooled", table="calibration", bounds=(0.0, 1.0)
)
def _micro_f1(prediction: Prediction) -> float:
    return prediction.decision_counts.micro_f1()


def per_label_report(
    Y: Any, P: Any, names: Sequence[str] | None = None, threshold: Any = 0.5
) -> list[dict[str, Any]]:
    """One dict per label: label, positives, observed, AUC, AP, precision, recall, F1.

    `observed` counts the entries with a label and a score. AP is the area under the
    precision-recall steps, as in scikit-learn's `average_precision_score`. The labels are in the
    order of Y's columns and, unless `names` are given, called as the columns of a DataFrame are.
    """
    prediction = Prediction.of(Y, P, threshold=threshold)
    n_labels = prediction.entries.truth.shape[1]
    if names is None:
        names = prediction.entries.label_names or [f"label{j}" for j in range(n_labels)]
    shown = [str(name) for name in names]
    if len(shown) != n_labels:
        raise InputError(f"names must have one entry per label ({n_labels}); found {len(shown)}")
    ranks, counts = prediction.label_ranks, prediction.decision_counts
    columns: dict[str, Floats] = {
        "AUC": pair_auc_per_row(ranks),
        "AP": label_average_precision(prediction),
        "precision": divide(counts.hit, counts.predicted),
        "recall": divide(counts.hit, counts.positive),
        "F1": counts.f1(),
    }
    return [
        {
            "label": label,
            "positives": int(ranks.positives[j]),
            "observed": int(ranks.counts[j]),
            **{name: float(values[j]) for name, values in columns.items()},
        }
        for j, label in enumerate(shown)
    ]


def label_average_precision(prediction: Prediction) -> Floats:
    """Average precision of every label over the samples, NaN without positives: (c,)."""
    ranks = prediction.label_ranks
    return divide(ranks.row_sum(ranks.hits_worst / ranks.worst), ranks.positives)


def n_undefined_labels(prediction: Prediction) -> int:
    """Labels without both an observed positive and an observed negative."""
    ranks = prediction.label_ranks
    return int(np.count_nonzero(ranks.positives * ranks.negatives == 0))
