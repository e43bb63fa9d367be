"""Members of an ensemble: fitted methods and their out-of-fold probabilities."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

import viewgap.methods as methods
from viewgap.data.labels import Labels
from viewgap.data.splits import cross_fit_parts
from viewgap.data.viewset import ViewSet
from viewgap.methods.base import MultiViewClassifier, Validation
from viewgap.methods.deep import DeepClassifier
from viewgap.training.callbacks import Callback, TrainingContext

Floats = NDArray[np.float64]
N_PARTS = 5

# What every member needs to know of the fit besides its own state.
_SHARED = (
    "view_names_",
    "view_dims_",
    "n_features_in_",
    "feature_names_in_",
    "label_names_",
    "classes_",
    "one_label_",
    "label_frequency_",
    "column_ranges_",
)
_OF_THE_FIT = ("n_samples_fit_", "n_missing_cells_", "n_unlabeled_")


class OutOfTime(Exception):  # noqa: N818  (no fault: the member is left out)
    """There was not enough time for a member."""


@dataclass(eq=False)
class Member:
    """A fitted method, its out-of-fold probabilities (n, c), and the seconds it took."""

    name: str
    model: MultiViewClassifier
    out_of_fold: Floats
    seconds: float


def make_member(
    name: str, params: Mapping[str, Any], seed: int, common: Mapping[str, Any]
) -> MultiViewClassifier:
    """An unfitted method; networks become a cross-fitted committee. `common`: device and the like.

    `params` are the user's, and win.
    """
    kind = methods.get(name)
    names = set(kind._get_param_names())
    chosen: dict[str, Any] = {"random_state": seed, **common}
    if issubclass(kind, DeepClassifier):
        chosen |= {"cross_fit": True}
        if kind().settings_type().n_networks == 1 and name != "scsd":
            chosen |= {"n_networks": N_PARTS}
    return kind(**{key: value for key, value in chosen.items() if key in names} | dict(params))


def share(parent: MultiViewClassifier, model: MultiViewClassifier, fitted: bool = True) -> None:
    """Tell a member what the ensemble has checked and remembered about the data."""
    for name in _SHARED + (_OF_THE_FIT if fitted else ()):
        setattr(model, name, getattr(parent, name))


def fit_member(
    name: str,
    model: MultiViewClassifier,
    parent: MultiViewClassifier,
    views: ViewSet,
    labels: Labels,
    validation: Validation | None,
    deadline: float | None,
) -> Member:
    """Fit a member on checked data; raises `OutOfTime` if it cannot end before the deadline.

    Methods that are cross-fitted by themselves are fitted once. Others are fitted without each of
    five parts of the rows to predict that part, and then on all rows.
    """
    start = time.monotonic()
    _fit(model, parent, views, labels, validation, deadline)
    out_of_fold = getattr(model, "out_of_fold_proba_", None)
    if out_of_fold is None:
        once = time.monotonic() - start
        if deadline is not None and time.monotonic() + N_PARTS * once > deadline:
            raise OutOfTime
        out_of_fold = _cross_fit(model, parent, views, labels, deadline)
    return Member(name, model, out_of_fold, time.monotonic() - start)


def _fit(
    model: MultiViewClassifier,
    parent: MultiViewClassifier,
    views: ViewSet,
    labels: Labels,
    validation: Validation | None,
    deadline: float | None,
) -> None:
    share(parent, model)
    model._check_parameters()
    if deadline is None:
        model._fit(views, labels, validation)
    else:
        _fit_until(deadline, model, lambda: model._fit(views, labels, validation))
    model.is_fitted_ = True


def _fit_until(deadline: float, model: MultiViewClassifier, fit: Callable[[], None]) -> None:
    """Run a fit that ends before the deadline, or is given up there."""
    from viewgap.methods._view_models import OutOfTimeError

    if isinstance(model, DeepClassifier):
        given = model.callbacks
        model.callbacks = [*(given or ()), _StopInTime(deadline)]
        try:
            fit()
        finally:
            model.callbacks = given
        return
    model._deadline = deadline
    try:
        fit()
    except OutOfTimeError as error:
        raise OutOfTime from error
    finally:
        model._deadline = None


class _StopInTime(Callback):
    """Stops the training of a network while there is time left for what comes after it."""

    _AFTER = 0.15  # share of the time that predictions and pooling may take

    def __init__(self, deadline: float) -> None:
        self._start, self._deadline, self._epoch = time.monotonic(), deadline, time.monotonic()

    def on_epoch_end(self, context: TrainingContext) -> None:
        """Stop if another epoch could end too late."""
        now = time.monotonic()
        last, self._epoch = now - self._epoch, now
        left = self._deadline - now
        if left < 2.0 * last + self._AFTER * (now - self._start):
            context.request_stop()


def _cross_fit(
    model: MultiViewClassifier,
    parent: MultiViewClassifier,
    views: ViewSet,
    labels: Labels,
    deadline: float | None,
) -> Floats:
    """Predict every row by a copy of the model that was not fitted on it."""
    result = np.tile(parent.label_frequency_, (len(views), 1))
    parts = cross_fit_parts(views, labels, N_PARTS, np.random.default_rng(0))
    for part in np.unique(parts):
        inside, outside = np.flatnonzero(parts == part), np.flatnonzero(parts != part)
        kept = views.observed[outside].any(axis=0)
        if len(outside) == 0 or not kept.all():
            continue  # a view that only these rows have cannot be learned without them
        if deadline is not None and time.monotonic() > deadline:
            raise OutOfTime
        copy = clone(model)
        share(parent, copy)
        copy.label_frequency_ = labels[outside].frequency()
        copy.n_samples_fit_, copy.n_unlabeled_ = len(outside), 0
        copy._fit(views[outside], labels[outside], None)
        known = ~np.isnan(copy.label_frequency_)
        answers = copy._predict_proba(views[inside])
        result[np.ix_(inside, np.flatnonzero(known))] = answers[:, known]
    return result


# ---------------------------------------------------------------------- cost

_RATE = 2e10  # multiplications a second in the products of a network, about
_STEP = 4e-3  # seconds a network's step takes however small it is
_EPOCHS = 40  # a network that has fewer is not worth its time


def estimated_seconds(model: MultiViewClassifier, views: ViewSet, labels: Labels) -> float:
    """About how long a fit takes on one processor; a rough guess, from sizes alone."""
    own = getattr(model, "estimated_seconds", None)
    if own is not None:
        return float(own(views, labels))
    if isinstance(model, DeepClassifier):
        return _EPOCHS * _epoch_seconds(model, views, labels)
    rows, columns = len(views), sum(views.dims)
    smaller = min(rows, max(views.dims))
    # A linear system for every label, whose rows are its own, and products of rows and columns.
    systems = labels.n_labels * views.n_views * smaller**3 / 3
    return (N_PARTS + 1) * (systems + rows * columns * smaller) / _RATE


def _epoch_seconds(model: DeepClassifier, views: ViewSet, labels: Labels) -> float:
    from viewgap.methods._profiled import DataSize

    size = DataSize(len(views), max(views.dims), int(labels.observed.sum()))
    settings = model._resolve(labels.n_labels, size)
    layers = [int(units) for units in getattr(settings, "hidden", (512,))]
    weights = sum(d * layers[0] for d in views.dims)
    weights += views.n_views * sum(a * b for a, b in pairwise(layers))
    steps = math.ceil(len(views) / int(settings.batch_size))
    arithmetic = 6.0 * weights / views.n_views * float(views.observed.sum()) / _RATE
    n_networks = int(settings.n_networks)
    return n_networks * (arithmetic + steps * _STEP * views.n_views / 2)
