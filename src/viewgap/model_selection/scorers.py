"""Metrics of viewgap as scorers of scikit-learn: they take labels that were not observed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from viewgap.errors import SettingError
from viewgap.methods.estimator.one_label import as_column, is_one_label
from viewgap.metrics import get_metric, registered_metrics
from viewgap.metrics._inputs import check_variant
from viewgap.metrics.prediction import Prediction


@dataclass(frozen=True)
class Scorer:
    """A callable `(estimator, X, y) -> score`, for `scoring=` in scikit-learn.

    Made by `scorer` and `scorers`. Higher is better: metrics of which lower values are better are
    negated. Labels that were not observed do not count.

    Attributes
    ----------
    metrics : tuple of str
        Names of metrics.
    variant : {"clean", "field"}
        The definitions of the metrics.
    several : bool
        Whether the result is a dict of scores by name.
    """

    metrics: tuple[str, ...]
    variant: str = "clean"
    several: bool = False

    def __post_init__(self) -> None:
        """Refuse a metric that is not known."""
        check_variant(self.variant)
        known = [metric.name for metric in registered_metrics()]
        for name in self.metrics:
            if name not in known:
                raise SettingError(f"unknown metric {name!r}; available: {', '.join(known)}")

    def __call__(self, estimator: Any, X: Any, y: Any) -> Any:
        """Score a fitted estimator on labelled samples."""
        prediction = _prediction(estimator, X, y, self.variant)
        found = {name: self._value(name, prediction) for name in self.metrics}
        return found if self.several else found[self.metrics[0]]

    @staticmethod
    def _value(name: str, prediction: Prediction) -> float:
        metric = get_metric(name)
        assert metric.function is not None  # noqa: S101 (registered ones have it)
        value = float(metric.function(prediction))
        return value if metric.greater_is_better else -value


def scorer(metric: str = "AP", variant: str = "clean") -> Scorer:
    """Return a scorer of one metric.

    Parameters
    ----------
    metric : str, default="AP"
        A metric by name: AP, 1-HL, 1-RL, AUC, 1-OE, 1-Cov, macro AUC, macro F1, micro F1, ...
    variant : {"clean", "field"}, default="clean"
        See `evaluate`.

    Returns
    -------
    Scorer

    Examples
    --------
    >>> from sklearn.model_selection import cross_val_score
    >>> import viewgap
    >>> from viewgap.model_selection import BalancedKFold
    >>> data = viewgap.load_dataset("synthetic", n_samples=60, seed=0)
    >>> model = viewgap.LateFusionRidge()
    >>> scoring = scorer("macro AUC")
    >>> cross_val_score(model, data.views, data.labels, cv=BalancedKFold(3), scoring=scoring).shape
    (3,)
    """
    return Scorer((metric,), variant)


def scorers(*metrics: str, variant: str = "clean") -> Scorer:
    """Return one scorer of several metrics, for `cross_validate` and searches: it predicts once.

    Examples
    --------
    >>> scorers("AP", "macro AUC").metrics
    ('AP', 'macro AUC')
    """
    if not metrics:
        raise SettingError("scorers() needs the name of a metric")
    return Scorer(metrics, variant, several=True)


def _prediction(estimator: Any, X: Any, y: Any, variant: str) -> Prediction:
    probabilities = estimator.predict_proba(X)
    thresholds = getattr(_last(estimator), "thresholds_", None)
    if not is_one_label(y):
        if thresholds is None:
            decisions = estimator.predict(X)
        else:
            decisions = np.asarray(probabilities) > thresholds
        return Prediction.of(y, probabilities, variant, decisions=np.asarray(decisions))
    column = as_column(y, np.asarray(estimator.classes_))
    scores = np.asarray(probabilities)[:, 1:]
    return Prediction.of(np.asarray(column), scores, variant, decisions=scores > 0.5)


def _last(estimator: Any) -> Any:
    """The method at the end of a pipeline, or the one that a search has chosen."""
    while True:
        inner = getattr(estimator, "best_estimator_", None)
        if inner is None and hasattr(estimator, "steps"):
            inner = estimator.steps[-1][1]
        if inner is None:
            return estimator
        estimator = inner
