"""The registry of metrics: a metric is one function with a name, a direction and a short title.

Experiments compute every registered metric, and tables, figures and reports show those that the
records hold. A package can bring its own: it names a module that registers them in the entry point
group `viewgap.metrics`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import TypeVar

from viewgap.metrics.prediction import Prediction

MetricFunction = Callable[[Prediction], float]
F = TypeVar("F", bound=Callable[..., float])


@dataclass(frozen=True)
class Metric:
    """A registered metric.

    Attributes
    ----------
    name : str
        Key in records and column in tables.
    title : str
        What it measures, in a few words.
    function : callable or None
        Prediction -> float, NaN where the data do not define it. None for a metric that a record
        holds but nothing registers.
    greater_is_better : bool
    table : {"metrics", "calibration"}
        The table in which it stands.
    digits : int
        Decimals that are printed.
    required : bool
        Whether a task fails when the metric is not defined; otherwise its record leaves it out.
    bounds : tuple of float
        The lowest and highest value that the metric can have; intervals end there.
    """

    name: str
    title: str
    function: MetricFunction | None = None
    greater_is_better: bool = True
    table: str = "metrics"
    digits: int = 3
    required: bool = False
    bounds: tuple[float, float] = (-math.inf, math.inf)

    @property
    def direction(self) -> str:
        """Either "higher" or "lower": which values are better."""
        return "higher" if self.greater_is_better else "lower"


_METRICS: dict[str, Metric] = {}


def register_metric(
    name: str,
    title: str = "",
    *,
    greater_is_better: bool = True,
    table: str = "metrics",
    digits: int = 3,
    required: bool = False,
    bounds: tuple[float, float] = (-math.inf, math.inf),
) -> Callable[[F], F]:
    """Register the decorated function as a metric.

    Parameters
    ----------
    name, title, greater_is_better, table, digits, required, bounds
        See `Metric`. Registering a name again replaces the metric.

    Examples
    --------
    >>> import numpy as np
    >>> @register_metric("log loss", "mean log-loss of the entries", greater_is_better=False)
    ... def log_loss(prediction):
    ...     p = np.where(prediction.Y == 1, prediction.P, 1 - prediction.P)
    ...     return float(-np.nanmean(np.log(p)))
    >>> get_metric("log loss").direction
    'lower'
    >>> _ = _METRICS.pop("log loss")
    """

    def register(function: F) -> F:
        _METRICS[name] = Metric(
            name, title or name, function, greater_is_better, table, digits, required, bounds
        )
        return function

    return register


def registered_metrics() -> list[Metric]:
    """All metrics in the order of registration, those of the main table first."""
    _load_plugins()
    return sorted(_METRICS.values(), key=lambda metric: metric.table != "metrics")


def get_metric(name: str) -> Metric:
    """The metric of this name; one that only a record knows counts as a score, higher is better."""
    if name not in _METRICS:
        _load_plugins()
    return _METRICS.get(name) or Metric(name, name)


def measure(prediction: Prediction) -> dict[str, float]:
    """Every registered metric of a prediction; undefined ones only where they are required."""
    found: dict[str, float] = {}
    for metric in registered_metrics():
        if metric.function is not None:
            value = float(metric.function(prediction))
            if metric.required or not math.isnan(value):
                found[metric.name] = value
    return found


@cache
def _load_plugins() -> None:
    for entry_point in entry_points(group="viewgap.metrics"):
        entry_point.load()
