"""The weighted squared error of a decoder as Triton kernels (plain: `nn.losses.squared_error`)."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from viewgap.nn.kernels.launch import kernel


@kernel(sizes=("R",), unaligned=("rows", "share"))
def _row_errors(x, bias, table, rows, share, errors, R, F, COLUMNS: tl.constexpr):
    """share · mean of (x + bias − table[row])² of one row."""
    row = tl.program_id(0).to(tl.int64)
    target = table + tl.load(rows + row) * F
    total = tl.zeros((COLUMNS,), tl.float32)
    for start in range(0, F, COLUMNS):
        col = start + tl.arange(0, COLUMNS)
        value = tl.load(x + row * F + col, mask=col < F, other=0.0).to(tl.float32)
        value += tl.load(bias + col, mask=col < F, other=0.0)
        value -= tl.load(target + col, mask=col < F, other=0.0)
        total += value * value
    tl.store(errors + row, tl.sum(total, axis=0) * tl.load(share + row) / F)


@kernel(sizes=("R",), unaligned=("rows", "share", "scale"))
def _error_slopes(
    x, bias, table, rows, share, scale, dx, dbias, R, F,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Gradient of `_row_errors` for a few columns of all rows."""
    col = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    inside = col < F
    b = tl.load(bias + col, mask=inside, other=0.0)
    factor = tl.load(scale) * 2.0 / F
    total = tl.zeros((COLUMNS,), tl.float32)
    for start in range(0, R, ROWS):
        row = start + tl.arange(0, ROWS)
        there = (row < R)[:, None] & inside[None, :]
        at = row.to(tl.int64)[:, None] * F + col[None, :]
        value = tl.load(x + at, mask=there, other=0.0).to(tl.float32) + b[None, :]
        target = tl.load(rows + row, mask=row < R, other=0)
        value -= tl.load(table + target[:, None] * F + col[None, :], mask=there, other=0.0)
        value *= (tl.load(share + row, mask=row < R, other=0.0) * factor)[:, None]
        tl.store(dx + at, value, mask=there)
        total += tl.sum(value, axis=0)
    tl.store(dbias + col, total, mask=inside)


class SquaredError(torch.autograd.Function):
    """Σ of share · mean of (x + bias − table[rows])².

    Shape: x (R, F), bias (F,), table (n, F), rows and share (R,) -> ().
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, bias: Tensor, table: Tensor, rows: Tensor, share: Tensor
    ) -> Tensor:
        x, rows, share = x.contiguous(), rows.contiguous(), share.contiguous()
        count, features = x.shape
        errors = share.new_empty(count)
        _row_errors[(count,)](x, bias, table, rows, share, errors, count, features, COLUMNS=1024)
        ctx.save_for_backward(x, bias, table, rows, share)
        return errors.sum()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, bias, table, rows, share = ctx.saved_tensors
        count, features = x.shape
        dx, dbias = torch.empty_like(x), torch.empty_like(bias)
        _error_slopes[(triton.cdiv(features, 32),)](
            x, bias, table, rows, share, gradients[0].contiguous(), dx, dbias, count, features,
            ROWS=128, COLUMNS=32,
        )  # fmt: skip
        return dx, dbias, None, None, None
