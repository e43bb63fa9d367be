"""Codes of all training samples, as of the last batch that each was in."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class MemoryBank(nn.Module):
    """Codes, labels and masks of N training samples, kept by row number.

    A row is empty (nothing observed) until a batch had its sample. The last row is where what
    only fills a batch up is written; it always looks empty. `passes`: how many passes over the
    samples were begun.
    """

    codes: Tensor
    observed: Tensor
    labels: Tensor
    label_mask: Tensor
    passes: Tensor

    def __init__(self, rows: int, views: int, size: int, labels: int) -> None:
        super().__init__()
        self.register_buffer("codes", torch.zeros(views, rows + 1, size))
        self.register_buffer("observed", torch.zeros(rows + 1, views))
        self.register_buffer("labels", torch.zeros(rows + 1, labels))
        self.register_buffer("label_mask", torch.zeros(rows + 1, labels))
        self.register_buffer("passes", torch.zeros(()))

    def __len__(self) -> int:
        return len(self.observed) - 1

    @torch.no_grad()
    def write(
        self,
        rows: Tensor,
        is_sample: Tensor,
        codes: Tensor,
        observed: Tensor,
        labels: Tensor,
        label_mask: Tensor,
    ) -> None:
        """Remember a batch. Shape: rows and is_sample (B,), codes (m, B, F), the others (B, ...).

        Nothing is observed of what fills a batch up, neither views nor labels.
        """
        index = torch.where(is_sample > 0, rows, torch.full_like(rows, len(self)))
        self.codes.index_copy_(1, index, codes.detach().to(self.codes.dtype))
        self.observed.index_copy_(0, index, observed.to(self.observed.dtype))
        self.labels.index_copy_(0, index, labels * label_mask)
        self.label_mask.index_copy_(0, index, label_mask)
