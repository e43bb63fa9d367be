"""All floating-point weights of a network in one piece of memory, to move them in one operation."""

from __future__ import annotations

import copy
from itertools import accumulate
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

_ALIGN = 64  # numbers; vector instructions and the fused optimiser want aligned starts


Network = TypeVar("Network", bound=nn.Module)


class FlatWeights(Generic[Network]):
    """Parameters, then floating-point buffers, as slices of `values`; the network works as before.

    A network with flat weights must not be pickled: every slice would bring the whole along.
    """

    def __init__(self, network: Network) -> None:
        weights = list(network.parameters())
        buffers = [t for t in network.buffers() if t.is_floating_point()]
        tensors: list[Tensor] = [*weights, *buffers]
        sizes = [-(-tensor.numel() // _ALIGN) * _ALIGN for tensor in tensors]
        self.network = network
        self._whole = _whole(network)
        self._first_buffer = sum(sizes[: len(weights)])
        self._slices = list(zip(tensors, accumulate(sizes, initial=0), strict=False))
        self.values = torch.zeros(sum(sizes), dtype=tensors[0].dtype, device=tensors[0].device)
        for tensor, start in self._slices:
            part = self.values[start : start + tensor.numel()].view(tensor.shape)
            part.copy_(tensor.detach())
            tensor.data = part

    def twin(self) -> FlatWeights[Network]:
        """A copy of the network, flat as well, made without a third copy of its weights."""
        other = copy.copy(self)
        other.values = self.values.clone()
        other._slices, memo = [], {}
        for tensor, start in self._slices:
            part = other.values[start : start + tensor.numel()].view(tensor.shape)
            mine = nn.Parameter(part) if isinstance(tensor, nn.Parameter) else part
            other._slices.append((mine, start))
            memo[id(tensor)] = mine
        other.network = copy.deepcopy(self.network, memo)
        other._whole = _whole(other.network)
        return other

    @torch.no_grad()
    def lerp(self, other: FlatWeights[Network], share: float | Tensor) -> None:
        """Move by `share` towards `other`; whole numbers and flags are copied."""
        self.values.lerp_(other.values, share)
        self._copy_whole(other)

    @torch.no_grad()
    def lerp_buffers(self, other: FlatWeights[Network], share: float | Tensor) -> None:
        """As `lerp`, but leaves the parameters alone."""
        first = self._first_buffer
        self.values[first:].lerp_(other.values[first:], share)
        self._copy_whole(other)

    def _copy_whole(self, other: FlatWeights[Network]) -> None:
        for mine, theirs in zip(self._whole, other._whole, strict=True):
            mine.copy_(theirs)

    def release(self) -> None:
        """Give every tensor memory of its own again."""
        for tensor in self.network.state_dict(keep_vars=True).values():
            if tensor.is_floating_point():
                tensor.data = tensor.detach().clone()


def _whole(network: nn.Module) -> list[Tensor]:
    return [buffer for buffer in network.buffers() if not buffer.is_floating_point()]
