"""Modules that draw from a random generator of their own: dropout, hidden columns.

Where several processes share a batch, each of them draws for all of its rows and takes the numbers
of its own: a seed fixes the same fit on any number of processes. Which rows a module gets is known
only where the batch is; there, `draws_for` says it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True, eq=False)
class RowPlaces:
    """Where the rows of this process are among the `total` rows of all that share a batch, (R,).

    What only fills a fixed shape up has the place `total`. With groups of rows side by side, the
    places are those within every group.
    """

    places: Tensor
    total: int

    def of(self, values: Tensor, dim: int) -> Tensor:
        """Values of these rows from those of all; for what fills up, of any row."""
        return values.index_select(dim, self.places.clamp(max=max(self.total - 1, 0)))

    def among_all(self, values: Tensor, dim: int) -> Tensor:
        """Values of these rows at their places, 0 at those of others; gradients pass through."""
        shape = list(values.shape)
        shape[dim] = self.total + 1  # the last one takes what fills up
        whole = values.new_zeros(shape).index_copy(dim, self.places, values)
        return whole.narrow(dim, 0, self.total)


class _AllHere:
    """The rows of all are here."""


ALL_HERE = _AllHere()
Places = RowPlaces | _AllHere
_places: ContextVar[Places | None] = ContextVar("row_places", default=ALL_HERE)


@contextmanager
def draws_for(places: Places | None) -> Iterator[None]:
    """Whatever is drawn inside is for these rows; None: nothing may be drawn."""
    token = _places.set(places)
    try:
        yield
    finally:
        _places.reset(token)


class RandomModule(nn.Module):
    """A module that draws from a generator of its own, so that a seed fixes the whole fit."""

    generator: torch.Generator | None = None

    def _draw(self, shape: torch.Size, make: Callable[[torch.Size], Tensor]) -> Tensor:
        """`make(shape)`, drawn for the rows of all processes that share the batch.

        Shape: (R, F) or (G, R, F).
        """
        rows = _places.get()
        if rows is None:
            raise RuntimeError(f"{type(self).__name__} draws for rows that `draws_for` has not set")
        if isinstance(rows, _AllHere):
            return make(shape)
        if shape[-2] != len(rows.places):
            raise RuntimeError(f"draws for {len(rows.places)} rows, found {shape[-2]}")
        drawn = make(torch.Size((*shape[:-2], rows.total, shape[-1])))
        return rows.of(drawn, -2)


class Dropout(RandomModule):
    """Dropout with masks from the module's own generator."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        """Shape: any."""
        if not self.training or self.rate == 0.0:
            return x
        return x * self._kept(x)

    def _kept(self, x: Tensor) -> Tensor:
        """1 / (1 − rate) for what stays, else 0."""
        share = 1.0 - self.rate
        if x.is_cuda:
            return self._draw(x.shape, lambda shape: self._kept_on_gpu(x, shape, share))
        # On a CPU `bernoulli_` takes four times as long as this.
        draws = self._draw(x.shape, lambda shape: torch.rand(shape, generator=self.generator))
        return (draws < share).to(x.dtype).div_(share)

    def _kept_on_gpu(self, x: Tensor, shape: torch.Size, share: float) -> Tensor:
        return x.new_empty(shape).bernoulli_(share, generator=self.generator).div_(share)


class ColumnMask(RandomModule):
    """Sets the same number of columns of every row to 0 in training, drawn for each row.

    Unlike dropout, what is left is not scaled up. Shape: (R, d) -> (R, d).
    """

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share

    def forward(self, x: Tensor) -> Tensor:
        """`int(share · d)` columns of every row are hidden."""
        hidden = int(self.share * x.shape[-1])
        if not self.training or hidden == 0:
            return x
        draws = self._draw(
            x.shape, lambda shape: torch.rand(shape, generator=self.generator, device=x.device)
        )
        limit = draws.kthvalue(hidden, dim=-1, keepdim=True).values
        return x * (draws > limit)
