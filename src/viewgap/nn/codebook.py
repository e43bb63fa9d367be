"""Grouped l2 quantisation with one codebook shared by all views (Eq. 1 and 3)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from viewgap.nn.reduce import LOCAL, Reducer, weighted_mean

# The look-up holds this many similarities at a time: on a CPU what fits its cache, on a GPU what
# keeps it busy. A large batch never needs a whole (segments x codes) matrix.
_SIMILARITIES = {"cpu": 1 << 17, "cuda": 1 << 28}


class Quantised(NamedTuple):
    """What comes out of the codebook: vectors (R, d_e), code numbers (R, g), Eq. 3's loss."""

    vectors: Tensor
    indices: Tensor
    loss: Tensor


def nearest_codes(segments: Tensor, codes: Tensor) -> Tensor:
    """Number of the nearest code for unit segments; among unit vectors, the most similar one.

    Shape: (N, d_c), (k, d_c) -> (N,).
    """
    rows = max(1, _SIMILARITIES.get(segments.device.type, 1 << 20) // len(codes))
    parts = [_argmax(part @ codes.T) for part in segments.split(rows)]
    return torch.cat(parts) if parts else segments.new_zeros(0, dtype=torch.long)


def _argmax(similarity: Tensor) -> Tensor:
    """Column of the largest value of every row; on the CPU by NumPy, whose search is vectorised."""
    if similarity.device.type == "cpu":
        return torch.from_numpy(similarity.numpy().argmax(axis=1))
    return torch.argmax(similarity, dim=1)


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
    """k unit codes of d_c numbers, for segments of d_c numbers of every view's code.

    `learning="ema"` moves every code used in a batch towards the mean of its segments;
    `learning="gradient"` learns the codes by the first term of Eq. 3. Either way the codebook
    starts from k-means on the first training batch.

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
        start_iterations: int = 10,
    ) -> None:
        super().__init__()
        self.size = size
        self.code_dim = code_dim
        self.decay = decay
        self.learning = learning
        self.start_iterations = start_iterations
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

    def forward(self, x: Tensor, weight: Tensor | None = None) -> Quantised:
        """Quantise; in training also learn the codes (`ema`)."""
        groups = x.shape[1] // self.code_dim
        segments = F.normalize(x.reshape(-1, self.code_dim), dim=1)
        weight = x.new_ones(len(x)) if weight is None else weight
        spread = weight.repeat_interleave(groups)
        if self.training and not self._has_started:
            self._start(segments.detach(), spread)
        codes = F.normalize(self.codes, dim=1)
        indices = nearest_codes(segments.detach(), codes.detach())
        chosen = codes[indices]
        loss = self._loss(segments, chosen, spread)
        if self.training:
            self._learn(segments.detach(), indices, spread)
        # Written so that the forward value is the code itself, to the bit.
        passed = chosen.detach() + (segments - segments.detach())
        return Quantised(passed.reshape(x.shape), indices.reshape(-1, groups), loss)

    def _loss(self, segments: Tensor, chosen: Tensor, weight: Tensor) -> Tensor:
        """Commitment, and with `gradient` the codebook term, as means over coordinates (Eq. 3)."""
        distance = (segments - chosen.detach()).square().mean(dim=1)
        if self.learning == "gradient":
            distance = distance + (segments.detach() - chosen).square().mean(dim=1)
        return weighted_mean(distance, weight, self.reducer)

    @torch.no_grad()
    def _learn(self, segments: Tensor, indices: Tensor, weight: Tensor) -> None:
        sums, counts = code_sums(segments, indices, weight, self.size)
        sums, counts = self.reducer.sum(sums), self.reducer.sum(counts)
        hit = counts > 0
        self.used |= hit
        if self.learning == "ema":
            towards = F.normalize(sums, dim=1)
            moved = F.normalize(self.decay * self.codes + (1 - self.decay) * towards, dim=1)
            self.codes.copy_(torch.where(hit.unsqueeze(1), moved, self.codes))

    @torch.no_grad()
    def _start(self, segments: Tensor, weight: Tensor) -> None:
        """Cosine k-means on the first batch; an empty cluster keeps its centre."""
        self._has_started = bool(self.started)
        if self._has_started:
            return
        points = segments[weight > 0]
        centres = self._draw(points)
        ones = points.new_ones(len(points))
        for _ in range(self.start_iterations):
            indices = nearest_codes(points, centres)
            sums, counts = code_sums(points, indices, ones, self.size)
            centres = torch.where((counts > 0).unsqueeze(1), F.normalize(sums, dim=1), centres)
        self.codes.copy_(centres)
        self.started.fill_(True)
        self._has_started = True

    def _draw(self, points: Tensor) -> Tensor:
        """k starting centres: distinct points, and where these run out, points moved a little."""
        order = torch.randperm(len(points), generator=self.start_generator)
        repeats = -(-self.size // max(len(points), 1))
        picked = points[order.repeat(repeats)[: self.size].to(points.device)]
        jitter = torch.randn(picked.shape, generator=self.start_generator).to(picked)
        jitter[: len(points)] = 0.0
        return F.normalize(picked + 1e-3 * jitter, dim=1)

    def usage(self) -> Tensor:
        """Share of the codes chosen at least once since `reset_usage`."""
        return self.used.float().mean()

    def reset_usage(self) -> None:
        """Forget which codes were used."""
        self.used.zero_()
