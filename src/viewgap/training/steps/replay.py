"""Work that is the same every time: on a GPU recorded once as a graph, then replayed.

A step of training launches hundreds of small kernels; launched one by one from Python they leave
the GPU waiting. A recording launches them together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from viewgap.training.batches.epoch_index import EpochIndex
from viewgap.training.batches.index import BatchIndex, Stacked


class Replay:
    """Calls `function`; on a CUDA device, after some plain calls, replays a recording of it.

    The function reads and writes the same tensors each time, asks the host for nothing, and
    returns the same tensors, whose values change. `generators`: those that it draws from.
    """

    def __init__(
        self,
        function: Callable[[], Any],
        device: torch.device,
        generators: Sequence[torch.Generator] = (),
        plain_calls: int = 1,
    ) -> None:
        self._function = function
        self._device = device
        self._generators = generators
        self._plain_calls = plain_calls
        self._graph: torch.cuda.CUDAGraph | None = None
        self._result: Any = None

    @property
    def is_recorded(self) -> bool:
        """Whether calls are replays by now (on a CPU: whether they would be)."""
        return self._plain_calls == 0 and (self._graph is not None or self._device.type != "cuda")

    def __call__(self) -> Any:
        """What the function returns."""
        if self._plain_calls > 0 or self._device.type != "cuda":
            self._plain_calls = max(self._plain_calls - 1, 0)
            return self._function() if self._device.type != "cuda" else self._call_beside()
        graph = self._graph or self._record()
        graph.replay()
        return self._result

    def _call_beside(self) -> Any:
        """A plain call on a side stream, where a recording will look for what it set up."""
        main, side = torch.cuda.current_stream(self._device), torch.cuda.Stream(self._device)
        side.wait_stream(main)
        with torch.cuda.stream(side):
            result = self._function()
        main.wait_stream(side)
        torch.cuda.synchronize(self._device)
        return result

    def _record(self) -> torch.cuda.CUDAGraph:
        torch.cuda.synchronize(self._device)
        torch.cuda.empty_cache()
        graph = torch.cuda.CUDAGraph()
        for generator in self._generators:
            graph.register_generator_state(generator)
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            self._result = self._function()
        self._graph = graph
        return graph


class EpochIndexOnDevice:
    """An epoch index of fixed shape in two tensors on the device, and which batch comes next.

    Nothing travels during an epoch: a recorded step looks its own index up and counts on.
    """

    def __init__(self, epoch: EpochIndex, device: torch.device, dtype: torch.dtype) -> None:
        self._arrays = epoch.arrays
        self._parts: dict[int, tuple[bool, slice, tuple[int, ...]]] = {}
        ends = {True: 0, False: 0}
        for leaf in epoch.leaves():
            is_integer, start = _is_integer(leaf), ends[_is_integer(leaf)]
            ends[is_integer] += leaf.values[0].size
            part = slice(start, ends[is_integer])
            self._parts[id(leaf)] = (is_integer, part, leaf.values.shape[1:])
        self._integers = torch.zeros(epoch.n_batches, ends[True], dtype=torch.long, device=device)
        self._floats = torch.zeros(epoch.n_batches, ends[False], dtype=dtype, device=device)
        self._next = torch.zeros(1, dtype=torch.long, device=device)
        self.load(epoch)

    def load(self, epoch: EpochIndex) -> None:
        """Take another epoch of the same shape, from its first batch on."""
        leaves = epoch.leaves()
        for target, wanted in ((self._integers, True), (self._floats, False)):
            parts = [
                torch.from_numpy(leaf.values).reshape(epoch.n_batches, -1).to(target.dtype)
                for leaf in leaves
                if _is_integer(leaf) == wanted
            ]
            target.copy_(torch.cat(parts, dim=1))
        self._next.zero_()

    def rewind(self) -> int:
        """From the first batch on again; returns the number of batches."""
        self._next.zero_()
        return len(self._integers)

    def next_batch(self) -> BatchIndex[Tensor]:
        """The index of the next batch (`EpochIndex.batch`)."""
        integers = self._integers.index_select(0, self._next)[0]
        floats = self._floats.index_select(0, self._next)[0]
        self._next += 1

        def look_up(leaf: Stacked) -> Tensor:
            is_integer, part, shape = self._parts[id(leaf)]
            return (integers if is_integer else floats)[part].view(shape)

        return self._arrays.map(look_up)


def _is_integer(leaf: Stacked) -> bool:
    return leaf.values.dtype.kind == "i"
