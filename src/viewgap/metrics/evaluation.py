"""All metrics of one prediction at once: checks and ranks are made only once."""

from __future__ import annotations

from typing import Any

import numpy as np

from viewgap.metrics._inputs import (
    Cells,
    Floats,
    Variant,
    check_cells,
    check_threshold,
    check_variant,
)
from viewgap.metrics._ranks import rank_positives
from viewgap.metrics.per_label import Counts, f1_scores_of, label_ranks, macro_auc_of
from viewgap.metrics.ranking import (
    adapted_auc_of,
    average_precision_of,
    coverage_score_of,
    hamming_score_of,
    one_error_score_of,
    ranking_score_of,
)

SIX = ("AP", "1-HL", "1-RL", "AUC", "1-OE", "1-Cov")
"""Keys of `evaluate`, in the order of the published tables."""

EXTRA = ("macro AUC", "macro F1", "micro F1", "n_undefined_labels")
"""Keys that `evaluate_all` adds."""


def evaluate(Y: Any, P: Any, variant: str = "field", threshold: Any = 0.5) -> dict[str, float]:
    """The six metrics of the field, under the keys of `SIX`.

    Shape: Y (n, c) in {0, 1, NaN}, P (n, c) scores or NaN; `threshold` (used by 1-HL only) is one
    number or one per label.

    Examples:
        >>> evaluate([[1, 0, 0], [0, 1, 1]], [[0.9, 0.2, 0.1], [0.3, 0.8, 0.7]], variant="clean")
        {'AP': 1.0, '1-HL': 1.0, '1-RL': 1.0, 'AUC': 1.0, '1-OE': 1.0, '1-Cov': 1.0}
    """
    checked = check_variant(variant)
    cells = check_cells(Y, P)
    return _six(cells, checked, check_threshold(threshold, cells.truth.shape[1]))


def evaluate_all(Y: Any, P: Any, variant: str = "field", threshold: Any = 0.5) -> dict[str, float]:
    """The six metrics, macro AUC, macro and micro F1, and how many labels leave the AUC undefined.

    `n_undefined_labels` counts the labels without both an observed positive and an observed
    negative; macro AUC is the mean over the others.
    """
    checked = check_variant(variant)
    cells = check_cells(Y, P)
    limits = check_threshold(threshold, cells.truth.shape[1])
    by_label = label_ranks(cells)
    f1 = f1_scores_of(Counts.of(cells, limits))
    return _six(cells, checked, limits) | {
        "macro AUC": macro_auc_of(by_label),
        "macro F1": f1["macro"],
        "micro F1": f1["micro"],
        "n_undefined_labels": int(np.count_nonzero(by_label.positives * by_label.negatives == 0)),
    }


def _six(cells: Cells, variant: Variant, threshold: Floats) -> dict[str, float]:
    left = cells.without_empty_rows()
    ranks = rank_positives(left)
    return {
        "AP": average_precision_of(ranks, variant),
        "1-HL": hamming_score_of(left, threshold),
        "1-RL": ranking_score_of(ranks, variant),
        "AUC": adapted_auc_of(ranks, variant),
        "1-OE": one_error_score_of(left, ranks, variant),
        "1-Cov": coverage_score_of(ranks, variant),
    }
