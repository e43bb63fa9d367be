"""Fused GPU kernels of the transformer layers in Triton (plain: attention.py).

Not imported unless a CUDA tensor needs it; where Triton is missing, the plain code runs. A batch
with hundreds of label tokens is bound by memory: each of these reads and writes it once.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

# One program holds a whole row in its registers; wider rows do not fit.
MOST_FEATURES = 4096
_PROGRAMS = 1056  # at most, that add up gradients of weights over their rows: eight for each core
_ROWS_EACH = 4  # at least
_TOKENS = 16  # shared tokens of a sample that one program goes through

# ---------------------------------------------------------------------- layer norm


@triton.jit
def _standardise(x, weight, bias, y, mean_out, std_out, F, eps, COLUMNS: tl.constexpr):
    """One row: weight · (x − mean) / (std + ε) + bias."""
    row = tl.program_id(0).to(tl.int64)
    col = tl.arange(0, COLUMNS)
    inside = col < F
    value = tl.load(x + row * F + col, mask=inside, other=0.0)
    mean = tl.sum(value, axis=0) / F
    centred = tl.where(inside, value - mean, 0.0)
    std = tl.sqrt(tl.sum(centred * centred, axis=0) / tl.maximum(F - 1, 1))
    unit = centred / (std + eps)
    result = unit * tl.load(weight + col, mask=inside) + tl.load(bias + col, mask=inside)
    tl.store(y + row * F + col, result.to(y.dtype.element_ty), mask=inside)
    tl.store(mean_out + row, mean)
    tl.store(std_out + row, std)


@triton.jit
def _standardise_back(
    x, weight, mean_in, std_in, dy, rest, dx, dweight, dbias, R, F, eps, COLUMNS: tl.constexpr
):
    """Every so many rows: their gradients, and what they add to those of weight and bias."""
    col = tl.arange(0, COLUMNS)
    inside = col < F
    w = tl.load(weight + col, mask=inside, other=0.0)
    of_weight = tl.zeros((COLUMNS,), tl.float32)
    of_bias = tl.zeros((COLUMNS,), tl.float32)
    for number in range(tl.program_id(0), R, tl.num_programs(0)):
        row = tl.cast(number, tl.int64)
        std = tl.load(std_in + row)
        value = tl.load(x + row * F + col, mask=inside, other=0.0)
        unit = tl.where(inside, (value - tl.load(mean_in + row)) / (std + eps), 0.0)
        gradient = tl.load(dy + row * F + col, mask=inside, other=0.0).to(tl.float32)
        of_weight += gradient * unit
        of_bias += gradient
        gradient *= w
        turn = tl.sum(gradient * unit, axis=0) / (tl.maximum(F - 1, 1) * tl.maximum(std, 1e-30))
        result = (gradient - tl.sum(gradient, axis=0) / F) / (std + eps) - unit * turn
        result += tl.load(rest + row * F + col, mask=inside, other=0.0)
        tl.store(dx + row * F + col, result, mask=inside)
    at = tl.program_id(0) * F + col
    tl.store(dweight + at, of_weight, mask=inside)
    tl.store(dbias + at, of_bias, mask=inside)


class Standardise(torch.autograd.Function):
    """weight · (x − mean) / (std + ε) + bias along the last dimension, in the format `dtype`.

    And x itself: the gradient of the branch around the norm is added in the kernel.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, eps: float, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor]:
        x = x.contiguous()
        features = x.shape[-1]
        rows = x.numel() // features
        y = torch.empty_like(x, dtype=dtype)
        mean, std = x.new_empty(rows), x.new_empty(rows)
        if rows:
            columns = triton.next_power_of_2(features)
            _standardise[(rows,)](x, weight, bias, y, mean, std, features, eps, COLUMNS=columns)
        ctx.save_for_backward(x, weight, mean, std)
        ctx.eps = eps
        return y, x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, mean, std = ctx.saved_tensors
        rows, features = len(mean), len(weight)
        dx = torch.empty_like(x)
        programs = min(triton.cdiv(rows, _ROWS_EACH), _PROGRAMS)
        sums = x.new_zeros(2, programs, features)
        if rows:
            _standardise_back[(programs,)](
                x, weight, mean, std, *(g.contiguous() for g in gradients), dx, sums[0], sums[1],
                rows, features, ctx.eps, COLUMNS=triton.next_power_of_2(features),
            )  # fmt: skip
        dweight, dbias = sums.sum(dim=1)
        return dx, dweight, dbias, None, None


# ---------------------------------------------------------------------- adding a branch


@triton.jit
def _add_branch(x, product, bias, kept, y, F, scale, COLUMNS: tl.constexpr):
    """One row: x + scale · kept · (product + bias)."""
    at = tl.program_id(0).to(tl.int64) * F
    col = tl.arange(0, COLUMNS)
    inside = col < F
    added = tl.load(product + at + col, mask=inside, other=0.0).to(tl.float32)
    added += tl.load(bias + col, mask=inside, other=0.0)
    added *= tl.load(kept + at + col, mask=inside, other=0).to(tl.float32) * scale
    tl.store(y + at + col, added + tl.load(x + at + col, mask=inside, other=0.0), mask=inside)


@triton.jit
def _add_branch_back(dy, kept, dproduct, dbias, R, F, scale, COLUMNS: tl.constexpr):
    """Every so many rows: scale · kept · gradient, and its sum for the bias."""
    col = tl.arange(0, COLUMNS)
    inside = col < F
    of_bias = tl.zeros((COLUMNS,), tl.float32)
    for number in range(tl.program_id(0), R, tl.num_programs(0)):
        at = tl.cast(number, tl.int64) * F
        gradient = tl.load(dy + at + col, mask=inside, other=0.0)
        gradient *= tl.load(kept + at + col, mask=inside, other=0).to(tl.float32) * scale
        of_bias += gradient
        tl.store(dproduct + at + col, gradient.to(dproduct.dtype.element_ty), mask=inside)
    tl.store(dbias + tl.program_id(0) * F + col, of_bias, mask=inside)


class AddBranch(torch.autograd.Function):
    """x + scale · kept · (product + bias). Shape: x, product, kept (..., F), bias (F,)."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, product: Tensor, bias: Tensor, kept: Tensor, scale: float
    ) -> Tensor:
        x, product, features = x.contiguous(), product.contiguous(), len(bias)
        rows = x.numel() // features
        y = torch.empty_like(x)
        if rows:
            columns = triton.next_power_of_2(features)
            _add_branch[(rows,)](x, product, bias, kept, y, features, scale, COLUMNS=columns)
        ctx.save_for_backward(kept)
        ctx.scale, ctx.dtype, ctx.features = scale, product.dtype, features
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (kept,) = ctx.saved_tensors
        gradient, features = gradients[0].contiguous(), ctx.features
        rows = gradient.numel() // features
        dproduct = torch.empty_like(gradient, dtype=ctx.dtype)
        programs = min(triton.cdiv(rows, _ROWS_EACH), _PROGRAMS)
        sums = gradient.new_zeros(programs, features)
        if rows:
            _add_branch_back[(programs,)](
                gradient, kept, dproduct, sums, rows, features, ctx.scale,
                COLUMNS=triton.next_power_of_2(features),
            )  # fmt: skip
        return gradients[0], dproduct, sums.sum(dim=0), None, None


# ---------------------------------------------------------------------- tokens that are shared


@triton.jit
def _mix(
    own, among, gate, passed, value, out, B, C,
    HEADS: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    """Token 0 of a sample: its own; token 1 + j: (1 − gate) · among + passed · value."""
    sample, token = tl.program_id(0).to(tl.int64), tl.program_id(1)
    head, f = tl.arange(0, HEADS), tl.arange(0, SIZE)
    at = head[:, None] * SIZE + f[None, :]
    if token == 0:
        result = tl.load(own + sample * HEADS * SIZE + at).to(tl.float32)
    else:
        cell = (head * B + sample) * C + token - 1
        result = tl.load(among + cell[:, None] * SIZE + f[None, :]).to(tl.float32)
        result *= 1.0 - tl.load(gate + cell)[:, None]
        values = tl.load(value + (head * B + sample)[:, None] * SIZE + f[None, :])
        result += tl.load(passed + cell)[:, None] * values
    row = (sample * (C + 1) + token) * HEADS * SIZE
    tl.store(out + row + at, result.to(out.dtype.element_ty))


@triton.jit
def _mix_back(
    among, gate, passed, value, dout, damong, dgate, dpassed, dvalue, B, C,
    HEADS: tl.constexpr, SIZE: tl.constexpr, TOKENS: tl.constexpr,
):  # fmt: skip
    """Some shared tokens of a sample, and what they add to the gradient of its value."""
    sample, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    head, f = tl.arange(0, HEADS), tl.arange(0, SIZE)
    at = head[:, None] * SIZE + f[None, :]
    of_sample = (head * B + sample)[:, None] * SIZE + f[None, :]
    values = tl.load(value + of_sample)
    total = tl.zeros((HEADS, SIZE), tl.float32)
    for token in range(part * TOKENS, tl.minimum(C, part * TOKENS + TOKENS)):
        row = (sample * (C + 1) + token + 1) * HEADS * SIZE
        gradient = tl.load(dout + row + at).to(tl.float32)
        cell = (head * B + sample) * C + token
        place = cell[:, None] * SIZE + f[None, :]
        mixed = tl.load(among + place).to(tl.float32)
        slope = gradient * (1.0 - tl.load(gate + cell)[:, None])
        tl.store(damong + place, slope.to(damong.dtype.element_ty))
        tl.store(dgate + cell, -tl.sum(gradient * mixed, axis=1))
        tl.store(dpassed + cell, tl.sum(gradient * values, axis=1))
        total += gradient * tl.load(passed + cell)[:, None]
    tl.store(dvalue + part.to(tl.int64) * HEADS * B * SIZE + of_sample, total)


def can_mix(among: Tensor) -> bool:
    """Whether heads and their sizes are what `Mix` takes: powers of 2 that fit together."""
    heads, size = among.shape[0], among.shape[-1]
    powers = heads == triton.next_power_of_2(heads) and size == triton.next_power_of_2(size)
    return powers and heads * size <= MOST_FEATURES


class Mix(torch.autograd.Function):
    """The sample's own token (B, F), then (1 − gate) · among + passed · value of every shared one.

    Shape: among (heads, B, c, f), gate and passed (heads, B, c), value (heads, B, f)
    -> (B, 1 + c, heads · f) in the format of `among`; heads and f are powers of 2.
    """

    @staticmethod
    def forward(
        ctx: Any, own: Tensor, among: Tensor, gate: Tensor, passed: Tensor, value: Tensor
    ) -> Tensor:
        tensors = [t.contiguous() for t in (own, among, gate, passed, value)]
        heads, samples, count, size = among.shape
        out = among.new_empty(samples, count + 1, heads * size)
        _mix[(samples, count + 1)](*tensors, out, samples, count, HEADS=heads, SIZE=size)
        ctx.save_for_backward(*tensors[1:])
        ctx.dtype = own.dtype
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        among, gate, passed, value = ctx.saved_tensors
        heads, samples, count, size = among.shape
        gradient = gradients[0].contiguous()
        parts = triton.cdiv(count, _TOKENS)
        damong, dgate, dpassed = (torch.empty_like(t) for t in (among, gate, passed))
        dvalue = value.new_empty(parts, *value.shape)
        _mix_back[(samples, parts)](
            among, gate, passed, value, gradient, damong, dgate, dpassed, dvalue,
            samples, count, HEADS=heads, SIZE=size, TOKENS=_TOKENS,
        )  # fmt: skip
        return gradient[:, 0].to(ctx.dtype), damong, dgate, dpassed, dvalue.sum(dim=0)
