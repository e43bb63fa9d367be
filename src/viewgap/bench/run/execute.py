"""Runs one task: data set, fold, fit, one prediction of the test rows, record."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viewgap import methods
from viewgap.bench.results.record import Record
from viewgap.bench.run.provenance import PeakMemory, data_checksum, provenance
from viewgap.bench.run.task import Task
from viewgap.bench.run.task_data import open_data
from viewgap.data.preprocessing import PreparedRows, Standardiser
from viewgap.data.splits import (
    Fold,
    Split,
    cross_validation_fold,
    view_mask_over_gaps,
    warn_shared_rows,
)
from viewgap.data.validation import as_labels
from viewgap.data.viewset import ViewSet
from viewgap.datasets import Dataset
from viewgap.deprecation import current_names
from viewgap.errors import SettingError
from viewgap.methods.base import MultiViewClassifier
from viewgap.metrics.calibration import label_errors
from viewgap.metrics.evaluation import OF_ROWS
from viewgap.metrics.per_label import label_average_precision
from viewgap.metrics.prediction import Prediction
from viewgap.metrics.registry import measure

# Keeps the masks of the test rows apart from others that are drawn with the fold's number.
_TEST_MASKS = 7
# Curves of a training that a figure needs; the rest of the history would make records long.
_KEPT_CURVES = ("codebook_use",)


@dataclass(frozen=True)
class FittedTask:
    """A task that ran, with all that a picture of it needs."""

    record: Record
    model: MultiViewClassifier
    fold: Fold
    split: Split
    probabilities: NDArray[np.float64]


def run_task(task: Task, *, device: str | None = None) -> Record:
    """Fit the method on the training rows of the fold and measure it once on the test rows."""
    return fit_task(task, device=device).record


def fit_task(task: Task, *, verbose: bool = False, device: str | None = None) -> FittedTask:
    """Run a task and keep the model. No label of a test row reaches the fit.

    `device` is where it runs, unless its parameters say so; it is no part of the task.
    """
    model = build_method(task, verbose=verbose, device=device)
    dataset, fold, split = _take(task)
    warn_shared_rows(dataset.views, fold.train, fold.test)
    memory = PeakMemory()
    start = time.monotonic()
    unlabeled = split.validation[0].joined(split.test[0]) if task.unlabeled else None
    validation = split.validation if task.validation == "protocol" else None
    views, values = split.train
    labels = as_labels(values, views, dataset.label_names)  # for messages, which name them
    model.fit(views, labels, validation=validation, X_unlabeled=unlabeled)
    probabilities = np.asarray(model.predict_proba(split.test[0]))
    cost = round(time.monotonic() - start, 3), memory.peak()
    record = _record(task, dataset, model, split, probabilities, cost)
    return FittedTask(record, model, fold, split, probabilities)


def measure_again(fitted: FittedTask, task: Task) -> Record:
    """The record of another task that differs in the masks of its test rows only.

    Its training is the same; so are its seconds, and its memory.
    """
    first = fitted.record
    if replace(task, test_view_rate=first.settings.get("test_view_rate")).id != first.task:
        raise SettingError(f"{task.title}: only test_view_rate may differ from the fitted task")
    dataset, _, split = _take(task)
    probabilities = np.asarray(fitted.model.predict_proba(split.test[0]))
    cost = first.seconds, first.provenance["memory"]
    return _record(task, dataset, fitted.model, split, probabilities, cost)


def load_task_data(task: Task) -> Dataset:
    """The data set of a task."""
    return _load(task)[0]


def _take(task: Task) -> tuple[Dataset, Fold, Split]:
    dataset, views = _load(task)
    fold = take_fold(dataset, task)
    return dataset, fold, fold.split(views, dataset.labels)


def _record(
    task: Task,
    dataset: Dataset,
    model: MultiViewClassifier,
    split: Split,
    probabilities: NDArray[np.float64],
    cost: tuple[float, Any],
) -> Record:
    """`cost` is the seconds of fit and prediction, and the peak memory."""
    decisions = probabilities > model.thresholds_  # what `predict` answers
    prediction = Prediction.of(split.test[1], probabilities, task.variant, decisions=decisions)
    return Record(
        **task.identity,
        metrics=_measured(prediction),
        seconds=cost[0],
        variant=task.variant,
        epochs=getattr(model, "n_epochs_", None),
        settings=task.settings,
        provenance={
            **provenance(device=_device(model), threads=_threads()),
            "data": data_checksum(dataset),
            "memory": cost[1],
            **_history(model),
        },
        labels={
            "positives": prediction.label_ranks.positives.tolist(),
            "AP": _rounded(label_average_precision(prediction)),
            "calibration error": _rounded(label_errors(prediction)),
        },
    )


def _measured(prediction: Prediction) -> dict[str, float]:
    """All metrics; of variant "clean" those that say something about these labels.

    The field's are required: a published table has no holes.
    """
    found = measure(prediction)
    if prediction.variant == "field":
        return found
    alone = prediction.entries.truth.shape[1] == 1
    return {
        name: value
        for name, value in found.items()
        if not np.isnan(value) and not (alone and name in OF_ROWS)
    }


def _rounded(values: NDArray[np.float64]) -> list[float | None]:
    """More digits of every label would make records long."""
    return [None if np.isnan(value) else round(float(value), 4) for value in values]


def build_method(
    task: Task, *, verbose: bool = False, device: str | None = None, warn: bool = False
) -> MultiViewClassifier:
    """The unfitted estimator of a task; an unknown parameter is an error.

    `warn`: whether to warn of old names of parameters.
    """
    automatic: dict[str, Any] = {"random_state": task.seed}
    if task.scale_on == "all":
        automatic |= {"scaling": "none", "features": "plain"}  # the views come in scaled already
    if verbose:
        automatic["verbose"] = True
    if device is not None:
        automatic["device"] = device
    return make_method(task.method, task.profile, task.params, automatic, warn=warn)


def make_method(
    name: str,
    profile: str,
    params: Mapping[str, Any],
    automatic: Mapping[str, Any],
    *,
    warn: bool = True,
) -> MultiViewClassifier:
    """A method by name, its parameters checked.

    `params` must all be known to it; `automatic` ones may be unknown.
    """
    kind = methods.get(name)
    known = set(kind().get_params())
    params = current_names(params, known, warn=warn)
    unknown = sorted(set(params) - known)
    if unknown:
        raise SettingError(
            f"{name} has no parameter {unknown[0]!r}; it has: {', '.join(sorted(known))}"
        )
    if "profile" in known:
        automatic = {"profile": profile, **automatic}
    elif profile != "default":
        raise SettingError(f"{name} has no profiles; found profile {profile!r}")
    model = kind(**{**{key: v for key, v in automatic.items() if key in known}, **params})
    model._check_parameters()
    return model


def take_fold(dataset: Dataset, task: Task) -> Fold:
    """The fold of a task: of a cross-validation, of a fold file, or by the protocol."""
    if task.cv is not None:
        fold = cross_validation_fold(
            *(dataset.views, dataset.labels, task.fold, task.cv),
            groups=dataset.groups,
            view_rate=task.view_rate,
            label_rate=task.label_rate,
        )
    else:
        fold = dataset.fold(task.fold, task.view_rate, task.label_rate, task.train_share)
    if task.test_view_rate is None:
        return fold
    rng = np.random.default_rng([_TEST_MASKS, task.fold])
    mask = fold.view_mask.copy()  # training and validation keep theirs
    mask[fold.test] = view_mask_over_gaps(
        dataset.views.observed[fold.test], task.test_view_rate, rng
    )
    return replace(fold, view_mask=mask)


def _load(task: Task) -> tuple[Dataset, ViewSet]:
    files, options = json.dumps(dict(task.files)), json.dumps(dict(task.dataset_options))
    return _loaded(task.dataset, files, options, task.scale_on)


@lru_cache(maxsize=1)
def _loaded(name: str, files: str, options: str, scale_on: str) -> tuple[Dataset, ViewSet]:
    dataset = open_data(name, json.loads(files), json.loads(options))
    return dataset, scaled_on_all_rows(dataset.views) if scale_on == "all" else dataset.views


def scaled_on_all_rows(views: ViewSet) -> ViewSet:
    """Every view standardised on all rows, as the released SCSD code does it.

    The statistics see test rows, and tasks which a fold declares missing later. That is a leak,
    and it is here only because the published numbers were produced this way.
    """
    rows = PreparedRows(views, Standardiser.fit(views))
    scaled: dict[str, NDArray[np.float32]] = {}
    for index, name in enumerate(views.names):
        if views.is_sparse(name):
            raise SettingError(f"scale_on='all' needs dense views; view {name!r} is sparse")
        scaled[name] = rows.read(index)
    return ViewSet(scaled, observed=views.observed, sample_ids=views.sample_ids)


def _device(model: MultiViewClassifier) -> str:
    """The kind of device a fitted model lives on; a GPU by its name."""
    network = getattr(model, "network_", None)
    device = "cpu" if network is None else str(next(network.parameters()).device)
    if not device.startswith("cuda"):
        return device
    return str(sys.modules["torch"].cuda.get_device_name(device))


def _history(model: MultiViewClassifier) -> dict[str, Any]:
    """The curves over epochs that are worth keeping, where the method has them."""
    history: Mapping[str, list[float]] = getattr(model, "history_", {})
    kept = {name: [round(v, 4) for v in history[name]] for name in _KEPT_CURVES if name in history}
    return {"history": kept} if kept else {}


def _threads() -> int | None:
    torch = sys.modules.get("torch")
    return None if torch is None else int(torch.get_num_threads())
