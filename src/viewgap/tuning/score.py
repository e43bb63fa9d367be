"""The score of a trial: a metric of predictions of all rows, each by a model not fitted on it.

Methods that are cross-fitted by themselves predict all rows out of fold in one fit. Others are
fitted five times, without one part of the rows each, which is then predicted.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from viewgap.data.labels import Labels
from viewgap.data.splits import cross_fit_parts
from viewgap.data.viewset import ViewSet
from viewgap.errors import SettingError, ViewgapWarning, parameter
from viewgap.interruption import OutOfTimeError, raise_if_requested
from viewgap.methods.base import MultiViewClassifier
from viewgap.methods.deep import DeepClassifier
from viewgap.methods.profiled import DataSize
from viewgap.metrics import get_metric, registered_metrics
from viewgap.metrics.evaluation import OF_ROWS
from viewgap.metrics.prediction import Prediction
from viewgap.training.callbacks import Callback, TrainingContext

Floats = NDArray[np.float64]
Report = Callable[[float, int], None]
"""Takes an intermediate score and its step; raises to give the trial up."""

N_PARTS = 5
N_BLOCKS = 20  # of rows, for the standard error of a difference
_EVERY_EPOCH, _SPACING = 50, 5  # epochs until which all are reported, and what follows
PATIENCE = {True: 5, False: 2}  # reports of networks and others before one may be given up


@dataclass(frozen=True)
class Data:
    """Checked rows: every one has a view."""

    views: ViewSet
    labels: Labels


@dataclass(frozen=True)
class Answers:
    """Probabilities and decisions (n, c), out of fold."""

    probabilities: Floats
    decisions: NDArray[np.bool_]


@dataclass(frozen=True)
class Score:
    """The metric over all rows, and without each of `N_BLOCKS` blocks of rows."""

    value: float
    without_block: list[float]


# ---------------------------------------------------------------------- metric


def choose_metric(labels: Labels, name: str | None) -> str:
    """Check the name; without one, AP, or macro AUC where no row has labels to be ordered."""
    positive = labels.values.astype(np.bool_)
    negative = labels.observed & ~positive
    ordered = bool((positive.any(axis=1) & negative.any(axis=1)).any())
    if name is None:
        return "AP" if ordered else "macro AUC"
    if name in OF_ROWS and not ordered:
        raise SettingError(
            f"{name} compares the labels of a sample, and no sample has an observed positive and "
            f"an observed negative label; choose another metric ({parameter('metric')}), such as "
            "macro AUC"
        )
    known = [metric.name for metric in registered_metrics()]
    if name not in known:
        raise SettingError(
            f"{parameter('metric')} must be one of {', '.join(known)}; found {name!r}"
        )
    return name


def measure(metric: str, labels: Labels, answers: Answers) -> Score:
    """The metric (variant `clean`) of answers; SettingError if the labels do not define it."""
    truth = labels.as_float()
    blocks = np.random.default_rng(0).permutation(len(truth)) % N_BLOCKS
    every = np.ones(len(truth), dtype=np.bool_)
    value = _value(metric, truth, answers, every)
    if np.isnan(value):
        raise SettingError(
            f"{metric} is not defined for these labels: choose another metric "
            f"({parameter('metric')})"
        )
    return Score(value, [_value(metric, truth, answers, blocks != b) for b in range(N_BLOCKS)])


def _value(metric: str, truth: Floats, answers: Answers, rows: NDArray[np.bool_]) -> float:
    function = get_metric(metric).function
    if function is None or not rows.any():
        return float("nan")
    made = answers.decisions[rows]
    return float(function(Prediction.of(truth[rows], answers.probabilities[rows], decisions=made)))


def difference_error(first: list[float], second: list[float]) -> float:
    """Standard error of the difference of two scores on the same rows (delete-a-block jackknife).

    The scores are those without each block. NaN where one of them is not defined.
    """
    gaps = np.asarray(first) - np.asarray(second)
    n = len(gaps)
    return float(np.sqrt((n - 1) / n * ((gaps - gaps.mean()) ** 2).sum()))


# ---------------------------------------------------------------------- out-of-fold answers


def cross_fitted(
    model: MultiViewClassifier,
    data: Data,
    metric: str,
    report: Report,
    deadline: float | None = None,
    quiet: bool = True,
) -> Answers:
    """Answers for all rows, each by a model that was not fitted on it.

    `report` is told the validation score after the epochs of a network (of the first part, where
    there are five fits), or the score so far after each part. OutOfTimeError at the deadline.
    `quiet`: warnings of the fits are left out.
    """
    with warnings.catch_warnings():
        if quiet:
            warnings.simplefilter("ignore", ViewgapWarning)
        if _cross_fits(model, data):
            _fit(model, data, report, deadline)
            own = getattr(model, "out_of_fold_proba_", None)
            if own is not None:
                decisions = own > model.thresholds_
                return Answers(np.nan_to_num(own), decisions)
        return _by_parts(model, data, metric, report, deadline)


def _cross_fits(model: MultiViewClassifier, data: Data) -> bool:
    if isinstance(model, DeepClassifier):
        size = DataSize(len(data.labels), data.labels.n_observed)
        return model._cross_fits(model._resolve(data.labels.n_labels, size), None)
    return model.predicts_out_of_fold


def _by_parts(
    model: MultiViewClassifier,
    data: Data,
    metric: str,
    report: Report,
    deadline: float | None,
) -> Answers:
    """The label frequencies where there can be no answer: a view that one part alone has."""
    views, labels = data.views, data.labels
    frequency = np.nan_to_num(labels.frequency())
    answers = Answers(np.tile(frequency, (len(views), 1)), np.zeros(labels.shape, dtype=np.bool_))
    parts = cross_fit_parts(views, labels, N_PARTS, np.random.default_rng(0))
    is_network = isinstance(model, DeepClassifier)
    for number, part in enumerate(np.unique(parts)):
        inside, outside = np.flatnonzero(parts == part), np.flatnonzero(parts != part)
        if deadline is not None and time.monotonic() > deadline:
            raise OutOfTimeError
        if not views.observed[outside].any(axis=0).all():
            continue
        copy: MultiViewClassifier = clone(model)
        epochs = report if is_network and number == 0 else _ignore
        _fit(copy, Data(views[outside], labels[outside]), epochs, deadline)
        found = copy._checked_probabilities(views[inside])
        decided = found > copy.thresholds_
        answers.probabilities[inside] = np.where(np.isnan(found), frequency, found)
        answers.decisions[inside] = decided
        if not is_network:
            done = np.isin(parts, np.unique(parts)[: number + 1])
            report(_value(metric, labels.as_float(), answers, done), number + 1)
    return answers


def _fit(model: MultiViewClassifier, data: Data, report: Report, deadline: float | None) -> None:
    model._only_predicts = True
    model._deadline, model._last_look = deadline, None
    if isinstance(model, DeepClassifier):
        model.callbacks = [*(model.callbacks or ()), ReportEpochs(report, deadline)]
    model.fit(data.views, data.labels.as_float())
    if model.interrupted_:
        raise_if_requested()  # half a training has no score that could be compared


def _ignore(score: float, step: int) -> None:
    """Nothing is reported."""


class ReportEpochs(Callback):
    """Reports the best validation score so far after epochs, and gives up at the deadline.

    Late epochs now and then, for each report is written to the disk; none whose score does not
    count.
    """

    def __init__(self, report: Report, deadline: float | None) -> None:
        self._report, self._deadline = report, deadline

    def on_epoch_end(self, context: TrainingContext) -> None:
        """Report this epoch, if it is one of those."""
        if self._deadline is not None and time.monotonic() > self._deadline:
            raise OutOfTimeError
        shown = context.epoch <= _EVERY_EPOCH or context.epoch % _SPACING == 0
        if context.state.best_epoch and shown:
            self._report(context.state.best_score, context.epoch)
