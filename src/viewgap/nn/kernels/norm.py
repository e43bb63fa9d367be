"""Batch norm of x + bias in training, and GELU, in one Triton kernel (plain: `linear_norm`)."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from viewgap.nn.kernels.launch import kernel

# One program holds all rows of a few columns in its registers; more rows than this do not fit.
MOST_ROWS = 1024


@triton.jit
def _gelu(z):
    return 0.5 * z * (1.0 + tl.erf(z * 0.7071067811865476))


@triton.jit
def _gelu_slope(z):
    bell = tl.exp(-0.5 * z * z) * 0.3989422804014327
    return 0.5 * (1.0 + tl.erf(z * 0.7071067811865476)) + z * bell


@kernel(sizes=("R",), unaligned=("w",))
def _forward(
    x, bias, w, gamma, beta, old_mean, old_var, y, mean_out, var_out, count_out, R, F, eps,
    momentum, ALONE: tl.constexpr, WEIGHTED: tl.constexpr, GELU: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """One group of rows, a few columns: mean, variance, the scaled values, their GELU."""
    group = tl.program_id(1)
    col = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    row = tl.arange(0, ROWS)
    inside = col < F
    there = (row < R)[:, None] & inside[None, :]
    at = group.to(tl.int64) * R * F + row[:, None] * F + col[None, :]
    value = tl.load(x + at, mask=there, other=0.0).to(tl.float32)
    value += tl.load(bias + col, mask=inside, other=0.0)[None, :]
    weight = (row < R).to(tl.float32)
    if WEIGHTED:
        weight = tl.load(w + group * R + row, mask=row < R, other=0.0)
    count = tl.sum(weight, axis=0)
    some = tl.maximum(count, 1e-30)
    mean = tl.sum(value * weight[:, None], axis=0) / some
    centred = value - mean[None, :]
    variance = tl.sum(centred * centred * weight[:, None], axis=0) / some
    # No row counts: nothing to normalise by, so the running statistics are used.
    running_mean = tl.load(old_mean + col, mask=inside, other=0.0)
    running_var = tl.load(old_var + col, mask=inside, other=1.0)
    mean = tl.where(count > 0.0, mean, running_mean)
    variance = tl.where(count > 0.0, variance, running_var)
    if ALONE:
        step = tl.where(count > 1.0, momentum, 0.0)
        unbiased = variance * (count / tl.maximum(count - 1.0, 1.0))
        tl.store(old_mean + col, running_mean + step * (mean - running_mean), mask=inside)
        tl.store(old_var + col, running_var + step * (unbiased - running_var), mask=inside)
    tl.store(mean_out + group * F + col, mean, mask=inside)
    tl.store(var_out + group * F + col, variance, mask=inside)
    tl.store(count_out + group, count)
    scale = tl.load(gamma + col, mask=inside, other=0.0) / tl.sqrt(variance + eps)
    shift = tl.load(beta + col, mask=inside, other=0.0) - mean * scale
    result = value * scale[None, :] + shift[None, :]
    if GELU:
        result = _gelu(result)
    tl.store(y + at, result, mask=there)


@kernel(sizes=("R",), unaligned=("w",))
def _backward(
    dy, x, bias, w, gamma, beta, means, variances, counts, dx, dbias, dgamma, dbeta, R, F, eps,
    WEIGHTED: tl.constexpr, GELU: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Gradient of `_forward` for the same group and columns."""
    group = tl.program_id(1)
    col = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    row = tl.arange(0, ROWS)
    inside = col < F
    there = (row < R)[:, None] & inside[None, :]
    at = group.to(tl.int64) * R * F + row[:, None] * F + col[None, :]
    mean = tl.load(means + group * F + col, mask=inside, other=0.0)
    mean -= tl.load(bias + col, mask=inside, other=0.0)
    spread = 1.0 / tl.sqrt(tl.load(variances + group * F + col, mask=inside, other=1.0) + eps)
    g = tl.load(gamma + col, mask=inside, other=0.0)
    b = tl.load(beta + col, mask=inside, other=0.0)
    value = tl.load(x + at, mask=there, other=0.0).to(tl.float32)
    hat = (value - mean[None, :]) * spread[None, :]
    slope = tl.load(dy + at, mask=there, other=0.0).to(tl.float32)
    if GELU:
        slope *= _gelu_slope(hat * g[None, :] + b[None, :])
    sum_slope = tl.sum(slope, axis=0)
    sum_hat = tl.sum(slope * hat, axis=0)
    weight = (row < R).to(tl.float32)
    if WEIGHTED:
        weight = tl.load(w + group * R + row, mask=row < R, other=0.0)
    count = tl.load(counts + group)
    share = tl.where(count > 0.0, 1.0 / tl.maximum(count, 1e-30), 0.0)
    common = (sum_slope[None, :] + hat * sum_hat[None, :]) * (weight * share)[:, None]
    result = tl.where(there, (slope - common) * (g * spread)[None, :], 0.0)
    tl.store(dx + at, result, mask=there)
    tl.store(dbias + group * F + col, tl.sum(result, axis=0), mask=inside)
    tl.store(dgamma + group * F + col, sum_hat, mask=inside)
    tl.store(dbeta + group * F + col, sum_slope, mask=inside)


@kernel()
def _move_running(
    mean, variance, count, running_mean, running_var, G, F, momentum, COLUMNS: tl.constexpr
):
    """The running statistics, moved by one group after the other."""
    col = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    inside = col < F
    m = tl.load(running_mean + col, mask=inside, other=0.0)
    v = tl.load(running_var + col, mask=inside, other=0.0)
    for group in range(G):
        n = tl.load(count + group)
        step = tl.where(n > 1.0, momentum, 0.0)
        unbiased = tl.load(variance + group * F + col, mask=inside, other=0.0)
        unbiased = unbiased * (n / tl.maximum(n - 1.0, 1.0))
        m += step * (tl.load(mean + group * F + col, mask=inside, other=0.0) - m)
        v += step * (unbiased - v)
    tl.store(running_mean + col, m, mask=inside)
    tl.store(running_var + col, v, mask=inside)


class FusedNorm(torch.autograd.Function):
    """Batch norm of x + bias in training, rows weighted, groups apart (shapes: `RowNorm`).

    x may be bfloat16; statistics are float32. With `gelu`, GELU of it, in the number format of x:
    a hidden layer. Without, the result is float32: a code, from which losses are computed.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        bias: Tensor,
        weight: Tensor | None,
        gamma: Tensor,
        beta: Tensor,
        running_mean: Tensor,
        running_var: Tensor,
        momentum: float,
        eps: float,
        gelu: bool,
    ) -> Tensor:
        x = x.contiguous()
        groups, (rows, features) = (x.shape[0] if x.dim() == 3 else 1), x.shape[-2:]
        y = torch.empty_like(x, dtype=x.dtype if gelu else gamma.dtype)
        w = x if weight is None else weight.contiguous()
        mean, variance = gamma.new_empty(groups, features), gamma.new_empty(groups, features)
        count = gamma.new_empty(groups)
        grid, tile = _tiles(groups, rows, features)
        _forward[grid](
            x, bias, w, gamma, beta, running_mean, running_var, y, mean, variance, count,
            rows, features, eps, momentum, ALONE=groups == 1, WEIGHTED=weight is not None,
            GELU=gelu, **tile,
        )  # fmt: skip
        if groups > 1:
            _move_running[(triton.cdiv(features, 128),)](
                mean, variance, count, running_mean, running_var, groups, features, momentum,
                COLUMNS=128,
            )  # fmt: skip
        ctx.save_for_backward(x, bias, w, gamma, beta, mean, variance, count)
        ctx.shape, ctx.options = (groups, rows, features, eps), (weight is not None, gelu)
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, bias, w, gamma, beta, mean, variance, count = ctx.saved_tensors
        (groups, rows, features, eps), (weighted, gelu) = ctx.shape, ctx.options
        dx, sums = torch.empty_like(x), gamma.new_empty(3, groups, features)
        grid, tile = _tiles(groups, rows, features)
        _backward[grid](
            gradients[0].contiguous(), x, bias, w, gamma, beta, mean, variance, count, dx,
            sums[0], sums[1], sums[2], rows, features, eps, WEIGHTED=weighted, GELU=gelu, **tile,
        )  # fmt: skip
        dbias, dgamma, dbeta = sums.sum(dim=1) if groups > 1 else sums[:, 0]
        return dx, dbias, None, dgamma, dbeta, None, None, None, None, None


def _tiles(groups: int, rows: int, features: int) -> tuple[tuple[int, int], dict[str, int]]:
    """The grid, and the shape of what one program holds."""
    height = max(triton.next_power_of_2(rows), 16)
    width = 16 if groups > 1 or height > 128 else 8  # measured: alone, a group needs more programs
    warps = max(min(height * width // 1024, 8), 1)
    grid = (triton.cdiv(features, width), groups)
    return grid, {"ROWS": height, "COLUMNS": width, "num_warps": warps}
