"""A network from a model file: its sizes are compared with the stored arrays before it is made."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Self

import torch
from torch import Tensor
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from torch.utils.hooks import RemovableHandle

from viewgap.training.network import RowwiseNetwork

_PARTS_PER_TENSOR = 4  # parameters, buffers and modules; the networks have up to 1.8


def network_for(
    tensors: Mapping[str, Tensor], make: Callable[[], RowwiseNetwork]
) -> RowwiseNetwork:
    """The network these tensors belong to; ValueError if the settings ask for another one.

    `make` makes it. That is first done without memory: settings that do not match the stored shapes
    could ask for any amount of it.
    """
    shapes = {name: tuple(v.shape) for name, v in tensors.items()}

    def make_whole() -> RowwiseNetwork:
        network = make()
        network.allocate(shapes)
        return network

    with torch.device("meta"), _BuildLimit(len(tensors)):
        expected = {name: tuple(v.shape) for name, v in make_whole().state_dict().items()}
    for name, shape in expected.items():
        if name not in tensors or tuple(tensors[name].shape) != shape:
            raise ValueError(f"the settings ask for {name} of shape {shape}; the file has none")
    return make_whole()


class _BuildLimit:
    """Ends the building of a network that has more parts than the tensors of its file can fill.

    Settings of a file could ask for a million layers: without memory (on the meta device) they
    still take hours. Torch tells of every part of every network, so other threads are left alone.
    """

    def __init__(self, n_tensors: int) -> None:
        self.left = _PARTS_PER_TENSOR * (n_tensors + 1)
        self._thread = threading.get_ident()
        self._hooks: list[RemovableHandle] = []

    def __enter__(self) -> Self:
        parts = (
            register_module_buffer_registration_hook,
            register_module_module_registration_hook,
            register_module_parameter_registration_hook,
        )
        self._hooks = [register(self._count) for register in parts]
        return self

    def __exit__(self, *_: object) -> None:
        for hook in self._hooks:
            hook.remove()

    def _count(self, *_: object) -> None:
        if threading.get_ident() != self._thread:
            return
        self.left -= 1
        if self.left < 0:
            raise ValueError("the settings ask for a larger network than the file holds")


def checked_history(history: Any) -> dict[str, list[float]]:
    """The history of a file; ValueError if it is none."""
    columns = history.values() if isinstance(history, dict) else [None]
    if not all(isinstance(column, list) for column in columns):
        raise ValueError("history must hold lists of numbers")
    return {name: [float(value) for value in column] for name, column in history.items()}


def checked_epoch(epoch: Any) -> int:
    """The number of an epoch of a file; ValueError if it is none."""
    if type(epoch) is not int or epoch < 0:
        raise ValueError(f"expected the number of an epoch, found {str(epoch)[:60]!r}")
    return epoch
