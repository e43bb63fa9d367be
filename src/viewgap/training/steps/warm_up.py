"""What a fit needs besides its data, made by other threads while the data are prepared.

The weights of a large network take seconds to draw, and the kernels of a GPU seconds to compile.
Which kernels these are is told by one step of a network of the same sizes, whose numbers do not
matter: all shapes of a replayed step are known from which views the rows have.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from importlib.util import find_spec
from typing import TypeVar

import numpy as np
import torch

from viewgap.data.viewset import ViewSet
from viewgap.nn.linear import LowPrecisionWeights, set_matmul_dtype
from viewgap.training.batches.source import BatchSource
from viewgap.training.cross_fit import Parts
from viewgap.training.network import DeepNetwork
from viewgap.training.runtime import Runtime
from viewgap.training.settings import TrainingSettings
from viewgap.training.steps.look_ahead import capacities_ahead
from viewgap.training.steps.replay import EpochIndexOnDevice

Result = TypeVar("Result")


def in_background(function: Callable[[], Result]) -> Future[Result]:
    """Start a function in a thread of its own; `result()` waits for it, and raises what it did."""
    pool = ThreadPoolExecutor(1, "viewgap-warm-up")
    future = pool.submit(function)
    pool.shutdown(wait=False)
    return future


def compile_ahead(
    network: DeepNetwork, rows: Zeros, settings: TrainingSettings, order: torch.Generator
) -> None:
    """Compile the kernels of a replayed training step, and load the libraries of the GPU.

    Parameters
    ----------
    network : DeepNetwork
        A network of the fit's sizes on the GPU, with any weights; they are lost.
    rows : Zeros
        In place of the training rows.
    settings : TrainingSettings
        How the fit will train.
    order : torch.Generator
        As that of the fit is before its first epoch.
    """
    runtime = rows.runtime
    if find_spec("triton") is None or runtime.dtype != torch.float32:
        return
    from viewgap.nn.kernels.launch import compile_only
    from viewgap.nn.kernels.update import compile_update

    device = runtime.device
    side = torch.cuda.Stream(device)
    side.wait_stream(torch.cuda.default_stream(device))
    with torch.cuda.device(device), torch.cuda.stream(side):
        # Only this thread launches nothing: gradients must not be left to another one. What cannot
        # be told in this way is compiled when it is launched, as everything used to be.
        with (
            compile_only(device),
            suppress(Exception),
            torch.autograd.set_multithreading_enabled(False),
        ):
            if settings.optimiser == "adamw":
                compile_update(settings.ema_decay > 0, runtime.matmul_dtype is not None, device)
            dry_step(network, rows, settings, order)
        side.synchronize()


def dry_step(
    network: DeepNetwork, rows: Zeros, settings: TrainingSettings, order: torch.Generator
) -> None:
    """One step of the shape that `ReplayedSteps` will record, on views and labels of zeros."""
    runtime, layout = rows.runtime, network.layout
    capacity = capacities_ahead(rows, layout, settings, order, settings.max_epochs)[0]
    batches = rows.batches_of_epoch(settings.batch_size, order)[0]
    epoch = rows.index(batches, layout, order, capacity)
    with torch.device(runtime.device):
        network.use_noise(runtime.generator(0))
        set_matmul_dtype(network.train(), runtime.matmul_dtype)
        LowPrecisionWeights(network)
        index = EpochIndexOnDevice(epoch, runtime.device, runtime.dtype).next_batch()
        terms = network.loss_terms(rows.assemble(index))
        torch.stack(list(terms.values())).sum().backward()


class Zeros(BatchSource):
    """Batches of zeros, of the rows of these views; none of their values is read.

    Every table is one row, repeated by a stride of zero bytes.
    """

    def __init__(
        self, views: ViewSet, n_labels: int, runtime: Runtime, parts: Parts | None = None
    ) -> None:
        self._views, self._parts = views, parts
        self.runtime = runtime
        self.observed = np.array(views.observed)
        self._blank = [0] * views.n_views
        self._sparse_labels = None
        self.labels = self.label_mask = self._table_of(n_labels)
        self._resident = {v: self._table_of(d) for v, d in enumerate(views.dims)}
        self._ordered = {}

    def _table_of(self, width: int) -> torch.Tensor:
        row = torch.zeros(1, width, dtype=self.runtime.dtype, device=self.runtime.device)
        return row.expand(len(self._views), width)
