"""How labels depend on each other: co-occurrence of the observed positives."""

from __future__ import annotations

import torch
from torch import Tensor

_EPS = 1e-10


def conditional_labels(positives: Tensor) -> Tensor:
    """S_ij = P(j | i): the share of the samples with label i that have label j too.

    From the observed positives (n, c) of the training rows; the row of a label that nobody has is
    0. Shape: (n, c) -> (c, c).
    """
    together = positives.T @ positives
    return together / (torch.diagonal(together).unsqueeze(1) + _EPS)
