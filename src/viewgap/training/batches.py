"""From a ViewSet to tensors: values and labels of the rows that a plan names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from viewgap.data.labels import Labels
from viewgap.data.prepared_rows import PreparedRows
from viewgap.data.preprocessing import Preparation
from viewgap.data.viewset import ViewSet
from viewgap.nn.gather import gather_rows
from viewgap.training.plan import Capacity, Layout, Plan, choose
from viewgap.training.runtime import Runtime

# Up to this many bytes of views are kept as standardised tensors for the whole fit; above, batches
# are read from the ViewSet, which may be a memory map. On a CPU that would be a second copy, and
# reading 128 rows is cheap beside training on them.
RESIDENT_BYTES = {"cpu": 128 << 20, "cuda": 8 << 30}


class Gathered(Sequence[Tensor]):
    """Rows of tables, one tensor per view, gathered whenever one is asked for.

    Who works on a view gathers it, on a GPU beside the others, and nobody keeps what he has used.
    """

    def __init__(self, tables: Sequence[Tensor], rows: Sequence[Tensor]) -> None:
        self.tables = tables
        self.rows = rows

    def __getitem__(self, view: Any) -> Any:
        return self.tables[view][self.rows[view]]

    def __len__(self) -> int:
        return len(self.tables)


@dataclass
class Target:
    """What one decoder has to reproduce: pairs (row of a code, row of this view).

    `source` counts the batch's codes, all views in a row; one past the last is an all-zero code.
    `back` (ΣR,) tells which pair a code is in; one past the last if in none.
    Shape: table (n, d); rows, source, share and norm (...), one or two dimensions: two are groups
    that are normalised separately. `norm` None: every row counts once.
    """

    table: Tensor
    rows: Tensor
    source: Tensor
    back: Tensor
    share: Tensor
    norm: Tensor | None


@dataclass
class Batch:
    """B samples. `views[v]` gathers R_v rows: all B (`cells` None), or those that have the view.

    `cells` (m, B): which row, all views in a row, is the view of the sample, ΣR if none; `places`
    (ΣR,): in which cell a row is, m·B if in none. `counted` (ΣR,): 1 for rows that count in a
    loss, None = all. `norms[v]` (R_v,): how often a row counts in normalisation, None = once.
    `count` (): number of samples. `rows` (B,): which rows of the source they are, and `real` (B,)
    which of them are samples at all and do not just fill the batch up (None: all).

    Shape: views[v] (R_v, d_v); observed (B, m) bool; labels and label_mask (B, c) float.
    """

    views: Gathered
    observed: Tensor
    labels: Tensor
    label_mask: Tensor
    count: Tensor
    cells: Tensor | None = None
    places: Tensor | None = None
    counted: Tensor | None = None
    norms: Sequence[Tensor | None] = ()
    targets: list[Target] = field(default_factory=list)
    rows: Tensor | None = None
    real: Tensor | None = None

    def __len__(self) -> int:
        return len(self.observed)

    @property
    def sizes(self) -> list[int]:
        """R_v of every view."""
        return [len(rows) for rows in self.views.rows]

    def stack(self, values: Tensor) -> Tensor:
        """Values of all rows (ΣR, F) in batch order, zero where a view is missing: (m, B, F)."""
        if self.cells is None or self.places is None:
            seen = self.observed.T.unsqueeze(-1)
            dense = values.view(len(self.views), len(self), -1)
            return torch.where(seen, dense, values.new_zeros(()))
        return gather_rows(values, self.cells, self.places)

    def norm(self, view: int, norm_rows: str) -> Tensor | None:
        """How often each row of a view counts in its normalisation, (R_v,); None = once."""
        if self.cells is None and norm_rows == "observed":
            return self.observed[:, view].to(self.labels.dtype)
        return self.norms[view] if self.norms else None

    def counted_rows(self, view: int) -> Tensor:
        """1 for rows of a view that count in a loss, (R_v,)."""
        sizes = self.sizes
        if self.counted is None:
            return self.labels.new_ones(sizes[view])
        start = sum(sizes[:view])
        return self.counted[start : start + sizes[view]]

    def samples_of(self, view: int) -> Tensor:
        """Which sample each row of a view belongs to, (R_v,); rows that fill up: any."""
        if self.places is None:
            return torch.arange(len(self), device=self.observed.device)
        sizes = self.sizes
        start = sum(sizes[:view])
        places = self.places[start : start + sizes[view]]
        return (places - view * len(self)).clamp(max=len(self) - 1)

    @property
    def sample_weight(self) -> Tensor:
        """1 for samples, 0 for what fills the batch up, (B,)."""
        return self.labels.new_ones(len(self)) if self.real is None else self.real


def batches_of_epoch(n: int, size: int, generator: torch.Generator | None) -> list[Tensor]:
    """A random order of the n rows, or the order they have (no generator), cut into batches."""
    order = torch.arange(n) if generator is None else torch.randperm(n, generator=generator)
    return cut(order, size)


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
        scaler: Preparation | None,
        runtime: Runtime,
        noise_seed: int | None = None,
    ) -> None:
        """`noise_seed`: missing rows hold N(0, 1) noise drawn with this seed instead of zeros."""
        self._views = views
        self._noise_seed = noise_seed
        self._rows = PreparedRows(views, scaler, runtime.numpy_dtype)
        self.runtime = runtime
        self.observed = np.array(views.observed)
        gone = ~self.observed
        # A row in which the view is missing, and so all zero: what a batch is filled up with.
        self._blank = [int(column.argmax()) for column in gone.T]
        self.labels, self.label_mask = self._label_tensors(labels, len(views))
        self._resident = self._load_resident()
        self._ordered: dict[tuple[int, Layout], list[dict[str, Tensor]]] = {}

    def __len__(self) -> int:
        return len(self._views)

    @property
    def is_resident(self) -> bool:
        """Whether all values already lie on the device, so that a batch needs nothing else."""
        return len(self._resident) == self._views.n_views

    @property
    def replay_device(self) -> torch.device:
        """Where work on these batches can be replayed: values from the host cannot be recorded."""
        return self.runtime.device if self.is_resident else torch.device("cpu")

    def plan(
        self,
        batches: Sequence[Tensor],
        layout: Layout,
        generator: torch.Generator | None = None,
        capacity: Capacity | None = None,
    ) -> Plan:
        """Decide on the rows of these batches; with a capacity, all in one shape."""
        choice = choose(batches, self.observed, layout.view_dropout, generator)
        return Plan(choice, self._blank, layout, capacity)

    def batch(self, rows: Tensor, layout: Layout | None = None) -> Batch:
        """The batch of these row numbers (a CPU tensor)."""
        return self.assemble(self.plan([rows], layout or Layout()).step(0))

    def in_order(self, size: int, layout: Layout) -> Iterator[Batch]:
        """All rows in their order. The plan is kept, on the device: it is asked for every epoch."""
        if (size, layout) not in self._ordered:
            plan = self.plan(torch.arange(len(self)).split(size), layout)
            steps = [plan.step(t) for t in range(plan.steps)]
            if self.is_resident:
                steps = [{k: v.to(self.runtime.device) for k, v in s.items()} for s in steps]
            self._ordered[size, layout] = steps
        yield from map(self.assemble, self._ordered[size, layout])

    def assemble(self, step: dict[str, Tensor]) -> Batch:
        """The batch that one step of a plan describes."""
        device, dtype = self.runtime.device, self.runtime.dtype
        here = {name: values.to(device, non_blocking=True) for name, values in step.items()}
        here = {k: v.to(dtype) if v.is_floating_point() else v for k, v in here.items()}
        rows, m = here["rows"], self._views.n_views
        labels, mask = self.labels[rows], self.label_mask[rows]
        if "real" in here:
            mask = mask * here["real"].unsqueeze(1)
        observed = here["observed"].bool()
        packed = "rows0" in here
        wanted = [f"rows{v}" if packed else "rows" for v in range(m)]
        tables = [self._table(v, step) for v in range(m)]
        rows_of_views = [
            self._places(known, here[name], step[name])
            for (_, known), name in zip(tables, wanted, strict=True)
        ]
        views = Gathered([table for table, _ in tables], rows_of_views)
        batch = Batch(views, observed, labels, mask, here["count"], norms=[None] * m)
        batch.rows, batch.real = rows, here.get("real")
        if not packed:
            batch.counted = observed.T.reshape(-1).to(dtype)
            if "real" in here:
                batch.norms = [here["real"]] * m
        else:
            batch.cells = here["cells"]
            batch.places = torch.cat([here[f"places{v}"] for v in range(m)])
            if "counted0" in here:
                batch.counted = torch.cat([here[f"counted{v}"] for v in range(m)])
                batch.norms = [here[f"norm{v}"] for v in range(m)]
        if "source0" in here:
            batch.targets = [
                Target(
                    table,
                    self._places(known, here[f"target{j}"], step[f"target{j}"]),
                    here[f"source{j}"],
                    here[f"back{j}"],
                    here[f"share{j}"],
                    here.get(f"pair_norm{j}"),
                )
                for j, (table, known) in enumerate(tables)
            ]
        return batch

    def _table(self, view: int, step: dict[str, Tensor]) -> tuple[Tensor, NDArray[np.int64] | None]:
        """A view's values: all rows, or those of this step, read now, and their row numbers."""
        if view in self._resident:
            return self._resident[view], None
        known = np.unique(np.append(step["rows"].numpy(), self._blank[view]))
        return self._load(view, known), known

    def _places(self, known: NDArray[np.int64] | None, here: Tensor, planned: Tensor) -> Tensor:
        """Where the planned rows are in the table that `_table` gave."""
        if known is None:
            return here
        return torch.from_numpy(np.searchsorted(known, planned.numpy())).to(here.device)

    def _load_resident(self) -> dict[int, Tensor]:
        """Views kept as tensors; a sparse view stays sparse until a batch needs its rows.

        Except on a GPU: a step that has to ask the host for its rows cannot be recorded.
        """
        names, everything = self._views.names, self.runtime.device.type == "cuda"
        dense = [v for v, n in enumerate(names) if everything or not self._views.is_sparse(n)]
        total = len(self._views) * sum(self._views.dims[v] for v in dense) * 4
        fits = total <= RESIDENT_BYTES[self.runtime.device.type]
        return {v: self._load(v, None) for v in dense} if fits else {}

    def _load(self, view: int, rows: NDArray[np.int64] | None) -> Tensor:
        block = self._rows.read(view, rows)
        if self._noise_seed is not None:
            wanted = np.arange(len(self)) if rows is None else rows
            fill_with_noise(block, self.observed[wanted, view], wanted, (self._noise_seed, view))
        return torch.from_numpy(block).to(self.runtime.device)

    def _label_tensors(self, labels: Labels | None, n: int) -> tuple[Tensor, Tensor]:
        if labels is None:
            nothing = torch.zeros(n, 0, dtype=self.runtime.dtype, device=self.runtime.device)
            return nothing, nothing
        values = torch.from_numpy(np.array(labels.values)).to(self.runtime.device)
        observed = torch.from_numpy(np.array(labels.observed)).to(self.runtime.device)
        return values.to(self.runtime.dtype), observed.to(self.runtime.dtype)


def fill_with_noise(
    block: NDArray[Any],
    observed: NDArray[np.bool_],
    rows: NDArray[np.int64],
    seed: tuple[int, int],
) -> None:
    """Write N(0, 1) noise into the rows that are not observed.

    It depends on the number of the row alone, whichever rows are read together.
    """
    for place in np.flatnonzero(~observed):
        draw = np.random.default_rng((*seed, int(rows[place])))
        block[place] = draw.standard_normal(block.shape[1], dtype=np.float32)
