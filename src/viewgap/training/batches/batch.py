"""One batch: tensors of the rows that an index names, and what is left out of the whole of it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from viewgap.nn.dropout import ALL_HERE, draws_for
from viewgap.nn.gather import gather_rows
from viewgap.nn.reduce import LOCAL, Reducer
from viewgap.training.batches.share import BatchShare


class Gathered(Sequence[Tensor]):
    """Rows of tables, one tensor per view, gathered lazily on each stream."""

    def __init__(self, tables: Sequence[Tensor], rows: Sequence[Tensor]) -> None:
        self.tables = tables
        self.rows = rows

    def __getitem__(self, view: Any) -> Any:
        return self.tables[view][self.rows[view]]

    def __len__(self) -> int:
        return len(self.tables)


@dataclass(slots=True)
class Target:
    """What one decoder has to reproduce: a `PairIndex`, and the table its rows are in.

    Shape: table (n, d); rows, source, weight and norm_weight (P,) or (groups, P); back (ΣR,).
    """

    table: Tensor
    rows: Tensor
    source: Tensor
    back: Tensor
    weight: Tensor
    norm_weight: Tensor | None


@dataclass(slots=True)
class Batch:
    """B samples. `views[v]` gathers R_v rows: all B (dense), or those that have the view (packed).

    `entry_rows` (m, B): which row, all views in a row, is the view of the sample, ΣR if none;
    `row_entries` (ΣR,): which of these entries a row is, m·B if none; both None for dense rows.
    `row_weight` (ΣR,): 1 for rows that count in a loss, None = all. `norm_weights[v]` (R_v,): how
    often a row counts in normalisation, None = once. `n_samples` (). `rows` (B,): row numbers of
    the samples; `is_sample` (B,): 0 for what only fills the batch up (None: all are samples).

    Where several processes share a batch, this is the part of one of them (`share`): it has B of
    the `whole` batch's samples. The methods from `whole` on change nothing on a process alone.

    Shape: views[v] (R_v, d_v); observed (B, m) bool; labels and label_mask (B, c) float.
    """

    views: Gathered
    observed: Tensor
    labels: Tensor
    label_mask: Tensor
    n_samples: Tensor
    entry_rows: Tensor | None = None
    row_entries: Tensor | None = None
    row_weight: Tensor | None = None
    norm_weights: Sequence[Tensor | None] = ()
    targets: list[Target] = field(default_factory=list)
    rows: Tensor | None = None
    is_sample: Tensor | None = None
    share: BatchShare | None = None

    def __len__(self) -> int:
        return len(self.observed)

    @property
    def sizes(self) -> list[int]:
        """R_v of every view."""
        return [len(rows) for rows in self.views.rows]

    def stack(self, values: Tensor) -> Tensor:
        """Values of all rows (ΣR, F) in batch order, zero where a view is missing: (m, B, F)."""
        if self.entry_rows is None or self.row_entries is None:
            observed = self.observed.T.unsqueeze(-1)
            dense = values.view(len(self.views), len(self), values.shape[-1])
            return torch.where(observed, dense, values.new_zeros(()))
        return gather_rows(values, self.entry_rows, self.row_entries)

    def norm_weight(self, view: int, norm_rows: str) -> Tensor | None:
        """How often each row of a view counts in its normalisation, (R_v,); None = once."""
        if self.entry_rows is None and norm_rows == "observed":
            return self.observed[:, view].to(self.labels.dtype)
        return self.norm_weights[view] if self.norm_weights else None

    def row_weight_of(self, view: int) -> Tensor:
        """1 for rows of a view that count in a loss, (R_v,)."""
        sizes = self.sizes
        if self.row_weight is None:
            return self.labels.new_ones(sizes[view])
        start = sum(sizes[:view])
        return self.row_weight[start : start + sizes[view]]

    def samples_of(self, view: int) -> Tensor:
        """Which sample each row of a view belongs to, (R_v,); rows that fill up: any."""
        if self.row_entries is None:
            return torch.arange(len(self), device=self.observed.device)
        sizes = self.sizes
        start = sum(sizes[:view])
        entries = self.row_entries[start : start + sizes[view]]
        return (entries - view * len(self)).clamp(max=len(self) - 1)

    # ------------------------------------------------------------------ shared with other processes

    @property
    def whole(self) -> Batch:
        """Samples, labels and masks of all processes, without the rows of their views."""
        return self if self.share is None else self.share.whole

    @property
    def reducer(self) -> Reducer:
        """What adds up over the processes that share the batch."""
        return LOCAL if self.share is None else self.share.reducer

    def sum(self, value: Tensor) -> Tensor:
        """A sum over rows, added up over the processes; gradients pass through."""
        return self.reducer.sum(value)

    def gather(self, values: Tensor, dim: int = 0) -> Tensor:
        """Values of the whole batch from those of these samples, which are dimension `dim`."""
        return values if self.share is None else self.share.gather(values, dim)

    def gather_rows(self, values: Tensor) -> Tensor:
        """Values of all rows of the whole batch, all views in a row; no gradient."""
        return values if self.share is None else self.share.gather_rows(values)

    def own(self, values: Tensor) -> Tensor:
        """Values of these samples from those of the whole batch, (B, ...)."""
        return values if self.share is None else self.share.own(values)

    def draws_of_view(self, view: int) -> AbstractContextManager[None]:
        """What is drawn inside is for the rows of a view."""
        return draws_for(ALL_HERE if self.share is None else self.share.view(view))

    def draws_of_views(self) -> AbstractContextManager[None]:
        """What is drawn inside is for the rows of all views, one view after the other."""
        return draws_for(ALL_HERE if self.share is None else self.share.views())

    def draws_of_pairs(self, target: int) -> AbstractContextManager[None]:
        """What is drawn inside is for the pairs of a target."""
        return draws_for(ALL_HERE if self.share is None else self.share.pairs(target))

    def draws_of_whole(self) -> AbstractContextManager[None]:
        """What is drawn inside is for the whole batch, alike in every process."""
        return draws_for(ALL_HERE)

    def draws_of_samples(self) -> AbstractContextManager[None]:
        """What is drawn inside is for the samples."""
        return draws_for(ALL_HERE if self.share is None else self.share.samples)

    @property
    def sample_weight(self) -> Tensor:
        """1 for samples, 0 for what fills the batch up, (B,)."""
        return self.labels.new_ones(len(self)) if self.is_sample is None else self.is_sample
