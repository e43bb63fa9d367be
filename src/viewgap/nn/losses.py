"""Losses as (term, mask, reducer): computed per label entry, averaged over a mask of entries."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from viewgap.nn.kernels import kernels_for
from viewgap.nn.linear import Linear
from viewgap.nn.reduce import LOCAL, Reducer, weighted_mean


def bce_entries(probability: Tensor, label: Tensor, eps: float = 1e-5) -> Tensor:
    """Binary cross-entropy of every entry, |y log(p+ε) + (1−y) log(1−p+ε)|, for labels 0 and 1.

    The absolute value is the field's convention; it only flips the sign, except for p within ε of
    its label, where it keeps the tiny value positive. With ε = 0 as torch has it: no logarithm is
    below −100.
    """
    if eps == 0:
        label = label.expand_as(probability)
        return F.binary_cross_entropy(probability, label, reduction="none")
    return (torch.where(label > 0.5, probability, 1.0 - probability) + eps).log().abs()


def asymmetric_entries(
    probability: Tensor,
    label: Tensor,
    powers: tuple[float, float] = (1.0, 4.0),
    margin: float = 0.05,
    eps: float = 1e-8,
) -> Tensor:
    """Asymmetric loss of every entry: easy negatives, of which there are many, count little.

    −(1−p)^γ₊ log p for a positive label, −q^γ₋ log(1−q) with q = max(p − margin, 0) for a negative
    one; the powers have no gradient (Ridnik et al.: Asymmetric Loss, ICCV 2021). `powers`: γ₊, γ₋.
    """
    positive = label > 0.5
    right = torch.where(positive, probability, 1.0 - (probability - margin).clamp(min=0.0))
    wrong = (1.0 - right).detach()
    focus = torch.where(positive, wrong.pow(powers[0]), wrong.pow(powers[1]))
    return -focus * right.clamp(min=eps).log()


def masked_bce(
    probability: Tensor, label: Tensor, observed: Tensor, reducer: Reducer = LOCAL
) -> Tensor:
    """Mean binary cross-entropy over the observed labels (Eq. 8 of SCSD).

    Shape: all (B, c).
    """
    return weighted_mean(bce_entries(probability, label), observed, reducer)


def bce_over_all(
    probability: Tensor, label: Tensor, observed: Tensor, n_samples: Tensor, eps: float = 1e-10
) -> Tensor:
    """Binary cross-entropy of the observed labels, divided by the number of all B·c entries.

    Shape: (B, c) three times; n_samples (), the number of samples B.
    """
    entries = bce_entries(probability, label, eps) * observed
    return entries.sum() / (n_samples * label.shape[1])


def teacher_bce_rows(student: Tensor, teacher: Tensor) -> Tensor:
    """One-versus-all distillation of every row: Σ_labels BCE(student; teacher as soft target).

    Up to the entropy of the teacher, which has no gradient, this is the KL divergence of Eq. 9
    taken label by label. Shape: (R, c), (R, c) -> (R,).
    """
    return F.binary_cross_entropy(student, teacher.detach(), reduction="none").sum(dim=-1)


def teacher_kl_rows(student: Tensor, teacher: Tensor) -> Tensor:
    """Multi-label logit distillation: Σ_labels KL(Bernoulli(teacher) ‖ Bernoulli(student)).

    Its gradient is that of `teacher_bce_rows`; it is 0 where both agree. (Yang et al.: Multi-Label
    Knowledge Distillation, ICCV 2023.) Shape: (R, c), (R, c) -> (R,).
    """
    return teacher_bce_rows(student, teacher) - teacher_bce_rows(teacher.detach(), teacher)


def dependent_bce(
    probability: Tensor,
    label: Tensor,
    observed: Tensor,
    dependency: Tensor,
    n_samples: Tensor,
    limits: tuple[float, float] = (1e-10, 0.9),
) -> Tensor:
    """Cross-entropy in which a label also answers for those that depend on it (RANK).

    (1/(Bc)) Σ_ij G_ij |Y_ij Σ_k D_jk G_ik log p_ik + (1 − Y_ij) Σ_k D_kj G_ik log(1 − p_ik)|,
    p within `limits`. With D the identity this is `bce_over_all`, but for the limits.

    Shape: (B, c) three times, dependency D (c, c), n_samples () -> ().
    """
    bounded = probability.clamp(*limits)
    present = (observed * bounded.log()) @ dependency.T
    absent = (observed * (1.0 - bounded).log()) @ dependency
    entries = (label * present + (1.0 - label) * absent).abs() * observed
    return entries.sum() / (n_samples * label.shape[1])


def quality_loss(
    quality: Tensor,
    answers: Tensor,
    label: Tensor,
    label_mask: Tensor,
    observed: Tensor,
    n_samples: Tensor,
) -> Tensor:
    """Cross-entropy between the trust in a sample's views and how well each of them answers.

    Target: softmax over the views a sample has of minus the mean cross-entropy of the view's
    answer over the observed labels; −(1/B) Σ_iv target_iv log(s_iv + 1e-10).

    Shape: quality s (B, m), answers (m, B, c), label and mask (B, c), observed (B, m),
    n_samples () -> (). A sample without any view counts as nothing.
    """
    entries = bce_entries(answers.detach(), label, 1e-10) * label_mask
    errors = entries.sum(dim=-1) / label_mask.sum(dim=-1).clamp(min=1.0)
    target = torch.softmax((-errors.T).masked_fill(~observed, -1e9), dim=-1)
    is_sample = observed.any(dim=1).to(target.dtype)
    return -((target * (quality + 1e-10).log()).sum(dim=-1) * is_sample).sum() / n_samples


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
