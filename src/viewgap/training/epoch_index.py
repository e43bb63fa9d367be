"""Which rows every batch of an epoch reads, decided on the host before the epoch begins.

An index holds row numbers and weights, no values. It is made for all batches of an epoch at once,
either exact, or of one shape that rows of weight zero fill up, for the recorded steps of a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray
from torch import Tensor

Rows = NDArray[np.int64]
Mask = NDArray[np.bool_]
Weights = NDArray[np.float64]

_ROUND_UP = 16  # fixed shapes grow in steps of this many rows: a tile of the matrix units


# ---------------------------------------------------------------------- what a network asks for


@dataclass(frozen=True)
class Layout:
    """What a network wants to find in its batches.

    `rows`: `"packed"` gives each view only the samples that have it, `"dense"` all of them, zero
    where the view is missing. `norm_rows`: which rows normalisation statistics are taken over;
    with `"all"` and packed rows, the missing samples, whose rows are all alike, are folded into
    one row that counts as many times. `pairs`: what is decoded from what (`"none"`, `"own"` view,
    `"cross"` views, or `"sampled"`: from one of these, drawn anew every time, which is the mean
    over them in expectation). `view_dropout`: share of the observed views hidden from the encoders.
    """

    rows: str = "dense"
    norm_rows: str = "observed"
    pairs: str = "none"
    view_dropout: float = 0.0

    @property
    def folded(self) -> bool:
        """Whether missing samples are one row with a weight."""
        return self.rows == "packed" and self.norm_rows == "all"


@dataclass
class Capacity:
    """How many samples, rows of each view and pairs of each decoded view a fixed shape holds."""

    views: list[int] = field(default_factory=list)
    pairs: list[int] = field(default_factory=list)
    samples: int = 0

    def grow(self, views: Sequence[int], pairs: Sequence[int], samples: int = 0) -> bool:
        """Make room for these numbers; True if the shape had to change."""
        before = self.shape
        # The first batches set it; those of networks that leave rows out may be longer later.
        self.samples = _room([self.samples], [samples])[0] if self.samples else samples
        self.views, self.pairs = _room(self.views, views), _room(self.pairs, pairs)
        return self.shape != before

    @property
    def shape(self) -> tuple[tuple[int, ...], ...]:
        """The numbers themselves, to tell whether they have changed."""
        return (self.samples,), tuple(self.views), tuple(self.pairs)


def _room(have: list[int], need: Sequence[int]) -> list[int]:
    if not need:
        return have
    pairs = zip(have or [0] * len(need), need, strict=True)
    return [old if old >= n else -(-n // _ROUND_UP) * _ROUND_UP for old, n in pairs]


# ---------------------------------------------------------------------- the samples of an epoch


@dataclass
class SampledBatches:
    """The samples of T batches: row numbers (T, B), -1 where a batch is shorter, and their views.

    `observed` (T, B, m): the sample has the view; `visible`: and it is not hidden from the
    encoders. `source` (T, B, m): the visible view that each view is decoded from, where only one
    is; None = from all of them.
    """

    rows: Rows
    observed: Mask
    visible: Mask
    source: NDArray[np.int16] | None = None

    @property
    def is_sample(self) -> Mask:
        """Which entries of `rows` are samples, (T, B)."""
        return self.rows >= 0

    def padded(self, width: int) -> SampledBatches:
        """The same batches with room for `width` samples."""
        more = width - self.rows.shape[1]
        if more == 0:
            return self
        wide = ((0, 0), (0, more), (0, 0))
        return SampledBatches(
            np.pad(self.rows, wide[:2], constant_values=-1),
            np.pad(self.observed, wide),
            np.pad(self.visible, wide),
            None if self.source is None else np.pad(self.source, wide),
        )

    def pair_mask(self, target: int, pairs: str) -> Mask:
        """(T, m, B): the code of view v of sample b is decoded into view `target`."""
        mask = self.visible.transpose(0, 2, 1) & self.observed[:, None, :, target]
        if self.source is not None:
            views = np.arange(mask.shape[1])
            mask &= self.source[:, None, :, target] == views[:, None]
        if pairs == "own":
            mask[:, np.arange(mask.shape[1]) != target] = False
        return mask

    def most_rows(self) -> list[int]:
        """The most rows of each view that a batch has."""
        return [int(count) for count in self.visible.sum(axis=1).max(axis=0)]

    def most_pairs(self, layout: Layout) -> list[int]:
        """The most pairs of each decoded view that a batch has, where only these are kept."""
        if layout.pairs == "none" or layout.norm_rows != "observed":
            return []
        if layout.pairs == "own":  # a visible view is an observed one
            return self.most_rows()
        codes = self.visible.sum(axis=2)
        if self.source is not None:  # one of them
            codes = np.minimum(codes, 1)
        pairs = np.einsum("tb,tbj->tj", codes, self.observed)
        return [int(count) for count in pairs.max(axis=0)]


def sample_batches(
    batches: Sequence[Tensor], observed: Mask, layout: Layout, generator: torch.Generator | None
) -> SampledBatches:
    """Look the batches up, hide views (one always stays), and draw what views are decoded from."""
    rate = layout.view_dropout
    width, views = max(len(batch) for batch in batches), observed.shape[1]
    rows = np.full((len(batches), width), -1, dtype=np.int64)
    draws = np.ones((len(batches), width, views), dtype=np.float64)
    order = torch.cat(list(batches))
    is_sample = np.arange(width) < np.array([len(batch) for batch in batches])[:, None]
    rows[is_sample] = order.numpy()
    if rate > 0:  # all at once: the same numbers as batch by batch
        draws[is_sample] = torch.rand(len(order), views, generator=generator).numpy()
    is_observed = observed[np.maximum(rows, 0)] & (rows >= 0)[:, :, None]
    draws[~is_observed] = -1.0
    threshold = np.minimum(draws.max(axis=2, keepdims=True), np.float64(rate))
    sampled = SampledBatches(rows, is_observed, is_observed & (draws >= threshold))
    if layout.pairs == "sampled":
        sampled.source = _draw_sources(sampled.visible, generator)
    return sampled


def _draw_sources(visible: Mask, generator: torch.Generator | None) -> NDArray[np.int16]:
    """One visible view for every (sample, view to decode), all alike probable. Shape: (T, B, m)."""
    draws = torch.rand(*visible.shape, generator=generator).numpy()
    sources = np.empty(visible.shape, dtype=np.int16)
    for t, own in enumerate(visible):
        counts = own.sum(axis=1, keepdims=True)
        wanted = np.minimum((draws[t] * counts).astype(np.int64), np.maximum(counts - 1, 0))
        order = np.argsort(~own, axis=1, kind="stable")  # visible ones first, as they follow
        sources[t] = np.take_along_axis(order, wanted, axis=1)
    return sources


# ---------------------------------------------------------------------- index of one batch

Leaf = TypeVar("Leaf")
Other = TypeVar("Other")


@dataclass(slots=True)
class ViewIndex(Generic[Leaf]):
    """The rows of one view in a batch of packed rows.

    Shape: all (R_v,). `rows`: row numbers of the source. `entry`: which of the m·B entries
    (view, sample) a row is, m·B if none. `row_weight`, `norm_weight`: how often a row counts in
    losses and in normalisation; None = every row once.
    """

    rows: Leaf
    entry: Leaf
    row_weight: Leaf | None = None
    norm_weight: Leaf | None = None

    def map(self, function: Callable[[Leaf], Other]) -> ViewIndex[Other]:
        """The same index with every array replaced."""
        return ViewIndex(
            function(self.rows),
            function(self.entry),
            None if self.row_weight is None else function(self.row_weight),
            None if self.norm_weight is None else function(self.norm_weight),
        )


@dataclass(slots=True)
class PairIndex(Generic[Leaf]):
    """What one view is decoded from: pairs (row of a code, row of this view).

    Shape: all but `back` (P,) or (groups, P); groups are normalised separately. `source`: row of
    the code, all views in a row; one past the last is an all-zero code. `back` (ΣR,): which pair a
    code is in, the number of pairs if in none. `target`: row number to compare with. `weight`: of
    the pair in the loss; `norm_weight`: in normalisation, None = every pair once.
    """

    source: Leaf
    back: Leaf
    target: Leaf
    weight: Leaf
    norm_weight: Leaf | None = None

    def map(self, function: Callable[[Leaf], Other]) -> PairIndex[Other]:
        """The same index with every array replaced."""
        return PairIndex(
            function(self.source),
            function(self.back),
            function(self.target),
            function(self.weight),
            None if self.norm_weight is None else function(self.norm_weight),
        )


@dataclass(slots=True)
class BatchIndex(Generic[Leaf]):
    """One batch: row numbers of its samples, rows of its views, pairs to decode.

    `rows` (B,); `visible` (B, m): views that the encoders get; `n_samples` (). `is_sample` (B,): 1
    for samples, 0 for what fills a fixed shape up; None = all are. `views` and `entry_rows` (m, B),
    the row of every entry (all views in a row, ΣR if it has none), are for packed rows only.
    `pairs`: one per decoded view. `update_factors` (3,): what changes in the optimiser from step to
    step, where steps are replayed. `share`: a `BatchShare`, where processes share the batch.
    """

    rows: Leaf
    visible: Leaf
    n_samples: Leaf
    is_sample: Leaf | None = None
    views: list[ViewIndex[Leaf]] = field(default_factory=list)
    entry_rows: Leaf | None = None
    pairs: list[PairIndex[Leaf]] = field(default_factory=list)
    update_factors: Leaf | None = None
    share: Any = None

    def map(self, function: Callable[[Leaf], Other]) -> BatchIndex[Other]:
        """The same index with every array replaced; one that is shared is replaced once."""
        done: dict[int, Other] = {}

        def once(leaf: Leaf) -> Other:
            if id(leaf) not in done:
                done[id(leaf)] = function(leaf)
            return done[id(leaf)]

        return BatchIndex(
            once(self.rows),
            once(self.visible),
            once(self.n_samples),
            None if self.is_sample is None else once(self.is_sample),
            [view.map(once) for view in self.views],
            None if self.entry_rows is None else once(self.entry_rows),
            [pair.map(once) for pair in self.pairs],
            None if self.update_factors is None else once(self.update_factors),
            self.share,
        )


# ---------------------------------------------------------------------- index of an epoch


@dataclass(slots=True, eq=False)
class Stacked:
    """One array of an index for all batches, (T, ...).

    `lengths` (T,): how much of dimension `axis` of its part a batch uses; None = all.
    """

    values: NDArray[Any]
    lengths: NDArray[np.int64] | None = None
    axis: int = -1

    def of_batch(self, t: int) -> Tensor:
        """The part of batch t."""
        values = self.values[t]
        if self.lengths is not None:
            length = self.lengths[t]
            values = values[:length] if self.axis == 0 else values[..., :length]
        return torch.from_numpy(np.asarray(values)).contiguous()


class EpochIndex:
    """The index of T batches; `batch(t)` is that of one.

    `arrays` is the same with the arrays of all batches; what several pairs have in common is one
    array. `reshaped`: whether the capacity had to grow for these batches.

    Parameters
    ----------
    batches : SampledBatches
        Which samples, and which of their views.
    blank : sequence of int
        A row number of every view in which that view is missing, and so all zero.
    layout : Layout
        What the network asks for.
    capacity : Capacity, optional
        The fixed shape, which grows if it has to; None = every batch as long as its rows.
    dtype : float32 or float64
        Number format of the weights.
    """

    def __init__(
        self,
        batches: SampledBatches,
        blank: Sequence[int],
        layout: Layout,
        capacity: Capacity | None = None,
        dtype: DTypeLike = np.float64,
    ) -> None:
        self._batches, self._blank, self._layout = batches, blank, layout
        self._dtype = np.dtype(dtype)
        self._is_fixed = capacity is not None
        self._counts = batches.visible.sum(axis=1)  # (T, m)
        self.n_batches, self._width, self._n_views = batches.visible.shape
        needed = batches.most_rows(), batches.most_pairs(layout)
        self.reshaped = capacity is not None and capacity.grow(*needed, self._width)
        self._room = capacity or Capacity(*needed, self._width)
        self._width = self._room.samples
        self._batches = batches = batches.padded(self._width)
        self._sizes = batches.is_sample.sum(axis=1)
        self._rows = np.where(batches.is_sample, batches.rows, 0)
        self.arrays = self._index_samples()
        if layout.rows == "dense":
            entry_rows, n_rows = self._dense_entry_rows()
        else:
            entry_rows, n_rows = self._index_views()
        if layout.pairs != "none":
            self._index_pairs(entry_rows, n_rows)

    def batch(self, t: int) -> BatchIndex[Tensor]:
        """The index of batch t, exact or of the fixed shape."""
        return self.arrays.map(lambda stacked: stacked.of_batch(t))

    def leaves(self) -> list[Stacked]:
        """All arrays, each once, in an order that depends on the layout only."""
        leaves: list[Stacked] = []
        self.arrays.map(leaves.append)
        return leaves

    # ------------------------------------------------------------------ building

    def _stack(
        self, values: NDArray[Any], lengths: NDArray[np.int64] | None, axis: int = -1
    ) -> Stacked:
        if values.dtype.kind == "f":
            values = values.astype(self._dtype, copy=False)
        return Stacked(values, None if self._is_fixed else lengths, axis)

    def _index_samples(self) -> BatchIndex[Stacked]:
        is_sample = self._batches.is_sample.astype(np.float64)
        return BatchIndex(
            self._stack(self._rows, self._sizes),
            self._stack(self._batches.visible, self._sizes, axis=0),
            self._stack(self._sizes.astype(np.float64), None),
            self._stack(is_sample, None) if self._is_fixed else None,
        )

    def _dense_entry_rows(self) -> tuple[Rows, Rows]:
        """The row of every visible entry (T, B, m), and the number of rows (T,)."""
        width = np.full(self.n_batches, self._width) if self._is_fixed else self._sizes
        starts = width[:, None] * np.arange(self._n_views)
        n_rows = width * self._n_views
        entry_rows = starts[:, None, :] + np.arange(self._width)[None, :, None]
        return np.where(self._batches.visible, entry_rows, n_rows[:, None, None]), n_rows

    def _index_views(self) -> tuple[Rows, Rows]:
        """Add the packed rows of every view; returns the same as `_dense_entry_rows`."""
        visible, counts = self._batches.visible, self._counts
        extra = int(self._layout.folded)
        room = np.array(self._room.views) + extra
        lengths = np.broadcast_to(room, counts.shape) if self._is_fixed else counts + extra
        ends = lengths.cumsum(axis=1)
        stride = np.full(self.n_batches, self._width) if self._is_fixed else self._sizes
        entry_rows = np.broadcast_to(ends[:, -1][:, None, None], visible.shape).copy()
        for v in range(self._n_views):
            t, b = np.nonzero(visible[:, :, v])
            rank = visible[:, :, v].cumsum(axis=1)[t, b] - 1
            entry_rows[t, b, v] = (ends[:, v] - lengths[:, v])[t] + rank
            rows = np.full((self.n_batches, room[v]), self._blank[v], dtype=np.int64)
            rows[t, rank] = self._rows[t, b]
            entry = np.repeat((self._n_views * stride)[:, None], room[v], axis=1)
            entry[t, rank] = v * stride[t] + b
            index = ViewIndex(self._stack(rows, lengths[:, v]), self._stack(entry, lengths[:, v]))
            if self._is_fixed or extra:
                weight = np.zeros((self.n_batches, room[v]), dtype=np.float64)
                weight[t, rank] = 1.0
                index.row_weight = index.norm_weight = self._stack(weight, lengths[:, v])
                if extra:
                    weight = weight.copy()
                    weight[np.arange(self.n_batches), counts[:, v]] = self._sizes - counts[:, v]
                    index.norm_weight = self._stack(weight, lengths[:, v])
            self.arrays.views.append(index)
        by_view = np.ascontiguousarray(entry_rows.transpose(0, 2, 1))
        self.arrays.entry_rows = self._stack(by_view, stride)
        return entry_rows, ends[:, -1]

    def _index_pairs(self, entry_rows: Rows, n_rows: Rows) -> None:
        """Add what every view is decoded from."""
        everything = list(range(self._n_views))
        if self._layout.norm_rows == "observed":
            pairs = [self._packed_pairs(j, entry_rows, n_rows) for j in everything]
        elif self._layout.pairs == "own":
            pairs = [self._grouped_pairs([j], [j], entry_rows, n_rows)[0] for j in everything]
        else:
            pairs = self._grouped_pairs(everything, everything, entry_rows, n_rows)
        self.arrays.pairs = pairs

    def _pair_weight(self) -> Weights:
        """1 / number of views that a view of the sample is decoded from, (T, B)."""
        if self._batches.source is not None:
            return np.ones(self._batches.rows.shape)
        counts: Weights = np.maximum(self._batches.visible.sum(axis=2), 1).astype(np.float64)
        return 1.0 / counts

    def _packed_pairs(self, j: int, entry_rows: Rows, n_rows: Rows) -> PairIndex[Stacked]:
        """Only the pairs that count."""
        mask = self._batches.pair_mask(j, self._layout.pairs)
        t, v, b = np.nonzero(mask)
        flat = mask.reshape(self.n_batches, -1)
        rank = (flat.cumsum(axis=1).reshape(mask.shape) - 1)[t, v, b]
        lengths = flat.sum(axis=1)
        shape = (self.n_batches, self._room.pairs[j])
        source = np.repeat(n_rows[:, None], shape[1], axis=1)
        target = np.full(shape, self._blank[j], dtype=np.int64)
        weight = np.zeros(shape, dtype=np.float64)
        source[t, rank] = entry_rows[t, b, v]
        target[t, rank] = self._rows[t, b]
        weight[t, rank] = self._pair_weight()[t, b]
        counts = (weight > 0).astype(np.float64)
        return PairIndex(
            self._stack(source, lengths),
            self._back(source, n_rows, lengths),
            self._stack(target, lengths),
            self._stack(weight, lengths),
            self._stack(counts, lengths) if self._is_fixed else None,
        )

    def _back(self, source: Rows, n_rows: Rows, lengths: NDArray[np.int64]) -> Stacked:
        """Which pair each code is in: the inverse of `source`."""
        width = np.full(self.n_batches, source.shape[-1]) if self._is_fixed else lengths
        groups = source.shape[1] if source.ndim == 3 else 1
        rows = source.reshape(self.n_batches, groups, -1)
        t, g, pair = np.nonzero(rows < n_rows[:, None, None])
        back = np.repeat((width * groups)[:, None], int(n_rows.max()), axis=1)
        back[t, rows[t, g, pair]] = g * width[t] + pair
        return self._stack(back, n_rows)

    def _grouped_pairs(
        self, sources: list[int], targets: list[int], entry_rows: Rows, n_rows: Rows
    ) -> list[PairIndex[Stacked]]:
        """One group of rows per source view, normalised on its own, missing samples included.

        All targets have the same pairs here, only their weights differ: 0 where there is no such
        view to compare with.
        """
        folded, visible, counts = self._layout.folded, self._batches.visible, self._counts
        width = max(self._room.views) + 1 if folded else self._width
        shape = (self.n_batches, len(sources), width)
        source = np.broadcast_to(n_rows[:, None, None], shape).copy()
        target = np.zeros(shape, dtype=np.int64)
        norm_weight = np.zeros(shape)
        weights = [np.zeros(shape) for _ in targets]
        for g, v in enumerate(sources):
            t, b = np.nonzero(visible[:, :, v] if folded else self._batches.is_sample)
            at = visible[:, :, v].cumsum(axis=1)[t, b] - 1 if folded else b
            source[t, g, at] = entry_rows[t, b, v]
            target[t, g, at] = self._rows[t, b]
            norm_weight[t, g, at] = 1.0
            if folded:
                missing = self._sizes - counts[:, v]
                norm_weight[np.arange(self.n_batches), g, counts[:, v]] = missing
            of_pair = self._pair_weight()[t, b] * visible[t, b, v]
            for j, weight in zip(targets, weights, strict=True):
                weight[t, g, at] = of_pair * self._batches.observed[t, b, j]
        lengths = counts.max(axis=1) + 1 if folded else self._sizes
        needs_weight = folded or self._is_fixed
        common = (
            self._stack(source, lengths),
            self._back(source, n_rows, lengths),
            self._stack(target, lengths),
        )
        norms = self._stack(norm_weight, lengths) if needs_weight else None
        return [PairIndex(*common, self._stack(weight, lengths), norms) for weight in weights]
