"""Decision fusion by label correlation (Eq. 4-7): trust a view as far as it keeps co-occurrence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from viewgap.nn.kernels import kernels_for
from viewgap.nn.reduce import LOCAL, Reducer

LABEL_EPS = 1e-10
_PREDICTION_EPS = 1e-9
_ROW_EPS = 1e-9
_ABSENT = -1e9
_MANY_LABELS = 500


def correlation(gram: Tensor, eps: float = _PREDICTION_EPS, diagonal: bool = False) -> Tensor:
    """Ŝ of Eq. 4-6 from co-occurrences AᵀA: conditional, symmetrised, rows summing to one.

    The diagonal, P(i|i) = 1, is dropped first: it says nothing and would dominate the norm. The
    paper does not say so; `diagonal` keeps it. Shape: (..., c, c) -> (..., c, c).
    """
    own = torch.diagonal(gram, dim1=-2, dim2=-1).unsqueeze(-1)
    conditional = gram / (own + eps)
    if not diagonal:
        conditional = conditional - torch.diag_embed(torch.diagonal(conditional, dim1=-2, dim2=-1))
    symmetric = (conditional + conditional.transpose(-1, -2)) / 2
    return symmetric / (symmetric.sum(dim=-1, keepdim=True) + _ROW_EPS)


def label_correlation(positives: Tensor, diagonal: bool = False) -> Tensor:
    """The target Ŝ from the observed positive labels (n, c) of the training rows (Eq. 4)."""
    return correlation(positives.T @ positives, LABEL_EPS, diagonal)


def view_quality(
    predictions: Tensor,
    present: Tensor,
    target: Tensor,
    reducer: Reducer = LOCAL,
    diagonal: bool = False,
) -> Tensor:
    """q_v = −‖Ŝ_v − Ŝ‖_F (Eq. 6), Ŝ_v from P^vᵀP^v (Eq. 5); −1e9 for a view that no sample has.

    Shape: predictions (m, B, c), zero where a view is missing; present (m,) bool; target (c, c)
    -> (m,).
    """
    return _as_quality(correlation_gaps(predictions, target, reducer, diagonal), present)


def _as_quality(gaps: Tensor, present: Tensor) -> Tensor:
    return torch.where(present, -gaps, gaps.new_full((), _ABSENT))


def correlation_gaps(
    predictions: Tensor, target: Tensor, reducer: Reducer = LOCAL, diagonal: bool = False
) -> Tensor:
    """‖Ŝ_v − Ŝ‖_F of every view, (m,)."""
    if reducer is not LOCAL:  # the sum over processes has a gradient of its own
        gram = reducer.sum(predictions.transpose(1, 2) @ predictions)
        found = correlation(gram, diagonal=diagonal)
        apart: Tensor = torch.linalg.matrix_norm(found - target)
        return apart
    gaps: Tensor
    if len(target) > _MANY_LABELS:
        # One (c, c) matrix at a time: those of all views would be the largest thing in memory.
        parts = [_CorrelationGaps.apply(p, target, diagonal) for p in predictions.unsqueeze(1)]  # type: ignore[no-untyped-call]
        gaps = torch.cat(parts)
        return gaps
    kernels = None if diagonal else kernels_for(predictions, "fusion")
    if kernels is not None:
        gaps = kernels.CorrelationGap.apply(predictions, target, _PREDICTION_EPS, _ROW_EPS)
    else:
        gaps = _CorrelationGaps.apply(predictions, target, diagonal)  # type: ignore[no-untyped-call]
    return gaps


class _CorrelationGaps(torch.autograd.Function):
    """`correlation` and its distance to the target, with the gradient written out.

    Derived by autograd, a dozen (c, c) matrices per view would be made and most of them kept; here
    nothing is kept but the predictions.
    """

    @staticmethod
    def forward(ctx: Any, predictions: Tensor, target: Tensor, diagonal: bool) -> Tensor:
        _, _, apart, _ = _differences(predictions, target, diagonal)
        gaps: Tensor = torch.linalg.matrix_norm(apart)
        ctx.diagonal = diagonal
        ctx.save_for_backward(predictions, target, gaps)
        return gaps

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        predictions, target, gaps = ctx.saved_tensors
        gram, own, apart, sums = _differences(predictions, target, ctx.diagonal)
        # d‖D‖/dS_ij = (D_ij − Σ_k D_ik N_ik) / (‖D‖ Σ_k S_ik), with N = D + Ŝ the rows of Ŝ_v.
        inner = ((apart + target) * apart).sum(dim=-1, keepdim=True)
        slopes = apart.sub_(inner).div_(sums)
        slopes = slopes + slopes.transpose(-1, -2)
        if not ctx.diagonal:
            torch.diagonal(slopes, dim1=-2, dim2=-1).zero_()
        through_own = -own.square() * (gram * slopes).sum(dim=-1)
        slopes.mul_(_pairwise(own))
        torch.diagonal(slopes, dim1=-2, dim2=-1).add_(through_own)
        scale = torch.where(gaps > 0, gradients[0] / gaps, torch.zeros_like(gaps))
        return (predictions @ slopes) * scale[:, None, None], None, None


def _differences(
    predictions: Tensor, target: Tensor, diagonal: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """PᵀP, 1 / its diagonal, Ŝ_v − Ŝ, and what the rows of the latter were divided by."""
    gram = predictions.transpose(-1, -2) @ predictions
    own = 1.0 / (torch.diagonal(gram, dim1=-2, dim2=-1) + _PREDICTION_EPS)
    symmetric = gram * _pairwise(own)
    if not diagonal:
        torch.diagonal(symmetric, dim1=-2, dim2=-1).zero_()
    sums = symmetric.sum(dim=-1, keepdim=True) + _ROW_EPS
    return gram, own, symmetric.div_(sums).sub_(target), sums


def _pairwise(own: Tensor) -> Tensor:
    """(a_i + a_j) / 2."""
    return (own.unsqueeze(-1) + own.unsqueeze(-2)).div_(2.0)


def gram_quality(
    grams: Sequence[Tensor], present: Tensor, target: Tensor, diagonal: bool = False
) -> Tensor:
    """q_v from P^vᵀP^v that were added up over many batches. Shape: m times (c, c) -> (m,)."""
    found = (correlation(gram, diagonal=diagonal) for gram in grams)
    gaps = torch.stack([torch.linalg.matrix_norm(own - target) for own in found])
    return _as_quality(gaps, present)


def fusion_weights(quality: Tensor, observed: Tensor, temperature: float) -> Tensor:
    """Softmax of q_v/τ over the views a sample has (Eq. 6); zero elsewhere.

    Shape: quality (m,), observed (B, m) bool -> (B, m); a row without views gets zeros.
    """
    logits = (quality / temperature).expand(observed.shape).masked_fill(~observed, -torch.inf)
    weights = torch.softmax(logits, dim=-1)
    return torch.where(observed, weights, torch.zeros_like(weights))
