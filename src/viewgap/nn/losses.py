"""Losses as (term, mask, reducer): what is computed per cell, and averaged over which cells."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

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
