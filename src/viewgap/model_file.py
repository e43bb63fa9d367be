"""Save a fitted model and load it again, without trusting the file.

Nothing in a saved model can run: there is no pickle, the method is looked up by name among the
methods of viewgap, its parameters must be parameters of that method, and its arrays must have the
shapes that the names and columns ask for. The files themselves: `viewgap.model_folder`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import viewgap
import viewgap.methods as methods
import viewgap.model_folder as model_folder
import viewgap.strict_json as strict_json
from viewgap.data.preprocessing import ColumnRanges
from viewgap.errors import ModelFileError, SettingError, is_out_of_memory, typed_memory_errors
from viewgap.hub_download import held_folder
from viewgap.methods.base import MultiViewClassifier, NotFittedError
from viewgap.methods.estimator.training_summary import TrainingSummary
from viewgap.methods.registry import name_of, restore_method
from viewgap.state import State

_KEYS = {
    "viewgap",
    "method",
    "params",
    "view_names",
    "view_dims",
    "label_names",
    "label_frequency",
    "metadata",
}
# Of format 2; of a fit on a 1-D y; of a fit that a signal ended early; for `viewgap info`.
_OPTIONAL_KEYS = {
    *("feature_names", "classes", "interrupted", "resume"),
    *("changed_params", "thresholds", "training"),
}
_LONGEST_REASON = 500
_MEMORY_ADVICE = "close other programs or use a machine with more memory"
_RANGES = "ranges/"
_PathLike = str | os.PathLike[str]


def save_model(model: MultiViewClassifier, path: _PathLike, overwrite: bool = False) -> None:
    """Save a fitted model as a folder.

    Parameters
    ----------
    model : MultiViewClassifier
        A fitted method.
    path : str or path
        The folder to write. One that holds anything besides a model is never replaced.
    overwrite : bool, default=False
        Whether a model that is there already may be replaced.
    """
    if not model.__sklearn_is_fitted__():
        raise NotFittedError(f"this {type(model).__name__} is not fitted yet; call fit(X, Y) first")
    folder = Path(path)
    model_folder.check_destination(folder, overwrite)
    state = model._get_state()
    ranges = model.column_ranges_.to_arrays() if model.column_ranges_ is not None else {}
    arrays = state.arrays | {f"{_RANGES}{key}": array for key, array in ranges.items()}
    model_folder.write(folder, _describe(model, state), arrays, overwrite=overwrite)


def load_model(path: _PathLike, device: str | None = None) -> MultiViewClassifier:
    """Load a model saved by `save_model`; raise `ModelFileError` for anything else.

    Parameters
    ----------
    path : str or path
        The folder of the model, or `hf://owner/name[@revision]` on the Hugging Face Hub, of which
        the three files of a model are downloaded (extra `hub`) and verified.
    device : str, optional
        Replaces the saved device of methods that have one; without it, a saved device that this
        machine does not have becomes `"auto"`.

    Returns
    -------
    MultiViewClassifier
        The fitted method.
    """
    with (
        held_folder(path) as folder,
        typed_memory_errors(f"to load {folder}", _MEMORY_ADVICE),
    ):
        description, arrays = model_folder.read(folder)
        return _restored(folder, description, arrays, device)


@dataclass(frozen=True)
class ModelDescription:
    """What the files of a model say about it, checked; no method is imported for it.

    Attributes
    ----------
    names : object
        The fitted attributes that all methods have: `view_names_`, `label_frequency_`, ...
    params, metadata : dict
        Parameters, and what the method itself keeps besides its arrays.
    stored : dict
        The file `model.json` as it is.
    """

    names: Any
    params: dict[str, Any]
    metadata: dict[str, Any]
    stored: dict[str, Any]


def read_description(path: _PathLike) -> ModelDescription:
    """Read what a model folder says; raise `ModelFileError` where `load_model` would."""
    with held_folder(path) as folder:
        stored, _ = model_folder.read(folder)
    with _usable(folder):
        _check_keys(stored)
        names = SimpleNamespace(training_summary_=None)
        _restore_names(names, stored)
        return ModelDescription(
            names, _decoded(stored, "params"), _decoded(stored, "metadata"), stored
        )


def _check_keys(description: dict[str, Any]) -> None:
    """Refuse keys that are absent or unknown; old names become the current ones."""
    if "facts" in description:  # formats 1 and 2
        description["metadata"] = description.pop("facts")
    missing, unknown = _KEYS - set(description), set(description) - _KEYS - _OPTIONAL_KEYS
    if missing or unknown:
        problem = f"lacks {min(missing)!r}" if missing else f"has the key {min(unknown)!r}"
        raise ValueError(f"{model_folder.MODEL} {problem}")


@contextmanager
def _usable(folder: Path) -> Iterator[None]:
    """Turn whatever a method's own reading of a strange state ends in into `ModelFileError`."""
    try:
        yield
    except Exception as error:
        if is_out_of_memory(error):
            raise
        raise ModelFileError(
            f"{folder} does not describe a usable model: {_brief(error)}"
        ) from error


def _restored(
    folder: Path, description: dict[str, Any], arrays: model_folder.Arrays, device: str | None
) -> MultiViewClassifier:
    with _usable(folder):
        _check_keys(description)
        model = _new_model(description, device)
        _restore_names(model, description)
        arrays = _restore_ranges(model, arrays)
        model._set_state(State(arrays, _decoded(description, "metadata")))
    model.is_fitted_ = True
    return model


def _brief(error: Exception) -> str:
    text = str(error) or type(error).__name__
    return text if len(text) <= _LONGEST_REASON else f"{text[:_LONGEST_REASON]}..."


# ------------------------------------------------------------------ describing


def _describe(model: MultiViewClassifier, state: State) -> dict[str, Any]:
    frequency = [None if np.isnan(value) else float(value) for value in model.label_frequency_]
    sometimes: dict[str, Any] = {"classes": model.classes_.tolist()} if model.one_label_ else {}
    sometimes |= {"interrupted": True} if model.interrupted_ else {}
    if model.interrupted_ and model._resume_words is not None:
        sometimes["resume"] = list(model._resume_words)
    thresholds = np.broadcast_to(model.thresholds_, len(frequency))
    if (thresholds != 0.5).any() and not model.one_label_:
        sometimes["thresholds"] = [float(value) for value in thresholds]
    if model.training_summary_ is not None:
        sometimes["training"] = model.training_summary_.to_dict()
    return {
        "viewgap": viewgap.__version__,
        "method": _method_name(model),
        "params": _encoded_params(model),
        "changed_params": sorted(set(model._changed_params()) - {"callbacks"}),
        "view_names": list(model.view_names_),
        "view_dims": [int(dim) for dim in model.view_dims_],
        "feature_names": {view: list(names) for view, names in model.feature_names_in_.items()},
        "label_names": list(model.label_names_),
        "label_frequency": frequency,
        **sometimes,
        "metadata": strict_json.encode(state.metadata, f"the state of {type(model).__name__}"),
    }


def _method_name(model: MultiViewClassifier) -> str:
    name = name_of(type(model))
    if name is None:
        raise SettingError(
            f"{type(model).__name__} is not one of the methods that are known by name, and only "
            f"those can be loaded again; available: {', '.join(methods.names())}"
        )
    return name


def _encoded_params(model: MultiViewClassifier) -> dict[str, Any]:
    name = type(model).__name__
    try:
        return {
            key: strict_json.encode(value, f"parameter {key!r} of {name}")
            for key, value in model.get_params(deep=False).items()
            if key != "callbacks"  # objects of the user, which only training needs
        }
    except TypeError as error:
        raise SettingError(
            f"{error}; a model file cannot keep it: set the parameter to plain values "
            "(numbers, text, lists, None) before saving"
        ) from error


# ------------------------------------------------------------------ rebuilding


def _new_model(description: dict[str, Any], device: str | None) -> MultiViewClassifier:
    params = _decoded(description, "params")
    here = device or _device_here(params.get("device", "auto"))
    return restore_method(description["method"], params, here)


def _restore_names(model: Any, description: dict[str, Any]) -> None:
    model.view_names_ = _distinct_names(description, "view_names")
    model.label_names_ = _distinct_names(description, "label_names")
    dims = description["view_dims"]
    if not isinstance(dims, list) or not all(type(dim) is int and dim > 0 for dim in dims):
        raise ValueError("view_dims must be positive whole numbers")
    frequency = description["label_frequency"]
    if not isinstance(frequency, list) or not all(map(_is_frequency, frequency)):
        raise ValueError("label_frequency must be numbers from 0 to 1, or null")
    if len(dims) != len(model.view_names_) or len(frequency) != len(model.label_names_):
        raise ValueError("the numbers of names, columns and frequencies do not agree")
    model.view_dims_ = tuple(dims)
    model.feature_names_in_ = _feature_names(model, description.get("feature_names", {}))
    model.n_features_in_ = sum(dims)
    model.interrupted_ = description.get("interrupted", False) is True
    model._resume_words = description.get("resume")
    if "training" in description:
        model.training_summary_ = TrainingSummary.from_dict(
            description["training"], len(dims), len(frequency)
        )
    model.one_label_ = "classes" in description
    model.classes_ = np.arange(len(frequency))
    if model.one_label_:
        model.classes_ = _two_classes(description["classes"], len(frequency))
    model.label_frequency_ = np.array(
        [np.nan if value is None else value for value in frequency], dtype=np.float64
    )


def _two_classes(stored: Any, n_labels: int) -> NDArray[Any]:
    """The values of a 1-D y."""
    kinds = {type(value) for value in stored} if isinstance(stored, list) else set()
    if n_labels != 1 or len(stored) != 2 or len(kinds) != 1 or not kinds <= {bool, int, float, str}:
        raise ValueError("classes must be the two values of one label")
    return np.array(stored)


def _feature_names(model: Any, stored: Any) -> dict[str, tuple[str, ...]]:
    """Column names of the views that have any, as many as the view has columns."""
    if not isinstance(stored, dict) or not set(stored) <= set(model.view_names_):
        raise ValueError("feature_names must name columns of the views")
    names = {view: _distinct_names(stored, view) for view in stored}
    for view, dim in zip(model.view_names_, model.view_dims_, strict=True):
        if len(names.get(view, range(dim))) != dim:
            raise ValueError(f"feature_names of view {view!r} must be {dim} names")
    return names


def _restore_ranges(model: MultiViewClassifier, arrays: model_folder.Arrays) -> model_folder.Arrays:
    """Give the model its column ranges, which older files have not, and return the other arrays."""
    ranges = State(arrays).part(_RANGES)
    model.column_ranges_ = ColumnRanges.from_arrays(ranges, model.view_dims_) if ranges else None
    return {name: array for name, array in arrays.items() if not name.startswith(_RANGES)}


def _is_frequency(value: Any) -> bool:
    return value is None or (type(value) in (int, float) and 0 <= value <= 1)


def _distinct_names(description: dict[str, Any], key: str) -> tuple[str, ...]:
    names = description[key]
    if not isinstance(names, list) or not names or not all(isinstance(item, str) for item in names):
        raise ValueError(f"{key} must be a list of names")
    if len(set(names)) != len(names):
        raise ValueError(f"{key} holds a name twice")
    return tuple(names)


def _decoded(description: dict[str, Any], key: str) -> dict[str, Any]:
    value = strict_json.decode(description[key])
    if not isinstance(value, dict):
        raise ValueError(f"{key} must be an object")
    return value


def _device_here(device: Any) -> Any:
    """Return the saved device if this machine has it, otherwise `"auto"`."""
    if not isinstance(device, str) or device in ("auto", "cpu"):
        return device
    import torch

    kind, _, index = device.partition(":")
    if kind == "cuda" and torch.cuda.is_available():
        return device if int(index or 0) < torch.cuda.device_count() else "auto"
    if kind == "mps" and torch.backends.mps.is_available():
        return device
    return "auto"
