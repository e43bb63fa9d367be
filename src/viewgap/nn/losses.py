"""Losses as (term, mask, reducer): what is computed per cell, and averaged over which cells."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from viewgap.nn.kernels import kernels_for
from viewgap.nn.linear import Linear
from viewgap.nn.reduce import LOCAL, Reducer, weighted_mean


def bce_cells(probability: Tensor, label: Tensor, eps: float = 1e-5) -> Tensor:
    """Binary cross-entropy of every cell, |y log(p+ε) + (1−y) log(1−p+ε)|, for labels 0 and 1.

    The absolute value is the field's convention; it only flips the sign, except for p within ε of
    its label, where it keeps the tiny value positive.
    """
    return (torch.where(label > 0.5, probability, 1.0 - probability) + eps).log().abs()


def masked_bce(
    probability: Tensor, label: Tensor, observed: Tensor, reducer: Reducer = LOCAL
) -> Tensor:
    """Mean binary cross-entropy over the observed labels (Eq. 8 of SCSD).

    Shape: all (B, c).
    """
    return weighted_mean(bce_cells(probability, label), observed, reducer)


def bce_over_all(
    probability: Tensor, label: Tensor, observed: Tensor, count: Tensor, eps: float = 1e-10
) -> Tensor:
    """Binary cross-entropy of the observed labels, divided by the number of all B·c cells.

    Shape: (B, c) three times; count (), the number of samples B.
    """
    cells = bce_cells(probability, label, eps) * observed
    return cells.sum() / (count * label.shape[1])


def teacher_bce_rows(student: Tensor, teacher: Tensor) -> Tensor:
    """One-versus-all distillation of every row: Σ_labels BCE(student; teacher as soft target).

    Up to the entropy of the teacher, which has no gradient, this is the KL divergence of Eq. 9
    taken label by label. Shape: (R, c), (R, c) -> (R,).
    """
    return F.binary_cross_entropy(student, teacher.detach(), reduction="none").sum(dim=-1)


def dependent_bce(
    probability: Tensor,
    label: Tensor,
    observed: Tensor,
    dependency: Tensor,
    count: Tensor,
    limits: tuple[float, float] = (1e-10, 0.9),
) -> Tensor:
    """Cross-entropy in which a label also answers for those that depend on it (RANK).

    (1/(Bc)) Σ_ij G_ij |Y_ij Σ_k D_jk G_ik log p_ik + (1 − Y_ij) Σ_k D_kj G_ik log(1 − p_ik)|,
    p within `limits`. With D the identity this is `bce_over_all`, but for the limits.

    Shape: (B, c) three times, dependency D (c, c), count () -> ().
    """
    bounded = probability.clamp(*limits)
    present = (observed * bounded.log()) @ dependency.T
    absent = (observed * (1.0 - bounded).log()) @ dependency
    cells = (label * present + (1.0 - label) * absent).abs() * observed
    return cells.sum() / (count * label.shape[1])


def quality_loss(
    quality: Tensor, answers: Tensor, label: Tensor, label_mask: Tensor, seen: Tensor, count: Tensor
) -> Tensor:
    """Cross-entropy between the trust in a sample's views and how well each of them answers.

    Target: softmax over the views a sample has of minus the mean cross-entropy of the view's
    answer over the observed labels; −(1/B) Σ_iv target_iv log(s_iv + 1e-10).

    Shape: quality s (B, m), answers (m, B, c), label and mask (B, c), seen (B, m) bool, count ()
    -> (). A sample without any view counts as nothing.
    """
    cells = bce_cells(answers.detach(), label, 1e-10) * label_mask
    errors = cells.sum(dim=-1) / label_mask.sum(dim=-1).clamp(min=1.0)
    target = torch.softmax((-errors.T).masked_fill(~seen, -1e9), dim=-1)
    real = seen.any(dim=1).to(target.dtype)
    return -((target * (quality + 1e-10).log()).sum(dim=-1) * real).sum() / count


def squared_error(linear: Linear, x: Tensor, table: Tensor, rows: Tensor, share: Tensor) -> Tensor:
    """Σ of share · mean (linear(x) − table[rows])²; on a GPU without its intermediate steps.

    Shape: x (..., inputs), table (n, outputs), rows and share (...) -> ().
    """
    kernels = kernels_for(x, "squared_error")
    if kernels is None or x.numel() == 0:
        gap: Tensor = linear(x) - table[rows]
        return (gap.square().mean(dim=-1) * share).sum()
    product = linear.product(x).flatten(0, -2)
    fused: Tensor = kernels.SquaredError.apply(
        product, linear.bias, table, rows.flatten(), share.flatten()
    )
    return fused
