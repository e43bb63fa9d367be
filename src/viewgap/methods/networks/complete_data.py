"""What networks written for complete data share: two ways to run them on incomplete data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from torch import Tensor
from torch.nn import functional as F

from viewgap.constraints import Choice
from viewgap.nn.reduce import LOCAL, Reducer, weighted_mean
from viewgap.parameters import setting
from viewgap.training.batches.batch import Batch
from viewgap.training.batches.sampled import Layout
from viewgap.training.network import RowwiseNetwork
from viewgap.training.settings import DeepSettings


@dataclass(frozen=True, kw_only=True)
class CompleteDataSettings(DeepSettings):
    """`norm_rows` changes nothing: these networks have no normalisation over rows."""

    incomplete: Annotated[str, Choice("masked", "filled")] = setting(
        "masked",
        "What stands for what is not observed: nothing, losses and means leave it out; or, as the"
        " literature runs methods for complete data, the column means of the training rows for a"
        " missing view and 0 for an unknown label of a sample that has a known one.",
    )


class CompleteDataNetwork(RowwiseNetwork):
    """Base of these networks; `dims` are the columns of the views."""

    shares_batches = True
    reducer: Reducer = LOCAL

    def __init__(self, dims: Sequence[int], settings: Any) -> None:
        super().__init__()
        self.dims, self.n_views = tuple(dims), len(dims)
        self.settings = settings

    @property
    def fills_in(self) -> bool:
        """Whether column means and zeros stand for what is missing."""
        return bool(self.settings.incomplete == "filled")

    @property
    def layout(self) -> Layout:
        """Rows of missing views are needed only where they are filled in."""
        return Layout("dense" if self.fills_in else "packed")

    def stack(self, batch: Batch, rows: Sequence[Tensor]) -> Tensor:
        """Values of the rows of every view in batch order: m times (R_v, F) -> (m, B, F).

        Missing views are zero, or what the filled-in rows gave.
        """
        return torch.stack(list(rows)) if self.fills_in else batch.stack(torch.cat(list(rows)))

    def present(self, batch: Batch) -> Tensor:
        """Views that take part: observed ones, or all views of the samples. Shape: (B, m) bool."""
        if not self.fills_in:
            return batch.observed
        return (batch.sample_weight > 0).unsqueeze(1).expand_as(batch.observed)

    def label_weight(self, batch: Batch) -> Tensor:
        """1 for label entries that count in a loss, (B, c); `batch.labels` are 0 where unknown.

        Unknown labels are filled in for samples with a known one: others have no labels at all.
        """
        if not self.fills_in:
            return batch.label_mask
        return batch.label_mask.amax(dim=1, keepdim=True).expand_as(batch.labels)

    def fill_in(self, codes: Tensor, observed: Tensor) -> tuple[Tensor, Tensor]:
        """Codes and views that take part in an answer; see `present`.

        A missing view has the code of the column means, which are 0 after standardisation.
        Shape: codes (m, B, F), observed (B, m) -> the same.
        """
        if not self.fills_in:
            return codes, observed
        blank = [self.encode_view(v, codes.new_zeros(1, d)) for v, d in enumerate(self.dims)]
        filled = torch.where(observed.T.unsqueeze(-1), codes, torch.stack(blank))
        return filled, torch.ones_like(observed)

    def bce(self, logits: Tensor, batch: Batch) -> Tensor:
        """Mean binary cross-entropy of the label entries that count. Shape: (B, c) -> ()."""
        entries = F.binary_cross_entropy_with_logits(logits, batch.labels, reduction="none")
        return weighted_mean(entries, self.label_weight(batch), self.reducer)
