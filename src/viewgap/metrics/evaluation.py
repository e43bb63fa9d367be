"""All metrics of one prediction at once: checks and ranks are made only once."""

from __future__ import annotations

from typing import Any

import numpy as np

from viewgap.metrics._inputs import (
    Cells,
    Floats,
    Variant,
    check_cells,
    check_field_rows,
    check_threshold,
    check_variant,
    count_without_positives,
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


class Evaluation(dict[str, float]):
    """The metrics of one prediction, `{name: value}`, and which samples they speak of.

    A dict in every respect, JSON and comparison included, with attributes beside it. Copies made
    from the items alone do not have them.

    Attributes
    ----------
    variant : str
        `"clean"` or `"field"`.
    n_samples : int
        Rows of Y.
    n_without_positives : int
        Rows with an observed and scored label of which none is positive. AP, 1-RL, AUC, 1-OE and
        1-Cov leave them out under `"clean"` and count them under `"field"`.
    n_without_labels : int
        Rows without any label that is both observed and scored; no metric counts them.
    """

    variant: str
    n_samples: int
    n_without_positives: int
    n_without_labels: int

    def __repr__(self) -> str:
        """Return the metrics with what they were computed on."""
        if not vars(self):
            return super().__repr__()
        words = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"Evaluation({super().__repr__()}, {words})"


def evaluate(Y: Any, P: Any, variant: str = "clean", threshold: Any = 0.5) -> Evaluation:
    """The six metrics of the field, under the keys of `SIX`.

    Parameters
    ----------
    Y : array or DataFrame of shape (n, c)
        Labels: 0, 1 or NaN (not observed).
    P : array or DataFrame of shape (n, c)
        Scores, or NaN for a label without evidence. Two DataFrames are aligned, samples by index
        and labels by column name; a DataFrame beside an array is taken by position.
    variant : {"clean", "field"}, default="clean"
        `"clean"` leaves samples without positive labels out of the ranking metrics. `"field"` is
        the definition behind the published tables, in which they count as failures of AP and 1-OE;
        it warns about them.
    threshold : float or array of shape (c,), default=0.5
        Scores above it are decisions for a label; used by 1-HL only. A Series is matched by name.

    Returns
    -------
    Evaluation
        A dict of the six metrics that also counts the samples and those without positives.

    Examples
    --------
        >>> found = evaluate([[1, 0, 0], [0, 1, 1]], [[0.9, 0.2, 0.1], [0.3, 0.8, 0.7]])
        >>> dict(found)
        {'AP': 1.0, '1-HL': 1.0, '1-RL': 1.0, 'AUC': 1.0, '1-OE': 1.0, '1-Cov': 1.0}
        >>> found.variant, found.n_samples, found.n_without_positives
        ('clean', 2, 0)
    """
    checked = check_variant(variant)
    cells = check_cells(Y, P)
    limits = check_threshold(threshold, cells)
    check_field_rows(cells.without_empty_rows(), checked)
    return _evaluation(_six(cells, checked, limits), cells, checked)


def evaluate_all(Y: Any, P: Any, variant: str = "clean", threshold: Any = 0.5) -> Evaluation:
    """The six metrics, macro AUC, macro and micro F1, and how many labels leave the AUC undefined.

    `n_undefined_labels` counts the labels without both an observed positive and an observed
    negative; macro AUC is the mean over the others. Parameters and result are those of `evaluate`.
    """
    checked = check_variant(variant)
    cells = check_cells(Y, P)
    limits = check_threshold(threshold, cells)
    check_field_rows(cells.without_empty_rows(), checked)
    by_label = label_ranks(cells)
    f1 = f1_scores_of(Counts.of(cells, limits))
    more = {
        "macro AUC": macro_auc_of(by_label),
        "macro F1": f1["macro"],
        "micro F1": f1["micro"],
        "n_undefined_labels": int(np.count_nonzero(by_label.positives * by_label.negatives == 0)),
    }
    return _evaluation(_six(cells, checked, limits) | more, cells, checked)


def field_metrics(Y: Any, P: Any) -> dict[str, float]:
    """The six metrics as the papers define them, for experiments and early stopping.

    The values of `evaluate(Y, P, variant="field")` as a plain dict and without its warning, which
    would be repeated in every epoch and fold.
    """
    cells = check_cells(Y, P)
    return _six(cells, "field", np.asarray(0.5))


def _evaluation(metrics: dict[str, float], cells: Cells, variant: Variant) -> Evaluation:
    found = Evaluation(metrics)
    found.variant = variant
    found.n_samples = len(cells.truth)
    found.n_without_positives = count_without_positives(cells)
    found.n_without_labels = int(np.count_nonzero(cells.counts == 0))
    return found


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
