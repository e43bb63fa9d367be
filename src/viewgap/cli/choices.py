"""What a fit will do and why, in lines for people, before it begins."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from viewgap.data.labels import Labels
from viewgap.data.viewset import ViewSet
from viewgap.errors import counted, first_few
from viewgap.methods.base import MultiViewClassifier
from viewgap.methods.profiled import DataSize, ProfiledClassifier

_MOST_VIEWS = 10


def describe_choices(model: MultiViewClassifier, views: ViewSet, labels: Labels) -> Iterator[str]:
    """Yield lines about the data, the settings that depend on it, the parts and the device."""
    yield _data(views, labels)
    if isinstance(model, ProfiledClassifier):
        yield from _settings(model, views, labels)
    elif hasattr(model, "n_parts"):
        yield f"parts: every sample is answered out of fold, in {model.n_parts} parts"
    if hasattr(model, "device"):
        yield _device(model)


def _data(views: ViewSet, labels: Labels) -> str:
    widths = (f"{name} {dim:,}" for name, dim in zip(views.names, views.dims, strict=True))
    shown = first_few(widths, _MOST_VIEWS)
    gaps = 1 - views.observed.mean()
    known = labels.n_observed / (labels.shape[0] * labels.shape[1])
    frequency = labels.frequency()
    both = int(((frequency > 0) & (frequency < 1)).sum())
    told = "" if both == labels.n_labels else f" ({both:,} of them with both values, 0 and 1)"
    return (
        f"data: {counted(len(views), 'sample')}, {counted(views.n_views, 'view')} (columns: "
        f"{shown}), {gaps:.0%} of the views missing, {counted(labels.n_labels, 'label')}{told}, "
        f"{known:.0%} of their entries observed"
    )


def _settings(model: ProfiledClassifier, views: ViewSet, labels: Labels) -> Iterator[str]:
    """Settings that the profile makes of the size of the data, those that were set, the parts."""
    size = DataSize(len(views), labels.n_observed)
    settings = model._resolve(labels.n_labels, size)
    by_size = _by_size(model)
    names = [f.name for f in fields(settings)]
    given = [name for name in names if getattr(model, name) is not None]
    derived = [name for name in names if name in by_size and name not in given]
    yield f"profile: {model.profile}"
    if derived:
        shown = ", ".join(f"{name}={getattr(settings, name)!r}" for name in derived)
        yield f"by the size of the data: {shown}"
    if given:
        shown = ", ".join(f"{name}={getattr(settings, name)!r}" for name in given)
        yield f"as set: {shown}"
    if getattr(settings, "cross_fit", False) and settings.n_networks > 1:
        yield (
            f"parts: {settings.n_networks} networks, each leaves out one part of the samples and "
            "answers for it"
        )


def _by_size(model: ProfiledClassifier) -> set[str]:
    """Settings of the profile that differ between small and large data."""
    trials: list[Any] = type(model)._profile_trials()[model.profile]
    return {
        f.name
        for f in fields(trials[0])
        if len({repr(getattr(settings, f.name)) for settings in trials}) > 1
    }


def _device(model: Any) -> str:
    from viewgap.training.runtime import choose_runtime

    runtime = choose_runtime(model.device)
    why = "as set"
    if model.device == "auto":
        why = "no GPU found" if runtime.device.type == "cpu" else "a GPU was found"
    return f"device: {runtime.device} ({why})"
