"""One epoch of training steps, in the two ways of running them: one by one, or replayed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils import get_total_norm

from viewgap.nn.dropout import draws_for
from viewgap.nn.kernels import kernels_for
from viewgap.nn.linear import GradientBuffers, LowPrecisionWeights
from viewgap.nn.optimiser import SGD, AdamW, Optimiser
from viewgap.nn.reduce import LOCAL, Reducer
from viewgap.training.batches.batch import Batch
from viewgap.training.batches.epoch_index import EpochIndex
from viewgap.training.batches.index import Stacked
from viewgap.training.batches.source import BatchSource, Step
from viewgap.training.committee import networks_of
from viewgap.training.divergence import REFUSED_BY_TORCH, broken_term, divergence, in_batch
from viewgap.training.fit_state import FitState
from viewgap.training.network import DeepNetwork
from viewgap.training.runtime import SMALL_NETWORK
from viewgap.training.settings import TrainingSettings
from viewgap.training.steps.look_ahead import NextEpoch, capacities_ahead
from viewgap.training.steps.replay import EpochIndexOnDevice, Replay

# Parameters of a network from which on a thread of its own pays; below, threads wait for Python.
WORTH_A_THREAD = 300_000

Apply = Callable[..., Iterable[Any]]
"""`map`, or the same by several threads."""


class Steps(Protocol):
    """Runs the steps of one epoch."""

    def run(self, batches: Sequence[Sequence[Tensor]]) -> dict[str, Tensor]:
        """Train on these batches of row numbers; returns the sums of every loss term, (networks,).

        One list of batches for the network, or one for every network of a committee.
        """

    def refresh(self) -> None:
        """Take note of weights that were changed in another way."""

    def close(self) -> None:
        """No more steps: the weights may change in other ways from here on."""


@dataclass(frozen=True)
class Dealt:
    """The networks of a committee that this process trains, while others train the rest.

    `numbers`: of these networks; `sum` adds up over the processes; `can_be_recorded`: that too.
    """

    numbers: Sequence[int]
    sum: Callable[[Tensor], Tensor]
    can_be_recorded: bool = False


def make_steps(
    state: FitState,
    source: BatchSource,
    settings: TrainingSettings,
    workers: int = 1,
    dealt: Dealt | None = None,
) -> Steps:
    """Replayed on a GPU that holds the data, one by one everywhere else.

    `workers`: threads that the networks of a committee are dealt out to on a CPU. `dealt`: which
    of the networks are trained here; None = all.
    """
    can_be_recorded = True
    if dealt is not None:  # clipping needs the gradients of all networks
        silent = settings.max_grad_norm == 0
        can_be_recorded = bool(dealt.numbers) and (silent or dealt.can_be_recorded)
    if source.replay_device.type == "cuda" and can_be_recorded:
        return ReplayedSteps(state, source, settings, dealt)
    return PlainSteps(state, source, settings, workers, dealt)


class PlainSteps:
    """Step by step, every batch as long as its rows."""

    def __init__(
        self,
        state: FitState,
        source: BatchSource,
        settings: TrainingSettings,
        workers: int = 1,
        dealt: Dealt | None = None,
    ) -> None:
        self._state, self._source, self._settings = state, source, settings
        self._dealt = dealt
        self._pool: ThreadPoolExecutor | None = None
        worth_it = state.network.largest >= WORTH_A_THREAD
        # Processes talk to each other in one order: no thread may come in between.
        alone = source.runtime.reducer is LOCAL
        if workers > 1 and worth_it and alone and source.runtime.device.type == "cpu":
            # A thread of its own for every network: their operations are too short to be shared.
            one_thread = partial(torch.set_num_threads, 1)
            self._pool = ThreadPoolExecutor(workers, initializer=one_thread)
        keep = state.network.largest >= SMALL_NETWORK and source.runtime.device.type == "cpu"
        self._buffers = GradientBuffers(state.network) if keep else None
        self._low_precision = LowPrecisionWeights(state.network) if keep else None

    def run(self, batches: Sequence[Sequence[Tensor]]) -> dict[str, Tensor]:
        """See `Steps`. The sums stay on the device, so that no step waits for the host."""
        state = self._state
        layout = state.network.layout
        # Drawn for all networks, whoever trains them.
        epochs = [self._source.epoch(own, layout, state.order) for own in batches]
        totals: dict[str, Tensor] = {}
        if self._dealt is not None and not self._dealt.numbers:
            for _ in epochs[0]:
                self._update()
            return totals
        with self._source.steps(_trained_here(epochs, self._dealt)) as steps:
            for number, step in enumerate(steps, start=1):
                for name, value in self._find_gradients(step, number, len(epochs[0])).items():
                    totals[name] = totals[name] + value if name in totals else value
                self._update()
        return totals

    def refresh(self) -> None:
        """See `Steps`."""
        if self._low_precision is not None:
            self._low_precision.refresh()

    def _update(self) -> None:
        average = self._state.next_average_step(self._settings.ema_decay)
        update_weights(self._state, self._settings, average, self._dealt)
        self.refresh()

    def _find_gradients(self, step: Step, number: int, count: int) -> dict[str, Tensor]:
        """Loss terms and gradients of step `number` of `count`.

        A loss that is no number ends the fit here.
        """
        state, (indices, batches) = self._state, step
        found: dict[str, Tensor] = {}
        try:
            reducer = self._source.runtime.reducer
            found = find_gradients(state, batches, self._apply, reducer, self._dealt)
            broken = broken_term({name: value.sum().item() for name, value in found.items()})
        except RuntimeError as error:
            if REFUSED_BY_TORCH not in str(error):
                raise
            broken = "some probabilities are not finite"
        if broken is None:
            return found
        ids = [self._source.sample_ids(index.rows) for index in indices]
        raise divergence(state.epoch, f"{broken} {in_batch(number, count, ids)}")

    @property
    def _apply(self) -> Apply:
        return map if self._pool is None else self._pool.map

    def close(self) -> None:
        """See `Steps`."""
        if self._pool is not None:
            self._pool.shutdown()
        if self._low_precision is not None:
            self._low_precision.release()
        if self._buffers is not None:
            self._buffers.release()


class ReplayedSteps:
    """One recorded step, replayed for every batch; all batches are filled up to one shape.

    Two recordings, one up to the gradients and one of the update: where the gradients lie is
    known only when the first has been made.
    """

    _PLAIN_STEPS = 2  # the codebook starts, memory is set up, kernels are compiled

    def __init__(
        self,
        state: FitState,
        source: BatchSource,
        settings: TrainingSettings,
        dealt: Dealt | None = None,
    ) -> None:
        self._state, self._source, self._settings = state, source, settings
        self._dealt = dealt
        layout, epochs = state.network.layout, settings.max_epochs - state.epoch
        self._capacities = capacities_ahead(source, layout, settings, state.order, epochs)
        self._shape: list[tuple[tuple[int, ...], ...]] = []
        self._next: NextEpoch | None = None
        self._epochs: list[EpochIndexOnDevice] = []
        self._low_precision: LowPrecisionWeights | None = None
        self._sums: Tensor | None = None
        self._names: list[str] = []
        runtime = source.runtime
        kernels = kernels_for(next(state.network.parameters()), "update")
        self._can_fuse = kernels is not None
        # What changes from step to step: lr / (1 − β₁ᵗ) and √(1 − β₂ᵗ) of AdamW, lr of SGD; step
        # of the average.
        self._factors = torch.zeros(3, device=runtime.device, dtype=runtime.dtype)
        self._drop_recordings()

    def run(self, batches: Sequence[Sequence[Tensor]]) -> dict[str, Tensor]:
        """See `Steps`."""
        state = self._state
        epochs = None if self._next is None else self._next.take(batches, state.order)
        if epochs is None:
            layout = state.network.layout
            epochs = self._source.training_indices(batches, layout, state.order, self._capacities)
        epochs = list(_trained_here(epochs, self._dealt))
        factors = [self._next_factors() for _ in batches[0]]
        epochs[0].arrays.update_factors = Stacked(np.array(factors))
        if self._shape != self._shapes():
            self._prepare(epochs)
        else:
            for mine, epoch in zip(self._epochs, epochs, strict=True):
                mine.load(epoch)
        if self._sums is not None:
            self._sums.zero_()
        for _ in batches[0]:
            self._gradients()
            if self._gradients.is_recorded and not self._update_is_fused:
                self._fuse_update()
            self._update()
        state.set_optimiser_steps()
        # While the device is at work; the loop's next batches are most likely just these.
        self._next = NextEpoch(self._source, state, self._settings, self._capacities)
        return {} if self._sums is None else dict(zip(self._names, self._sums, strict=True))

    @property
    def is_recorded(self) -> bool:
        """Whether a step is nothing but two replays by now."""
        update = self._update
        return self._gradients.is_recorded and isinstance(update, Replay) and update.is_recorded

    def repeat(self) -> None:
        """The steps of the last epoch once more: what the device does in it, and no more."""
        steps = [epoch.rewind() for epoch in self._epochs]
        for _ in range(steps[0]):
            self._gradients()
            self._update()

    def refresh(self) -> None:
        """See `Steps`."""
        if self._low_precision is not None:
            self._low_precision.refresh()

    def close(self) -> None:
        """See `Steps`: copies of weights are no longer refreshed."""
        self._drop_recordings()  # they keep what processes talk by
        if self._low_precision is not None:
            self._low_precision.release()

    def _shapes(self) -> list[tuple[tuple[int, ...], ...]]:
        return [capacity.shape for capacity in _trained_here(self._capacities, self._dealt)]

    def _prepare(self, epochs: Sequence[EpochIndex]) -> None:
        """Make room for batches of a new shape."""
        runtime = self._source.runtime
        self._drop_recordings()
        self._shape = self._shapes()
        self._epochs = [EpochIndexOnDevice(e, runtime.device, runtime.dtype) for e in epochs]
        self._low_precision = LowPrecisionWeights(self._state.network)

    def _drop_recordings(self) -> None:
        self._state.optimiser.zero_grad(set_to_none=True)
        device, noise = self._source.runtime.device, self._state.generators
        self._gradients = Replay(self._find_gradients, device, noise, self._PLAIN_STEPS)
        self._update: Callable[[], None] = self._update_plainly
        self._update_is_fused = False

    def _find_gradients(self) -> None:
        indices = [epoch.next_batch() for epoch in self._epochs]
        if indices[0].update_factors is not None:
            self._factors.copy_(indices[0].update_factors)
        batches = [self._source.assemble(index) for index in indices]
        reducer = self._source.runtime.reducer
        terms = find_gradients(self._state, batches, map, reducer, self._dealt, alike=True)
        values = torch.stack(list(terms.values()))
        if self._sums is None:
            self._sums, self._names = torch.zeros_like(values), list(terms)
        self._sums += values

    def _update_plainly(self) -> None:
        update_weights(self._state, self._settings, self._factors[2], self._dealt)
        self.refresh()

    def _fuse_update(self) -> None:
        self._update_is_fused = True
        device = self._source.runtime.device
        if not self._can_fuse:
            self._update = Replay(self._update_plainly, device)
            return
        from viewgap.nn.kernels.update import FusedUpdate  # needs Triton

        state = self._state
        averaged = None if state.averaged is None else list(state.averaged.parameters())
        copies = {} if self._low_precision is None else self._low_precision.copies
        limit = self._settings.max_grad_norm
        together = None if self._dealt is None else self._dealt.sum
        fused = FusedUpdate(state.optimiser, averaged, copies, limit, together)

        def update() -> None:
            fused(self._factors)
            state.update_average_of_buffers(self._factors[2])

        self._update = Replay(update, device)

    def _next_factors(self) -> tuple[float, float, float]:
        average = self._state.next_average_step(self._settings.ema_decay)
        group, step = self._state.optimiser.param_groups[0], self._state.steps
        if "betas" not in group:
            return group["lr"], 0.0, average
        beta1, beta2 = group["betas"]
        return group["lr"] / (1 - beta1**step), math.sqrt(1 - beta2**step), average


Own = TypeVar("Own")


def _trained_here(of_networks: Sequence[Own], dealt: Dealt | None) -> Sequence[Own]:
    """What belongs to the networks that are trained here, or what belongs to all of them."""
    if dealt is None or len(of_networks) == 1:
        return of_networks
    return [of_networks[number] for number in dealt.numbers]


def find_gradients(
    state: FitState,
    batches: Sequence[Batch],
    apply: Apply = map,
    reducer: Reducer = LOCAL,
    dealt: Dealt | None = None,
    alike: bool = False,
) -> dict[str, Tensor]:
    """Loss terms of a step, (networks,), each a share of their mean; gradients in the parameters.

    `batches`: one, or one for every network of a committee. `apply`: how to go through the
    networks, which have nothing to do with each other. `reducer`: of the processes that share the
    batches; each of them has the whole loss, and its part of the gradients, which are `alike` if
    the same parameters have one everywhere. `dealt`: which of the networks; None = all.
    """
    state.optimiser.zero_grad(set_to_none=True)
    networks = networks_of(state.network)
    share = 1.0 / len(networks)
    networks = _trained_here(networks, dealt)

    def terms_of(network: DeepNetwork, batch: Batch) -> dict[str, Tensor]:
        terms = network.loss_terms(batch)
        (share / reducer.count * torch.stack(list(terms.values())).sum()).backward()
        return {name: share * value.detach() for name, value in terms.items()}

    own_batches = batches if len(batches) > 1 else [batches[0]] * len(networks)
    if reducer is LOCAL:
        each = list(apply(terms_of, networks, own_batches))
    else:
        with draws_for(None):  # a network says for which rows it draws
            each = list(apply(terms_of, networks, own_batches))
        sum_gradients(list(state.network.parameters()), reducer, alike)
    return {name: torch.stack([own[name] for own in each]) for name in each[0]}


@torch.no_grad()
def sum_gradients(parameters: Sequence[Tensor], reducer: Reducer, alike: bool = False) -> None:
    """Add the gradients up over the processes, all of them in one message.

    A parameter that has none here may have one elsewhere, unless they are `alike`.
    """
    if alike:
        gradients = [p.grad for p in parameters if p.grad is not None]
        for gradient, total in zip(gradients, reducer.sum_together(*gradients), strict=True):
            gradient.copy_(total)
        return
    has_one = parameters[0].new_tensor([float(p.grad is not None) for p in parameters])
    parts = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
    *totals, exists = reducer.sum_together(*parts, has_one)
    for p, total, count in zip(parameters, totals, exists.tolist(), strict=True):
        if p.grad is not None:
            p.grad.copy_(total)
        elif count > 0:
            p.grad = total.clone()


def update_weights(
    state: FitState,
    settings: TrainingSettings,
    average_step: float | Tensor,
    dealt: Dealt | None = None,
) -> None:
    """Clipping, optimiser, average."""
    if settings.max_grad_norm > 0:
        clip_in_optimiser(state.optimiser, state.network, settings.max_grad_norm, dealt)
    state.optimiser.step()
    state.update_average(average_step)


def make_optimiser(network: DeepNetwork, settings: TrainingSettings) -> Optimiser:
    """Over all parameters, norms and biases included."""
    parameters, lr, decay = network.parameters(), settings.learning_rate, settings.weight_decay
    if settings.optimiser == "sgd":
        return SGD(parameters, lr, decay, settings.momentum)
    return AdamW(parameters, lr, decay)


def clip_in_optimiser(
    optimiser: Optimiser, network: DeepNetwork, limit: float, dealt: Dealt | None = None
) -> None:
    """Have the fused optimiser divide gradients whose norm is above `limit` while it reads them.

    As `clip_grad_norm_`, without another pass over all gradients.
    """
    if dealt is None:
        norm = get_total_norm([p.grad for p in network.parameters() if p.grad is not None])
    else:  # the norm of every gradient is found by the process that has it
        norms = [_norm(p) for p in network.parameters()]
        norm = torch.linalg.vector_norm(dealt.sum(torch.stack(norms)))
    scale = ((norm + 1e-6) / limit).clamp(min=1.0)
    optimiser.grad_scale = scale.float()


def _norm(parameter: Tensor) -> Tensor:
    if parameter.grad is None:
        return parameter.new_zeros(())
    norm: Tensor = torch.linalg.vector_norm(parameter.grad)
    return norm
