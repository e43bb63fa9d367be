"""What belongs to a checkpoint besides its steps: which fit it is of, and the seed of that."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import viewgap.checkpoints as checkpoints
import viewgap.strict_json as strict_json
from viewgap.data.fingerprint import fingerprint
from viewgap.data.labels import Labels
from viewgap.data.viewset import ViewSet
from viewgap.errors import CheckpointError, SettingError, ViewgapWarning, parameter
from viewgap.methods.estimator.inputs import Validation
from viewgap.methods.fitting.processes import several_processes
from viewgap.methods.fitting.random_state import draw_entropy

if TYPE_CHECKING:
    from viewgap.methods.base import MultiViewClassifier

# No bit of a fit on a CPU depends on these. The device counts by its kind.
_WITHOUT = ("callbacks", "device", "n_jobs", "random_state", "verbose")
_MOST_SHOWN = 5


def check_request(
    model: MultiViewClassifier, checkpoint_dir: str | os.PathLike[str] | None, resume: bool
) -> Path | None:
    """Refuse what cannot be kept or continued, before any work."""
    if checkpoint_dir is None:
        if resume:
            raise SettingError(
                f"{parameter('resume')} needs {parameter('checkpoint_dir')}, the folder of the fit "
                "that is to go on"
            )
        return None
    if not model.keeps_checkpoints:
        raise SettingError(
            f"{type(model).__name__} has no epochs to keep: leave {parameter('checkpoint_dir')} "
            "out; networks and the ensemble have checkpoints"
        )
    path, group = Path(checkpoint_dir), several_processes()
    if group is None:
        checkpoints.check_destination(path, resume)
    else:
        _refuse_whole_fits(model)
        group.on_main(lambda: checkpoints.check_destination(path, resume))
    if resume and not (path / checkpoints.FIT).exists():
        warnings.warn(
            f"there is no checkpoint in {path} yet: the fit begins", ViewgapWarning, stacklevel=3
        )
    return path


@contextmanager
def checkpointing(
    model: MultiViewClassifier,
    path: Path | None,
    views: ViewSet,
    labels: Labels,
    validation: Validation | None,
) -> Iterator[None]:
    """Keep the fit of a model in this folder, or let it go on from there; None: neither."""
    if path is None:
        yield
        return
    group = several_processes()
    is_main = group is None or group.is_main
    with checkpoints.locked(path) if is_main else nullcontext():

        def begin() -> Any:
            return _begin(model, path, _data_of(model, views, labels, validation))

        model._entropy = begin() if group is None else group.on_main(begin)
        model._checkpoint = checkpoints.CheckpointFolder(path)
        try:
            yield
        finally:
            model._entropy = model._checkpoint = None


def _refuse_whole_fits(model: MultiViewClassifier) -> None:
    if not model._shares_fit:
        raise SettingError(
            f"{type(model).__name__} is fitted whole by every process, which would all write to "
            f"{parameter('checkpoint_dir')}: leave it out, or fit on one process"
        )


def _begin(model: MultiViewClassifier, path: Path, data: Mapping[str, str]) -> Any:
    """Compare this fit with the one that was begun in the folder; returns the seed of that."""
    drawn = draw_entropy(model.random_state)
    fit: dict[str, Any] = {
        "parameters": parameters_of(model) | {"random_state": drawn},
        "data": dict(data),
        "entropy": np.random.SeedSequence().entropy if drawn is None else drawn,
        "libraries": {name: _version(name) for name in ("torch", "numpy", "scipy")},
    }
    kept = checkpoints.begin_or_go_on(path, fit)
    differences = [
        f"{shown_name(name)} was {brief(before)}, and is {brief(now)} now"
        for name, before, now in differing(kept["parameters"], fit["parameters"])
    ]
    differences += [f"other {name}" for name, _, _ in differing(kept["data"], data)]
    if differences:
        more = ", ..." if len(differences) > _MOST_SHOWN else ""
        raise CheckpointError(
            f"{path} belongs to another fit: {'; '.join(differences[:_MOST_SHOWN])}{more}. Go on "
            "with what it was begun with, or begin anew in another folder"
        )
    for name, before, now in differing(kept["libraries"], fit["libraries"]):
        warnings.warn(
            f"the fit in {path} was begun with {name} {before} and goes on with {now}: it may "
            "differ in the last digits from one that was never interrupted",
            ViewgapWarning,
            stacklevel=5,
        )
    return _checked_entropy(kept["entropy"], path)


def _checked_entropy(entropy: Any, path: Path) -> Any:
    words = entropy if isinstance(entropy, list) and entropy else [entropy]
    if not all(type(word) is int and word >= 0 for word in words):
        raise CheckpointError(f"{path / checkpoints.FIT} holds no seed: damaged file")
    return entropy


def parameters_of(model: MultiViewClassifier) -> dict[str, Any]:
    """What a fit depends on besides data and seed, as plain values."""
    from viewgap.training.runtime import choose_runtime

    name = type(model).__name__
    given = model.get_params(deep=False)
    try:
        kept = {
            key: strict_json.encode(value, f"parameter {key!r} of {name}")
            for key, value in given.items()
            if key not in _WITHOUT
        }
    except TypeError as error:
        raise SettingError(
            f"{error}; a checkpoint cannot keep it: set the parameter to plain values "
            "(numbers, text, lists, None)"
        ) from error
    device = choose_runtime(str(given.get("device", "cpu"))).device.type
    return {"method": name, "viewgap": _version("viewgap"), "device": device, **kept}


def _data_of(
    model: MultiViewClassifier, views: ViewSet, labels: Labels, validation: Validation | None
) -> dict[str, str]:
    found = fingerprint(views, labels)
    found["unlabelled rows"] = str(model.n_unlabeled_)
    if validation is not None:
        found |= fingerprint(*validation, prefix="validation rows: ")
    return found


def differing(before: Any, now: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """Names in which two mappings differ, with both values."""
    before = before if isinstance(before, dict) else {}
    names = [*now, *(name for name in before if name not in now)]
    both = [(name, before.get(name), now.get(name)) for name in names]
    return [(name, old, new) for name, old, new in both if old != new]


def shown_name(name: str) -> str:
    """A part of `parameters_of` as a message names it."""
    return name if name in ("method", "viewgap", "device") else parameter(name)


def brief(value: Any) -> str:
    """A value in a message."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # used from a source tree that was not installed
        return "unknown"
