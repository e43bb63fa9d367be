"""Rows gathered by index, with a gradient that is a gather too."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from viewgap.nn.kernels import kernels_for


class _GatherRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: Tensor, back: Tensor, dtype: torch.dtype) -> Tensor:
        ctx.save_for_backward(back)
        ctx.dtype = x.dtype
        return _gather(x, rows.reshape(-1), dtype).view(*rows.shape, x.shape[1])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (back,) = ctx.saved_tensors
        return _gather(gradients[0].flatten(0, -2), back, ctx.dtype), None, None, None


def _gather(x: Tensor, rows: Tensor, dtype: torch.dtype) -> Tensor:
    kernels = kernels_for(x, "gather")
    if kernels is not None:
        gathered: Tensor = kernels.gather(x, rows, dtype)
        return gathered
    padded = torch.cat([x, x.new_zeros(1, x.shape[1])])
    return padded.index_select(0, rows).to(dtype)


def gather_rows(x: Tensor, rows: Tensor, back: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """x[rows], each row at most once; index R gives zeros. In `dtype`, if not that of x.

    `back` is the inverse index: the position in `rows` of each row of x, the number of positions if
    it has none. The gradient is then a gather too, instead of a scattered sum.

    Shape: x (R, F), rows (...), back (R,) -> (..., F).
    """
    gathered: Tensor = _GatherRows.apply(x, rows, back, dtype or x.dtype)  # type: ignore[no-untyped-call]
    return gathered
