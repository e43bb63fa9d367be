"""Fused GPU kernels of dropout in transformer layers in Triton (plain: attention.py).

Not imported unless a CUDA tensor needs it; where Triton is missing, the plain code runs. A mask is
never stored: a kernel makes its random numbers from a seed, and makes them again for the gradient.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

# ---------------------------------------------------------------------- hidden layers


@triton.jit
def _kept(word, share):
    """Whether a random word keeps its number, with probability `share`."""
    return ((word >> 8) & 0xFFFFFF).to(tl.float32) < share * 16777216.0


@triton.jit
def _drop_some(x, y, at, N, word, share):
    value = tl.load(x + at, mask=at < N, other=0.0).to(tl.float32)
    value = tl.where(_kept(word, share), value / share, 0.0)
    tl.store(y + at, value.to(y.dtype.element_ty), mask=at < N)


@triton.jit
def _drop(x, seed, y, N, share, BLOCK: tl.constexpr):
    """Four blocks of numbers: one draw gives four random words."""
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    one, two, three, four = tl.randint4x(tl.load(seed), place)
    at = tl.program_id(0).to(tl.int64) * (4 * BLOCK) + tl.arange(0, BLOCK)
    _drop_some(x, y, at, N, one, share)
    _drop_some(x, y, at + BLOCK, N, two, share)
    _drop_some(x, y, at + 2 * BLOCK, N, three, share)
    _drop_some(x, y, at + 3 * BLOCK, N, four, share)


def drop(x: Tensor, seed: Tensor, share: float) -> Tensor:
    """x / share with probability `share`, else 0; `seed` (1,) whole. No gradient."""
    x = x.contiguous()
    y = torch.empty_like(x)
    if x.numel():
        _drop[(triton.cdiv(x.numel(), 1024),)](x, seed, y, x.numel(), share, BLOCK=256)
    return y


@triton.jit
def _hidden_back(
    dy, y, dx, dbias, R, F, scale, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):  # fmt: skip
    """Every so many rows of some columns: scale · gradient where y is positive, and its sum."""
    col = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((COLUMNS,), tl.float32)
    for start in range(tl.program_id(0) * ROWS, R, tl.num_programs(0) * ROWS):
        row = start + tl.arange(0, ROWS)
        there = (row < R)[:, None] & (col < F)[None, :]
        at = row.to(tl.int64)[:, None] * F + col[None, :]
        positive = tl.load(y + at, mask=there, other=0.0) > 0
        slope = tl.load(dy + at, mask=there, other=0.0).to(tl.float32) * scale
        slope = tl.where(positive, slope, 0.0)
        total += tl.sum(slope, axis=0)
        tl.store(dx + at, slope.to(dx.dtype.element_ty), mask=there)
    tl.store(dbias + tl.program_id(0) * F + col, total, mask=col < F)


def hidden_back(gradient: Tensor, y: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """Gradients of x and b, given y = dropout(relu(x + b)) and its own: (R, F) and (F,)."""
    gradient = gradient.contiguous()
    rows, features = y.shape
    programs = min(triton.cdiv(rows, 64), 128)
    dx = torch.empty_like(y)
    sums = torch.zeros(programs, features, dtype=torch.float32, device=y.device)
    if rows:
        _hidden_back[(programs, triton.cdiv(features, 128))](
            gradient, y, dx, sums, rows, features, scale, ROWS=16, COLUMNS=128
        )
    return dx, sums.sum(dim=0)


# ---------------------------------------------------------------------- attention weights


@triton.jit
def _store_kept(w, out, row, col, C, WIDTH, word, share):
    value = tl.load(w + col, mask=col < C, other=0.0)
    kept = tl.where(_kept(word, share), value[None, :], 0.0)
    at = row[:, None] * WIDTH + col[None, :]
    tl.store(
        out + at, kept.to(out.dtype.element_ty), mask=(row >= 0)[:, None] & (col < WIDTH)[None, :]
    )


@triton.jit
def _sum_kept(dout, row, col, WIDTH, word, share):
    there = (row >= 0)[:, None] & (col < WIDTH)[None, :]
    slope = tl.load(dout + row[:, None] * WIDTH + col[None, :], mask=there, other=0.0)
    return tl.sum(tl.where(_kept(word, share), slope.to(tl.float32), 0.0), axis=0)


@triton.jit
def _drop_weights(
    weights, seed, out, B, C, WIDTH, share, SAMPLES: tl.constexpr, QUARTER: tl.constexpr
):
    """One row of weights, as some samples keep it."""
    line = tl.program_id(0).to(tl.int64)
    sample = tl.program_id(1) * SAMPLES + tl.arange(0, SAMPLES)
    row = tl.where(sample < B, ((line // C) * B + sample) * C + line % C, -1)
    q = tl.arange(0, QUARTER)
    place = (row[:, None] * QUARTER + q[None, :]).to(tl.int32)
    one, two, three, four = tl.randint4x(tl.load(seed), place)
    w = weights + line * C
    _store_kept(w, out, row, q, C, WIDTH, one, share)
    _store_kept(w, out, row, q + QUARTER, C, WIDTH, two, share)
    _store_kept(w, out, row, q + 2 * QUARTER, C, WIDTH, three, share)
    _store_kept(w, out, row, q + 3 * QUARTER, C, WIDTH, four, share)


@triton.jit
def _drop_weights_back(
    dout, seed, dweights, B, C, WIDTH, share, SAMPLES: tl.constexpr, QUARTER: tl.constexpr
):
    """One row of weights: the sum over the samples that keep them."""
    line = tl.program_id(0).to(tl.int64)
    q = tl.arange(0, QUARTER)
    first = tl.zeros((QUARTER,), tl.float32)
    second = tl.zeros((QUARTER,), tl.float32)
    third = tl.zeros((QUARTER,), tl.float32)
    fourth = tl.zeros((QUARTER,), tl.float32)
    for start in range(0, B, SAMPLES):
        sample = start + tl.arange(0, SAMPLES)
        row = tl.where(sample < B, ((line // C) * B + sample) * C + line % C, -1)
        place = (row[:, None] * QUARTER + q[None, :]).to(tl.int32)
        one, two, three, four = tl.randint4x(tl.load(seed), place)
        first += _sum_kept(dout, row, q, WIDTH, one, share)
        second += _sum_kept(dout, row, q + QUARTER, WIDTH, two, share)
        third += _sum_kept(dout, row, q + 2 * QUARTER, WIDTH, three, share)
        fourth += _sum_kept(dout, row, q + 3 * QUARTER, WIDTH, four, share)
    at = dweights + line * C + q
    tl.store(at, first, mask=q < C)
    tl.store(at + QUARTER, second, mask=q + QUARTER < C)
    tl.store(at + 2 * QUARTER, third, mask=q + 2 * QUARTER < C)
    tl.store(at + 3 * QUARTER, fourth, mask=q + 3 * QUARTER < C)


class DropWeights(torch.autograd.Function):
    """Attention weights, every sample keeping others of them; rows end in zeros.

    Shape: weights (heads, c, c), seed (1,) -> (heads, B, c, c filled up to a multiple of 8): the
    matrix units want rows that begin at multiples of 16 bytes.
    """

    @staticmethod
    def forward(ctx: Any, weights: Tensor, seed: Tensor, samples: int, share: float) -> Tensor:
        weights = weights.contiguous()
        heads, count, _ = weights.shape
        width = -(-count // 8) * 8
        out = weights.new_empty(heads, samples, count, width)
        quarter = triton.next_power_of_2(width) // 4
        _drop_weights[(heads * count, triton.cdiv(samples, 16))](
            weights, seed, out, samples, count, width, share, SAMPLES=16, QUARTER=quarter
        )
        ctx.save_for_backward(seed)
        ctx.share, ctx.quarter = share, quarter
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (seed,) = ctx.saved_tensors
        gradient = gradients[0].contiguous()
        heads, samples, count, width = gradient.shape
        dweights = gradient.new_empty(heads, count, count)
        _drop_weights_back[(heads * count,)](
            gradient, seed, dweights, samples, count, width, ctx.share,
            SAMPLES=16, QUARTER=ctx.quarter,
        )  # fmt: skip
        return dweights, None, None, None
