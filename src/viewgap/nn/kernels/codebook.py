"""Quantisation by the shared codebook as Triton kernels (plain: `nn.codebook`)."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from viewgap.nn.kernels.launch import kernel


@triton.jit
def _most_similar(
    points, codes, row, n, k, norm, D: tl.constexpr, POINTS: tl.constexpr, CODES: tl.constexpr
):
    """Most similar code of every point; the similarities never leave the registers."""
    best = tl.full((POINTS, CODES), -float("inf"), tl.float32)
    where = tl.zeros((POINTS, CODES), tl.int32)
    for start in range(0, k, CODES):
        code = start + tl.arange(0, CODES)
        similarity = tl.zeros((POINTS, CODES), tl.float32)
        for d in tl.static_range(D):
            x = tl.load(points + row * D + d, mask=row < n, other=0.0) / norm
            c = tl.load(codes + code * D + d, mask=code < k, other=0.0)
            similarity += x[:, None] * c[None, :]
        better = (similarity > best) & (code < k)[None, :]
        best = tl.where(better, similarity, best)
        where = tl.where(better, code[None, :], where)
    top = tl.max(best, axis=1)
    # Among equals the first code wins.
    return tl.min(tl.where(best == top[:, None], where, k), axis=1).to(tl.int64)


@kernel()
def _nearest(
    points, codes, found, n, k, D: tl.constexpr, POINTS: tl.constexpr, CODES: tl.constexpr
):
    row = tl.program_id(0) * POINTS + tl.arange(0, POINTS)
    one = tl.full((POINTS,), 1.0, tl.float32)
    first = _most_similar(points, codes, row, n, k, one, D, POINTS, CODES)
    tl.store(found + row, first, mask=row < n)


@triton.jit
def _length(x, row, n, D: tl.constexpr):
    """Length of every point, as `F.normalize` takes it."""
    squares = tl.load(x + row * D, mask=row < n, other=0.0)
    squares *= squares
    for d in tl.static_range(1, D):
        value = tl.load(x + row * D + d, mask=row < n, other=0.0)
        squares += value * value
    return tl.maximum(tl.sqrt(squares), 1e-12)


@kernel()
def _quantise(
    x, codes, vectors, segments, found, distances, n, k,
    D: tl.constexpr, POINTS: tl.constexpr, CODES: tl.constexpr,
):  # fmt: skip
    """Points made unit, their nearest codes, and the squared distance to these."""
    row = tl.program_id(0) * POINTS + tl.arange(0, POINTS)
    norm = _length(x, row, n, D)
    first = _most_similar(x, codes, row, n, k, norm, D, POINTS, CODES)
    tl.store(found + row, first, mask=row < n)
    distance = tl.zeros((POINTS,), tl.float32)
    for d in tl.static_range(D):
        s = tl.load(x + row * D + d, mask=row < n, other=0.0) / norm
        c = tl.load(codes + first * D + d, mask=row < n, other=0.0)
        tl.store(segments + row * D + d, s, mask=row < n)
        tl.store(vectors + row * D + d, c, mask=row < n)
        distance += (s - c) * (s - c)
    tl.store(distances + row, distance / D, mask=row < n)


@kernel(sizes=("R",), unaligned=("w",))
def _mean_distance(distances, w, loss, factor, R, groups, ROWS: tl.constexpr):
    """Weighted mean of the rows' distances, and what one unit of weight contributes to it."""
    row = tl.arange(0, ROWS)
    weight = tl.load(w + row, mask=row < R, other=0.0)
    total = tl.sum(tl.load(distances + row, mask=row < R, other=0.0) * weight, axis=0)
    count = tl.sum(weight, axis=0) * groups
    one = tl.where(count > 0.0, 1.0 / tl.where(count > 0.0, count, 1.0), 1.0)
    tl.store(loss, total * one)
    tl.store(factor, one)


@kernel(unaligned=("dloss", "w"))
def _quantise_slopes(
    dvectors, dloss, factor, x, w, vectors, dx, n, groups, D: tl.constexpr, POINTS: tl.constexpr
):
    """Straight through to the unit points, plus the commitment, and through their length."""
    row = tl.program_id(0) * POINTS + tl.arange(0, POINTS)
    norm = _length(x, row, n, D)
    scale = tl.load(w + row // groups, mask=row < n, other=0.0) * (2.0 / D)
    scale *= tl.load(dloss) * tl.load(factor)
    along = tl.zeros((POINTS,), tl.float32)
    for d in tl.static_range(D):
        at = row * D + d
        s = tl.load(x + at, mask=row < n, other=0.0) / norm
        c = tl.load(vectors + at, mask=row < n, other=0.0)
        along += (tl.load(dvectors + at, mask=row < n, other=0.0) + scale * (s - c)) * s
    along = tl.where(norm > 1e-12, along, 0.0)
    for d in tl.static_range(D):
        at = row * D + d
        s = tl.load(x + at, mask=row < n, other=0.0) / norm
        c = tl.load(vectors + at, mask=row < n, other=0.0)
        slope = tl.load(dvectors + at, mask=row < n, other=0.0) + scale * (s - c)
        tl.store(dx + at, (slope - s * along) / norm, mask=row < n)


def nearest_codes(segments: Tensor, codes: Tensor) -> Tensor:
    """Shape: (N, d_c), (k, d_c) -> (N,)."""
    segments, codes = segments.contiguous(), codes.contiguous()
    n, width = segments.shape
    found = torch.empty(n, dtype=torch.long, device=segments.device)
    if n:
        grid = (triton.cdiv(n, 64),)
        _nearest[grid](segments, codes, found, n, len(codes), D=width, POINTS=64, CODES=16)
    return found


class Quantise(torch.autograd.Function):
    """Quantised vectors, unit segments, code numbers and the commitment loss of Eq. 3.

    Shape: x (R, g·d_c), codes (k, d_c) unit, weight (R,)
    -> (R, g·d_c), (R·g, d_c), (R, g), ().
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, codes: Tensor, weight: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        x, codes, weight = x.contiguous(), codes.contiguous(), weight.contiguous()
        rows, width = len(x), codes.shape[1]
        groups = x.shape[1] // width
        vectors, segments = torch.empty_like(x), x.new_empty(rows * groups, width)
        found = torch.empty(rows, groups, dtype=torch.long, device=x.device)
        distances, loss, factor = x.new_empty(rows, groups), x.new_empty(()), x.new_empty(())
        _quantise[(triton.cdiv(rows * groups, 64),)](
            x, codes, vectors, segments, found, distances, rows * groups, len(codes),
            D=width, POINTS=64, CODES=16, num_warps=2,
        )  # fmt: skip
        _mean_distance[(1,)](
            distances.sum(dim=1), weight, loss, factor, rows, groups,
            ROWS=triton.next_power_of_2(rows),
        )  # fmt: skip
        ctx.save_for_backward(x, weight, vectors, factor)
        ctx.width = width
        ctx.mark_non_differentiable(segments, found)
        return vectors, segments, found, loss

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, vectors, factor = ctx.saved_tensors
        rows, groups = len(x), x.shape[1] // ctx.width
        dx = torch.empty_like(x)
        _quantise_slopes[(triton.cdiv(rows * groups, 256),)](
            gradients[0].contiguous(), gradients[3].contiguous(), factor, x, weight, vectors, dx,
            rows * groups, groups, D=ctx.width, POINTS=256,
        )  # fmt: skip
        return dx, None, None
