"""The index of a batch: row numbers and weights, no values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

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
class Room:
    """How many samples, rows of every view and pairs of every target a batch has."""

    samples: int
    views: list[int] = field(default_factory=list)
    pairs: list[int] = field(default_factory=list)


@dataclass(slots=True)
class ShareIndex(Generic[Leaf]):
    """A whole batch, and where in it this process has its part, of several that share the batch.

    `rows` (S,), `visible` (S, m), `n_samples` () and `is_sample` (S,): as in `BatchIndex`, of all
    samples. `samples` (B,): the place of each own sample among them; `views[v]` (R_v,) and
    `pairs[j]` (P_j,): likewise of rows and pairs; empty lists where these are the samples, and
    rows of the view. What only fills a fixed shape up has the place after the last one. `room`: of
    the whole batch.
    """

    rows: Leaf
    visible: Leaf
    n_samples: Leaf
    samples: Leaf
    room: Room
    is_sample: Leaf | None = None
    views: list[Leaf] = field(default_factory=list)
    pairs: list[Leaf] = field(default_factory=list)

    def map(self, function: Callable[[Leaf], Other]) -> ShareIndex[Other]:
        """The same index with every array replaced."""
        return ShareIndex(
            function(self.rows),
            function(self.visible),
            function(self.n_samples),
            function(self.samples),
            self.room,
            None if self.is_sample is None else function(self.is_sample),
            [function(places) for places in self.views],
            [function(places) for places in self.pairs],
        )


@dataclass(slots=True)
class BatchIndex(Generic[Leaf]):
    """One batch: row numbers of its samples, rows of its views, pairs to decode.

    `rows` (B,); `visible` (B, m): views that the encoders get; `n_samples` (). `is_sample` (B,): 1
    for samples, 0 for what fills a fixed shape up; None = all are. `views` and `entry_rows` (m, B),
    the row of every entry (all views in a row, ΣR if it has none), are for packed rows only.
    `pairs`: one per decoded view. `update_factors` (3,): what changes in the optimiser from step to
    step, where steps are replayed. `share`: where several processes share the batch.
    """

    rows: Leaf
    visible: Leaf
    n_samples: Leaf
    is_sample: Leaf | None = None
    views: list[ViewIndex[Leaf]] = field(default_factory=list)
    entry_rows: Leaf | None = None
    pairs: list[PairIndex[Leaf]] = field(default_factory=list)
    update_factors: Leaf | None = None
    share: ShareIndex[Leaf] | None = None

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
            None if self.share is None else self.share.map(once),
        )


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
