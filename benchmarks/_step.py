"""The only file here that knows the inside of the library: single steps, epochs, sizes.

Everything else uses its public interface. When the internals change, this file follows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from viewgap import SCSD, ViewSet
from viewgap.data.labels import Labels
from viewgap.methods import deep
from viewgap.methods.scsd.network import SCSDNetwork
from viewgap.nn.pooling import LogOddsPooling
from viewgap.training import loop
from viewgap.training.batches.epoch_index import Capacity
from viewgap.training.batches.source import BatchSource
from viewgap.training.callbacks import Callback, TrainingContext
from viewgap.training.committee import Committee
from viewgap.training.fit_state import FitState
from viewgap.training.network import RowwiseNetwork
from viewgap.training.runtime import choose_runtime
from viewgap.training.steps import epoch as steps
from viewgap.training.steps.epoch import ReplayedSteps, make_steps


class LibraryStep:
    """Call it to take `per_call` training steps of SCSD, as `fit` takes them.

    On a GPU an epoch is planned as a whole and its steps are replayed: a call replays those of one
    plan. What planning takes is part of the epoch figures. Cross-fitted networks have batches of
    their own, as in the fit.
    """

    def __init__(self, model: SCSD, views: ViewSet, Y: Any) -> None:
        self._state, self._source, workers = begin_fit(model, views, Y)
        self.settings, self.network = model.settings_, self._state.network
        self._runtime = self._source.runtime
        self._steps = make_steps(self._state, self._source, self.settings, workers)
        self.per_epoch = len(self._source.batches_of_epoch(self.settings.batch_size, None)[0])
        on_gpu = self._runtime.device.type == "cuda"
        self.per_call = len(self.batches()[0]) if on_gpu else 1
        self.network.train()

    def batches(self, order: torch.Generator | None = None) -> list[list[Tensor]]:
        """Batches of an epoch, for every network its own; of shared ones those that are full."""
        size = self.settings.batch_size
        drawn = self._source.batches_of_epoch(size, order)
        if len(drawn) > 1:
            return drawn
        return [[rows for rows in drawn[0] if len(rows) == size] or drawn[0]]

    def __call__(self) -> None:
        with self._runtime.active(), self._runtime.threads_for(self._state.network.work):
            if isinstance(self._steps, ReplayedSteps) and self._steps.is_recorded:
                self._steps.repeat()
            else:
                drawn = self.batches(self._state.order)
                self._steps.run([own[: self.per_call] for own in drawn])

    def weights(self) -> dict[str, Tensor]:
        """A copy of the network's state, for the reference."""
        return {k: v.detach().clone() for k, v in self._state.network.state_dict().items()}


class _FitBegunError(Exception):
    """Ends a fit where training would begin."""


def begin_fit(model: SCSD, views: ViewSet, Y: Any) -> tuple[FitState, BatchSource, int]:
    """What `model.fit` hands to the training loop before the first step: state, rows, workers.

    The fit itself resolves settings, prepares features and builds networks, so that what is
    measured cannot be another model than the one that ships.
    """
    begun: list[tuple[FitState, BatchSource, int]] = []

    def stop(state: FitState, source: BatchSource, *rest: Any) -> None:
        begun.append((state, source, rest[-1]))
        raise _FitBegunError

    with mock.patch.object(deep, "train", stop), suppress(_FitBegunError):
        model.fit(views, Y)
    return begun[0]


class EpochEnds(Callback):
    """Keeps the time at which every epoch ends, validation included."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def on_epoch_end(self, context: TrainingContext) -> None:
        self.times.append(time.perf_counter())


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


@contextmanager
def around_epochs(run: Callable[[Callable[[], Any], int], Any]) -> Iterator[None]:
    """Let `run(steps, number of steps)` run the steps of every epoch of the fits inside."""
    run_epoch = loop._run_epoch

    def watched(state: FitState, source: BatchSource, steps: Any, settings: Any) -> Any:
        count = len(source.batches_of_epoch(settings.batch_size, None)[0])
        return run(lambda: run_epoch(state, source, steps, settings), count)

    with mock.patch.object(loop, "_run_epoch", watched):
        yield


def state_bytes(model: SCSD) -> int:
    """Weights, gradients, two moments, best weights, averaged weights: what a fit works with."""
    network = model.network_
    weights = sum(tensor.nbytes for tensor in network.state_dict().values())
    beside = 3 * sum(parameter.nbytes for parameter in network.parameters())
    copies = 3 if model.settings_.ema_decay > 0 else 2
    return int(beside + copies * weights)


def terms_and_network(
    settings: Any, dense: list[Tensor], observed: Tensor, labels: Tensor, known: Tensor, rows: str
) -> tuple[dict[str, Tensor], RowwiseNetwork, dict[str, Tensor]]:
    """The library's loss terms of one batch, its network afterwards, its weights before.

    `rows`: `"dense"`, `"packed"`, or `"fixed"` for packed rows filled up to a fixed shape.
    """
    c, generator = labels.shape[1], torch.Generator().manual_seed(0)
    dims = [x.shape[1] for x in dense]
    own = [SCSDNetwork(dims, c, settings, generator) for _ in range(settings.n_networks)]
    for each in own:
        each.label_correlation.copy_(torch.rand(each.label_correlation.shape, generator=generator))
        each.codebook.started.fill_(True)  # the random codes will do; no k-means on the first batch
    is_pooled = settings.pooling == "log_odds"
    network = Committee(own, LogOddsPooling(len(dims), c)) if is_pooled else own[0]
    network.to(dense[0].dtype).train()
    before = {k: v.detach().clone() for k, v in network.state_dict().items()}
    views = ViewSet({f"v{v}": x.numpy() for v, x in enumerate(dense)}, observed.numpy())
    names = tuple(f"label{j}" for j in range(c))
    checked = Labels(labels.numpy().astype("uint8"), known.numpy() > 0, names)
    precision = "float64" if dense[0].dtype == torch.float64 else "highest"
    source = BatchSource(views, checked, None, choose_runtime("cpu", precision))
    layout = replace(network.layout, rows="dense" if rows == "dense" else "packed")
    room = Capacity() if rows == "fixed" else None
    epoch = source.index([torch.arange(len(views))], layout, None, room)
    terms = network.loss_terms(source.assemble(epoch.batch(0)))
    torch.stack(list(terms.values())).sum().backward()
    return terms, network, before
