"""From a ViewSet to tensors: values and labels of the rows that an index names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from viewgap.data.labels import Labels, SparseLabels
from viewgap.data.preprocessing import Preparation, PreparedRows
from viewgap.data.viewset import ViewSet
from viewgap.nn.reduce import LOCAL, Reducer
from viewgap.training.batches.batch import Batch, Gathered, Target
from viewgap.training.batches.block_order import BlockCache, RowBlocks
from viewgap.training.batches.epoch_index import Capacity, EpochIndex
from viewgap.training.batches.epoch_parts import EpochParts
from viewgap.training.batches.index import BatchIndex, ShareIndex
from viewgap.training.batches.label_rows import LabelRows
from viewgap.training.batches.read_ahead import read_ahead
from viewgap.training.batches.sampled import Layout, SampledBatches, sample_batches
from viewgap.training.batches.share import BatchShare
from viewgap.training.cross_fit import Parts
from viewgap.training.runtime import Runtime

# Up to this many bytes of views are kept as standardised tensors for the whole fit; above, batches
# are read from the ViewSet, which may be a memory map. On a CPU that would be a second copy, and
# reading 128 rows is cheap beside training on them.
RESIDENT_BYTES = {"cpu": 128 << 20, "cuda": 8 << 30}
# Batches that are read ahead, where values are not on the device already.
_AHEAD_BYTES = 32 << 20
_MOST_AHEAD = 32
# Above so many entries labels stay bytes until a batch needs them; as floats they are four times
# as many bytes.
_MANY_ENTRIES = 1 << 24


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


@dataclass(slots=True)
class _Table:
    """Rows of a view on the device; `numbers`: their row numbers, None = all rows are there."""

    values: Tensor
    numbers: NDArray[np.int64] | None = None

    def find(self, rows: Tensor, host_rows: Tensor) -> Tensor:
        """Where these row numbers, given on the device and on the host, are in the table."""
        if self.numbers is None:
            return rows
        positions = np.searchsorted(self.numbers, host_rows.numpy())
        return torch.from_numpy(positions).to(rows.device)


Step = tuple[list[BatchIndex[Tensor]], list[Batch]]
"""The indices and batches of one step: one of each, or one for every network of a committee."""


class BatchSource:
    """Standardised views and labels, handed out by row numbers on the runtime's device."""

    _blocks: RowBlocks | None = None

    def __init__(
        self,
        views: ViewSet,
        labels: Labels | None,
        scaler: Preparation | None,
        runtime: Runtime,
        noise_seed: int | None = None,
        parts: Parts | None = None,
        shuffle_window: int = 0,
    ) -> None:
        """`noise_seed`: missing rows hold N(0, 1) noise drawn with this seed instead of zeros.

        `parts`: which rows each network of a committee leaves out in training. `shuffle_window`:
        rows that are shuffled together where views are read from disk; 0 = by memory.
        """
        self._views = views
        self._parts = parts
        self._noise_seed = noise_seed
        self._rows = PreparedRows(views, scaler, runtime.numpy_dtype)
        self.runtime = runtime
        self.observed = np.array(views.observed)
        gone = ~self.observed
        # A row in which the view is missing, and so all zero: what a batch is filled up with.
        self._blank = [int(column.argmax()) for column in gone.T]
        self._sparse_labels: LabelRows | None = None
        if isinstance(labels, SparseLabels):
            self._sparse_labels, labels = LabelRows(labels, runtime), None
        self.labels, self.label_mask = self._label_tensors(labels, len(views))
        self._resident = self._load_resident()
        self._blocks = self._blocks_on_disk(shuffle_window)
        self._cache: BlockCache | None = None
        if self._blocks is not None and not self._blocks.is_everything:
            self._cache = BlockCache(self._blocks, self._read)
        self._ordered: dict[tuple[int, Layout], Sequence[BatchIndex[Tensor]]] = {}

    def __len__(self) -> int:
        return len(self._views)

    def sample_ids(self, rows: Tensor) -> NDArray[Any]:
        """Ids of the samples in these rows."""
        ids: NDArray[Any] = self._views.sample_ids[rows.cpu().numpy()]
        return ids

    @property
    def is_resident(self) -> bool:
        """Whether all values already lie on the device, so that a batch needs nothing else."""
        labels = self._sparse_labels is None or self._sparse_labels.is_resident
        return labels and len(self._resident) == self._views.n_views

    @property
    def replay_device(self) -> torch.device:
        """Where work on these batches can be replayed: what comes from the host cannot be recorded.

        Neither values nor, where several processes share the batches, their messages.
        """
        can_record = self.is_resident and self.runtime.reducer.can_be_recorded
        return self.runtime.device if can_record else torch.device("cpu")

    def batches_of_epoch(self, size: int, generator: torch.Generator | None) -> list[list[Tensor]]:
        """Row numbers of the batches of an epoch: one list for all networks, or one for each."""
        blocks = self._blocks
        if generator is None or blocks is None:
            if self._parts is not None:
                return self._parts.batches(size, generator)
            return [batches_of_epoch(len(self), size, generator)]
        order = blocks.order(generator)
        if self._parts is not None:
            return self._parts.cut(order.numpy(), size, blocks.window_rows)
        return [cut(order, size)]

    def index(
        self,
        batches: Sequence[Tensor],
        layout: Layout,
        generator: torch.Generator | None = None,
        capacity: Capacity | None = None,
    ) -> EpochIndex:
        """Decide on the rows of these batches; with a capacity, all in one shape."""
        sampled = sample_batches(batches, self.observed, layout, generator)
        return self._index(sampled, layout, LOCAL, capacity)

    def training_indices(
        self,
        batches: Sequence[Sequence[Tensor]],
        layout: Layout,
        generator: torch.Generator | None,
        capacities: Sequence[Capacity],
    ) -> list[EpochIndex]:
        """The same for the steps of every network, which processes share; each in its shape."""
        reducer, found = self.runtime.reducer, []
        for own, capacity in zip(batches, capacities, strict=True):
            sampled = sample_batches(own, self.observed, layout, generator)
            found.append(self._index(sampled, layout, reducer, capacity))
        return found

    def epoch(
        self, batches: Sequence[Tensor], layout: Layout, generator: torch.Generator | None = None
    ) -> EpochParts:
        """The same for training step by step: batches as long as their rows, made when needed."""
        sampled = sample_batches(batches, self.observed, layout, generator)
        return self._parts_of(sampled, layout, self.runtime.reducer)

    def _parts_of(
        self, sampled: SampledBatches, layout: Layout, reducer: Reducer = LOCAL
    ) -> EpochParts:
        return EpochParts(sampled, partial(self._index, layout=layout, reducer=reducer))

    def _index(
        self,
        sampled: SampledBatches,
        layout: Layout,
        reducer: Reducer,
        capacity: Capacity | None = None,
    ) -> EpochIndex:
        dtype = self.runtime.numpy_dtype
        return EpochIndex(sampled, self._blank, layout, capacity, dtype, reducer)

    def batch_indices(
        self, batches: Sequence[Tensor], layout: Layout
    ) -> Sequence[BatchIndex[Tensor]]:
        """Indices of batches that are used again and again: on the device, if the values are."""
        epoch = self._parts_of(sample_batches(batches, self.observed, layout, None), layout)
        return [self._on_device(index) for index in epoch] if self.is_resident else epoch

    def batch(self, rows: Tensor, layout: Layout | None = None) -> Batch:
        """The batch of these row numbers (a CPU tensor)."""
        return self.assemble(self.index([rows], layout or Layout()).batch(0))

    def in_order(self, size: int, layout: Layout, own: bool = False) -> Iterator[Batch]:
        """All rows in their order. The indices are kept: they are asked for every epoch.

        `own`: only the batches that are this process's, of several that add up what they find.
        """
        if (size, layout) not in self._ordered:
            batches = torch.arange(len(self)).split(size)
            self._ordered[size, layout] = self.batch_indices(batches, layout)
        reducer, indices = self.runtime.reducer, self._ordered[size, layout]
        if own and reducer.count > 1:
            indices = indices[reducer.rank :: reducer.count]
        yield from self.assembled(indices)

    def assembled(self, indices: Sequence[BatchIndex[Tensor]]) -> Iterator[Batch]:
        """The batches that these indices describe; read ahead, if they have to be read."""

        def make(t: int) -> Batch:
            return self.assemble(indices[t])

        with read_ahead(make, len(indices), self._n_ahead(indices)) as batches:
            yield from batches

    @contextmanager
    def steps(self, epochs: Sequence[EpochParts]) -> Iterator[Iterator[Step]]:
        """The batches of the steps of an epoch, for one network or for each, with their indices.

        Read ahead by a thread, if they have to be read, and each row once for all networks.
        """

        def make(t: int) -> Step:
            indices = [epoch.batch(t) for epoch in epochs]
            tables = self._tables(indices, self._cache)
            return indices, [self._assemble(index, tables) for index in indices]

        with read_ahead(make, epochs[0].n_batches, self._n_ahead(epochs[0])) as steps:
            yield steps

    def assemble(self, index: BatchIndex[Tensor]) -> Batch:
        """The batch that an index describes."""
        return self._assemble(index, self._tables([index]))

    def _assemble(self, index: BatchIndex[Tensor], tables: Sequence[_Table]) -> Batch:
        here = self._on_device(index)
        n_views, dtype = self._views.n_views, self.runtime.dtype
        labels, mask = self._labels_of(here.rows, index.rows)
        if here.is_sample is not None:
            mask = mask * here.is_sample.unsqueeze(1)
        observed = here.visible.bool()
        rows = [here.rows] * n_views
        host_rows = [index.rows] * n_views
        if here.views:
            rows = [view.rows for view in here.views]
            host_rows = [view.rows for view in index.views]
        views = Gathered(
            [table.values for table in tables],
            [t.find(*both) for t, *both in zip(tables, rows, host_rows, strict=True)],
        )
        batch = Batch(views, observed, labels, mask, here.n_samples)
        batch.rows, batch.is_sample = here.rows, here.is_sample
        if here.share is not None and index.share is not None:
            make_whole = partial(self._whole, here.share, index.share)
            batch.share = BatchShare(here.share, self.runtime.reducer, make_whole)
        if here.views:
            batch.entry_rows = here.entry_rows
            batch.row_entries = torch.cat([view.entry for view in here.views])
            batch.norm_weights = [view.norm_weight for view in here.views]
            weights = [view.row_weight for view in here.views if view.row_weight is not None]
            batch.row_weight = torch.cat(weights) if weights else None
        else:
            batch.norm_weights = [here.is_sample] * n_views
            batch.row_weight = observed.T.reshape(-1).to(dtype)
        batch.targets = [
            Target(
                table.values,
                table.find(pair.target, host.target),
                pair.source,
                pair.back,
                pair.weight,
                pair.norm_weight,
            )
            for table, pair, host in zip(tables, here.pairs, index.pairs, strict=False)
        ]
        return batch

    def _whole(self, here: ShareIndex[Tensor], host: ShareIndex[Tensor]) -> Batch:
        """The batch of all processes, without values."""
        labels, mask = self._labels_of(here.rows, host.rows)
        if here.is_sample is not None:
            mask = mask * here.is_sample.unsqueeze(1)
        whole = Batch(Gathered([], []), here.visible.bool(), labels, mask, here.n_samples)
        whole.rows, whole.is_sample = here.rows, here.is_sample
        return whole

    def _labels_of(self, rows: Tensor, host_rows: Tensor) -> tuple[Tensor, Tensor]:
        if self._sparse_labels is not None:
            return self._sparse_labels.rows(rows, host_rows)
        dtype = self.runtime.dtype
        return self.labels[rows].to(dtype), self.label_mask[rows].to(dtype)

    def _on_device(self, index: BatchIndex[Tensor]) -> BatchIndex[Tensor]:
        device = self.runtime.device
        if index.rows.device == device:
            return index
        return index.map(lambda values: values.to(device, non_blocking=True))

    def _tables(
        self, indices: Sequence[BatchIndex[Tensor]], cache: BlockCache | None = None
    ) -> list[_Table]:
        """Values of every view: all rows, or those of these batches, read now."""
        rows = [index.rows.cpu().numpy() for index in indices if not self.is_resident]
        tables = []
        for view in range(self._views.n_views):
            if view in self._resident:
                tables.append(_Table(self._resident[view]))
                continue
            numbers = np.unique(np.concatenate([*rows, [self._blank[view]]]))
            block = self._read(view, numbers) if cache is None else cache.read(view, numbers)
            tables.append(_Table(torch.from_numpy(block).to(self.runtime.device), numbers))
        return tables

    def _n_ahead(self, indices: Sequence[BatchIndex[Tensor]]) -> int:
        """How many batches are read ahead: none, where there is nothing to read."""
        if self.is_resident or not len(indices):
            return 0
        batch_bytes = 4 * sum(self._views.dims) * len(indices[0].rows)
        return max(1, min(_MOST_AHEAD, _AHEAD_BYTES // max(1, batch_bytes)))

    def _blocks_on_disk(self, window_rows: int) -> RowBlocks | None:
        """The blocks of rows that lie together, if views are read from disk batch by batch."""
        read = [v for v in range(self._views.n_views) if v not in self._resident]
        if not any(self._views.is_on_disk(self._views.names[v]) for v in read):
            return None
        return RowBlocks.of(self._views, window_rows, 4 * sum(self._views.dims[v] for v in read))

    def _load_resident(self) -> dict[int, Tensor]:
        """Views kept as tensors; a sparse view stays sparse until a batch needs its rows.

        Except on a GPU: a step that has to ask the host for its rows cannot be recorded.
        """
        names, everything = self._views.names, self.runtime.device.type == "cuda"
        dense = [v for v, n in enumerate(names) if everything or not self._views.is_sparse(n)]
        total = len(self._views) * sum(self._views.dims[v] for v in dense) * 4
        fits = total <= RESIDENT_BYTES[self.runtime.device.type]
        device = self.runtime.device
        return {v: torch.from_numpy(self._read(v)).to(device) for v in dense} if fits else {}

    def _read(self, view: int, rows: NDArray[np.int64] | None = None) -> NDArray[Any]:
        """Prepared rows of a view as the networks get them; all if None."""
        block = self._rows.read(view, rows)
        if self._noise_seed is not None:
            wanted = np.arange(len(self)) if rows is None else rows
            fill_with_noise(block, self.observed[wanted, view], wanted, (self._noise_seed, view))
        return block

    def _label_tensors(self, labels: Labels | None, n: int) -> tuple[Tensor, Tensor]:
        if labels is None:
            nothing = torch.zeros(n, 0, dtype=self.runtime.dtype, device=self.runtime.device)
            return nothing, nothing
        values = torch.from_numpy(np.array(labels.values)).to(self.runtime.device)
        observed = torch.from_numpy(np.array(labels.observed)).to(self.runtime.device)
        if values.numel() > _MANY_ENTRIES:
            return values, observed
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
    for row in np.flatnonzero(~observed):
        draw = np.random.default_rng((*seed, int(rows[row])))
        block[row] = draw.standard_normal(block.shape[1], dtype=np.float32)
