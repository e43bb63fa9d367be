"""Grouped l2 quantisation with one codebook shared by all views (Eq. 1 and 3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from viewgap.nn.kernels import kernels_for
from viewgap.nn.reduce import LOCAL, Reducer, weighted_mean

# The look-up never holds a whole (segments x codes) matrix. On a CPU it makes products of this many
# multiplications: they stay in its cache, and NumPy does not hand them out to threads.
_PRODUCTS = 1 << 18
_MOST_ROWS = 1024
_START_ITERATIONS = 10  # of k-means on the first batch
_AT_ONCE = 1 << 28  # similarities on a GPU


class Quantised(NamedTuple):
    """What comes out of the codebook: vectors (R, d_e), code numbers (R, g), Eq. 3's loss.

    `segments` (R·g, d_c) were quantised; `weight` (R,) says which rows count.
    """

    vectors: Tensor
    indices: Tensor
    loss: Tensor
    segments: Tensor
    weight: Tensor


def nearest_codes(segments: Tensor, codes: Tensor) -> Tensor:
    """Number of the nearest code for unit segments; among unit vectors, the most similar one.

    Shape: (N, d_c), (k, d_c) -> (N,).
    """
    kernels = kernels_for(segments, "codebook")
    if kernels is not None:
        indices: Tensor = kernels.nearest_codes(segments, codes)
        return indices
    if segments.device.type == "cpu":
        return _nearest_on_cpu(segments, codes)
    parts = [torch.argmax(part @ codes.T, dim=1) for part in segments.split(_AT_ONCE // len(codes))]
    return torch.cat(parts) if parts else segments.new_zeros(0, dtype=torch.long)


def _nearest_on_cpu(segments: Tensor, codes: Tensor) -> Tensor:
    """By NumPy, whose search is vectorised and whose product is faster for such thin matrices.

    Every product has the same shape, the last one filled up with zeros, so that the index
    of a segment does not depend on how many there are.
    """
    points, table = segments.numpy(), np.ascontiguousarray(codes.numpy().T)
    rows = max(1, min(_MOST_ROWS, _PRODUCTS // table.size))
    similarity = np.empty((rows, table.shape[1]), dtype=points.dtype)
    indices = np.empty(len(points), dtype=np.intp)
    for start in range(0, len(points), rows):
        part, count = points[start : start + rows], min(rows, len(points) - start)
        if count < rows:
            part = np.concatenate([part, np.zeros((rows - count, part.shape[1]), part.dtype)])
        np.matmul(part, table, out=similarity)
        similarity[:count].argmax(axis=1, out=indices[start : start + count])
    return torch.from_numpy(indices)


def code_sums(
    segments: Tensor, indices: Tensor, weight: Tensor, size: int
) -> tuple[Tensor, Tensor]:
    """Sum (k, d_c) and count (k,) of the segments assigned to each code."""
    sums = segments.new_zeros(size, segments.shape[1])
    counts = segments.new_zeros(size)
    sums.index_add_(0, indices, segments * weight.unsqueeze(1))
    counts.index_add_(0, indices, weight)
    return sums, counts


class SharedCodebook(nn.Module):
    """k codes of d_c numbers, for segments of d_c numbers of every view's code.

    `learning="ema"` moves every code used in a batch towards the mean of its segments;
    `learning="gradient"` learns the codes by the first term of Eq. 3. Either way the codebook
    starts from k-means on the first training batch.

    `length="unit"`: codes have length 1, and segments are scaled to it, too; `length="free"`: they
    are as long as they are, and only compared as unit vectors. `reduction` of Eq. 3's distances
    over the segments and coordinates of a row: their `"mean"`, or their `"sum"`.

    Shape: x (R, g·d_c), weight (R,) with 0 for rows that do not count -> see `Quantised`.
    """

    codes: Tensor
    started: Tensor
    used: Tensor

    def __init__(
        self,
        size: int,
        code_dim: int,
        generator: torch.Generator,
        decay: float = 0.99,
        learning: str = "ema",
        length: str = "unit",
        reduction: str = "mean",
    ) -> None:
        super().__init__()
        self.size = size
        self.code_dim = code_dim
        self.decay = decay
        self.learning = learning
        self.length = length
        self.reduction = reduction
        self.reducer: Reducer = LOCAL
        self.start_generator = generator
        codes = F.normalize(torch.randn(size, code_dim, generator=generator), dim=1)
        if learning == "gradient":
            self.codes = nn.Parameter(codes)
        else:
            self.register_buffer("codes", codes)
        self.register_buffer("started", torch.zeros((), dtype=torch.bool))
        self.register_buffer("used", torch.zeros(size, dtype=torch.bool))
        self._has_started = False

    def forward(
        self,
        x: Tensor,
        weight: Tensor | None = None,
        gather: Callable[[Tensor], Tensor] | None = None,
    ) -> Quantised:
        """Quantise; in training the codes start at the first call, and `learn` moves them.

        `gather`: gives the rows of all processes that share the batch, for the start.
        """
        groups = x.shape[1] // self.code_dim
        weight = x.new_ones(len(x)) if weight is None else weight
        if self.training and not self._has_started:
            rows = (x.detach(), weight)
            self._start(*(rows if gather is None else map(gather, rows)))
        codes = F.normalize(self.codes, dim=1)
        as_kernels = (self.reducer is LOCAL, self.learning, self.length) == (True, "ema", "unit")
        kernels = kernels_for(x, "codebook") if as_kernels and len(x) else None
        if kernels is not None:
            vectors, segments, numbers, loss = kernels.Quantise.apply(x, codes, weight)
            return Quantised(vectors, numbers, self._reduced(loss, groups), segments, weight)
        segments = F.normalize(x.reshape(-1, self.code_dim), dim=1)
        indices = nearest_codes(segments.detach(), codes.detach())
        chosen = codes[indices]
        loss = self._loss(segments, chosen, weight.repeat_interleave(groups))
        loss = self._reduced(loss, groups)
        if self.length == "free":
            segments, chosen = x.reshape(-1, self.code_dim), self.codes[indices]
        # Written so that the forward value is the code itself, to the bit.
        passed = chosen.detach() + (segments - segments.detach())
        vectors, numbers = passed.reshape(x.shape), indices.reshape(-1, groups)
        return Quantised(vectors, numbers, loss, segments.detach(), weight)

    def nearest(self, x: Tensor) -> Tensor:
        """Index of the nearest code of every segment, (R, g); the length of a segment is no matter.

        Rows in evaluation need neither the losses nor the unit segments of `forward`.
        """
        return self._nearest(x, F.normalize(self.codes.detach(), dim=1))

    def quantise(self, x: Tensor, n_rows: int) -> Tensor:
        """The nearest code of every segment of the first rows, zero in the others, as x."""
        codes = F.normalize(self.codes.detach(), dim=1)
        vectors = codes if self.length == "unit" else self.codes.detach()
        result = x.new_zeros(x.shape)
        into = result[:n_rows].view(-1, self.code_dim)
        torch.index_select(vectors, 0, self._nearest(x[:n_rows], codes).view(-1), out=into)
        return result

    def _nearest(self, x: Tensor, codes: Tensor) -> Tensor:
        segments = x.detach().reshape(-1, self.code_dim)
        return nearest_codes(segments, codes).view(len(x), -1)

    def _loss(self, segments: Tensor, chosen: Tensor, weight: Tensor) -> Tensor:
        """Commitment, and with `gradient` the codebook term, as means over coordinates (Eq. 3)."""
        distance = (segments - chosen.detach()).square().mean(dim=1)
        if self.learning == "gradient":
            distance = distance + (segments.detach() - chosen).square().mean(dim=1)
        # In evaluation no other process sees these rows.
        return weighted_mean(distance, weight, self.reducer if self.training else LOCAL)

    def _reduced(self, loss: Tensor, groups: int) -> Tensor:
        """From the mean over segments and coordinates to what `reduction` says."""
        return loss if self.reduction == "mean" else loss * (groups * self.code_dim)

    def _sized(self, vectors: Tensor) -> Tensor:
        """Vectors of the length that codes have."""
        return F.normalize(vectors, dim=1) if self.length == "unit" else vectors

    def _means(self, sums: Tensor, counts: Tensor) -> Tensor:
        """Mean of the segments of every code, with the length that codes have."""
        if self.length == "unit":
            return F.normalize(sums, dim=1)
        return sums / counts.clamp(min=1.0).unsqueeze(1)

    @torch.no_grad()
    def learn(self, quantised: Quantised) -> Tensor:
        """Move every code of this batch towards its segments (`ema`), count it as used.

        Apart from `forward`, because nothing else of a step has to wait for it.
        """
        numbers = quantised.indices
        weight = quantised.weight.repeat_interleave(numbers.shape[1])
        sums, counts = code_sums(quantised.segments, numbers.reshape(-1), weight, self.size)
        sums, counts = self.reducer.sum_together(sums, counts)
        hit = counts > 0
        self.used |= hit
        if self.learning == "ema":
            towards = self._means(sums, counts)
            moved = self._sized(self.decay * self.codes + (1 - self.decay) * towards)
            self.codes.copy_(torch.where(hit.unsqueeze(1), moved, self.codes))
        return counts

    @torch.no_grad()
    def _start(self, x: Tensor, weight: Tensor) -> None:
        """K-means on the first batch (unit codes: by cosine); an empty cluster keeps its centre."""
        self._has_started = bool(self.started)
        if self._has_started:
            return
        points = self._sized(x[weight > 0].reshape(-1, self.code_dim))
        centres = self._draw(points)
        ones = points.new_ones(len(points))
        for _ in range(_START_ITERATIONS):
            indices = self._nearest_centres(points, centres)
            sums, counts = code_sums(points, indices, ones, self.size)
            means = self._means(sums, counts)
            centres = torch.where((counts > 0).unsqueeze(1), means, centres)
        self.codes.copy_(centres)
        self.started.fill_(True)
        self._has_started = True

    def _nearest_centres(self, points: Tensor, centres: Tensor) -> Tensor:
        """Index of the nearest centre of every point, by Euclidean distance."""
        if self.length == "unit":
            return nearest_codes(points, centres)
        # ‖p − c‖² is least where p·c − ‖c‖²/2 is greatest: a product with one coordinate more.
        half = centres.square().sum(dim=1, keepdim=True) / -2
        lifted = torch.cat([points, points.new_ones(len(points), 1)], dim=1)
        return nearest_codes(lifted, torch.cat([centres, half], dim=1))

    def _draw(self, points: Tensor) -> Tensor:
        """k starting centres: distinct points, and where these run out, points moved a little."""
        order = torch.randperm(len(points), generator=self.start_generator)
        repeats = -(-self.size // max(len(points), 1))
        picked = points[order.repeat(repeats)[: self.size].to(points.device)]
        jitter = torch.randn(picked.shape, generator=self.start_generator).to(picked)
        jitter[: len(points)] = 0.0
        return self._sized(picked + 1e-3 * jitter)

    def usage(self) -> Tensor:
        """Share of the codes chosen at least once since `reset_usage`."""
        return self.used.float().mean()

    def reset_usage(self) -> None:
        """Forget which codes were used."""
        self.used.zero_()
