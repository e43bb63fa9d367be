"""Attention between samples: what a sample lacks is filled in from others that resemble it."""

from __future__ import annotations

import torch
from torch import Tensor

from viewgap.nn.contrast import unit_rows

_NOTHING = -1e9  # cosine of two samples that cannot be compared: exp(_NOTHING / τ) is 0


def best_cosine(codes: Tensor, others: Tensor, observed: Tensor, others_observed: Tensor) -> Tensor:
    """max_v cos(x_i^v, x_j^v) over the views that samples i and j both have; -1e9 without any.

    Shape: codes (m, B, F), others (m, N, F), observed (B, m), others_observed (N, m) -> (B, N).
    """
    cosine = unit_rows(codes) @ unit_rows(others).transpose(1, 2)
    both = observed.T.unsqueeze(2) & others_observed.T.unsqueeze(1)
    return cosine.masked_fill(~both, _NOTHING).amax(dim=0)


def without_self(cosine: Tensor) -> Tensor:
    """The cosines of samples among themselves, where no sample is compared with itself: (B, B)."""
    own = torch.eye(len(cosine), dtype=torch.bool, device=cosine.device)
    return cosine.masked_fill(own, _NOTHING)


def attention_weights(cosine: Tensor, temperature: float) -> Tensor:
    """K_ij = exp(cos_ij / τ), 0 where there is nothing to compare; rows add up to 1, or to 0.

    Shape: (B, N) -> (B, N).
    """
    return (cosine / temperature).softmax(dim=1) * (cosine > _NOTHING)


def confidence(cosine: Tensor, observed: Tensor, others_observed: Tensor) -> Tensor:
    """How far to trust every view: 1 if observed, else its best source's cosine within [0, 1].

    Shape: cosine (B, N), observed (B, m), others_observed (N, m) bool -> (B, m).
    """
    sources = cosine.unsqueeze(2).masked_fill(~others_observed, _NOTHING)
    best = sources.amax(dim=1).clamp(0.0, 1.0)
    return torch.where(observed, torch.ones_like(best), best)


def fill_in(
    codes: Tensor, others: Tensor, observed: Tensor, others_observed: Tensor, k: Tensor
) -> Tensor:
    """Codes of missing views: Σ_j K_ij W_jv x_j^v. Samples without the view lose their weight.

    Shape: codes (m, B, F), others (m, N, F), observed (B, m), others_observed (N, m), k (B, N)
    -> (m, B, F).
    """
    masked = others * others_observed.T.unsqueeze(-1).to(others.dtype)
    return torch.where(observed.T.unsqueeze(-1), codes, k @ masked)


def mean_by_confidence(codes: Tensor, trust: Tensor) -> Tensor:
    """Σ_v trust_iv x_i^v / Σ_v trust_iv. Shape: (m, B, F), (B, m) -> (B, F)."""
    total = torch.einsum("vif,iv->if", codes, trust)
    # The sum is at least 1 for a sample with a view; one without any gets zeros.
    return total / trust.sum(dim=1, keepdim=True).clamp(min=1.0)
