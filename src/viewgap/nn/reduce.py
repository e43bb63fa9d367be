"""Sums over a batch, and the processes that share it.

Everything computed *over the rows of a batch* (loss normalisers, label co-occurrence, codebook
counts, normalisation statistics) is a sum, and every such sum goes through a `Reducer`. On one
process that is the identity. With several processes each holding a part of the batch, a reducer
that adds the parts makes every statistic that of the whole batch, with no change to the model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed
from torch import Tensor, nn

from viewgap.errors import LostProcessesError, ViewgapError


@contextmanager
def collective() -> Iterator[None]:
    """What processes do together: where one of them is gone, the others say so."""
    try:
        yield
    except RuntimeError as error:  # all that torch raises here; its errors are subclasses
        if isinstance(error, ViewgapError):
            raise
        reason = str(error).strip().partition("\n")[0][:200]
        raise LostProcessesError(
            f"the processes of this fit lost each other ({reason}); see what the one that ended "
            "first has said, and start the fit again: it goes on from its checkpoint, if it has one"
        ) from error


class Reducer:
    """The reducer of a single process: the sum of its own rows is the sum of all rows.

    `rank` of `count` processes. `can_be_recorded`: a GPU can replay what adds sums up.
    """

    rank: int = 0
    count: int = 1
    can_be_recorded: bool = True

    def __deepcopy__(self, memo: dict[int, Any]) -> Reducer:
        """A copied network shares its batch with the same processes: the same reducer."""
        return self

    def sum(self, value: Tensor) -> Tensor:
        """Return `value` added up over all processes; gradients pass through."""
        return value

    def sum_together(self, *values: Tensor) -> Sequence[Tensor]:
        """Return several sums by one message."""
        if self is LOCAL:
            return [self.sum(value) for value in values]
        flat = self.sum(torch.cat([value.reshape(-1) for value in values]))
        parts = flat.split([value.numel() for value in values])
        return [part.view(value.shape) for part, value in zip(parts, values, strict=True)]

    def gather(self, value: Tensor) -> Tensor:
        """Return the values of all processes one after the other, (count, ...), with gradient."""
        after = self.count - self.rank - 1
        parts = [value.new_zeros(n, *value.shape) for n in (self.rank, after)]
        return self.sum(torch.cat([parts[0], value.unsqueeze(0), parts[1]]))


class _SumOverProcesses(torch.autograd.Function):
    """All-reduce in both directions: every process's loss depends on every process's part."""

    @staticmethod
    def forward(ctx: Any, value: Tensor) -> Tensor:
        total = value.detach().clone(memory_format=torch.contiguous_format)
        with collective():
            torch.distributed.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return _SumOverProcesses.forward(ctx, gradients[0])


class ProcessReducer(Reducer):
    """Adds up over the processes of the default `torch.distributed` group.

    What is computed from sums is the same on every process, and so is the loss. The gradient of a
    sum is the sum of the gradients of all these losses: `count` times that of one loss.
    """

    def __init__(self) -> None:
        self.rank = torch.distributed.get_rank()
        self.count = torch.distributed.get_world_size()
        self.can_be_recorded = torch.distributed.get_backend() == "nccl"  # gloo asks the host

    def sum(self, value: Tensor) -> Tensor:
        """Return `value` added up over all processes; gradients pass through."""
        total: Tensor = _SumOverProcesses.apply(value)  # type: ignore[no-untyped-call]
        return total


LOCAL = Reducer()


def set_reducer(network: nn.Module, reducer: Reducer) -> None:
    """Make every part of `network` that has a `reducer` use this one."""
    for module in network.modules():
        if hasattr(module, "reducer") and getattr(module, "over_rows", True):
            setattr(module, "reducer", reducer)  # noqa: B010  (nn.Module types attributes as tensors)


def weighted_mean(
    values: Tensor,
    weight: Tensor,
    reducer: Reducer = LOCAL,
    eps: float = 0.0,
    dim: tuple[int, ...] | None = None,
) -> Tensor:
    """Σ weight·values / (Σ weight + eps); 0, with gradient, if no weight is left.

    Over all entries, or over the dimensions `dim`. Shape: `weight` broadcasts to `values`.
    """
    weight = weight.expand_as(values)
    return mean_of_sums((weight * values).sum(dim), weight.sum(dim), reducer, eps)


def mean_of_sums(
    total: Tensor, count: Tensor, reducer: Reducer = LOCAL, eps: float = 0.0
) -> Tensor:
    """`weighted_mean` of sums that were taken already: of weight·values, and of the weights."""
    total, count = reducer.sum_together(total, count)
    return total / torch.where(count > 0, count + eps, torch.ones_like(count))
