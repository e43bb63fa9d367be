"""Decision fusion by label correlation (Eq. 4-7): trust a view as far as it keeps co-occurrence."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from viewgap.nn.fused import kernels_for
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
    """q_v = −‖Ŝ_v − Ŝ‖_F (Eq. 6), Ŝ_v from P^vᵀP^v (Eq. 5); −1e9 for a view nobody has.

    Shape: predictions (m, B, c), zero where a view is missing; present (m,) bool; target (c, c)
    -> (m,).
    """
    few = target.shape[0] <= _MANY_LABELS
    kernels = kernels_for(predictions, "fusion_kernels") if few and reducer is LOCAL else None
    gaps: Tensor
    if kernels is not None:
        gaps = kernels.CorrelationGap.apply(predictions, target, _PREDICTION_EPS, _ROW_EPS)
    elif few or not torch.is_grad_enabled():
        gaps = _gap(predictions, target, reducer)
    else:
        # One (c, c) matrix at a time, in both directions: kept for the gradient, the matrices of
        # all views would be by far the largest thing in memory.
        gaps = torch.stack(
            [
                checkpoint(_gap, p, target, reducer, use_reentrant=False, preserve_rng_state=False)
                for p in predictions
            ]
        )
    return torch.where(present, -gaps, gaps.new_full((), _ABSENT))


def _gap(predictions: Tensor, target: Tensor, reducer: Reducer) -> Tensor:
    gram = reducer.sum(predictions.transpose(-1, -2) @ predictions)
    gap: Tensor = torch.linalg.matrix_norm(correlation(gram) - target)
    return gap


def gram_quality(grams: Sequence[Tensor], present: Tensor, target: Tensor) -> Tensor:
    """q_v from P^vᵀP^v that were added up over many batches. Shape: m times (c, c) -> (m,)."""
    gaps = torch.stack([torch.linalg.matrix_norm(correlation(gram) - target) for gram in grams])
    return torch.where(present, -gaps, gaps.new_full((), _ABSENT))


def fusion_weights(quality: Tensor, observed: Tensor, temperature: float) -> Tensor:
    """Softmax of q_v/τ over the views a sample has (Eq. 6); zero elsewhere.

    Shape: quality (m,), observed (B, m) bool -> (B, m); a row without views gets zeros.
    """
    logits = (quality / temperature).expand(observed.shape).masked_fill(~observed, -torch.inf)
    weights = torch.softmax(logits, dim=-1)
    return torch.where(observed, weights, torch.zeros_like(weights))
