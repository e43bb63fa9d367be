"""From a ViewSet to tensors: batches in one of two layouts of the same mathematics.

`dense`: every view has all B rows, zero where it is missing, and a weight that says which rows
count. Shapes never change. `packed`: every view has only the rows that observe it. With
statistics over observed rows both give the same result; packed does less arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from viewgap.data.labels import Labels
from viewgap.data.scaling import Standardiser
from viewgap.data.viewset import ViewSet
from viewgap.training.runtime import Runtime

# Up to this many bytes of views are kept as tensors for the whole fit; above, batches are read
# from the ViewSet, which may be a memory map.
RESIDENT_BYTES = 2 << 30


@dataclass
class Batch:
    """B samples. `positions[v]`: rows of the batch that `views[v]` holds; None = all (dense).

    Shape: views[v] (R_v, d_v); observed (B, m) bool; labels and label_mask (B, c) float.
    """

    views: list[Tensor]
    positions: list[Tensor] | None
    observed: Tensor
    labels: Tensor
    label_mask: Tensor
    host_observed: Tensor | None = None  # `observed` on the CPU, where looking does not wait

    def __len__(self) -> int:
        return len(self.observed)

    def weight(self, view: int) -> Tensor | None:
        """Which rows of `views[view]` count: None = all of them (packed)."""
        return None if self.positions is not None else self.observed[:, view].to(self.labels.dtype)

    def pick(self, view: int, rows: Tensor) -> Tensor:
        """The rows (B, ...) of a batch-wide tensor that `views[view]` holds: (R_v, ...)."""
        return rows if self.positions is None else rows[self.positions[view]]

    def spread(self, view: int, values: Tensor) -> Tensor:
        """Put (R_v, F) back into batch order, zero where the view is missing: (B, F)."""
        if self.positions is None:
            return torch.where(self.observed[:, view, None], values, torch.zeros_like(values))
        full = values.new_zeros(len(self), values.shape[1])
        return full.index_copy(0, self.positions[view], values)

    def hide_views(self, rate: float, generator: torch.Generator) -> Batch:
        """The batch with each observed view hidden with probability `rate`; one always stays."""
        seen = self.observed.cpu() if self.host_observed is None else self.host_observed
        draw = torch.rand(seen.shape, generator=generator).masked_fill(~seen, -1.0)
        bar = draw.amax(dim=1, keepdim=True).clamp(max=rate)
        shown = seen & (draw >= bar)
        observed = shown.to(self.observed.device, non_blocking=True)
        if self.positions is None:
            return replace(self, observed=observed, host_observed=shown)
        views, positions = [], []
        for v, (view, where) in enumerate(zip(self.views, self.positions, strict=True)):
            kept = torch.nonzero(shown[:, v][seen[:, v]]).squeeze(1).to(view.device)
            views.append(view[kept])
            positions.append(where[kept])
        return replace(
            self, views=views, positions=positions, observed=observed, host_observed=shown
        )


def seed_words(random_state: int | None, count: int) -> list[int]:
    """Independent seeds for the parts of a fit, all fixed by `random_state`."""
    return [int(word) for word in np.random.SeedSequence(random_state).generate_state(count)]


def shuffled_batches(n: int, size: int, generator: torch.Generator) -> list[Tensor]:
    """A random order of the n rows cut into batches."""
    return cut(torch.randperm(n, generator=generator), size)


def cut(order: Tensor, size: int) -> list[Tensor]:
    """Cut an order into batches; a last batch of one row joins the one before.

    One row alone has no batch statistics, and dropping it would lose data.
    """
    parts = list(order.split(size))
    if len(parts) > 1 and len(parts[-1]) == 1:
        parts[-2:] = [torch.cat(parts[-2:])]
    return parts


class BatchSource:
    """Standardised views and labels, handed out by row numbers on the runtime's device."""

    def __init__(
        self,
        views: ViewSet,
        labels: Labels | None,
        scaler: Standardiser | None,
        runtime: Runtime,
        layout: str,
    ) -> None:
        self._views = views
        self._scaler = scaler
        self._runtime = runtime
        self._packed = layout == "packed"
        self._host_observed = torch.from_numpy(np.array(views.observed))
        self.observed = self._host_observed.to(runtime.device)
        self.labels, self.label_mask = self._label_tensors(labels, len(views))
        self._resident = self._load_resident()

    def __len__(self) -> int:
        return len(self._views)

    def batch(self, rows: Tensor) -> Batch:
        """The batch of these row numbers (a CPU tensor)."""
        here = rows.to(self._runtime.device, non_blocking=True)
        host = self._host_observed[rows]
        known = (self.observed[here], self.labels[here], self.label_mask[here], host)
        if not self._packed:
            views = [self._rows(v, rows, here) for v in range(self._views.n_views)]
            return Batch(views, None, *known)
        held = [torch.nonzero(column).squeeze(1) for column in host.T]
        positions = [where.to(here.device, non_blocking=True) for where in held]
        views = [self._rows(v, rows[held[v]], here[where]) for v, where in enumerate(positions)]
        return Batch(views, positions, *known)

    def in_order(self, size: int) -> Iterator[Batch]:
        """All rows in their order."""
        for rows in torch.arange(len(self)).split(size):
            yield self.batch(rows)

    def _rows(self, view: int, rows: Tensor, here: Tensor) -> Tensor:
        resident = self._resident.get(view)
        return self._load(view, rows.numpy()) if resident is None else resident[here]

    def _load_resident(self) -> dict[int, Tensor]:
        """Views kept as tensors; a sparse view stays sparse until a batch needs its rows."""
        names = self._views.names
        dense = [v for v, name in enumerate(names) if not self._views.is_sparse(name)]
        total = len(self._views) * sum(self._views.dims[v] for v in dense) * 4
        return {v: self._load(v, None) for v in dense} if total <= RESIDENT_BYTES else {}

    def _load(self, view: int, rows: NDArray[np.int64] | None) -> Tensor:
        dtype = np.float64 if self._runtime.dtype == torch.float64 else np.float32
        block = self._views.rows(self._views.names[view], rows, dtype=dtype)
        if self._scaler is not None:
            seen = self._views.observed[:, view]
            block = self._scaler.apply(view, block, seen if rows is None else seen[rows])
        return torch.from_numpy(np.ascontiguousarray(block)).to(self._runtime.device)

    def _label_tensors(self, labels: Labels | None, n: int) -> tuple[Tensor, Tensor]:
        if labels is None:
            nothing = torch.zeros(n, 0, dtype=self._runtime.dtype, device=self._runtime.device)
            return nothing, nothing
        values = torch.from_numpy(np.array(labels.values)).to(self._runtime.device)
        observed = torch.from_numpy(np.array(labels.observed)).to(self._runtime.device)
        return values.to(self._runtime.dtype), observed.to(self._runtime.dtype)


def stack_views(batch: Batch, values: Sequence[Tensor]) -> Tensor:
    """The views' values in batch order, zero where missing: (m, B, F)."""
    return torch.stack([batch.spread(v, value) for v, value in enumerate(values)])
