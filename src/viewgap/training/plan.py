"""Which rows every batch of an epoch reads, decided on the host before the epoch begins.

A plan holds row numbers and weights, no values. It is made for many batches at once, either exact
(every batch as long as its rows) or of one fixed shape, with rows of weight zero to fill it, so
that a GPU can replay a recorded step. The same mathematics runs on both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Rows = NDArray[np.int64]
Mask = NDArray[np.bool_]
Weights = NDArray[np.float64]

_ROUND_UP = 16  # fixed shapes grow in steps of this many rows: a tile of the matrix units


@dataclass(frozen=True)
class Layout:
    """What a network wants to find in its batches.

    `rows`: `"packed"` gives each view only the samples that have it, `"dense"` all of them, zero
    where the view is missing. `norm_rows`: which rows normalisation statistics are taken over;
    with `"all"` and packed rows, the missing samples, whose rows are all alike, are folded into
    one row that counts as many times. `pairs`: what is decoded from what (`"none"`, `"own"` view
    or `"cross"` view). `view_dropout`: share of the observed views hidden from the encoders.
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
    """How many rows of each view and pairs of each target the fixed shape has room for."""

    views: list[int] = field(default_factory=list)
    pairs: list[int] = field(default_factory=list)

    def grow(self, views: Sequence[int], pairs: Sequence[int]) -> bool:
        """Make room for these numbers; True if the shape had to change."""
        before = (self.views, self.pairs)
        self.views, self.pairs = _room(self.views, views), _room(self.pairs, pairs)
        return (self.views, self.pairs) != before


def _room(have: list[int], need: Sequence[int]) -> list[int]:
    if not need:
        return have
    pairs = zip(have or [0] * len(need), need, strict=True)
    return [old if old >= n else -(-n // _ROUND_UP) * _ROUND_UP for old, n in pairs]


@dataclass
class Choice:
    """The samples of T batches: row numbers (T, B), -1 where a batch is shorter, and their views.

    `seen` (T, B, m): the view is observed; `shown`: and not hidden from the encoders.
    """

    rows: Rows
    seen: Mask
    shown: Mask

    @property
    def real(self) -> Mask:
        """Which places hold a sample, (T, B)."""
        return self.rows >= 0

    def pair_mask(self, target: int, pairs: str) -> Mask:
        """(T, m, B): the code of view v of sample b is decoded into view `target`."""
        mask = self.shown.transpose(0, 2, 1) & self.seen[:, None, :, target]
        if pairs == "own":
            mask[:, np.arange(mask.shape[1]) != target] = False
        return mask


def choose(
    batches: Sequence[Tensor], observed: Mask, rate: float, generator: torch.Generator | None
) -> Choice:
    """Look the batches up, and hide views with probability `rate`; one view always stays."""
    width, views = max(len(batch) for batch in batches), observed.shape[1]
    rows = np.full((len(batches), width), -1, dtype=np.int64)
    draws = np.ones((len(batches), width, views), dtype=np.float64)
    for t, batch in enumerate(batches):
        rows[t, : len(batch)] = batch.numpy()
        if rate > 0:
            draws[t, : len(batch)] = torch.rand(len(batch), views, generator=generator).numpy()
    seen = observed[np.maximum(rows, 0)] & (rows >= 0)[:, :, None]
    draws[~seen] = -1.0
    bar = np.minimum(draws.max(axis=2, keepdims=True), np.float64(rate))
    return Choice(rows, seen, seen & (draws >= bar))


class Plan:
    """Row numbers and weights of T batches; `step(t)` has those of one.

    Entries of a step, each a tensor: `rows` (B,) of the samples, `observed` (B, m), `count` ();
    for packed rows `rows<v>` (R_v,), `places<v>` their cells among m·B and `cells` (m, B) the way
    back, `counted<v>` and `norm<v>` their weights in losses and in normalisation; for every decoded
    view j `source<j>` the row of the code to decode, `back<j>` the pair of each code, `target<j>`
    the row to compare with, `share<j>` the weight of the pair, `pair_norm<j>` that in
    normalisation. A weight that is one everywhere is left out.
    """

    def __init__(
        self, choice: Choice, blank: Sequence[int], layout: Layout, capacity: Capacity | None = None
    ) -> None:
        self.steps, self.width, self.views = choice.shown.shape
        self.layout = layout
        self._fixed = capacity is not None
        self._choice = choice
        self._blank = blank
        self._sizes = choice.real.sum(axis=1)
        self.arrays: dict[str, NDArray[np.generic]] = {}
        self._lengths: dict[str, NDArray[np.int64]] = {}
        counts = choice.shown.sum(axis=1)
        self.needed = counts.max(axis=0), np.zeros(0, np.int64)
        if layout.pairs != "none" and layout.norm_rows == "observed":
            pairs = [choice.pair_mask(j, layout.pairs) for j in range(self.views)]
            self.needed = self.needed[0], np.array([p.sum(axis=(1, 2)).max() for p in pairs])
        if capacity is not None:
            self.reshaped = capacity.grow(self.needed[0].tolist(), self.needed[1].tolist())
        self._room = capacity or Capacity(self.needed[0].tolist(), self.needed[1].tolist())
        self._add_samples()
        code_rows, nothing = self._add_views(counts)
        if layout.pairs != "none":
            self._add_pairs(code_rows, nothing, counts)

    # ------------------------------------------------------------------ one step

    def step(self, t: int) -> dict[str, Tensor]:
        """The entries of batch t, cut to their length (those of a fixed shape are not cut)."""
        found = {}
        for name, array in self.arrays.items():
            values = array[t]
            if name in self._lengths and not self._fixed:
                values = values[..., : self._lengths[name][t]]
            found[name] = torch.from_numpy(np.array(values))
        if not self._fixed:
            size = int(self._sizes[t])
            found |= {name: found[name][:size] for name in ("rows", "observed")}
        return repeat_common(found)

    # ------------------------------------------------------------------ building

    def _add(
        self, name: str, values: NDArray[np.generic], lengths: NDArray[np.int64] | None
    ) -> None:
        self.arrays[name] = values
        if lengths is not None:
            self._lengths[name] = lengths

    def _add_samples(self) -> None:
        real = self._choice.real
        self._safe = np.where(real, self._choice.rows, 0)
        self._add("rows", self._safe, None)
        self._add("observed", self._choice.shown, None)
        self._add("count", self._sizes.astype(np.float64), None)
        if self._fixed:
            self._add("real", real.astype(np.float64), None)

    def _add_views(self, counts: NDArray[np.int64]) -> tuple[Rows, Rows]:
        """Rows of every view; returns where each cell's code will be, (T, B, m), and the row
        number (T,) after the last one, which stands for no code at all."""
        shown, steps = self._choice.shown, np.arange(self.steps)
        if self.layout.rows == "dense":
            width = np.full(self.steps, self.width) if self._fixed else self._sizes
            starts = width[:, None] * np.arange(self.views)
            nothing = width * self.views
            code_rows = starts[:, None, :] + np.arange(self.width)[None, :, None]
            return np.where(shown, code_rows, nothing[:, None, None]), nothing
        extra = int(self.layout.folded)
        room = np.array(self._room.views) + extra
        lengths = np.broadcast_to(room, counts.shape) if self._fixed else counts + extra
        ends = lengths.cumsum(axis=1)
        stride = np.full(self.steps, self.width) if self._fixed else self._sizes
        code_rows = np.broadcast_to(ends[:, -1][:, None, None], shown.shape).copy()
        for v in range(self.views):
            t, b = np.nonzero(shown[:, :, v])
            rank = shown[:, :, v].cumsum(axis=1)[t, b] - 1
            code_rows[t, b, v] = (ends[:, v] - lengths[:, v])[t] + rank
            rows = np.full((self.steps, room[v]), self._blank[v], dtype=np.int64)
            rows[t, rank] = self._safe[t, b]
            places = np.repeat((self.views * stride)[:, None], room[v], axis=1)
            places[t, rank] = v * stride[t] + b
            self._add(f"rows{v}", rows, lengths[:, v])
            self._add(f"places{v}", places, lengths[:, v])
            if self._fixed or extra:
                counted = np.zeros((self.steps, room[v]), dtype=np.float64)
                counted[t, rank] = 1.0
                self._add(f"counted{v}", counted, lengths[:, v])
                norm = counted
                if extra:
                    norm = counted.copy()
                    norm[steps, counts[:, v]] = self._sizes - counts[:, v]
                self._add(f"norm{v}", norm, lengths[:, v])
        self._add("cells", np.ascontiguousarray(code_rows.transpose(0, 2, 1)), stride)
        return code_rows, ends[:, -1]

    def _add_pairs(self, code_rows: Rows, nothing: Rows, counts: NDArray[np.int64]) -> None:
        share = 1.0 / np.maximum(self._choice.shown.sum(axis=2), 1).astype(np.float64)
        if self.layout.norm_rows == "observed":
            for j in range(self.views):
                self._add_packed_pairs(j, code_rows, nothing, share)
        elif self.layout.pairs == "own":
            for j in range(self.views):
                self._add_groups([j], [j], str(j), code_rows, nothing, share, counts)
        else:
            everything = list(range(self.views))
            self._add_groups(everything, everything, "", code_rows, nothing, share, counts)

    def _add_packed_pairs(self, j: int, code_rows: Rows, nothing: Rows, share: Weights) -> None:
        """Only the pairs that count, view by view."""
        mask = self._choice.pair_mask(j, self.layout.pairs)
        t, v, b = np.nonzero(mask)
        flat = mask.reshape(self.steps, -1)
        rank = (flat.cumsum(axis=1).reshape(mask.shape) - 1)[t, v, b]
        lengths = flat.sum(axis=1)
        shape = (self.steps, self._room.pairs[j])
        source = np.repeat(nothing[:, None], shape[1], axis=1)
        target = np.full(shape, self._blank[j], dtype=np.int64)
        weight = np.zeros(shape, dtype=np.float64)
        source[t, rank] = code_rows[t, b, v]
        target[t, rank] = self._safe[t, b]
        weight[t, rank] = share[t, b]
        self._add_sources(str(j), source, nothing, lengths)
        self._add(f"target{j}", target, lengths)
        self._add(f"share{j}", weight, lengths)
        if self._fixed:
            self._add(f"pair_norm{j}", (weight > 0).astype(np.float64), lengths)

    def _add_sources(self, j: str, source: Rows, nothing: Rows, lengths: NDArray[np.int64]) -> None:
        """Where the codes of the pairs come from, and where each code goes."""
        self._add(f"source{j}", source, lengths)
        width = np.full(self.steps, source.shape[-1]) if self._fixed else lengths
        groups = source.shape[1] if source.ndim == 3 else 1
        rows = source.reshape(self.steps, groups, -1)
        t, g, place = np.nonzero(rows < nothing[:, None, None])
        back = np.repeat((width * groups)[:, None], int(nothing.max()), axis=1)
        back[t, rows[t, g, place]] = g * width[t] + place
        self._add(f"back{j}", back, nothing)

    def _add_groups(
        self,
        sources: list[int],
        targets: list[int],
        name: str,
        code_rows: Rows,
        nothing: Rows,
        share: Weights,
        counts: NDArray[np.int64],
    ) -> None:
        """One group of rows per source view, normalised on its own, missing samples included.

        All targets have the same pairs here, only their shares differ: 0 where there is no such
        view to compare with.
        """
        folded, shown = self.layout.folded, self._choice.shown
        width = max(self._room.views) + 1 if folded else self.width
        shape = (self.steps, len(sources), width)
        source = np.broadcast_to(nothing[:, None, None], shape).copy()
        rows = np.zeros(shape, dtype=np.int64)
        norm = np.zeros(shape)
        weights = [np.zeros(shape) for _ in targets]
        for g, v in enumerate(sources):
            t, b = np.nonzero(shown[:, :, v] if folded else self._choice.real)
            place = shown[:, :, v].cumsum(axis=1)[t, b] - 1 if folded else b
            source[t, g, place] = code_rows[t, b, v]
            rows[t, g, place] = self._safe[t, b]
            norm[t, g, place] = 1.0
            if folded:
                norm[np.arange(self.steps), g, counts[:, v]] = self._sizes - counts[:, v]
            counted = share[t, b] * shown[t, b, v]
            for j, weight in zip(targets, weights, strict=True):
                weight[t, g, place] = counted * self._choice.seen[t, b, j]
        lengths = counts.max(axis=1) + 1 if folded else self._sizes
        self._add_sources(name, source, nothing, lengths)
        self._add(f"target{name}", rows, lengths)
        if folded or self._fixed:
            self._add(f"pair_norm{name}", norm, lengths)
        for j, weight in zip(targets, weights, strict=True):
            self._add(f"share{j}", weight, lengths)


def repeat_common(step: dict[str, Tensor]) -> dict[str, Tensor]:
    """What all targets have in common, under each target's name."""
    targets = [name.removeprefix("share") for name in step if name.startswith("share")]
    for name in ("source", "back", "target", "pair_norm"):
        if name in step:
            step |= {f"{name}{j}": step[name] for j in targets}
    return step
