"""All metrics of one prediction at once: checks and ranks are made only once."""

from __future__ import annotations

from typing import Any

import numpy as np

from viewgap.metrics._inputs import count_without_positives
from viewgap.metrics.per_label import n_undefined_labels
from viewgap.metrics.prediction import Prediction
from viewgap.metrics.registry import get_metric
from viewgap.notebook import card, soft, table

SIX = ("AP", "1-HL", "1-RL", "AUC", "1-OE", "1-Cov")
"""Keys of `evaluate`, in the order of the published tables."""

OF_ROWS = ("AP", "1-RL", "AUC", "1-OE", "1-Cov")
"""Metrics of the order of the labels of a sample: of a single label they say nothing."""

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
    macro_auc_error : float
        Of `evaluate_blocks`: the most by which its macro AUC can differ from the exact one.
    """

    variant: str
    n_samples: int
    n_without_positives: int
    n_without_labels: int
    macro_auc_error: float

    def __repr__(self) -> str:
        """Return the metrics with what they were computed on."""
        if not vars(self):
            return super().__repr__()
        words = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"Evaluation({super().__repr__()}, {words})"

    def _repr_html_(self) -> str:
        values = table(list(self), [[round(float(value), 4) for value in self.values()]])
        names = {name: value for name, value in vars(self).items() if name[:2] == "n_"}
        counts = ", ".join(
            f"{value:,} {name[2:].replace('_', ' ')}" for name, value in names.items()
        )
        return card(
            f"<b>Evaluation</b> {soft(vars(self).get('variant', ''))}", values, soft(counts)
        )


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
    prediction = Prediction.of(Y, P, variant, threshold, warn=True)
    return _evaluation(_values(prediction, SIX), prediction)


def evaluate_all(Y: Any, P: Any, variant: str = "clean", threshold: Any = 0.5) -> Evaluation:
    """The six metrics, macro AUC, macro and micro F1, and how many labels leave the AUC undefined.

    `n_undefined_labels` counts the labels without both an observed positive and an observed
    negative; macro AUC is the mean over the others. Parameters and result are those of `evaluate`.
    """
    prediction = Prediction.of(Y, P, variant, threshold, warn=True)
    found = _values(prediction, (*SIX, *EXTRA[:-1]))
    found[EXTRA[-1]] = n_undefined_labels(prediction)
    return _evaluation(found, prediction)


def field_metrics(Y: Any, P: Any, names: tuple[str, ...] = SIX) -> dict[str, float]:
    """The six metrics, or those of `names`, as the papers define them: for early stopping.

    The values of `evaluate(Y, P, variant="field")` as a plain dict and without its warning, which
    would be repeated in every epoch and fold.
    """
    return _values(Prediction.of(Y, P, "field"), names)


def _values(prediction: Prediction, names: tuple[str, ...]) -> dict[str, float]:
    functions = {name: get_metric(name).function for name in names}
    return {name: function(prediction) for name, function in functions.items() if function}


def _evaluation(metrics: dict[str, float], prediction: Prediction) -> Evaluation:
    entries = prediction.entries
    found = Evaluation(metrics)
    found.variant = prediction.variant
    found.n_samples = len(entries.truth)
    found.n_without_positives = count_without_positives(entries)
    found.n_without_labels = int(np.count_nonzero(entries.counts == 0))
    return found
