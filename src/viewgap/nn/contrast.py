"""Contrastive losses between codes: of the views of a sample, of channels, of samples by label.

All of them take codes of every view side by side and masks of what counts, and never select rows:
the shapes are the same for every batch, so that a GPU can replay them.
"""

from __future__ import annotations

import torch
from torch import Tensor

from viewgap.nn.reduce import weighted_mean

_SHORTEST_SQUARE = 1e-8
_FAR = -1e9


def unit_rows(x: Tensor) -> Tensor:
    """x / ‖x‖, of length 0 for x = 0. Shape: (..., F) -> (..., F).

    Smooth down to zero: codes of a constant view are nothing but rounding after normalisation, and
    x / max(‖x‖, ε) would blow their gradient up. Codes of usual length keep their direction and
    length to 1e-9.
    """
    return x * torch.rsqrt(x.square().sum(dim=-1, keepdim=True) + _SHORTEST_SQUARE)


def instance_contrast(codes: Tensor, observed: Tensor, temperature: float) -> Tensor:
    """Codes of one sample in two views attract, those of different samples repel (NT-Xent).

    For every pair of views, over the n' samples that have both: cosines / τ among the 2n' codes,
    cross-entropy of finding the other view of the same sample, summed and divided by 2n'; then
    summed over the pairs. As released, the cosine of a code with itself is set to 0 instead of
    being left out, so that every softmax holds one more exp(0).

    Shape: codes (m, B, F), observed (B, m) bool -> ().
    """
    unit = unit_rows(codes)
    similar = torch.einsum("uif,vjf->uvij", unit, unit) / temperature
    has_view = observed.T.to(codes.dtype)
    both = has_view.unsqueeze(1) * has_view.unsqueeze(0)  # (u, v, i): the sample has both views
    views, rows = codes.shape[:2]
    own = torch.eye(rows, dtype=torch.bool, device=codes.device)
    among = torch.diagonal(similar, dim1=0, dim2=1).permute(2, 0, 1)  # codes of the same view
    among = among.masked_fill(own, 0.0).exp()
    total = torch.einsum("uij,uvj->uvi", among, both)
    total = total + torch.einsum("uvij,uvj->uvi", similar.exp(), both)
    matching = torch.diagonal(similar, dim1=2, dim2=3)
    apart = ~torch.eye(views, dtype=torch.bool, device=codes.device).unsqueeze(-1)
    weight = both * apart
    # Where the pair does not count, the logarithm must still have a finite gradient.
    losses = torch.where(weight > 0, total, torch.ones_like(total)).log() - matching
    share = weight / (2.0 * weight.sum(dim=2, keepdim=True)).clamp(min=1.0)
    return (losses * share).sum()


def cross_view_contrast(codes: Tensor, observed: Tensor, temperature: float) -> Tensor:
    """Find a sample's code in view v by its code in view u among the samples of the batch.

    For every pair of views u < v that at least two samples have: cross-entropy of sample i among
    the samples j that have both views, by cos(z_i^u, z_j^v) / τ; the mean over all (u, v, i). Up to
    a constant, a lower bound of the mutual information of the two codes (InfoNCE).

    Shape: codes (m, B, F), observed (B, m) bool -> ().
    """
    unit = unit_rows(codes)
    similar = torch.einsum("uif,vjf->uvij", unit, unit) / temperature
    has_view = observed.T
    both = has_view.unsqueeze(1) & has_view.unsqueeze(0)  # (u, v, i): the sample has both views
    total = similar.masked_fill(~both.unsqueeze(2), _FAR).logsumexp(dim=-1)
    losses = total - torch.diagonal(similar, dim1=2, dim2=3)
    enough = both.sum(dim=-1, keepdim=True) >= 2
    first = torch.ones(both.shape[:2], dtype=torch.bool, device=codes.device).triu(diagonal=1)
    weight = both & enough & first.unsqueeze(-1)
    return weighted_mean(losses, weight.to(losses.dtype))


def channel_contrast(shared: Tensor, private: Tensor, observed: Tensor) -> Tensor:
    """Shared codes of a sample agree, all other pairs of its codes are orthogonal.

    Σ over samples with at least two views of ½ mean(neg²) / mean((pos + 1 + 1e-6) / 2); pos:
    cosines of shared codes of different views, neg: all other pairs of different codes.

    Shape: shared and private (m, B, F), observed (B, m) bool -> ().
    """
    views = len(shared)
    unit = unit_rows(torch.cat([shared, private]))
    cosine = torch.einsum("uif,vif->iuv", unit, unit)
    has_view = observed.repeat(1, 2).to(shared.dtype)
    pairs = has_view.unsqueeze(2) * has_view.unsqueeze(1)
    different = 1.0 - torch.eye(2 * views, dtype=shared.dtype, device=shared.device)
    alike = torch.zeros_like(different)
    alike[:views, :views] = 1.0
    positive, negative = pairs * (different * alike), pairs * (different * (1.0 - alike))
    agreement = ((cosine + 1.0 + 1e-6) / 2 * positive).sum(dim=(1, 2))
    agreement = agreement / positive.sum(dim=(1, 2)).clamp(min=1.0)
    overlap = (cosine.square() * negative).sum(dim=(1, 2))
    overlap = overlap / negative.sum(dim=(1, 2)).clamp(min=1.0)
    counts = observed.sum(dim=1) >= 2
    safe = torch.where(counts, agreement, torch.ones_like(agreement))
    return torch.where(counts, 0.5 * overlap / safe, torch.zeros_like(safe)).sum()


def graph_smoothness(codes: Tensor, labels: Tensor, label_mask: Tensor, count: Tensor) -> Tensor:
    """tr(z̄ᵀ Λ z̄) / B²: unit codes of samples with labels in common are near each other.

    Λ is the Laplacian of A_ij = a g / (a g + 100), a labels and g jointly observed labels in
    common, without a diagonal. Shape: codes (B, F), labels and mask (B, c), count () -> ().
    """
    positives = labels * label_mask
    weight = (positives @ positives.T) * (label_mask @ label_mask.T)
    weight = weight / (weight + 100.0)
    weight = weight - torch.diag(torch.diagonal(weight))
    unit = unit_rows(codes)
    degree = weight.sum(dim=1)
    trace = (degree * unit.square().sum(dim=1)).sum() - (weight * (unit @ unit.T)).sum()
    return trace / count.square()


def label_similarity(
    labels: Tensor, mask: Tensor, other_labels: Tensor, other_mask: Tensor
) -> Tensor:
    """Labels that two samples share, by the labels observed of both.

    Labels that were not observed must be 0 in `labels` too. Shape: (B, c), (N, c) -> (B, N).
    """
    return (labels @ other_labels.T) / (mask @ other_mask.T + 1e-9)


def label_guided_contrast(
    codes: Tensor,
    bank: Tensor,
    observed: Tensor,
    bank_observed: Tensor,
    target: Tensor,
    pairs: Tensor,
) -> Tensor:
    """Codes of two samples in a view are as similar as their labels.

    BCE of (1 + cos) / 2 with the similarity of the labels as its target, averaged over the pairs
    of samples that both have the view; then half the mean over the views.

    Shape: codes (m, B, F), bank (m, N, F), observed (B, m), bank_observed (N, m), target (B, N),
    pairs (B, N): which pairs are admissible at all -> ().
    """
    unit, others = unit_rows(codes), unit_rows(bank)
    similar = ((1.0 + unit @ others.transpose(1, 2)) / 2).clamp(max=1.0)
    terms = -(target * (similar + 1e-5).log() + (1.0 - target) * (1.0 - similar + 1e-5).log())
    has_view, bank_has_view = observed.T.to(codes.dtype), bank_observed.T.to(codes.dtype)
    weight = has_view.unsqueeze(2) * bank_has_view.unsqueeze(1) * pairs.to(codes.dtype)
    of_views = (terms * weight).sum(dim=(1, 2)) / weight.sum(dim=(1, 2)).clamp(min=1.0)
    return 0.5 * of_views.mean()


def view_agreement(codes: Tensor, observed: Tensor) -> Tensor:
    """Unit codes of a sample in two views are near each other, for every pair of views.

    Σ_{u<v} Σ_i W_iu W_iv ‖z̄_i^u − z̄_i^v‖² / (F Σ_i W_iu W_iv + 1e-10).
    Shape: codes (m, B, F), observed (B, m) bool -> ().
    """
    unit = unit_rows(codes)
    has_view = observed.T.to(codes.dtype)
    both = has_view.unsqueeze(1) * has_view.unsqueeze(0)
    apart = (unit.unsqueeze(1) - unit.unsqueeze(0)).square().sum(dim=-1)
    first = torch.triu(torch.ones_like(both[:, :, 0]), diagonal=1)
    gaps = (apart * both).sum(dim=2) / (codes.shape[-1] * both.sum(dim=2) + 1e-10)
    return (gaps * first).sum()
