"""Linear layers whose products can be computed in bfloat16 (mixed precision)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from viewgap.nn.kernels import kernels_for

_block_rows: ContextVar[int] = ContextVar("block_rows", default=0)


@contextmanager
def equal_blocks(rows: int) -> Iterator[None]:
    """Let `Linear` multiply blocks of this many rows: kernels round differently by shape."""
    token = _block_rows.set(rows)
    try:
        yield
    finally:
        _block_rows.reset(token)


def in_equal_blocks() -> bool:
    """Whether rows are being evaluated in blocks of one shape."""
    return _block_rows.get() > 0


def split_blocks(x: Tensor) -> Sequence[Tensor]:
    """The blocks of these rows, for what has other products; without blocks, all rows."""
    return torch.split(x, _block_rows.get() or max(1, len(x)))


class Linear(nn.Linear):
    """A linear layer that can multiply in bfloat16; sums, bias, weights and gradients stay float32.

    `matmul_dtype` is the number format of the product, None = that of the weights
    (`set_matmul_dtype`). A copy of the weights in that format can be kept (`LowPrecisionWeights`),
    and gradients can be written into memory that stays (`GradientBuffers`).
    """

    matmul_dtype: torch.dtype | None = None
    _low_precision: Tensor | None = None
    _gradient_buffers: GradientBuffers | None = None

    def reset_parameters(self) -> None:
        """Leave the weights as they are: `make_linear` draws them.

        `nn.utils.skip_init` would do the same, but imports a part of torch that takes a second.
        """

    def forward(self, x: Tensor) -> Tensor:
        """Shape: (..., inputs) -> (..., outputs)."""
        if self.matmul_dtype is None and self._gradient_buffers is None:
            block = _block_rows.get()
            if block and x.dim() == 2 and len(x) > block:
                return self._in_blocks(x, block)
            return F.linear(x, self.weight, self.bias)
        return self.bias + self.product(x)

    def _in_blocks(self, x: Tensor, block: int) -> Tensor:
        """The same, block by block; the number of rows is a multiple of the block."""
        weight = self.weight.T
        result = x.new_empty(len(x), self.out_features)
        for rows in range(0, len(x), block):
            torch.addmm(self.bias, x[rows : rows + block], weight, out=result[rows : rows + block])
        return result

    def product(self, x: Tensor) -> Tensor:
        """The result before the bias is added, in the format of the product."""
        if self.matmul_dtype is None and self._gradient_buffers is None:
            return F.linear(x, self.weight)
        dtype = self.matmul_dtype or self.weight.dtype
        mixed: Tensor = _MixedProduct.apply(  # type: ignore[no-untyped-call]
            x.flatten(0, -2), self.weight, dtype, self._low_precision, self._gradient_buffers
        )
        return mixed.view(*x.shape[:-1], self.out_features)

    def matmul_weight(self) -> Tensor:
        """The weights, detached, in the format of the product."""
        if self._low_precision is not None:
            return self._low_precision
        return self.weight.detach().to(self.matmul_dtype or self.weight.dtype)

    def set_matmul_dtype(self, dtype: torch.dtype | None) -> None:
        """Multiply in this number format from now on, None = that of the weights."""
        self.matmul_dtype = dtype
        self._low_precision = None

    def keep_low_precision_weight(self) -> Tensor:
        """A copy of the weights in the format of the product, used until it is dropped.

        Whoever changes the weights refreshes it. A copy that exists is refreshed in place:
        recorded CUDA graphs read it where it is.
        """
        if self._low_precision is None:
            self._low_precision = self.weight.detach().to(self.matmul_dtype or self.weight.dtype)
        return self._low_precision.copy_(self.weight.detach())

    def drop_low_precision_weight(self) -> None:
        """Convert the weights in every product again."""
        self._low_precision = None

    def use_gradient_buffers(self, buffers: GradientBuffers | None) -> None:
        """Write gradients of the weights there, None = let autograd make new tensors."""
        self._gradient_buffers = buffers


class _MixedProduct(torch.autograd.Function):
    """x wᵀ in the number format `dtype`; the gradient of the weights in their own.

    Without a low-precision copy the weights are converted in both directions: kept, the copies of
    all layers together would be half a network more.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        dtype: torch.dtype,
        low_precision: Tensor | None,
        buffers: GradientBuffers | None,
    ) -> Tensor:
        operand = _operand(x, dtype)
        ctx.save_for_backward(operand)
        ctx.weight, ctx.low_precision, ctx.buffers = weight, low_precision, buffers
        ctx.rows, ctx.x_dtype, ctx.dtype = len(x), x.dtype, dtype
        weight = weight.to(dtype) if low_precision is None else low_precision
        return (operand @ weight.T)[: len(x)]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (x,) = ctx.saved_tensors
        gradient = _operand(gradients[0], ctx.dtype)
        back = None
        if ctx.needs_input_grad[0]:
            weight = ctx.low_precision
            weight = ctx.weight.detach().to(ctx.dtype) if weight is None else weight
            back = (gradient @ weight)[: ctx.rows].to(ctx.x_dtype)
        if ctx.buffers is not None:
            ctx.buffers.add(ctx.weight, gradient, x)
            return back, None, None, None, None
        if gradient.is_cuda:  # the matrix units add in float32, and need not round the sum
            return back, torch.mm(gradient.T, x, out_dtype=ctx.weight.dtype), None, None, None
        return back, (gradient.T @ x).to(ctx.weight.dtype), None, None, None


def _operand(x: Tensor, dtype: torch.dtype) -> Tensor:
    """x in the number format of a product; on a CPU filled up with rows of zeros.

    There bfloat16 products are compiled for every shape they meet, and batches of observed rows
    have many lengths: rounded up, a few.
    """
    step = 16 if len(x) <= 128 else 32
    if x.is_cuda or dtype != torch.bfloat16 or len(x) % step == 0:
        return x.to(dtype)
    filled = x.new_zeros(-(-len(x) // step) * step, x.shape[1], dtype=dtype)
    filled[: len(x)] = x
    return filled


class GradientBuffers:
    """Memory for the gradients of linear layers that stays from step to step, on a CPU.

    New memory has to be mapped page by page, which for a large network takes longer than writing
    the gradients. Works as autograd does: the first gradient of a step becomes `grad`, others are
    added.
    """

    def __init__(self, network: nn.Module) -> None:
        self._layers = linear_layers(network)
        self._buffers = {layer.weight: torch.empty_like(layer.weight) for layer in self._layers}
        largest = max(layer.weight.numel() for layer in self._layers)
        dtype = self._layers[0].matmul_dtype or self._layers[0].weight.dtype
        self._product = torch.empty(largest, dtype=dtype)
        for layer in self._layers:
            layer.use_gradient_buffers(self)

    def add(self, weight: Tensor, gradient: Tensor, x: Tensor) -> None:
        """Add gradientᵀ x to the gradient of `weight`."""
        product = self._product[: weight.numel()].view(weight.shape)
        torch.mm(gradient.T, x, out=product)
        if weight.grad is None:
            weight.grad = self._buffers[weight].copy_(product)
        else:
            weight.grad.add_(product)

    def release(self) -> None:
        """Let autograd make new tensors again."""
        for layer in self._layers:
            layer.use_gradient_buffers(None)


class LowPrecisionWeights:
    """Low-precision copies of the weights of all layers that multiply in another number format.

    `copies` maps each weight to its copy. Call `refresh` whenever the weights have changed.
    """

    def __init__(self, network: nn.Module) -> None:
        self._layers = [x for x in linear_layers(network) if x.matmul_dtype is not None]
        self.copies = {layer.weight: layer.keep_low_precision_weight() for layer in self._layers}

    def refresh(self) -> None:
        """Copy the weights as they are now."""
        if self.copies:
            torch._foreach_copy_(list(self.copies.values()), [w.detach() for w in self.copies])

    def release(self) -> None:
        """Drop the copies: nothing refreshes them any more."""
        for layer in self._layers:
            layer.drop_low_precision_weight()


def linear_layers(network: nn.Module) -> list[Linear]:
    """All linear layers of a network."""
    return [module for module in network.modules() if isinstance(module, Linear)]


def set_matmul_dtype(network: nn.Module, dtype: torch.dtype | None) -> None:
    """Make every linear layer of `network` multiply in this number format."""
    for layer in linear_layers(network):
        layer.set_matmul_dtype(dtype)


def linear_relu(linear: Linear, x: Tensor) -> Tensor:
    """relu(linear(x)); training on a GPU, all after the product is one kernel.

    The result then is in the number format of the product, as the next layer wants it.
    """
    kernels = kernels_for(x, "bias_relu") if linear.training and x.dim() == 2 else None
    if kernels is None or x.numel() == 0:
        return torch.relu(linear(x))
    fused: Tensor = kernels.BiasRelu.apply(linear.product(x), linear.bias)
    return fused


def make_linear(inputs: int, outputs: int, generator: torch.Generator) -> Linear:
    """A linear layer with PyTorch's usual start, drawn from `generator` and not the global RNG."""
    layer = Linear(inputs, outputs)
    bound = 1.0 / math.sqrt(inputs)
    with torch.no_grad():
        layer.weight.uniform_(-bound, bound, generator=generator)
        layer.bias.uniform_(-bound, bound, generator=generator)
    return layer
