"""relu(x + bias) and its gradient as one Triton kernel each (plain: `nn.linear.linear_relu`)."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from viewgap.nn.kernels.launch import kernel

_COLUMNS = 32  # of a program, which goes through all rows: the gradient of a bias is their sum
_ROWS = 128


@kernel(sizes=("R",))
def _forward(x, bias, y, R, F, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Some rows of a few columns."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    col = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    there = (row < R)[:, None] & (col < F)[None, :]
    at = row.to(tl.int64)[:, None] * F + col[None, :]
    value = tl.load(x + at, mask=there, other=0.0).to(tl.float32)
    value += tl.load(bias + col, mask=col < F, other=0.0)[None, :]
    # NaN stays NaN, so that a fit that diverges is noticed.
    tl.store(y + at, tl.where(value < 0.0, 0.0, value), mask=there)


@kernel(sizes=("R",))
def _backward(dy, y, dx, dbias, R, F, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Gradient of `_forward` for a few columns of all rows."""
    col = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    inside = col < F
    total = tl.zeros((COLUMNS,), tl.float32)
    for start in range(0, R, ROWS):
        row = start + tl.arange(0, ROWS)
        there = (row < R)[:, None] & inside[None, :]
        at = row.to(tl.int64)[:, None] * F + col[None, :]
        value = tl.load(dy + at, mask=there, other=0.0).to(tl.float32)
        value = tl.where(tl.load(y + at, mask=there, other=0.0) <= 0.0, 0.0, value)
        tl.store(dx + at, value, mask=there)
        total += tl.sum(value, axis=0)
    tl.store(dbias + col, total, mask=inside)


class BiasRelu(torch.autograd.Function):
    """relu(x + bias). Shape: x (R, F), float32 or bfloat16, bias (F,) -> as x."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor) -> Tensor:
        x = x.contiguous()
        rows, features = x.shape
        y = torch.empty_like(x)
        grid = (triton.cdiv(rows, _ROWS), triton.cdiv(features, _COLUMNS))
        _forward[grid](x, bias, y, rows, features, ROWS=_ROWS, COLUMNS=_COLUMNS)
        ctx.save_for_backward(y)
        ctx.dtype = bias.dtype
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        (y,) = ctx.saved_tensors
        rows, features = y.shape
        dx, dbias = torch.empty_like(y), torch.empty(features, dtype=ctx.dtype, device=y.device)
        _backward[(triton.cdiv(features, _COLUMNS),)](
            gradients[0].contiguous(), y, dx, dbias, rows, features, ROWS=_ROWS, COLUMNS=_COLUMNS
        )
        return dx, dbias
