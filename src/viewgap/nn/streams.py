"""Independent pieces of work on CUDA streams of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import torch
from torch import Tensor


def run_on_streams(
    pieces: Sequence[Callable[[], Tensor]], uses: Sequence[Sequence[Tensor]]
) -> list[Tensor]:
    """Results of independent pieces of work; on a GPU each runs on a stream of its own.

    One piece alone leaves most of a GPU idle. `uses[i]`: tensors made before that piece i reads,
    so that the allocator does not reuse their memory while it still does.
    """
    device = uses[0][0].device
    if device.type != "cuda":
        return [piece() for piece in pieces]
    main = torch.cuda.current_stream(device)
    ready = main.record_event()
    results = []
    for piece, tensors, stream in zip(pieces, uses, _streams(device, len(pieces)), strict=True):
        stream.wait_event(ready)
        with torch.cuda.stream(stream):
            results.append(piece())
        for tensor in tensors:
            tensor.record_stream(stream)
    for result, stream in zip(results, _streams(device, len(pieces)), strict=True):
        main.wait_stream(stream)
        result.record_stream(main)
    return results


@cache
def _streams(device: torch.device, count: int) -> list[torch.cuda.Stream]:
    return [torch.cuda.Stream(device) for _ in range(count)]
