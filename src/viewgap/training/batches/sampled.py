"""The samples of an epoch's batches, and which of their views a network gets to see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from viewgap.nn.reduce import Reducer

Rows = NDArray[np.int64]
Mask = NDArray[np.bool_]


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


# ---------------------------------------------------------------------- some of them, parts of them


def some_of(batches: SampledBatches, start: int, count: int) -> SampledBatches:
    """A run of the batches."""
    part = slice(start, start + count)
    source = None if batches.source is None else batches.source[part]
    return SampledBatches(batches.rows[part], batches.observed[part], batches.visible[part], source)


def part_of(batches: SampledBatches, reducer: Reducer) -> SampledBatches:
    """The samples of every batch that this process has: of B, those from B·r/W on."""
    starts, stops = part_limits(batches, reducer)
    width = max(1, int((stops - starts).max()))
    places = starts[:, None] + np.arange(width)
    exists = places < stops[:, None]
    t, at = np.arange(len(starts))[:, None], np.where(exists, places, 0)
    source = None if batches.source is None else batches.source[t, at]
    return SampledBatches(
        np.where(exists, batches.rows[t, at], -1),
        batches.observed[t, at] & exists[:, :, None],
        batches.visible[t, at] & exists[:, :, None],
        source,
    )


def part_limits(batches: SampledBatches, reducer: Reducer) -> tuple[Rows, Rows]:
    """Where the part of this process begins and ends in every batch, both (T,)."""
    sizes = batches.is_sample.sum(axis=1)
    return sizes * reducer.rank // reducer.count, sizes * (reducer.rank + 1) // reducer.count
