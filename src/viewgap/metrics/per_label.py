"""Figures label by label: AUC, average precision, precision, recall, F1.

NaN cells of Y or P are left out. A figure that the data do not define is NaN: AUC without both
classes; AP, recall and F1 without positives; precision when nothing was predicted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from viewgap.errors import InputError
from viewgap.metrics._inputs import Cells, Floats, Ints, check_cells, check_threshold
from viewgap.metrics._ranks import PositiveRanks, rank_positives
from viewgap.metrics.ranking import pair_auc_per_row


def macro_auc(Y: Any, P: Any) -> float:
    """ROC-AUC (ties one half) averaged over the labels that have both classes observed.

    Shape: Y, P (n, c) -> float; NaN when no label has both classes.
    """
    return macro_auc_of(label_ranks(check_cells(Y, P)))


def f1_scores(Y: Any, P: Any, threshold: Any = 0.5) -> dict[str, float]:
    """`{"macro": ..., "micro": ...}` F1 of the decisions P > threshold.

    Macro: mean over the labels with an observed positive. Micro: counts pooled over all labels;
    NaN without any positive.
    `threshold` is one number or one per label.
    """
    cells = check_cells(Y, P)
    return f1_scores_of(Counts.of(cells, check_threshold(threshold, cells)))


def per_label_report(
    Y: Any, P: Any, names: Sequence[str] | None = None, threshold: Any = 0.5
) -> list[dict[str, Any]]:
    """One dict per label: label, positives, observed, AUC, AP, precision, recall, F1.

    `observed` counts the cells with a label and a score. AP is the area under the precision-recall
    steps, as in scikit-learn's `average_precision_score`. The labels are in the order of Y's
    columns and, unless `names` are given, called as the columns of a DataFrame are.
    """
    cells = check_cells(Y, P)
    n_labels = cells.truth.shape[1]
    if names is None:
        names = cells.label_names or [f"label{j}" for j in range(n_labels)]
    shown = [str(name) for name in names]
    if len(shown) != n_labels:
        raise InputError(f"names must have one entry per label ({n_labels}); found {len(shown)}")
    ranks = label_ranks(cells)
    counts = Counts.of(cells, check_threshold(threshold, cells))
    columns: dict[str, Floats] = {
        "AUC": pair_auc_per_row(ranks),
        "AP": _average_precision_per_label(ranks),
        "precision": _divide(counts.hit, counts.predicted),
        "recall": _divide(counts.hit, counts.positive),
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


@dataclass(frozen=True)
class Counts:
    """Per label (c,): positives found, positives predicted, positives observed."""

    hit: Ints
    predicted: Ints
    positive: Ints

    @classmethod
    def of(cls, cells: Cells, threshold: Floats) -> Counts:
        """Count the decisions scores > threshold; cells that do not count score -inf."""
        predicted = cells.scores > threshold
        return cls(
            np.count_nonzero(predicted & cells.truth, axis=0).astype(np.int64),
            np.count_nonzero(predicted, axis=0).astype(np.int64),
            np.count_nonzero(cells.truth, axis=0).astype(np.int64),
        )

    def f1(self) -> Floats:
        """F1 per label; NaN for a label without observed positives."""
        score = _divide(2 * self.hit, self.predicted + self.positive)
        return np.where(self.positive > 0, score, np.nan)


def label_ranks(cells: Cells) -> PositiveRanks:
    """Ranks of the positives of each label among the samples: labels are the rows."""
    return rank_positives(cells.transposed())


def macro_auc_of(ranks: PositiveRanks) -> float:
    """`macro_auc` from ranks whose rows are the labels."""
    return _mean_defined(pair_auc_per_row(ranks))


def f1_scores_of(counts: Counts) -> dict[str, float]:
    """`f1_scores` from counts."""
    total = counts.predicted.sum() + counts.positive.sum()
    micro = 2 * counts.hit.sum() / total if counts.positive.sum() else np.nan
    return {"macro": _mean_defined(counts.f1()), "micro": float(micro)}


def _average_precision_per_label(ranks: PositiveRanks) -> Floats:
    return _divide(ranks.row_sum(ranks.hits_worst / ranks.worst), ranks.positives)


def _mean_defined(values: Floats) -> float:
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if defined.size else float("nan")


def _divide(part: Ints | Floats, whole: Ints) -> Floats:
    result = np.full(len(whole), np.nan)
    np.divide(part, whole, out=result, where=whole > 0)
    return result
