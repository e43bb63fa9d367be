"""The only file here that knows the inside of the library: single steps, epochs, sizes.

Everything else uses its public interface. When the internals change, this file follows.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from viewgap import SCSD, ViewSet
from viewgap.data.checks import as_labels
from viewgap.data.labels import Labels
from viewgap.data.scaling import Standardiser
from viewgap.methods import deep
from viewgap.methods._scsd_network import SCSDNetwork
from viewgap.training import steps
from viewgap.training.batches import BatchSource, batches_of_epoch
from viewgap.training.plan import Capacity
from viewgap.training.runtime import choose_runtime
from viewgap.training.steps import ReplayedSteps, make_steps


class LibraryStep:
    """Call it to take `per_call` training steps of SCSD, as `fit` takes them.

    On a GPU an epoch is planned as a whole and its steps are replayed: a call replays those of one
    plan. What planning takes is part of the epoch figures.
    """

    def __init__(self, views: ViewSet, Y: Any, profile: str, device: str, **params: Any) -> None:
        labels = as_labels(Y, views)
        model = SCSD(profile=profile, device=device, random_state=0, **params)
        self.settings = model._resolve(labels.n_labels)
        generator = torch.Generator().manual_seed(0)
        model.network_ = model._build(views.dims, labels, self.settings, generator)
        self._runtime = choose_runtime(device, "auto", model.network_.size)
        scaler = Standardiser.fit(views) if self.settings.scaling == "observed" else None
        self._source = BatchSource(views, labels, scaler, self._runtime)
        with self._runtime.active():
            self._state = model._start(self.settings, self._runtime, deep._Seeds(0, 1, 2, 3))
        self._steps = make_steps(self._state, self._source, self.settings.loop())
        self.per_call = len(self._source) // self.settings.batch_size if device == "cuda" else 1
        self._state.network.train()

    def __call__(self) -> None:
        size = self.settings.batch_size
        batches: list[Tensor] = []
        while len(batches) < self.per_call:
            drawn = batches_of_epoch(len(self._source), size, self._state.order)
            batches += [rows for rows in drawn if len(rows) == size] or drawn
        with self._runtime.active(), self._runtime.threads_for(self._state.network.work):
            if isinstance(self._steps, ReplayedSteps) and self._steps.is_recorded:
                self._steps.repeat()
            else:
                self._steps.run(batches[: self.per_call])

    def weights(self) -> dict[str, Tensor]:
        """A copy of the network's state, for the reference."""
        return {k: v.detach().clone() for k, v in self._state.network.state_dict().items()}


def library_step(views: ViewSet, Y: Any, profile: str, device: str, **params: Any) -> LibraryStep:
    """SCSD's training step on these data, ready to be called."""
    return LibraryStep(views, Y, profile, device, **params)


@contextmanager
def epoch_ends() -> Iterator[list[float]]:
    """The time at which every epoch of the fits inside ends, validation included."""
    ends: list[float] = []

    @contextmanager
    def clock(*_: Any) -> Iterator[Any]:
        yield lambda state: ends.append(time.perf_counter())

    with mock.patch.object(deep, "progress", clock):
        yield ends


@contextmanager
def few_steps(count: int) -> Iterator[None]:
    """Only the first `count` steps of the fits inside are taken; all else goes on as usual.

    The memory of a fit shows in a few steps, and an epoch of a large data set takes minutes.
    """
    find, update = steps.find_gradients, steps.update_weights
    found: list[dict[str, Tensor]] = []
    updated: list[bool] = []

    def maybe_find(*args: Any) -> dict[str, Tensor]:
        if len(found) < count:
            found.append(find(*args))
        return found[-1]

    def maybe_update(*args: Any) -> None:
        if len(updated) < count:
            updated.append(True)
            update(*args)

    with (
        mock.patch.object(steps, "find_gradients", maybe_find),
        mock.patch.object(steps, "update_weights", maybe_update),
    ):
        yield


def state_bytes(model: SCSD) -> int:
    """Weights, gradients, two moments, best weights, averaged weights: what a fit works with."""
    network = model.network_
    weights = sum(tensor.nbytes for tensor in network.state_dict().values())
    beside = 3 * sum(parameter.nbytes for parameter in network.parameters())
    copies = 3 if model.settings_.weight_average > 0 else 2
    return int(beside + copies * weights)


def terms_and_network(
    settings: Any, dense: list[Tensor], observed: Tensor, labels: Tensor, known: Tensor, rows: str
) -> tuple[dict[str, Tensor], SCSDNetwork, dict[str, Tensor]]:
    """The library's loss terms of one batch, its network afterwards, its weights before.

    `rows`: `"dense"`, `"packed"`, or `"fixed"` for packed rows filled up to a fixed shape.
    """
    c, generator = labels.shape[1], torch.Generator().manual_seed(0)
    target = torch.rand(c, c, generator=generator)
    network = SCSDNetwork([x.shape[1] for x in dense], target, settings, generator)
    network.to(dense[0].dtype).train()
    network.codebook.started.fill_(True)  # the random codes will do; no k-means on the first batch
    before = {k: v.detach().clone() for k, v in network.state_dict().items()}
    views = ViewSet({f"v{v}": x.numpy() for v, x in enumerate(dense)}, observed.numpy())
    names = tuple(f"label{j}" for j in range(c))
    checked = Labels(labels.numpy().astype("uint8"), known.numpy() > 0, names)
    precision = "float64" if dense[0].dtype == torch.float64 else "highest"
    source = BatchSource(views, checked, None, choose_runtime("cpu", precision))
    layout = replace(network.layout, rows="dense" if rows == "dense" else "packed")
    room = Capacity() if rows == "fixed" else None
    plan = source.plan([torch.arange(len(views))], layout, None, room)
    terms = network.loss_terms(source.assemble(plan.step(0)))
    torch.stack(list(terms.values())).sum().backward()
    return terms, network, before
