"""Decision fusion by label correlation (Eq. 4-7): trust a view as far as it keeps co-occurrence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from viewgap.nn.kernels import kernels_for
from viewgap.nn.reduce import LOCAL, Reducer

_LABEL_EPS = 1e-10
_PREDICTION_EPS = 1e-9
_ROW_EPS = 1e-9
_ABSENT = -1e9
_MANY_LABELS = 500


def correlation(gram: Tensor, eps: float = _PREDICTION_EPS) -> Tensor:
    """Ŝ of Eq. 4-6 from co-occurrences AᵀA: conditional, symmetrised, rows summing to one.

    The diagonal, P(i|i) = 1, is dropped first: it says nothing and would dominate the norm.
    Shape: (..., c, c) -> (..., c, c).
    """
    own = torch.diagonal(gram, dim1=-2, dim2=-1).unsqueeze(-1)
    conditional = gram / (own + eps)
    conditional = conditional - torch.diag_embed(torch.diagonal(conditional, dim1=-2, dim2=-1))
    symmetric = (conditional + conditional.transpose(-1, -2)) / 2
    return symmetric / (symmetric.sum(dim=-1, keepdim=True) + _ROW_EPS)


def label_correlation(positives: Tensor) -> Tensor:
    """The target Ŝ from the observed positive labels (n, c) of the training rows (Eq. 4)."""
    return correlation(positives.T @ positives, _LABEL_EPS)


def view_quality(
    predictions: Tensor, present: Tensor, target: Tensor, reducer: Reducer = LOCAL
) -> Tensor:
    """q_v = −‖Ŝ_v − Ŝ‖_F (Eq. 6), Ŝ_v from P^vᵀP^v (Eq. 5); −1e9 for a view that no sample has.

    Shape: predictions (m, B, c), zero where a view is missing; present (m,) bool; target (c, c)
    -> (m,).
    """
    return _as_quality(correlation_gaps(predictions, target, reducer), present)


def _as_quality(gaps: Tensor, present: Tensor) -> Tensor:
    return torch.where(present, -gaps, gaps.new_full((), _ABSENT))


def correlation_gaps(predictions: Tensor, target: Tensor, reducer: Reducer = LOCAL) -> Tensor:
    """‖Ŝ_v − Ŝ‖_F of every view, (m,)."""
    if reducer is not LOCAL:  # the sum over processes has a gradient of its own
        gram = reducer.sum(predictions.transpose(1, 2) @ predictions)
        apart: Tensor = torch.linalg.matrix_norm(correlation(gram) - target)
        return apart
    gaps: Tensor
    if len(target) > _MANY_LABELS:
        # One (c, c) matrix at a time: those of all views would be the largest thing in memory.
        parts = [_CorrelationGaps.apply(p, target) for p in predictions.unsqueeze(1)]  # type: ignore[no-untyped-call]
        gaps = torch.cat(parts)
        return gaps
    kernels = kernels_for(predictions, "fusion")
    if kernels is not None:
        gaps = kernels.CorrelationGap.apply(predictions, target, _PREDICTION_EPS, _ROW_EPS)
    else:
        gaps = _CorrelationGaps.apply(predictions, target)  # type: ignore[no-untyped-call]
    return gaps


class _CorrelationGaps(torch.autograd.Function):
    """`correlation` and its distance to the target, with the gradient written out.

    Derived by autograd, a dozen (c, c) matrices per view would be made and most of them kept; here
    nothing is kept but the predictions.
    """

    @staticmethod
    def forward(ctx: Any, predictions: Tensor, target: Tensor) -> Tensor:
        _, _, apart, _ = _differences(predictions, target)
        gaps: Tensor = torch.linalg.matrix_norm(apart)
        ctx.save_for_backward(predictions, target, gaps)
        return gaps

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        predictions, target, gaps = ctx.saved_tensors
        gram, own, apart, sums = _differences(predictions, target)
        # d‖D‖/dS_ij = (D_ij − Σ_k D_ik N_ik) / (‖D‖ Σ_k S_ik), with N = D + Ŝ the rows of Ŝ_v.
        inner = ((apart + target) * apart).sum(dim=-1, keepdim=True)
        slopes = apart.sub_(inner).div_(sums)
        slopes = slopes + slopes.transpose(-1, -2)
        torch.diagonal(slopes, dim1=-2, dim2=-1).zero_()
        diagonal = -own.square() * (gram * slopes).sum(dim=-1)
        slopes.mul_(_pairwise(own))
        torch.diagonal(slopes, dim1=-2, dim2=-1).copy_(diagonal)
        scale = torch.where(gaps > 0, gradients[0] / gaps, torch.zeros_like(gaps))
        return (predictions @ slopes) * scale[:, None, None], None


def _differences(predictions: Tensor, target: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """PᵀP, 1 / its diagonal, Ŝ_v − Ŝ, and what the rows of the latter were divided by."""
    gram = predictions.transpose(-1, -2) @ predictions
    own = 1.0 / (torch.diagonal(gram, dim1=-2, dim2=-1) + _PREDICTION_EPS)
    symmetric = gram * _pairwise(own)
    torch.diagonal(symmetric, dim1=-2, dim2=-1).zero_()
    sums = symmetric.sum(dim=-1, keepdim=True) + _ROW_EPS
    return gram, own, symmetric.div_(sums).sub_(target), sums


def _pairwise(own: Tensor) -> Tensor:
    """(a_i + a_j) / 2."""
    return (own.unsqueeze(-1) + own.unsqueeze(-2)).div_(2.0)


def gram_quality(grams: Sequence[Tensor], present: Tensor, target: Tensor) -> Tensor:
    """q_v from P^vᵀP^v that were added up over many batches. Shape: m times (c, c) -> (m,)."""
    gaps = torch.stack([torch.linalg.matrix_norm(correlation(gram) - target) for gram in grams])
    return _as_quality(gaps, present)


def fusion_weights(quality: Tensor, observed: Tensor, temperature: float) -> Tensor:
    """Softmax of q_v/τ over the views a sample has (Eq. 6); zero elsewhere.

    Shape: quality (m,), observed (B, m) bool -> (B, m); a row without views gets zeros.
    """
    logits = (quality / temperature).expand(observed.shape).masked_fill(~observed, -torch.inf)
    weights = torch.softmax(logits, dim=-1)
    return torch.where(observed, weights, torch.zeros_like(weights))
