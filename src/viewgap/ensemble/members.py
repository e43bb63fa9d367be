"""Members of an ensemble: fitted methods and their out-of-fold probabilities."""

from __future__ import annotations

import signal
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

import viewgap.methods as methods
from viewgap.checkpoints import CheckpointFolder
from viewgap.data.labels import Labels
from viewgap.data.preprocessing import ColumnRanges
from viewgap.data.splits import cross_fit_parts
from viewgap.data.viewset import ViewSet
from viewgap.ensemble.schedule import N_PARTS, StopInTime, pooling_seconds
from viewgap.interruption import Interrupted, OutOfTimeError, raise_if_requested, requested_signal
from viewgap.methods.base import MultiViewClassifier, Validation
from viewgap.methods.deep import DeepClassifier
from viewgap.training.processes import any_process

Floats = NDArray[np.float64]
PARTS = "parts"  # of a checkpoint: networks that were fitted without a part of the rows

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


@dataclass(eq=False)
class Member:
    """A fitted method, its out-of-fold probabilities (n, c), and the seconds it took."""

    name: str
    model: MultiViewClassifier
    out_of_fold: Floats
    seconds: float


def make_member(
    name: str, params: Mapping[str, Any], common: Mapping[str, Any]
) -> MultiViewClassifier:
    """An unfitted method; networks become a cross-fitted committee, those of papers excepted.

    `common`: seed, device and the like, as far as the method has them. `params` are the user's.
    """
    kind = methods.get(name)
    names = kind._get_param_names()
    chosen = {key: value for key, value in common.items() if key in names}
    if issubclass(kind, DeepClassifier) and params.get("profile", "default") == "default":
        chosen["cross_fit"] = True
        if kind._profile("default", 2, None).n_networks == 1:
            chosen["n_networks"] = N_PARTS
    return kind(**chosen | dict(params))


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
    checkpoint: CheckpointFolder | None = None,
) -> Member:
    """Fit a member on checked data; raises `OutOfTimeError` if it cannot end before the deadline.

    `checkpoint`: where networks are kept while they are trained.

    Methods that are cross-fitted by themselves are fitted once. Others are fitted on all rows, and
    without each of five parts of the rows to predict that part.
    """
    start = time.monotonic() - (0.0 if checkpoint is None else checkpoint.peek()[1])
    share(parent, model)
    model._only_predicts = True
    after = pooling_seconds(views, labels)
    with _ending_at(deadline, model, after), _kept_in(checkpoint, model):
        model._fit(views, labels, validation)
    model.is_fitted_ = True
    out_of_fold = getattr(model, "out_of_fold_proba_", None)
    if out_of_fold is None:
        if model.interrupted_:
            raise_if_any_requested()  # there is nothing to compare it by
        once = time.monotonic() - start
        late = deadline is not None and time.monotonic() + N_PARTS * once > deadline
        if any_process(late):
            raise OutOfTimeError
        out_of_fold = _cross_fit(model, parent, views, labels, deadline, checkpoint)
    return Member(name, model, out_of_fold, time.monotonic() - start)


def raise_if_any_requested() -> None:
    """Raise `Interrupted` where a signal to a process of this fit has asked to stop."""
    number = requested_signal()
    if any_process(number is not None):
        raise Interrupted(number or signal.SIGINT, at_once=False)


@contextmanager
def _ending_at(deadline: float | None, model: MultiViewClassifier, after: float) -> Iterator[None]:
    """Let fits of a model end before the deadline, or be given up there."""
    model._deadline, model._last_look = deadline, None
    given = getattr(model, "callbacks", None)
    if deadline is not None and isinstance(model, DeepClassifier):
        model.callbacks = [*(given or ()), StopInTime(deadline, after)]
    try:
        yield
    finally:
        model._deadline, model._last_look = None, None
        if isinstance(model, DeepClassifier):
            model.callbacks = given


@contextmanager
def _kept_in(folder: CheckpointFolder | None, model: MultiViewClassifier) -> Iterator[None]:
    """Keep the epochs of a network in this folder, or let it go on from there."""
    model._checkpoint = folder if model.keeps_checkpoints else None
    try:
        yield
    finally:
        model._checkpoint = None


def _cross_fit(
    model: MultiViewClassifier,
    parent: MultiViewClassifier,
    views: ViewSet,
    labels: Labels,
    deadline: float | None,
    checkpoint: CheckpointFolder | None,
) -> Floats:
    """Predict every row by a copy of the model that was not fitted on it.

    The label frequencies where there can be none: a view that only the rows of one part have
    cannot be learned without them.
    """
    result = np.tile(parent.label_frequency_, (len(views), 1))
    parts = cross_fit_parts(views, labels, N_PARTS, np.random.default_rng(0))
    for part in np.unique(parts):
        inside, outside = np.flatnonzero(parts == part), np.flatnonzero(parts != part)
        if not views.observed[outside].any(axis=0).all():
            continue
        copy = _copy_for(model, parent, views[outside], labels[outside])
        folder = None if checkpoint is None else checkpoint.child(PARTS, str(part))
        with (
            _ending_at(deadline, copy, 0.0),
            _kept_in(folder, copy),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")  # the fit on all rows gave them already
            copy._check_time()
            copy._fit(views[outside], labels[outside], None)
        if copy.interrupted_:
            raise_if_requested()
        known = np.flatnonzero(~np.isnan(copy.label_frequency_))
        result[np.ix_(inside, known)] = copy._predict_proba(views[inside])[:, known]
    return result


def _copy_for(
    model: MultiViewClassifier, parent: MultiViewClassifier, views: ViewSet, labels: Labels
) -> MultiViewClassifier:
    """An unfitted copy that knows of these rows only."""
    copy: MultiViewClassifier = clone(model)
    share(parent, copy)
    copy._only_predicts = True
    copy.label_frequency_ = labels.frequency()
    copy.n_samples_fit_, copy.n_missing_cells_ = len(views), views.n_missing_values
    copy.column_ranges_ = ColumnRanges.fit(views) if copy.reads_values else None
    return copy
