"""Multi-layer perceptrons whose normalisation and dropout know about missing rows and seeds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from viewgap.nn.fused import kernels_for
from viewgap.nn.reduce import LOCAL, Reducer


class Linear(nn.Linear):
    """A linear layer that can multiply in bfloat16; sums, bias, weights and gradients stay float32.

    `operands` None: multiply in the number format of the weights. `shadow`: the weights in the
    format of the operands, where somebody keeps them up to date. `memory`: where the gradient of
    the weights is put, if not into fresh memory.
    """

    operands: torch.dtype | None = None
    shadow: Tensor | None = None
    memory: GradientMemory | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Shape: (..., inputs) -> (..., outputs)."""
        if self.operands is None and self.memory is None:
            return F.linear(x, self.weight, self.bias)
        return self.bias + self.product(x)

    def product(self, x: Tensor) -> Tensor:
        """The result before the bias is added, in the format of the operands."""
        if self.operands is None and self.memory is None:
            return F.linear(x, self.weight)
        operands = self.operands or self.weight.dtype
        mixed: Tensor = _MixedProduct.apply(  # type: ignore[no-untyped-call]
            x.flatten(0, -2), self.weight, operands, self.shadow, self.memory
        )
        return mixed.view(*x.shape[:-1], self.out_features)


class _MixedProduct(torch.autograd.Function):
    """x wᵀ in the number format `operands`; the gradient of the weights in their own.

    Without a shadow the weights are converted in both directions: kept, the copies of all layers
    together would be half a network more.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        operands: torch.dtype,
        shadow: Tensor | None,
        memory: GradientMemory | None,
    ) -> Tensor:
        operand = _operand(x, operands)
        ctx.save_for_backward(operand)
        ctx.weight, ctx.shadow, ctx.memory = weight, shadow, memory
        ctx.rows, ctx.dtype, ctx.operands = len(x), x.dtype, operands
        weight = weight.to(operands) if shadow is None else shadow
        return (operand @ weight.T)[: len(x)]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (x,) = ctx.saved_tensors
        gradient = _operand(gradients[0], ctx.operands)
        back = None
        if ctx.needs_input_grad[0]:
            weight = ctx.weight.detach().to(ctx.operands) if ctx.shadow is None else ctx.shadow
            back = (gradient @ weight)[: ctx.rows].to(ctx.dtype)
        if ctx.memory is not None:
            ctx.memory.add(ctx.weight, gradient, x)
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


class GradientMemory:
    """Memory for the gradients of linear layers that stays from step to step, on a CPU.

    Fresh memory has to be mapped page by page, which for a large network takes longer than writing
    the gradients. Works as autograd does: the first gradient of a step becomes `grad`, others are
    added.
    """

    def __init__(self, network: nn.Module) -> None:
        self._layers = [module for module in network.modules() if isinstance(module, Linear)]
        self._places = {layer.weight: torch.empty_like(layer.weight) for layer in self._layers}
        largest = max(layer.weight.numel() for layer in self._layers)
        operands = self._layers[0].operands or self._layers[0].weight.dtype
        self._product = torch.empty(largest, dtype=operands)
        for layer in self._layers:
            layer.memory = self

    def add(self, weight: Tensor, gradient: Tensor, x: Tensor) -> None:
        """Add gradientᵀ x to the gradient of `weight`."""
        product = self._product[: weight.numel()].view(weight.shape)
        torch.mm(gradient.T, x, out=product)
        if weight.grad is None:
            weight.grad = self._places[weight].copy_(product)
        else:
            weight.grad.add_(product)

    def release(self) -> None:
        """Let autograd have its way again."""
        for layer in self._layers:
            layer.memory = None


def set_operands(network: nn.Module, operands: torch.dtype | None) -> None:
    """Make every linear layer of `network` multiply in this number format."""
    for module in network.modules():
        if isinstance(module, Linear):
            module.operands = operands
            module.shadow = None


def make_linear(inputs: int, outputs: int, generator: torch.Generator) -> Linear:
    """A linear layer with PyTorch's usual start, drawn from `generator` and not the global RNG."""
    layer: Linear = nn.utils.skip_init(Linear, inputs, outputs, device=torch.get_default_device())
    bound = 1.0 / math.sqrt(inputs)
    with torch.no_grad():
        layer.weight.uniform_(-bound, bound, generator=generator)
        layer.bias.uniform_(-bound, bound, generator=generator)
    return layer


class RandomPart(nn.Module):
    """A part that draws from a generator of its own, so that a seed fixes the whole fit."""

    generator: torch.Generator | None = None


class Dropout(RandomPart):
    """Dropout by masks from the part's own generator."""

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
            return torch.empty_like(x).bernoulli_(share, generator=self.generator).div_(share)
        # On a CPU `bernoulli_` takes four times as long as this.
        draws = torch.rand(x.shape, generator=self.generator)
        return (draws < share).to(x.dtype).div_(share)


class RowNorm(nn.Module):
    """Batch normalisation over the rows that count.

    As `BatchNorm1d`, with two additions: rows of weight 0 leave the statistics alone, and a batch
    may consist of several groups of rows that are normalised separately (as if the layer had been
    called once per group, in order).

    Shape: x (R, F) with weight (R,), or x (G, R, F) with weight (G, R); weight None counts all.
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, features: int, momentum: float = 0.1, eps: float = 1e-5) -> None:
        super().__init__()
        self.momentum = momentum
        self.eps = eps
        self.reducer: Reducer = LOCAL
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.register_buffer("running_mean", torch.zeros(features))
        self.register_buffer("running_var", torch.ones(features))

    def forward(self, x: Tensor, weight: Tensor | None = None) -> Tensor:
        """Normalise by the batch in training, by the running statistics otherwise."""
        if not self.training:
            return self._scale(x, self.running_mean, self.running_var)
        if self._is_plain(x, weight):
            return F.batch_norm(
                x,
                self.running_mean,
                self.running_var,
                self.weight,
                self.bias,
                training=True,
                momentum=self.momentum,
                eps=self.eps,
            )
        if weight is None and self.reducer is LOCAL and x.dim() == 3 and x.shape[1] > 1:
            return self._normalise_groups(x)
        count, mean, variance = self._statistics(x, weight)
        unbiased = variance * (count / (count - 1).clamp(min=1.0)).unsqueeze(-1)
        self._update_running(count, mean.detach(), unbiased.detach())
        # A view that no row of the batch has leaves nothing to normalise by; its rows do not
        # count anywhere, but they must stay finite.
        none = count.unsqueeze(-1) == 0
        mean = torch.where(none, self.running_mean, mean)
        variance = torch.where(none, self.running_var, variance)
        return self._scale(x, mean.unsqueeze(-2), variance.unsqueeze(-2))

    def _is_plain(self, x: Tensor, weight: Tensor | None) -> bool:
        """Whether PyTorch's fused kernel computes the same: all rows, one group, one process."""
        return weight is None and x.dim() == 2 and len(x) > 1 and self.reducer is LOCAL

    def _normalise_groups(self, x: Tensor) -> Tensor:
        """Groups side by side as columns: one call of the fused kernel for all of them."""
        groups, rows, features = x.shape
        mean, unbiased = x.new_zeros(groups * features), x.new_zeros(groups * features)
        flat = F.batch_norm(
            x.transpose(0, 1).reshape(rows, groups * features),
            mean,
            unbiased,
            self.weight.repeat(groups),
            self.bias.repeat(groups),
            training=True,
            momentum=1.0,  # leaves this batch's statistics in `mean` and `unbiased`
            eps=self.eps,
        )
        count = x.new_full((groups,), rows)
        shape = (groups, features)
        self._update_running(count, mean.view(shape), unbiased.view(shape))
        return flat.view(rows, groups, features).transpose(0, 1)

    def _statistics(self, x: Tensor, weight: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Count (G?,), mean and biased variance (G?, F) over the rows that count."""
        if weight is None:
            weight = x.new_ones(x.shape[:-1])
        rows = weight.unsqueeze(-1)
        count = self.reducer.sum(weight.sum(dim=-1))
        divisor = count.clamp(min=1.0).unsqueeze(-1)
        mean = self.reducer.sum((rows * x).sum(dim=-2)) / divisor
        centred = x - mean.unsqueeze(-2)
        variance = self.reducer.sum((rows * centred.square()).sum(dim=-2)) / divisor
        return count, mean, variance

    @torch.no_grad()
    def _update_running(self, count: Tensor, mean: Tensor, unbiased: Tensor) -> None:
        """Move the running statistics; groups in their order, those of fewer than two rows not."""
        step = self.momentum * (count.reshape(-1) > 1).to(mean.dtype)
        # One step per group, r <- (1-step)·r + step·s, written out: what group g adds is shrunk by
        # every later group.
        kept = torch.flip(torch.cumprod(torch.flip(1 - step, [0]), dim=0), [0])
        share = (step * kept / (1 - step)).unsqueeze(-1)
        # `data`: the fused kernel keeps the statistics for its gradient, which does not read them;
        # autograd would refuse it after a further call of the same layer in the same step.
        for running, new in ((self.running_mean.data, mean), (self.running_var.data, unbiased)):
            added = (share * new.reshape(-1, new.shape[-1])).sum(dim=0)
            running.mul_(kept[0]).add_(added)

    def _scale(self, x: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        factor = self.weight * torch.rsqrt(variance + self.eps)
        return torch.addcmul(self.bias - mean * factor, x, factor)


def norm_gelu(linear: Linear, norm: RowNorm, x: Tensor, weight: Tensor | None) -> Tensor:
    """gelu(norm(linear(x))); on a GPU, training on one process, all after the product in one."""
    kernels = kernels_for(x) if norm.training and norm.reducer is LOCAL else None
    if kernels is None or not 0 < x.shape[-2] <= kernels.MOST_ROWS:
        return F.gelu(norm(linear(x), weight))
    running = (norm.running_mean, norm.running_var)
    fused: Tensor = kernels.NormGelu.apply(
        linear.product(x),
        linear.bias,
        weight,
        norm.weight,
        norm.bias,
        *running,
        norm.momentum,
        norm.eps,
    )
    return fused


def squared_error(linear: Linear, x: Tensor, table: Tensor, rows: Tensor, share: Tensor) -> Tensor:
    """Σ of share · mean (linear(x) − table[rows])²; on a GPU without its intermediate steps.

    Shape: x (..., inputs), table (n, outputs), rows and share (...) -> ().
    """
    kernels = kernels_for(x)
    if kernels is None or x.numel() == 0:
        gap: Tensor = linear(x) - table[rows]
        return (gap.square().mean(dim=-1) * share).sum()
    product = linear.product(x).flatten(0, -2)
    fused: Tensor = kernels.SquaredError.apply(
        product, linear.bias, table, rows.flatten(), share.flatten()
    )
    return fused


class SetNorm(RowNorm):
    """Normalisation over rows that are always all there, such as one row for every label.

    Their statistics are known in evaluation too, where running ones would lag behind.
    """

    def forward(self, x: Tensor, weight: Tensor | None = None) -> Tensor:
        """Normalise by these rows, in training and in evaluation."""
        if self.training:
            return super().forward(x, weight)
        _, mean, variance = self._statistics(x, weight)
        return self._scale(x, mean.unsqueeze(-2), variance.unsqueeze(-2))


class Trunk(nn.Module):
    """Layers of Linear, RowNorm, GELU, Dropout.

    Shape: x (R, inputs) or (G, R, inputs) -> (R, sizes[-1]) or (G, R, sizes[-1]).
    """

    def __init__(
        self,
        inputs: int,
        sizes: Sequence[int],
        dropout: float,
        generator: torch.Generator,
        norm: type[RowNorm] = RowNorm,
    ) -> None:
        super().__init__()
        pairs = zip([inputs, *sizes], sizes, strict=False)
        linears = [make_linear(a, b, generator) for a, b in pairs]
        self.linears = cast("Iterable[Linear]", nn.ModuleList(linears))
        self.norms = cast("Iterable[RowNorm]", nn.ModuleList(norm(size) for size in sizes))
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, weight: Tensor | None = None) -> Tensor:
        """`weight`: which rows count in the normalisation statistics (all, if None)."""
        return self.hidden(x, weight)

    def hidden(self, x: Tensor, weight: Tensor | None = None) -> Tensor:
        """What the last of these layers gives."""
        for linear, norm in zip(self.linears, self.norms, strict=True):
            x = self.dropout(norm_gelu(linear, norm, x, weight))
        return x


class MLP(Trunk):
    """Hidden layers of Linear, RowNorm, GELU, Dropout, and a plain Linear at the end.

    Shape: x (R, inputs) or (G, R, inputs) -> (R, outputs) or (G, R, outputs).
    """

    def __init__(
        self,
        inputs: int,
        hidden: Sequence[int],
        outputs: int,
        dropout: float,
        generator: torch.Generator,
    ) -> None:
        super().__init__(inputs, hidden, dropout, generator)
        self.output = make_linear([inputs, *hidden][-1], outputs, generator)

    def forward(self, x: Tensor, weight: Tensor | None = None) -> Tensor:
        """`weight`: which rows count in the normalisation statistics (all, if None)."""
        result: Tensor = self.output(self.hidden(x, weight))
        return result

    @property
    def operands(self) -> torch.dtype | None:
        """The number format in which the layers multiply, None = that of their weights."""
        return self.output.operands
