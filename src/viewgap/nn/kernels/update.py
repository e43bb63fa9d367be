"""Clipping, optimiser and running average of all weights in one pass over memory, in Triton.

Plain: `training.steps.epoch.update_weights`. Works on the state of `nn.optimiser`, which runs
everywhere else: either can go on where the other stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from viewgap.nn.kernels.launch import kernel
from viewgap.nn.optimiser import Optimiser

_CHUNK = 4096  # numbers per program, measured: longer ones leave memory waiting
_COLUMNS = tl.constexpr(7)  # addresses of weight, gradient, moments, average, copy; length


@triton.jit
def _address(entry):
    """What a table says; the hint lets whole blocks be read at once."""
    return tl.multiple_of(tl.load(entry), 16)


@kernel()
def _squares(table, partial, FULL: tl.constexpr, CHUNK: tl.constexpr):
    """Sum of the squared gradients of one chunk."""
    entry = table + tl.program_id(0) * _COLUMNS
    gradient = _address(entry + 1).to(tl.pointer_type(tl.float32))
    at = tl.arange(0, CHUNK)
    if FULL:  # a mask would forbid reading four numbers at once
        g = tl.load(gradient + at)
    else:
        g = tl.load(gradient + at, mask=at < tl.load(entry + 6), other=0.0)
    tl.store(partial + tl.program_id(0), tl.sum(g * g, axis=0))


@kernel(sizes=("n",))
def _find_scale(partial, scale, n, limit, BLOCK: tl.constexpr):
    """By how much gradients shrink so that their norm is at most `limit`."""
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(partial + at, mask=at < n, other=0.0)
    norm = tl.sqrt(tl.sum(total, axis=0))
    tl.store(scale, tl.minimum(limit / (norm + 1e-6), 1.0))


@triton.jit
def _load(pointer, at, length, FULL: tl.constexpr):
    if FULL:
        value = tl.load(pointer + at)
    else:
        value = tl.load(pointer + at, mask=at < length, other=0.0)
    return value


@triton.jit
def _store(pointer, at, length, value, FULL: tl.constexpr):
    if FULL:
        tl.store(pointer + at, value)
    else:
        tl.store(pointer + at, value, mask=at < length)


@triton.jit
def _finish(
    entry, at, length, p, numbers, AVERAGE: tl.constexpr, COPY: tl.constexpr, FULL: tl.constexpr
):
    """Store the new weights, their copy and their average."""
    _store(_address(entry).to(tl.pointer_type(tl.float32)), at, length, p, FULL)
    if COPY:
        copy = _address(entry + 5).to(tl.pointer_type(tl.bfloat16))
        _store(copy, at, length, p.to(tl.bfloat16), FULL)
    if AVERAGE:
        average = _address(entry + 4).to(tl.pointer_type(tl.float32))
        a = _load(average, at, length, FULL)
        _store(average, at, length, a + tl.load(numbers + 2) * (p - a), FULL)


@kernel()
def _adamw(
    table, clip, numbers, decay, beta1, beta2, eps,
    AVERAGE: tl.constexpr, COPY: tl.constexpr, FULL: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """AdamW on one chunk; `numbers`: lr / (1 − β₁ᵗ), √(1 − β₂ᵗ), step of the average."""
    entry = table + tl.program_id(0) * _COLUMNS
    gradient = _address(entry + 1).to(tl.pointer_type(tl.float32))
    first = _address(entry + 2).to(tl.pointer_type(tl.float32))
    second = _address(entry + 3).to(tl.pointer_type(tl.float32))
    length = tl.load(entry + 6)
    at = tl.arange(0, CHUNK)
    p = _load(_address(entry).to(tl.pointer_type(tl.float32)), at, length, FULL)
    g = _load(gradient, at, length, FULL) * tl.load(clip)
    m = _load(first, at, length, FULL)
    v = _load(second, at, length, FULL)
    m += (1.0 - beta1) * (g - m)
    v = beta2 * v + (1.0 - beta2) * g * g
    p = p * decay - tl.load(numbers) * m / (tl.sqrt(v) / tl.load(numbers + 1) + eps)
    _store(first, at, length, m, FULL)
    _store(second, at, length, v, FULL)
    _finish(entry, at, length, p, numbers, AVERAGE, COPY, FULL)


@kernel()
def _sgd(
    table, clip, numbers, decay, momentum,
    AVERAGE: tl.constexpr, COPY: tl.constexpr, FULL: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """SGD with momentum on one chunk; `numbers`: learning rate, nothing, step of the average."""
    entry = table + tl.program_id(0) * _COLUMNS
    gradient = _address(entry + 1).to(tl.pointer_type(tl.float32))
    buffer = _address(entry + 2).to(tl.pointer_type(tl.float32))
    length = tl.load(entry + 6)
    at = tl.arange(0, CHUNK)
    p = _load(_address(entry).to(tl.pointer_type(tl.float32)), at, length, FULL)
    g = _load(gradient, at, length, FULL) * tl.load(clip) + decay * p
    m = momentum * _load(buffer, at, length, FULL) + g
    p -= tl.load(numbers) * m
    _store(buffer, at, length, m, FULL)
    _finish(entry, at, length, p, numbers, AVERAGE, COPY, FULL)


class FusedUpdate:
    """One update of the weights of an optimiser whose gradients stay where they are.

    `averaged`: the running average of each weight; `low_precision`: bfloat16 copies of some.
    `add_up`: of squares of gradients, over processes that have other weights; None = all are here.
    """

    def __init__(
        self,
        optimiser: Optimiser,
        averaged: Sequence[Tensor] | None,
        low_precision: Mapping[Tensor, Tensor],
        clip: float,
        add_up: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        self._add_up = add_up
        group = optimiser.param_groups[0]
        if "betas" in group:
            names = ("exp_avg", "exp_avg_sq")
            decay = 1.0 - group["lr"] * group["weight_decay"]
            self._kernel, self._options = _adamw, (decay, *group["betas"], group["eps"])
        else:
            names = ("momentum_buffer", "momentum_buffer")  # there is one
            self._kernel, self._options = _sgd, (group["weight_decay"], group["momentum"])
        self._clip = clip
        self._has_average = averaged is not None
        # Whole chunks need no mask, and some weights have no copy: four kinds of chunks.
        chunks: dict[tuple[bool, bool], list[Tensor]] = {}
        weights = group["params"]
        for weight, average in zip(weights, averaged or weights, strict=True):
            if weight.grad is None:
                continue
            kept = [optimiser.state[weight][name] for name in names]
            parts = (weight, weight.grad, *kept, average)
            if not all(part.is_contiguous() for part in parts):
                raise ValueError("a weight or its state does not lie in one piece")
            copy = low_precision.get(weight)
            table, full = _chunks(parts, copy), weight.numel() // _CHUNK
            for is_full, entries in ((True, table[:full]), (False, table[full:])):
                if len(entries):
                    chunks.setdefault((copy is not None, is_full), []).append(entries)
        device = weights[0].device
        self._tables = {kind: torch.cat(own).to(device) for kind, own in chunks.items()}
        # Every kind begins at a multiple of four numbers: addresses of other alignment would need
        # kernels of their own.
        room = sum(-(-len(table) // 4) * 4 for table in self._tables.values())
        self._partial = torch.zeros(room, device=device)
        self._scale = torch.ones((), device=device)

    def __call__(self, numbers: Tensor) -> None:
        """Update; `numbers` (3,) as the kernel of the optimiser wants them."""
        if self._clip > 0:
            self._find_scale()
        for (has_copy, full), table in self._tables.items():
            self._kernel[(len(table),)](
                table, self._scale, numbers, *self._options,
                AVERAGE=self._has_average, COPY=has_copy, FULL=full, CHUNK=_CHUNK,
            )  # fmt: skip

    def _find_scale(self) -> None:
        done = 0
        for (_, full), table in self._tables.items():
            part = self._partial[done : done + len(table)]
            _squares[(len(table),)](table, part, FULL=full, CHUNK=_CHUNK)
            done += -(-len(table) // 4) * 4
        squares = self._partial
        if self._add_up is not None:
            squares = self._add_up(squares.sum().view(1))
        _find_scale[(1,)](squares, self._scale, len(squares), self._clip, BLOCK=_CHUNK)


def _chunks(parts: Sequence[Tensor], copy: Tensor | None) -> Tensor:
    """Addresses of every chunk in float32 `parts` and a bfloat16 copy, and its length: (k, 7)."""
    starts = torch.arange(0, parts[0].numel(), _CHUNK)
    columns = [part.data_ptr() + starts * 4 for part in parts]
    columns.append(torch.zeros_like(starts) if copy is None else copy.data_ptr() + starts * 2)
    columns.append((parts[0].numel() - starts).clamp(max=_CHUNK))
    return torch.stack(columns, dim=1)


def compile_update(averaged: bool, copies: bool, device: torch.device) -> None:
    """Launch every kernel that a `FusedUpdate` of AdamW may; only inside `launch.compile_only`."""
    table = torch.zeros(1, 7, dtype=torch.long, device=device)
    numbers = torch.zeros(4, device=device)
    for full in (True, False):
        for copy in {False, copies}:
            _adamw[(1,)](
                table, numbers, numbers, 1.0, 0.0, 0.0, 0.0,
                AVERAGE=averaged, COPY=copy, FULL=full, CHUNK=_CHUNK,
            )  # fmt: skip
        _squares[(1,)](table, numbers, FULL=full, CHUNK=_CHUNK)
    _find_scale[(1,)](numbers, numbers, 1, 1.0, BLOCK=_CHUNK)
