"""Whether fused GPU kernels can be used, and work running side by side on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module, util
from typing import Any

import torch
from torch import Tensor


def kernels_for(x: Tensor, name: str = "mlp_kernels") -> Any | None:
    """The module `viewgap.nn.<name>` if it can compute with `x`, else None."""
    known = x.dtype in (torch.float32, torch.bfloat16)
    return _load_kernels(name) if x.is_cuda and known else None


@cache
def _load_kernels(name: str) -> Any | None:
    return import_module(f"viewgap.nn.{name}") if util.find_spec("triton") else None


def side_by_side(
    pieces: Sequence[Callable[[], Tensor]], uses: Sequence[Sequence[Tensor]]
) -> list[Tensor]:
    """Results of independent pieces of work; on a GPU each runs on a stream of its own.

    One piece alone leaves most of a GPU idle. `uses[i]`: tensors made before that piece i reads,
    so that their memory is not given to somebody else while it still does.
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


class _PickRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: Tensor, back: Tensor, dtype: torch.dtype) -> Tensor:
        ctx.save_for_backward(back)
        ctx.dtype = x.dtype
        return _pick(x, rows.reshape(-1), dtype).view(*rows.shape, x.shape[1])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (back,) = ctx.saved_tensors
        return _pick(gradients[0].flatten(0, -2), back, ctx.dtype), None, None, None


def _pick(x: Tensor, rows: Tensor, dtype: torch.dtype) -> Tensor:
    kernels = kernels_for(x)
    if kernels is not None:
        picked: Tensor = kernels.pick(x, rows, dtype)
        return picked
    padded = torch.cat([x, x.new_zeros(1, x.shape[1])])
    return padded.index_select(0, rows).to(dtype)


def pick_rows(x: Tensor, rows: Tensor, back: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """x[rows], each row picked at most once; number R picks zeros. In `dtype`, if not that of x.

    `back` says where each row of x went, the number of picks if nowhere: the gradient is then a
    pick too, instead of a scattered sum. Shape: x (R, F), rows (...), back (R,) -> (..., F).
    """
    picked: Tensor = _PickRows.apply(x, rows, back, dtype or x.dtype)  # type: ignore[no-untyped-call]
    return picked
