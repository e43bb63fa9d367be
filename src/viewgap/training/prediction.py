"""Prediction by view, in blocks of one shape, so that no answer depends on the rows beside it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from viewgap.data.prepared_rows import PreparedRows
from viewgap.data.preprocessing import Preparation
from viewgap.data.viewset import ViewSet
from viewgap.training.network import RowwiseNetwork
from viewgap.training.runtime import Runtime

Array = NDArray[Any]
Rows = NDArray[np.intp]

# Rows of every matrix product, the last ones filled up with zeros: kernels round differently for
# different shapes, and a difference in the last bit can choose another code. One row alone costs as
# much as a block; a large network is faster with larger ones. Multiples of 32, so that no number is
# left over for the scalar end of a vectorised loop.
_BLOCK = {"cpu": 32, "cuda": 256}
_BLOCK_OF_LARGE = {"cpu": 64, "cuda": 256}
_LARGE = 1_000_000

_CHUNK_ROWS = 8192  # samples between two calls of `merge`
_CHUNK_BYTES = 64 << 20  # of what `rows_of_view` gives for all views of them
_PIECE_ROWS = 1024  # rows of a view that are read at once
_PIECE_BYTES = 4 << 20
_WORTH_THREADS = 500_000_000  # multiplications; about ten milliseconds of work


@dataclass(frozen=True)
class RowFunction:
    """What is computed for every sample: first for each view it has, then from all of these.

    `rows_of_view(view, x, count)`: x (R, d_v) is filled up with zeros from row `count` on, to a
    multiple of `block` -> (count, ...), every row for itself; products by `linear`.
    `merge(observed, rows, values)`: observed (B, m) bool; `values[v]` belongs to the samples
    `rows[v]`, those that have view v -> (B, ...), every row for itself. `width`: numbers per row
    that `rows_of_view` gives; `weights`: how many a view's row is multiplied with, about.
    """

    rows_of_view: Callable[[int, Tensor, int], Tensor]
    merge: Callable[[NDArray[np.bool_], Sequence[Rows], Sequence[Array]], Array]
    width: int
    weights: int
    block: int


def block_rows(device: torch.device, weights: int) -> int:
    """Rows of every product of a network with about so many weights per view."""
    return (_BLOCK if weights < _LARGE else _BLOCK_OF_LARGE)[device.type]


def run_by_view(
    views: ViewSet, scaler: Preparation | None, runtime: Runtime, function: RowFunction
) -> Array:
    """Apply a function to all rows. Only observed rows are read, some at a time, and computed.

    On a CPU every block is computed by one thread, and blocks by as many threads as torch is set
    to: the bits do not depend on their number.
    """
    reader = _Reader(views, scaler, runtime, function.block)
    step = _CHUNK_BYTES // (8 * views.n_views * max(1, function.width))
    step = min(_CHUNK_ROWS, max(reader.block, step))
    starts = range(0, max(1, len(views)), step)  # no rows are one empty chunk: a shape is needed
    chunks = [slice(start, start + step) for start in starts]
    with _mapping(runtime, reader.rows_computed * function.weights) as apply:
        started = (_start(reader, function, chunk, apply) for chunk in chunks)
        # Merging waits for one more chunk to be handed out: threads always have something to do.
        return np.concatenate([_finish(function, *one) for one in _one_ahead(started)])


def linear(layer: nn.Linear, x: Tensor, block: int) -> Tensor:
    """layer(x), block by block. Shape: (R, inputs) -> (R, outputs), R a multiple of the block."""
    weight = layer.weight.T
    result = x.new_empty(len(x), layer.out_features)
    for start in range(0, len(x), block):
        torch.addmm(layer.bias, x[start : start + block], weight, out=result[start : start + block])
    return result


def rowwise(network: RowwiseNetwork) -> RowFunction:
    """What a network of this kind answers, as a function of rows: all products in equal blocks."""
    parameters = list(network.parameters())
    device, width = parameters[0].device, network.code_size
    weights = network.size // max(1, network.n_views)
    block = block_rows(device, weights)

    def codes(view: int, x: Tensor, count: int) -> Tensor:
        return torch.cat([network.encode_view(view, part) for part in x.split(block)])[:count]

    def merge(observed: NDArray[np.bool_], rows: Sequence[Rows], values: Sequence[Array]) -> Array:
        n = len(observed)
        filled = -(-n // block) * block
        seen = np.zeros((filled, observed.shape[1]), dtype=np.bool_)
        seen[:n] = observed
        known = torch.zeros(len(rows), filled, width, dtype=parameters[0].dtype)
        for view, (wanted, found) in enumerate(zip(rows, values, strict=True)):
            if len(wanted):
                known.numpy()[view, wanted] = found
        answers = [
            network.answer(
                known[:, start : start + block].to(device),
                torch.from_numpy(seen[start : start + block]).to(device),
            )
            for start in range(0, filled, block)
        ]
        joined: Array = torch.cat(answers)[:n].cpu().numpy()
        return joined

    return RowFunction(codes, merge, width, weights, block)


Apply = Callable[[Callable[[Any], Any], Sequence[Any]], Iterator[Any]]


@contextmanager
def _mapping(runtime: Runtime, work: int) -> Iterator[Apply]:
    """How to apply a function to pieces of work: one after the other or by several threads."""
    if runtime.device.type != "cpu":
        yield map
        return
    with one_thread() as threads:
        if threads == 1 or work < _WORTH_THREADS:
            yield map
            return
        with ThreadPoolExecutor(threads, initializer=partial(torch.set_num_threads, 1)) as pool:
            yield pool.map


Started = tuple[NDArray[np.bool_], list[Rows], list[int], Iterator[Tensor]]


def _start(reader: _Reader, function: RowFunction, chunk: slice, apply: Apply) -> Started:
    """Hand out the pieces of a chunk: what is observed, rows of each view, views of the pieces."""
    observed = reader.views.observed[chunk]
    rows = [np.flatnonzero(column) for column in observed.T]
    pieces = [
        (view, part + chunk.start)
        for view, wanted in enumerate(rows)
        for part in reader.cut(view, wanted)
    ]

    @torch.inference_mode()
    def compute(piece: tuple[int, Rows]) -> Tensor:
        view, wanted = piece
        return function.rows_of_view(view, reader.read(view, wanted), len(wanted))

    return observed, rows, [view for view, _ in pieces], apply(compute, pieces)


def _finish(
    function: RowFunction,
    observed: NDArray[np.bool_],
    rows: list[Rows],
    order: list[int],
    results: Iterator[Tensor],
) -> Array:
    """Collect the pieces of a chunk and merge them."""
    found: list[list[Tensor]] = [[] for _ in rows]
    for view, values in zip(order, results, strict=True):
        found[view].append(values)
    return function.merge(observed, rows, [_joined(values) for values in found])


def _one_ahead(items: Iterator[Started]) -> Iterator[Started]:
    """The same items, each given only when the next one has been made."""
    waiting = next(items, None)
    while waiting is not None:
        following = next(items, None)
        yield waiting
        waiting = following


def _joined(values: list[Tensor]) -> Array:
    if not values:
        return np.empty(0)  # nobody has this view
    joined: Array = torch.cat(values).cpu().numpy()
    return joined


class _Reader:
    """Standardised rows of one view on the runtime's device."""

    def __init__(
        self, views: ViewSet, scaler: Preparation | None, runtime: Runtime, block: int
    ) -> None:
        self.views = views
        self.block = block
        self._rows = PreparedRows(views, scaler, runtime.numpy_dtype)
        self._runtime = runtime
        self._pieces = [
            max(1, min(_PIECE_ROWS, _PIECE_BYTES // (4 * d)) // self.block) * self.block
            for d in views.dims
        ]

    @property
    def rows_computed(self) -> int:
        """Rows of all views together, those that fill up the last block of a view included."""
        blocks = -(-self.views.observed.sum(axis=0) // self.block)
        return int(blocks.sum()) * self.block

    def cut(self, view: int, rows: Rows) -> list[Rows]:
        """Rows of a view in pieces to read at once."""
        size = self._pieces[view]
        return [rows[start : start + size] for start in range(0, len(rows), size)]

    def read(self, view: int, rows: Rows) -> Tensor:
        """These rows, all observed, and zeros that make a multiple of the block of them."""
        # Memory from torch is aligned for vector instructions, and kernels may round by that.
        filled = -(-len(rows) // self.block) * self.block
        x = torch.empty(filled, self.views.dims[view], dtype=self._runtime.dtype)
        target = x.numpy()
        target[len(rows) :] = 0.0
        self._rows.read(view, rows, target[: len(rows)])
        return x.to(self._runtime.device)


# ---------------------------------------------------------------------- threads

_lock = threading.Lock()
_inside = 0
_outside = 1


@contextmanager
def one_thread() -> Iterator[int]:
    """Let torch compute on one CPU thread; yields how many it was set to, and puts that back.

    The setting belongs to the calling thread. But a new thread begins with what was set last, by
    whomever: born while another one is in here, it finds a 1 that is not its own.
    """
    global _inside, _outside
    with _lock:
        before = torch.get_num_threads()
        if _inside and before == 1:
            before = _outside
        elif not _inside:
            _outside = before
        _inside += 1
        torch.set_num_threads(1)
    try:
        yield before
    finally:
        with _lock:
            _inside -= 1
            torch.set_num_threads(before)
