"""Fusion and the losses on predictions as Triton kernels (plain: `nn.fusion`, `nn.losses`).

The plain form takes some 170 small operations, one after the other; the time of a step would be
theirs.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from viewgap.nn.kernels.launch import kernel

MOST_LABELS = 1024


# ---------------------------------------------------------------------- distance of correlations


@kernel()
def _gap_rows(gram, target, squares, sums, dots, c, eps, row_eps, LABELS: tl.constexpr):
    """Row i of Ŝ_v: its squared distance to Ŝ, its sum, and what the gradient needs of it."""
    i, v = tl.program_id(0), tl.program_id(1)
    gram += v.to(tl.int64) * c * c
    j = tl.arange(0, LABELS)
    inside = j < c
    g = tl.load(gram + i * c + j, mask=inside, other=0.0)
    own = 1.0 / (tl.load(gram + j * c + j, mask=inside, other=1.0) + eps)
    mine = 1.0 / (tl.load(gram + i * c + i) + eps)
    s = tl.where(inside & (j != i), 0.5 * g * (mine + own), 0.0)
    total = tl.sum(s, axis=0) + row_eps
    n = s / total
    gap = tl.where(inside, n - tl.load(target + i * c + j, mask=inside, other=0.0), 0.0)
    tl.store(squares + v * c + i, tl.sum(gap * gap, axis=0))
    tl.store(sums + v * c + i, total)
    tl.store(dots + v * c + i, tl.sum(gap * n, axis=0))


@kernel(unaligned=("dgaps",))
def _gap_slopes(gram, target, gaps, sums, dots, dgaps, out, c, eps, LABELS: tl.constexpr):
    """Row i of dG + dGᵀ, G = PᵀP."""
    i, v = tl.program_id(0), tl.program_id(1)
    gram += v.to(tl.int64) * c * c
    j = tl.arange(0, LABELS)
    other = (j < c) & (j != i)
    gap = tl.load(gaps + v)
    scale = tl.where(gap > 0.0, tl.load(dgaps + v) / tl.where(gap > 0.0, gap, 1.0), 0.0)
    g = tl.load(gram + i * c + j, mask=j < c, other=0.0)
    own = 1.0 / (tl.load(gram + j * c + j, mask=j < c, other=1.0) + eps)
    mine = 1.0 / (tl.load(gram + i * c + i) + eps)
    s = tl.where(other, 0.5 * g * (mine + own), 0.0)
    my_sum, sum_j = tl.load(sums + v * c + i), tl.load(sums + v * c + j, mask=j < c, other=1.0)
    my_dot, dot_j = tl.load(dots + v * c + i), tl.load(dots + v * c + j, mask=j < c, other=0.0)
    row = s / my_sum - tl.load(target + i * c + j, mask=j < c, other=0.0)
    column = s / sum_j - tl.load(target + j * c + i, mask=j < c, other=0.0)
    both = scale * ((row - my_dot) / my_sum + (column - dot_j) / sum_j)
    both = tl.where(other, both, 0.0)
    diagonal = -mine * mine * tl.sum(g * both, axis=0)
    result = tl.where(j == i, diagonal, 0.5 * (mine + own) * both)
    tl.store(out + v.to(tl.int64) * c * c + i * c + j, result, mask=j < c)


class CorrelationGap(torch.autograd.Function):
    """‖Ŝ_v − Ŝ‖_F of every view. Shape: predictions (m, B, c), target (c, c) -> (m,)."""

    @staticmethod
    def forward(
        ctx: Any, predictions: Tensor, target: Tensor, eps: float, row_eps: float
    ) -> Tensor:
        views, _, c = predictions.shape
        gram = predictions.transpose(1, 2) @ predictions
        facts = predictions.new_empty(3, views, c)
        labels = triton.next_power_of_2(c)
        _gap_rows[(c, views)](
            gram, target, facts[0], facts[1], facts[2], c, eps, row_eps, LABELS=labels
        )
        gaps = facts[0].sum(dim=1).sqrt()
        ctx.save_for_backward(predictions, target, gram, facts, gaps)
        ctx.eps = eps
        return gaps

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        predictions, target, gram, facts, gaps = ctx.saved_tensors
        views, _, c = predictions.shape
        slopes = torch.empty_like(gram)
        _gap_slopes[(c, views)](
            gram, target, gaps, facts[1], facts[2], gradients[0].contiguous(), slopes, c, ctx.eps,
            LABELS=triton.next_power_of_2(c),
        )  # fmt: skip
        return predictions @ slopes, None, None, None


# ---------------------------------------------------------------------- fused prediction and losses


@triton.jit
def _cell(p, label):
    """|log(p or 1 − p, + 1e-5)|."""
    return tl.abs(tl.log(tl.where(label > 0.5, p, 1.0 - p) + 1e-5))


@triton.jit
def _cell_slope(p, label):
    q = tl.where(label > 0.5, p, 1.0 - p) + 1e-5
    towards = tl.where(label > 0.5, 1.0, -1.0)
    return towards * tl.where(q < 1.0, -1.0, tl.where(q > 1.0, 1.0, 0.0)) / q


@triton.jit
def _fused_row(predictions, quality, observed, b, B, c, tau, M: tl.constexpr, LABELS: tl.constexpr):
    """Σ_v w_v p_v of one sample, and the largest logit and the sum of its softmax."""
    j = tl.arange(0, LABELS)
    top = -float("inf")
    for v in tl.static_range(M):
        seen = tl.load(observed + b * M + v)
        top = tl.maximum(top, tl.where(seen > 0.0, tl.load(quality + v) / tau, -float("inf")))
    top = tl.where(top == -float("inf"), 0.0, top)
    total = 0.0
    fused = tl.zeros((LABELS,), tl.float32)
    for v in tl.static_range(M):
        seen = tl.load(observed + b * M + v)
        w = tl.where(seen > 0.0, tl.exp(tl.load(quality + v) / tau - top), 0.0)
        total += w
        at = (v * B + b).to(tl.int64) * c + j
        fused += w * tl.load(predictions + at, mask=j < c, other=0.0)
    total = tl.where(total > 0.0, total, 1.0)
    return fused / total, top, total


@kernel(sizes=("B",))
def _loss_rows(
    predictions, quality, observed, labels, mask, out, B, c, tau,
    M: tl.constexpr, LABELS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Sums of one sample: BCE of the fused prediction, its labels; per view three sums more."""
    b = tl.program_id(0)
    j = tl.arange(0, LABELS)
    inside = j < c
    raw, _, _ = _fused_row(predictions, quality, observed, b, B, c, tau, M, LABELS)
    fused = tl.minimum(tl.maximum(raw, 0.0), 1.0)
    y = tl.load(labels + b * c + j, mask=inside, other=0.0)
    known = tl.load(mask + b * c + j, mask=inside, other=0.0)
    count = tl.sum(known, axis=0)
    tl.store(out + b * WIDTH, tl.sum(_cell(fused, y) * known, axis=0))
    tl.store(out + b * WIDTH + 1, count)
    for v in tl.static_range(M):
        seen = tl.load(observed + b * M + v)
        at = (v * B + b).to(tl.int64) * c + j
        p = tl.load(predictions + at, mask=inside, other=0.5)
        supervised = tl.sum(_cell(p, y) * known, axis=0)
        yes, no = tl.maximum(tl.log(p), -100.0), tl.maximum(tl.log(1.0 - p), -100.0)
        taught = -tl.sum(tl.where(inside, fused * yes + (1.0 - fused) * no, 0.0), axis=0)
        place = out + b * WIDTH + 2 + 4 * v
        tl.store(place, tl.where(seen > 0.0, supervised, 0.0))
        tl.store(place + 1, tl.where(seen > 0.0, count, 0.0))
        tl.store(place + 2, tl.where(seen > 0.0, taught, 0.0))
        tl.store(place + 3, seen)


@kernel(sizes=("B",))
def _add_up(
    rows, losses, factors, B, share, teacher,
    M: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Both losses, and what each sample's sums are multiplied with in them."""
    b = tl.arange(0, ROWS)
    there = b < B
    total = tl.sum(tl.load(rows + b * WIDTH, mask=there, other=0.0), axis=0)
    count = tl.sum(tl.load(rows + b * WIDTH + 1, mask=there, other=0.0), axis=0)
    one = tl.where(count > 0.0, 1.0 / tl.where(count > 0.0, count, 1.0), 1.0)
    tl.store(losses, total * one)
    tl.store(factors, one)
    distilled = 0.0
    for v in tl.static_range(M):
        place = rows + b * WIDTH + 2 + 4 * v
        supervised = tl.sum(tl.load(place, mask=there, other=0.0), axis=0)
        known = tl.sum(tl.load(place + 1, mask=there, other=0.0), axis=0)
        taught = tl.sum(tl.load(place + 2, mask=there, other=0.0), axis=0)
        seen = tl.sum(tl.load(place + 3, mask=there, other=0.0), axis=0)
        by_labels = (1.0 - share) / tl.where(known > 0.0, known + 1e-9, 1.0)
        by_teacher = teacher * share / tl.where(seen > 0.0, seen + 1e-9, 1.0)
        tl.store(factors + 1 + 2 * v, by_labels)
        tl.store(factors + 2 + 2 * v, by_teacher)
        distilled += by_labels * supervised + by_teacher * taught
    tl.store(losses + 1, distilled)


@kernel(sizes=("B",), unaligned=("dlosses",))
def _loss_slopes(
    predictions, quality, observed, labels, mask, factors, dlosses, out, dquality, B, c, tau,
    M: tl.constexpr, LABELS: tl.constexpr,
):  # fmt: skip
    """Gradient of one sample's part of both losses; the teacher is not taught."""
    b = tl.program_id(0)
    j = tl.arange(0, LABELS)
    inside = j < c
    raw, top, total = _fused_row(predictions, quality, observed, b, B, c, tau, M, LABELS)
    fused = tl.minimum(tl.maximum(raw, 0.0), 1.0)
    y = tl.load(labels + b * c + j, mask=inside, other=0.0)
    known = tl.load(mask + b * c + j, mask=inside, other=0.0)
    slope = tl.load(dlosses) * tl.load(factors) * known * _cell_slope(fused, y)
    slope = tl.where((raw >= 0.0) & (raw <= 1.0), slope, 0.0)
    distilled = tl.load(dlosses + 1)
    mean = tl.sum(slope * raw, axis=0)  # Σ_v w_v Σ slope·p_v
    for v in tl.static_range(M):
        seen = tl.load(observed + b * M + v)
        w = tl.where(seen > 0.0, tl.exp(tl.load(quality + v) / tau - top), 0.0) / total
        at = (v * B + b).to(tl.int64) * c + j
        p = tl.load(predictions + at, mask=inside, other=0.5)
        by_labels = tl.load(factors + 1 + 2 * v) * known * _cell_slope(p, y)
        by_teacher = tl.load(factors + 2 + 2 * v) * (p - fused) / tl.maximum((1.0 - p) * p, 1e-12)
        own = tl.where(seen > 0.0, distilled * (by_labels + by_teacher), 0.0)
        tl.store(out + at, w * slope + own, mask=inside)
        reached = tl.sum(tl.where(inside, slope * p, 0.0), axis=0)
        tl.store(dquality + b * M + v, w * (reached - mean) / tau)


class PredictionLosses(torch.autograd.Function):
    """L_c and L_dis of the views' predictions and qualities; see `SCSDNetwork.prediction_losses`.

    Shape: predictions (m, B, c), quality (m,), observed (B, m), labels and mask (B, c) -> (2,).
    """

    @staticmethod
    def forward(
        ctx: Any,
        predictions: Tensor,
        quality: Tensor,
        observed: Tensor,
        labels: Tensor,
        mask: Tensor,
        tau: float,
        share: float,
        teacher: bool,
    ) -> Tensor:
        views, samples, c = predictions.shape
        seen = observed.to(predictions.dtype).contiguous()
        tensors = (predictions.contiguous(), quality.contiguous(), seen, labels, mask)
        rows, width = predictions.new_empty(samples, 2 + 4 * views), 2 + 4 * views
        losses, factors = predictions.new_empty(2), predictions.new_empty(1 + 2 * views)
        wide = triton.next_power_of_2(c)
        _loss_rows[(samples,)](*tensors, rows, samples, c, tau, M=views, LABELS=wide, WIDTH=width)
        _add_up[(1,)](
            rows, losses, factors, samples, share, float(teacher),
            M=views, WIDTH=width, ROWS=triton.next_power_of_2(samples),
        )  # fmt: skip
        ctx.save_for_backward(*tensors, factors)
        ctx.tau = tau
        return losses

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        *tensors, factors = ctx.saved_tensors
        views, samples, c = tensors[0].shape
        slopes = torch.empty_like(tensors[0])
        dquality = tensors[0].new_empty(samples, views)
        _loss_slopes[(samples,)](
            *tensors, factors, gradients[0].contiguous(), slopes, dquality, samples, c, ctx.tau,
            M=views, LABELS=triton.next_power_of_2(c),
        )  # fmt: skip
        return slopes, dquality.sum(dim=0), None, None, None, None, None, None
