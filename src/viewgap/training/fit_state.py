"""The whole state of a fit as one object that can be saved and restored.

A fit continued from a restored state gives the same bits as one that was never interrupted.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from viewgap.nn.optimiser import Optimiser
from viewgap.state import State
from viewgap.training.flat_weights import FlatWeights
from viewgap.training.network import DeepNetwork


class FitState:
    """Network, optimiser, random generators, best weights so far, and history."""

    def __init__(
        self,
        network: DeepNetwork,
        optimiser: Optimiser,
        order: torch.Generator,
        noise: torch.Generator,
        average: bool = False,
    ) -> None:
        self.network = network
        self.optimiser = optimiser
        self.order = order
        self.noise = noise
        self.averaged: DeepNetwork | None = None
        self._flat: tuple[FlatWeights[DeepNetwork], FlatWeights[DeepNetwork]] | None = None
        if average:
            flat = FlatWeights(network)
            self._flat = (flat, flat.twin())
            self.averaged = self._flat[1].network
        self.steps = 0
        self.epoch = 0
        self.best_epoch = 0
        self.improved_epoch = 0
        self.best_score = -math.inf
        self.best_weights: dict[str, Tensor] = {}
        self.history: dict[str, list[float]] = {}
        self.interrupted = False  # whether a signal ended the fit early

    def record(self, metrics: dict[str, float]) -> None:
        """Append one epoch's numbers to the history."""
        for name, value in metrics.items():
            self.history.setdefault(name, []).append(value)

    @property
    def generators(self) -> list[torch.Generator]:
        """What the networks draw from."""
        own = [g for g in self.network.generators() if g is not self.noise]
        return [self.noise, *own]

    def evaluated(self) -> DeepNetwork:
        """The network to validate and keep: the averaged one, if there is one."""
        return self.network if self.averaged is None else self.averaged

    def next_average_step(self, share: float) -> float:
        """How far the average moves in the coming step: far at first, for its start must go."""
        self.steps += 1
        return 1.0 - min(share, (1.0 + self.steps) / (10.0 + self.steps))

    def update_average(self, step: float | Tensor) -> None:
        """Move the averaged network by `step` towards the trained one."""
        if self._flat is not None:
            self._flat[1].lerp(self._flat[0], step)

    def update_average_of_buffers(self, step: float | Tensor) -> None:
        """The part of `update_average` that a fused update of the weights leaves to do."""
        if self._flat is not None:
            self._flat[1].lerp_buffers(self._flat[0], step)

    def set_optimiser_steps(self) -> None:
        """Tell the optimiser how many steps there have been, where it did not count them itself."""
        counts = [own["step"] for own in self.optimiser.state.values() if "step" in own]
        if counts:
            torch._foreach_zero_(counts)
            torch._foreach_add_(counts, float(self.steps))

    @torch.no_grad()
    def keep_if_best(self, score: float) -> None:
        """Remember the weights if this epoch's score is the best; a tie goes to the later one."""
        if score < self.best_score:
            return
        if score > self.best_score:
            self.improved_epoch = self.epoch
        self.best_score, self.best_epoch = score, self.epoch
        now = self.evaluated().state_dict()
        if not self.best_weights:
            self.best_weights = {k: v.clone() for k, v in now.items()}
            return
        for dtype in {v.dtype for v in now.values()}:
            names = [k for k, v in now.items() if v.dtype == dtype]
            kept = [self.best_weights[k] for k in names]
            torch._foreach_copy_(kept, [now[k] for k in names])

    def load_best(self) -> None:
        """Put the best weights into the network; without a score, the last ones."""
        self.network.load_state_dict(self.best_weights or self.evaluated().state_dict())

    def release(self) -> None:
        """End of the fit: the network stands alone, everything else may go."""
        self.optimiser.zero_grad(set_to_none=True)
        self.optimiser.state.clear()
        if self._flat is not None:
            self._flat[0].release()
            self._flat = None

    def save(self) -> State:
        """Everything needed to go on, as arrays and metadata."""
        arrays = {f"network/{k}": v for k, v in self.network.state_dict().items()}
        arrays |= {f"best/{k}": v for k, v in self.best_weights.items()}
        if self.averaged is not None:
            arrays |= {f"averaged/{k}": v for k, v in self.averaged.state_dict().items()}
        for number, values in self.optimiser.state_dict()["state"].items():
            arrays |= {f"optimiser/{number}/{k}": v for k, v in values.items()}
        arrays |= {"order": self.order.get_state(), "noise": self.noise.get_state()}
        arrays |= {f"noise/{k}": g.get_state() for k, g in enumerate(self.network.generators())}
        metadata: dict[str, Any] = {
            "epoch": self.epoch,
            "steps": self.steps,
            "best_epoch": self.best_epoch,
            "improved_epoch": self.improved_epoch,
            "best_score": self.best_score if self.best_weights else None,
            "history": self.history,
        }
        return State({k: v.detach().cpu().numpy().copy() for k, v in arrays.items()}, metadata)

    def restore(self, state: State) -> None:
        """Continue from what `save` returned; an error for what does not fit the network."""
        self.network.load_state_dict(_tensors(state, "network/"))
        if self.averaged is not None:
            self.averaged.load_state_dict(_tensors(state, "averaged/"))
        device = next(self.network.parameters()).device
        self.best_weights = {k: v.to(device) for k, v in _tensors(state, "best/").items()}
        self._check_best_weights()
        saved = self.optimiser.state_dict()
        saved["state"] = {}
        for name, value in _tensors(state, "optimiser/").items():
            number, key = name.split("/", 1)
            saved["state"].setdefault(int(number), {})[key] = value
        self.optimiser.load_state_dict(saved)
        self.order.set_state(torch.from_numpy(state.arrays["order"]))
        self.noise.set_state(torch.from_numpy(state.arrays["noise"]))
        for k, generator in enumerate(self.network.generators()):
            generator.set_state(torch.from_numpy(state.arrays[f"noise/{k}"]))
        counts = ("epoch", "steps", "best_epoch", "improved_epoch")
        self.epoch, self.steps, self.best_epoch, self.improved_epoch = (
            _checked_count(state.metadata[name]) for name in counts
        )
        score = state.metadata["best_score"]
        self.best_score = -math.inf if score is None else score
        self.history = {name: list(values) for name, values in state.metadata["history"].items()}

    def _check_best_weights(self) -> None:
        own = {name: value.shape for name, value in self.network.state_dict().items()}
        best = {name: value.shape for name, value in self.best_weights.items()}
        if best and best != own:
            raise ValueError("the best weights are those of another network")


def _tensors(state: State, prefix: str) -> dict[str, Tensor]:
    return {name: torch.from_numpy(array) for name, array in state.part(prefix).items()}


def _checked_count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"expected a count, found {str(value)[:60]!r}")
    return value
