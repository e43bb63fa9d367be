"""Prediction by view, in blocks of one shape, so that no answer depends on the rows beside it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from viewgap.data.preprocessing import Preparation, PreparedRows
from viewgap.data.viewset import ViewSet
from viewgap.nn.linear import equal_blocks
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
_CHUNK_BYTES = 64 << 20  # of what `of_view` gives for all views of them
_PIECE_ROWS = 1024  # rows of a view that are read at once
_PIECE_BYTES = 4 << 20
_WORTH_THREADS = 500_000_000  # multiplications; about ten milliseconds of work


Merge = Callable[[NDArray[np.bool_], Sequence[Rows], Sequence[Array]], Array]
"""From the results of the views to one per sample, every row for itself.

Shape: observed (B, m) bool; `values[v]` (R_v, ...) belongs to the samples `rows[v]`, those that
have view v -> (B, ...).
"""


@dataclass(frozen=True)
class RowFunction:
    """What is computed for every sample: first for each view it has, then from all of these.

    `of_view(view, x, n_rows)`: x (R, d_v), of which those after the first `n_rows` are zeros that
    fill up the last block -> (R, ...), every row for itself, or only the first `n_rows` of them;
    called inside `equal_blocks(block)`. `width`: numbers per row that it gives; `work`: how many
    numbers a row is multiplied with, about.
    """

    of_view: Callable[[int, Tensor, int], Tensor]
    merge: Merge
    width: int
    work: int
    block: int


def row_function(
    network: RowwiseNetwork,
    of_view: Callable[[int, Tensor, int], Tensor],
    merge: Merge,
    width: int,
    passes: int = 1,
) -> RowFunction:
    """A function of the rows of a network. `passes`: how often its encoders' work is done."""
    weights = network.encoder_size // max(1, network.n_views)
    sizes = _BLOCK if weights < _LARGE else _BLOCK_OF_LARGE
    block = sizes[next(network.parameters()).device.type]
    return RowFunction(of_view, merge, width, passes * weights, block)


def run_by_view(
    views: ViewSet, scaler: Preparation | None, runtime: Runtime, function: RowFunction
) -> Array:
    """Apply a function to all rows. Only observed rows are read, some at a time, and computed.

    On a CPU every block is computed by one thread, and blocks by as many threads as torch is set
    to: the bits do not depend on their number. Where a device has no memory left, half as many rows
    are in work at a time; blocks keep their shape, and answers their bits.
    """
    reader = _Reader(views, scaler, runtime, function.block)
    step = _CHUNK_BYTES // (8 * views.n_views * max(1, function.width))
    step = min(_CHUNK_ROWS, max(reader.block, step), max(reader.block, len(views)))
    while True:
        try:
            return _run_chunks(views, reader, runtime, function, step)
        except torch.OutOfMemoryError:
            if step <= reader.block:
                raise
            step = max(reader.block, step // 2)
        if runtime.device.type == "cuda":
            torch.cuda.empty_cache()


def _run_chunks(
    views: ViewSet, reader: _Reader, runtime: Runtime, function: RowFunction, step: int
) -> Array:
    """Results of all rows, `step` rows in work at a time."""
    starts = range(0, max(1, len(views)), step)  # no rows are one empty chunk: a shape is needed
    chunks = [slice(start, start + step) for start in starts]
    with _mapping(runtime, reader.rows_computed * function.work) as apply:
        started = (_start(reader, function, chunk, apply) for chunk in chunks)
        # Merging waits for one more chunk to be handed out: threads always have something to do.
        return np.concatenate([_finish(function, *one) for one in _one_ahead(started)])


# ---------------------------------------------------------------------- functions of a network


def probabilities(network: RowwiseNetwork) -> RowFunction:
    """What a network answers, (n, c)."""
    function = row_function(network, network.encode_rows, stack_views, network.code_size)
    return replace(function, merge=partial(_answers, network, function.block))


def view_probabilities(network: RowwiseNetwork, n_labels: int) -> RowFunction:
    """What a network answers from every view alone, (n, m, c); NaN where the view is missing."""

    def predict(view: int, x: Tensor, n_rows: int) -> Tensor:
        return network.predict_view(view, network.encode_rows(view, x, n_rows))

    dtype = torch.empty(0, dtype=next(network.parameters()).dtype).numpy().dtype
    merge = partial(stack_views, width=n_labels, missing=dtype.type(np.nan))
    return row_function(network, predict, merge, n_labels)


def _answers(
    network: RowwiseNetwork,
    block: int,
    observed: NDArray[np.bool_],
    rows: Sequence[Rows],
    values: Sequence[Array],
) -> Array:
    """The answers of a network to the codes of its views."""
    parameter = next(network.parameters())
    device, n = parameter.device, len(observed)
    filled = -(-n // block) * block
    is_observed = torch.zeros(filled, len(rows), dtype=torch.bool)
    is_observed[:n] = torch.from_numpy(np.array(observed))
    codes = torch.zeros(len(rows), filled, network.code_size, dtype=parameter.dtype)
    for view, (wanted, own) in enumerate(zip(rows, values, strict=True)):
        if len(wanted):
            codes.numpy()[view, wanted] = own
    codes, is_observed = codes.to(device), is_observed.to(device)
    if network.elementwise_answer:
        answers = network.answer(codes, is_observed)
    else:
        parts = zip(codes.split(block, dim=1), is_observed.split(block), strict=True)
        answers = torch.cat([network.answer(*part) for part in parts])
    return np.asarray(answers[:n].cpu().numpy())


def stack_views(
    observed: NDArray[np.bool_],
    rows: Sequence[Rows],
    values: Sequence[Array],
    width: int = 0,
    missing: Any = 0,
) -> Array:
    """Results of all views side by side, (n, m, width); `missing` where a view is missing."""
    result = np.full((*observed.shape, width), missing)
    for view, (wanted, own) in enumerate(zip(rows, values, strict=True)):
        if len(wanted):
            result[wanted, view] = own
    return result


def mean_of_views(
    observed: NDArray[np.bool_],
    rows: Sequence[Rows],
    values: Sequence[Array],
    weights: Callable[[NDArray[np.bool_]], Array] | None = None,
) -> Array:
    """Mean over the observed views, (n, ...), added up in their order.

    `weights` (B, m), given what is observed: their share in the mean; equal shares if None.
    """
    some = next((own for own in values if len(own)), np.zeros((0, 0)))
    total = np.zeros((len(observed), some.shape[1]), dtype=some.dtype)
    shares = None if weights is None else weights(observed).astype(some.dtype)
    for view, (wanted, own) in enumerate(zip(rows, values, strict=True)):
        if len(wanted):
            total[wanted] += own if shares is None else own * shares[wanted, view, np.newaxis]
    if shares is None:
        total /= np.maximum(observed.sum(axis=1, keepdims=True), 1).astype(total.dtype)
    return total


# ---------------------------------------------------------------------- pieces of work

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
        n_rows, x = len(wanted), reader.read(view, wanted)
        with equal_blocks(function.block):
            return function.of_view(view, x, n_rows)[:n_rows]

    return observed, rows, [view for view, _ in pieces], apply(compute, pieces)


def _finish(
    function: RowFunction,
    observed: NDArray[np.bool_],
    rows: list[Rows],
    order: list[int],
    results: Iterator[Tensor],
) -> Array:
    """Collect the pieces of a chunk and merge them."""
    by_view: list[list[Tensor]] = [[] for _ in rows]
    for view, values in zip(order, results, strict=True):
        by_view[view].append(values)
    return function.merge(observed, rows, [_joined(values) for values in by_view])


def _one_ahead(items: Iterator[Started]) -> Iterator[Started]:
    """The same items, each given only when the next one has been made."""
    waiting = next(items, None)
    while waiting is not None:
        following = next(items, None)
        yield waiting
        waiting = following


def _joined(values: list[Tensor]) -> Array:
    if not values:
        return np.empty(0)  # no sample has this view
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

    The setting belongs to the calling thread, but a new thread begins with what was set last by any
    thread: one that starts while another is in here begins with a 1 that is not its own setting.
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
