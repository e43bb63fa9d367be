"""Work that is the same every time: on a GPU recorded once as a graph, then replayed.

A step of training launches hundreds of small kernels; launched one by one from Python they leave
the GPU waiting. A recording launches them together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from viewgap.training.plan import Plan, repeat_common


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


class PlanOnDevice:
    """A plan of fixed shape in two tensors on the device, and which of its steps comes next.

    Nothing travels during an epoch: a recorded step looks its own entries up and counts on.
    """

    def __init__(self, plan: Plan, device: torch.device, dtype: torch.dtype) -> None:
        self._parts: dict[str, tuple[bool, int, tuple[int, ...]]] = {}
        ends = {True: 0, False: 0}
        for name, array in plan.arrays.items():
            whole = array.dtype.kind == "i"
            self._parts[name] = (whole, ends[whole], array.shape[1:])
            ends[whole] += array[0].size
        self._whole = torch.zeros(plan.steps, ends[True], dtype=torch.long, device=device)
        self._real = torch.zeros(plan.steps, ends[False], device=device, dtype=dtype)
        self._next = torch.zeros(1, dtype=torch.long, device=device)
        self.load(plan)

    def load(self, plan: Plan) -> None:
        """Take another plan of the same shape, from its first step on."""
        for target, whole in ((self._whole, True), (self._real, False)):
            parts = [
                torch.from_numpy(plan.arrays[name]).reshape(plan.steps, -1).to(target.dtype)
                for name, (kind, _, _) in self._parts.items()
                if kind == whole
            ]
            target.copy_(torch.cat(parts, dim=1))
        self._next.zero_()

    def rewind(self) -> int:
        """From its first step on again; returns the number of steps."""
        self._next.zero_()
        return len(self._whole)

    def step(self) -> dict[str, Tensor]:
        """Entries of the next step (`Plan.step`)."""
        whole = self._whole.index_select(0, self._next)[0]
        real = self._real.index_select(0, self._next)[0]
        self._next += 1
        found = {}
        for name, (kind, start, shape) in self._parts.items():
            size = int(torch.Size(shape).numel())
            values = (whole if kind else real)[start : start + size]
            found[name] = values.view(shape)
        return repeat_common(found)
