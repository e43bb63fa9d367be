"""A fit by several processes: the same data and the same seed on each, one model on all of them."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from viewgap.data.fingerprint import fingerprint
from viewgap.data.labels import Labels
from viewgap.data.viewset import ViewSet
from viewgap.errors import InputError, SettingError, parameter
from viewgap.methods.estimator.inputs import Validation
from viewgap.methods.fitting.random_state import draw_entropy

if TYPE_CHECKING:  # methods without a network are loaded, fitted and described without torch
    from viewgap.methods.base import MultiViewClassifier
    from viewgap.training.network import DeepNetwork
    from viewgap.training.processes import ProcessGroup
    from viewgap.training.runtime import Runtime


_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")  # of an object: another one in every process


def several_processes() -> ProcessGroup | None:
    """The process group, if there are others in it."""
    if "torch" not in sys.modules:
        return None
    from viewgap.training.processes import current_processes

    group = current_processes()
    return None if group is None or group.world_size == 1 else group


def refuse_group(what: str, folder: str) -> None:
    """Refuse work of many fits in a process group: every process would be at another fit."""
    group = several_processes()
    if group is None:
        return
    raise SettingError(
        f"{what} was called in a group of {group.world_size} processes, which share one fit at a "
        f"time, and it makes many: call it outside of `process_group()`. Processes without a group "
        f"that are given one {parameter(folder)} share the work"
    )


def fit_together(
    model: MultiViewClassifier,
    views: ViewSet,
    labels: Labels,
    validation: Validation | None,
    fit: Callable[[], None],
) -> None:
    """Call `fit` on every process, on the same data and from the same seed.

    A method whose processes share nothing is fitted whole by each of them; so that no bit can
    differ, all take what the first one has found.
    """
    group = several_processes()
    if group is None:
        fit()
        return
    _compare(group, model, views, labels, validation)
    own = model._entropy is None
    if own:
        model._entropy = group.broadcast_object(_entropy(model))
    try:
        if model._shares_fit:
            fit()
            return
        from viewgap.training.processes import alone

        with alone():
            fit()
        found = {k: v for k, v in vars(model).items() if k.endswith("_") or k.startswith("_")}
        model.__dict__.update(group.broadcast_object(found))
    finally:
        if own:
            model._entropy = None


def _entropy(model: MultiViewClassifier) -> Any:
    drawn = draw_entropy(getattr(model, "random_state", None))
    return np.random.SeedSequence().entropy if drawn is None else drawn


def _compare(
    group: ProcessGroup,
    model: MultiViewClassifier,
    views: ViewSet,
    labels: Labels,
    validation: Validation | None,
) -> None:
    """Refuse a fit whose processes have other data or parameters."""
    params = model.get_params(deep=False).items()
    given = {parameter(k): _ADDRESS.sub("", repr(v)) for k, v in params if _counts(k)}
    mine = {"method": type(model).__name__, **given, **fingerprint(views, labels)}
    mine["unlabelled rows"] = str(model.n_unlabeled_)
    if validation is not None:
        mine |= fingerprint(*validation, prefix="validation rows: ")
    everyone = group.gather_objects(mine)
    names = [name for own in everyone for name in own]
    differing = [n for n in dict.fromkeys(names) if len({own.get(n) for own in everyone}) > 1]
    if differing:
        raise InputError(
            f"the {group.world_size} processes of this fit do not agree about: "
            f"{', '.join(differing[:5])}; every process must call fit with the same data and "
            "parameters: each takes its part of every batch by itself"
        )


def _counts(name: str) -> bool:
    return name not in ("callbacks", "device", "n_jobs", "random_state", "verbose")


# ---------------------------------------------------------------------- networks


def shared_runtime(runtime: Runtime, network: DeepNetwork, method: str) -> Runtime:
    """The same runtime for a network whose batches are shared by all processes.

    A network that does not say that it can share them is refused.
    """
    group = several_processes()
    if group is None:
        return runtime
    from viewgap.nn.reduce import ProcessReducer
    from viewgap.training.committee import networks_of

    if group.deals_out(len(networks_of(network))):
        return runtime
    if not network.shares_batches:
        raise SettingError(
            f"{method} cannot be trained by {group.world_size} processes: its network does not "
            "declare `shares_batches`, so its loss would be that of a part of each batch; train it "
            "on one process"
        )
    if runtime.device.type != group.device.type and group.device.type == "cuda":
        raise SettingError(
            f"{parameter('device')} is {str(runtime.device)!r}, but these processes talk by NCCL, "
            f"which needs a GPU; use {parameter('device', 'auto')}, or the backend gloo"
        )
    return replace(runtime, reducer=ProcessReducer())


def device_here(device: str) -> str:
    """What "auto" means in a process of a group: the device that the group has for it."""
    group = several_processes()
    return device if group is None or str(device) != "auto" else str(group.device)


def take_from_first(network: DeepNetwork) -> None:
    """Let every process have the weights and buffers of the first one, to the bit."""
    group = several_processes()
    if group is not None:
        group.broadcast_all(list(network.state_dict().values()))
