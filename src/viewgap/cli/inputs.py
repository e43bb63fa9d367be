"""DATA of a command line, a named data set or whatever lies at a path; `--set key=value`."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from viewgap import methods
from viewgap.cli.options import Reading
from viewgap.data.formats import format_of, labels_of_table, read_data, read_label_names, read_views
from viewgap.data.formats.options import ReadOptions, refuse_unused
from viewgap.data.labels import Labels, SparseLabels
from viewgap.data.validation import as_labels
from viewgap.data.viewset import ViewSet
from viewgap.datasets import load_dataset
from viewgap.errors import LabelError, SettingError, ViewgapError, ViewgapWarning, first_few

if TYPE_CHECKING:
    from viewgap.methods.base import MultiViewClassifier
    from viewgap.metrics import Evaluation

_WORDS = {"true": True, "false": False, "none": None, "null": None}


@dataclass(frozen=True)
class InputData:
    """What a command line hands over; `source` names it in messages."""

    source: str
    views: ViewSet
    labels: Labels | None


@dataclass(frozen=True)
class SampleCount:
    """How many samples a fit used, and why it used no others."""

    samples: int
    samples_without_view: int
    samples_without_label: int

    def text(self) -> str:
        """The counts for people."""
        left_out = {
            "without any view": self.samples_without_view,
            "without any observed label": self.samples_without_label,
        }
        reasons = [f"{count:,} {words}" for words, count in left_out.items() if count]
        used = f"{self.samples:,} samples"
        return f"{used} (not counted: {', '.join(reasons)})" if reasons else used


def count_samples(views: ViewSet, labels: Labels) -> SampleCount:
    """Count the samples that have a view and an observed label, and the others."""
    seen, labelled = views.has_view, labels.rows_with_observed()
    counts = (seen & labelled, ~seen, seen & ~labelled)
    return SampleCount(*(int(rows.sum()) for rows in counts))


def open_data(data: str, label_file: Path | None, nan: str, options: Reading) -> InputData:
    """Read DATA: a path that exists, else a named data set. A label file replaces its labels.

    `options` are further parameters of `read_data`.
    """
    if _is_path(data):
        raw = read_data(data, nan=nan, labels=label_file, **options)
        labels = None if raw.labels is None else as_labels(raw.labels, raw.views, raw.label_names)
        return InputData(data, raw.views, labels)
    of_table = ReadOptions.of(**options)
    used = () if label_file is None else ("label_columns", "label_separator", "id_column")
    refuse_unused(Path(data), of_table, used, "a named data set says all of it itself")
    dataset = load_dataset(data)
    if label_file is not None:
        return InputData(data, dataset.views, labels_of_table(dataset.views, label_file, of_table))
    return InputData(
        data, dataset.views, as_labels(dataset.labels, dataset.views, dataset.label_names)
    )


def load_fitted(model: Path, missing: object, **params: Any) -> MultiViewClassifier:
    """Load a model; `missing` is the option of this name, None for what the fit had."""
    from viewgap.model_file import load_model

    nan = {} if missing is None else {"nan": str(missing)}
    return load_model(model).set_params(**nan, **params)


def open_views(data: str, model: MultiViewClassifier, nan: str, options: Reading) -> ViewSet:
    """Read the views of DATA for a model; labels there are not needed, and need not be right.

    Tables of a folder that are no views of the model, and other columns, are not read.
    """
    if not _is_path(data):
        return load_dataset(data).views
    known = {name: model.feature_names_in_.get(name, ()) for name in model.view_names_}
    return read_views(data, nan=nan, label_names=model.label_names_, known=known, **options)


def label_names_of(data: str, options: Reading) -> tuple[str, ...] | None:
    """Names of the labels in DATA; None if it has none that can be read."""
    try:
        if _is_path(data):
            return read_label_names(data, **options)
        return load_dataset(data).label_names
    except ViewgapError:
        return None


def training_labels(given: InputData) -> Labels:
    """The labels of DATA, or an error that says how to give them."""
    if given.labels is None:
        raise LabelError(
            f"{given.source} holds no labels; give them with --labels FILE, or --label-columns "
            "where they are among the columns"
        )
    if not given.labels.n_observed:
        raise LabelError(
            f"{given.source}: no label is observed for any of {len(given.views):,} samples; fill "
            "in those that are known, as 0 and 1, or give another table with --labels FILE"
        )
    return given.labels


def open_labelled(
    model: MultiViewClassifier,
    data: str,
    label_file: Path | None,
    nan: str,
    options: Reading,
) -> tuple[ViewSet, NDArray[np.float64]]:
    """The views and labels of DATA that a model knows; others are left out with a note."""
    from viewgap.prediction.blocks import without_unknown_views

    given = open_data(data, label_file, nan, options)
    truth = matching_labels(given, model.label_names_)
    return without_unknown_views(model, given.views), truth


def matching_labels(given: InputData, names: Sequence[str]) -> NDArray[np.float64]:
    """The labels of DATA in the order of the model, (n, c) with NaN = not observed."""
    labels = training_labels(given)
    return labels.as_float()[:, _order_of(given, labels, names)]


def evaluated(model: MultiViewClassifier, given: InputData, variant: str) -> Evaluation:
    """The metrics of a model on labelled DATA; block by block where the labels are kept sparse."""
    from viewgap.metrics import evaluate
    from viewgap.prediction.blocks import evaluate_in_blocks, without_unknown_views

    labels, names = training_labels(given), model.label_names_
    order, views = _order_of(given, labels, names), without_unknown_views(model, given.views)
    if isinstance(labels, SparseLabels):
        return evaluate_in_blocks(model, views, labels.of_columns(np.array(order)), variant)
    truth = labels.as_float()[:, order]
    return evaluate(truth, np.asarray(model.predict_proba(views)), variant=variant)


def _order_of(given: InputData, labels: Labels, names: Sequence[str]) -> list[int]:
    """Numbers of the labels of DATA in the order of the model."""
    known, given_names = set(names), set(labels.names)
    extra = [name for name in labels.names if name not in known]
    absent = [name for name in names if name not in given_names]
    if absent:
        also = f"; not known to the model: {first_few(extra)}" if extra else ""
        raise LabelError(
            f"{given.source}: {len(absent)} of the {len(names)} labels of the model are absent: "
            f"{first_few(absent)}{also}; rename the columns, or add blank ones where nobody knows "
            "these labels"
        )
    if extra:
        warnings.warn(
            f"{given.source}: labels that the model does not know are left out: {first_few(extra)}",
            ViewgapWarning,
            stacklevel=3,
        )
    place = {name: j for j, name in enumerate(labels.names)}
    return [place[name] for name in names]


def _is_path(data: str) -> bool:
    path = Path(data)
    return path.exists() or len(path.parts) > 1 or format_of(path) is not None


# ------------------------------------------------------------------ parameters


def parse_settings(entries: Sequence[str]) -> dict[str, Any]:
    """Parameters from texts like `alpha=0.1`, `hidden=[256,128]`, `quantise=false`, `device=cpu`.

    A value that is JSON is read as JSON; everything else stays text.
    """
    settings: dict[str, Any] = {}
    for entry in entries:
        key, sign, text = entry.partition("=")
        if not sign or not key.strip().isidentifier():
            raise SettingError(f"--set takes key=value, found {entry!r}")
        if key.strip() in settings:
            raise SettingError(f"--set gives {key.strip()!r} twice")
        settings[key.strip()] = _value(text.strip())
    return settings


def seconds_of(budget: str | None) -> float | None:
    """Seconds of `--time-budget`: a number of them, or a length of time with its unit."""
    from viewgap.bench.run.limits import parse_duration

    if budget is None:
        return None
    try:
        return float(budget)
    except ValueError:
        return parse_duration(budget, "--time-budget")


def with_time_budget(
    settings: dict[str, Any], seconds: float | None, method: str
) -> dict[str, Any]:
    """The parameters of a method with `--time-budget`, or an error if it cannot be limited."""
    if seconds is None:
        return settings
    if "time_budget" not in methods.get(method)._get_param_names():
        raise SettingError(
            f"--time-budget is for methods that can be limited in time, such as ensemble; {method} "
            "cannot: leave it out, or limit the work by --set, e.g. max_epochs or n_estimators, "
            "where the method has it"
        )
    if "time_budget" in settings:
        raise SettingError("give --time-budget or --set time_budget, not both")
    return settings | {"time_budget": seconds}


def with_device(settings: dict[str, Any], device: str | None, method: str) -> dict[str, Any]:
    """The parameters of a method with `--device`, or an error if it has no use for it."""
    if device is None:
        return settings
    if "device" in settings:
        raise SettingError("give --device or --set device, not both")
    if "device" in methods.get(method)._get_param_names():
        return settings | {"device": device}
    if device in ("auto", "cpu"):
        return settings
    raise SettingError(f"--device {device}: {method} computes on the CPU only; leave it out")


def _value(text: str) -> Any:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return json.loads(text)
    except (ValueError, RecursionError):  # the latter for brackets without end
        return text
