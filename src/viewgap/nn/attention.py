"""Transformer layers with the norm before each branch, masked attention, and seeded dropout.

Large intermediate values are few and stay in the number format of the products: the layer over all
label tokens of a batch holds a hundred million of them.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from viewgap.nn.dropout import Dropout
from viewgap.nn.linear import Linear, make_linear

_FAR = -1e9
_EPS = 1e-6


def xavier_blocks(inputs: int, outputs: int, generator: torch.Generator, blocks: int = 1) -> Linear:
    """A linear layer of `blocks` maps side by side, each with Xavier's uniform weights."""
    layer = make_linear(inputs, outputs * blocks, generator)
    with torch.no_grad():
        for part in layer.weight.chunk(blocks):
            nn.init.xavier_uniform_(part, generator=generator)
    return layer


# ---------------------------------------------------------------------- parts


class _Standardise(torch.autograd.Function):
    """weight · (x − mean) / (std + ε) + bias along the last dimension, with its gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        size = x.shape[-1]
        variance, mean = torch.var_mean(x, dim=-1, correction=min(1, size - 1), keepdim=True)
        std = variance.sqrt()
        unit = (x - mean).div_(std + _EPS)
        ctx.save_for_backward(unit, std, weight)
        return torch.addcmul(bias, unit, weight)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        unit, std, weight = ctx.saved_tensors
        gradient, size = gradients[0], unit.shape[-1]
        by_unit = gradient * unit
        of_weight = by_unit.flatten(0, -2).sum(dim=0)
        # d unit_k / d x_j = (δ_kj − 1/F) / (σ + ε) − unit_k unit_j / ((F − 1) σ)
        mean = (gradient @ weight).unsqueeze(-1) / size
        turn = (by_unit @ weight).unsqueeze(-1) / (max(1, size - 1) * std.clamp(min=1e-30))
        back = (gradient * weight).sub_(mean).div_(std + _EPS)
        return (
            back.addcmul_(unit, turn, value=-1.0),
            of_weight,
            gradient.flatten(0, -2).sum(dim=0),
        )


class LayerNorm(nn.Module):
    """Layer norm with the unbiased standard deviation, and ε added to that and not under the root.

    Shape: (..., F) -> (..., F).
    """

    def __init__(self, features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x: Tensor) -> Tensor:
        """Every row for itself."""
        result: Tensor = _Standardise.apply(x, self.weight, self.bias)  # type: ignore[no-untyped-call]
        return result


def is_dropping(dropout: Dropout) -> bool:
    """Whether it changes anything now."""
    return dropout.training and dropout.rate > 0.0


def kept_entries(dropout: Dropout, shape: tuple[int, ...], device: torch.device) -> Tensor:
    """1 for what dropout keeps, else 0, a byte each."""
    share = 1.0 - dropout.rate
    if device.type == "cuda":
        kept = torch.empty(shape, dtype=torch.uint8, device=device)
        return kept.bernoulli_(share, generator=dropout.generator)
    return (torch.rand(shape, generator=dropout.generator) < share).to(torch.uint8)


def add_branch(x: Tensor, linear: Linear, branch: Tensor, dropout: Dropout) -> Tensor:
    """x + dropout(linear(branch)). Shape: x (..., outputs), branch (..., inputs) -> as x."""
    if not is_dropping(dropout):
        added: Tensor = linear(branch)
        return x + added
    kept, scale = kept_entries(dropout, tuple(x.shape), x.device), 1.0 / (1.0 - dropout.rate)
    return torch.addcmul(x, linear(branch), kept, value=scale)


class _Hidden(torch.autograd.Function):
    """dropout(relu(x wᵀ + b)) in the number format of the product; keeps one large tensor.

    What is positive afterwards was positive before and is kept: no mask is needed for the gradient.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, operand: Tensor, dropout: Dropout
    ) -> Tensor:
        rows = x.to(operand.dtype)
        hidden = torch._addmm_activation(bias.to(operand.dtype), rows, operand.T)
        ctx.scale = 1.0
        if is_dropping(dropout):
            hidden, ctx.scale = _drop(hidden, dropout), 1.0 / (1.0 - dropout.rate)
        ctx.save_for_backward(rows, hidden, operand)
        ctx.dtypes = x.dtype, weight.dtype
        return hidden

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        rows, hidden, operand = ctx.saved_tensors
        slope = torch.ops.aten.threshold_backward(gradients[0], hidden, 0.0).mul_(ctx.scale)
        of_bias = slope.sum(dim=0, dtype=ctx.dtypes[1])
        back = (slope @ operand).to(ctx.dtypes[0])
        # The matrix units of a GPU add in float32, and need not round the sum.
        if slope.is_cuda and slope.dtype != ctx.dtypes[1]:
            of_weight = torch.mm(slope.T, rows, out_dtype=ctx.dtypes[1])
        else:
            of_weight = (slope.T @ rows).to(ctx.dtypes[1])
        return back, of_weight, of_bias, None, None


def _drop(x: Tensor, dropout: Dropout) -> Tensor:
    """Dropout of a large tensor, without its gradient."""
    kept = kept_entries(dropout, tuple(x.shape), x.device)
    return torch.addcmul(x.new_zeros(()), x, kept, value=1.0 / (1.0 - dropout.rate))


def hidden_layer(x: Tensor, linear: Linear, dropout: Dropout) -> Tensor:
    """dropout(relu(linear(x))), in the number format in which `linear` multiplies.

    Shape: (..., inputs) -> (..., outputs).
    """
    hidden: Tensor = _Hidden.apply(  # type: ignore[no-untyped-call]
        x.flatten(0, -2), linear.weight, linear.bias, linear.matmul_weight(), dropout
    )
    return hidden.view(*x.shape[:-1], -1)


# ---------------------------------------------------------------------- layers


class TransformerLayer(nn.Module):
    """x + attention(norm(x)), then x + feed_forward(norm(x)); dropout on both, and inside both.

    As released, what the second branch gives is dropped twice, which is dropout at a higher rate.

    Shape: x (B, T, F), allowed (B, T, T) bool -> (B, T, F). `allowed[b, i, j]`: token i of sample b
    may attend to token j; a token that may attend to none attends to all alike.
    """

    def __init__(
        self, size: int, heads: int, wide: int, dropout: float, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_forward = LayerNorm(size), LayerNorm(size)
        self.project = xavier_blocks(size, size, generator, blocks=3)
        self.output = xavier_blocks(size, size, generator)
        self.widen = xavier_blocks(size, wide, generator)
        self.narrow = xavier_blocks(wide, size, generator)
        self.dropout = Dropout(dropout)
        self.dropout_twice = Dropout(1.0 - (1.0 - dropout) ** 2)

    def forward(self, x: Tensor, allowed: Tensor | None = None) -> Tensor:
        """All tokens of every sample."""
        # (B, heads, T, F / heads)
        parts = self.parts(self.before_attention(x))
        query, key, value = (part.transpose(-2, -3) for part in parts)
        scores = query @ key.transpose(-1, -2)
        if allowed is not None:
            scores = scores.masked_fill(~allowed.unsqueeze(-3), _FAR)
        mixed = self.dropout(scores.softmax(dim=-1)) @ value
        return self.finish(x, mixed.transpose(-2, -3).flatten(-2))

    def parts(self, normed: Tensor) -> list[Tensor]:
        """Queries (over √(F / heads)), keys and values: three times (..., heads, F / heads)."""
        size = normed.shape[-1] // self.heads
        projected = self.project(normed).unflatten(-1, (3, self.heads, size))
        query, key, value = projected.unbind(dim=-3)
        return [query / math.sqrt(size), key, value]

    def finish(self, x: Tensor, mixed: Tensor) -> Tensor:
        """The layer from the attended values (..., F) on."""
        x = add_branch(x, self.output, mixed, self.dropout)
        hidden = hidden_layer(self.before_forward(x), self.widen, self.dropout)
        return add_branch(x, self.narrow, hidden, self.dropout_twice)


class SharedTokenLayer(TransformerLayer):
    """A transformer layer over one token of every sample and c tokens that all samples share.

    As `TransformerLayer` over all 1 + c tokens of every sample, without a mask. Before the layer
    the shared tokens are the same for everybody: their queries, keys, values and scores among each
    other are computed once. With p the attention among them, e their scores and t_b the score of a
    shared token with the token of sample b, the attention to that token is
    g_b = σ(t_b − logsumexp e), and to the shared ones (1 − g_b) p.

    Shape: own (B, F), shared (c, F) -> (B, 1 + c, F), or (B, 1, F) with `own_only`.
    """

    def forward(self, own: Tensor, shared: Tensor, own_only: bool = False) -> Tensor:  # type: ignore[override]
        """Every sample's own token first; the shared ones as the sample changes them."""
        both = self.parts(self.before_attention(torch.cat([own, shared])))
        n_samples = own.shape[0]  # not len(), which an exporter takes for a constant
        mine = [part[:n_samples].transpose(0, 1) for part in both]  # (heads, B, F / heads)
        theirs = [part[n_samples:].transpose(0, 1) for part in both]
        x, mixed = own.unsqueeze(1), self._attend_own(mine, theirs)
        if own_only:
            return self.finish(x, mixed.unsqueeze(1))
        x = torch.cat([x, shared.expand(n_samples, -1, -1)], dim=1)
        return self.finish(x, self._attend_shared(mixed, mine, theirs))

    def _attend_own(self, mine: list[Tensor], theirs: list[Tensor]) -> Tensor:
        """What the samples' own tokens attend to, (B, F)."""
        (query, key, value), (_, keys, values) = mine, theirs
        itself = (query * key).sum(dim=-1, keepdim=True)
        scores = torch.cat([itself, query @ keys.transpose(1, 2)], dim=-1)
        weights: Tensor = self.dropout(scores.softmax(dim=-1))
        mixed = weights[..., :1] * value + weights[..., 1:] @ values
        return mixed.transpose(0, 1).flatten(1)

    def _attend_shared(self, mixed_own: Tensor, mine: list[Tensor], theirs: list[Tensor]) -> Tensor:
        """What all tokens attend to, (B, 1 + c, F): the own one as given, the shared ones."""
        (_, key, value), (queries, keys, values) = mine, theirs
        scores = queries @ keys.transpose(1, 2)
        to_own = key @ queries.transpose(1, 2)  # (heads, B, c)
        gate = torch.sigmoid(to_own - scores.logsumexp(dim=-1).unsqueeze(1))
        passed = self.dropout(gate)
        among = self._mix_shared(scores.softmax(dim=-1), values, value.shape[1])
        own_share = passed.unsqueeze(-1) * value.unsqueeze(2)
        mixed = torch.addcmul(own_share, among, 1.0 - gate.unsqueeze(-1))
        mixed = mixed.permute(1, 2, 0, 3).flatten(2)
        return torch.cat([mixed_own.unsqueeze(1), mixed], dim=1)

    def _mix_shared(self, weights: Tensor, values: Tensor, samples: int) -> Tensor:
        """The shared values by their weights; dropout makes that different for every sample.

        Shape: weights (heads, c, c), values (heads, c, f) -> (heads, B, c, f).
        """
        heads, count, _ = weights.shape
        dtype = self.output.matmul_dtype or weights.dtype
        weights, values = weights.to(dtype), values.to(dtype)
        if not is_dropping(self.dropout):
            return (weights @ values).unsqueeze(1).expand(-1, samples, -1, -1)
        kept = kept_entries(self.dropout, (heads, samples, count, count), weights.device)
        some = kept * weights.unsqueeze(1)
        # Not the large side of the product takes the factor of dropout.
        mixed: Tensor = some.flatten(1, 2) @ (values / (1.0 - self.dropout.rate))
        return mixed.view(heads, samples, count, -1)


class TransformerStack(nn.Module):
    """Transformer layers one after the other, and a norm at the end. Shape: as a layer's."""

    def __init__(
        self,
        layers: int,
        size: int,
        heads: int,
        wide: int,
        dropout: float,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            TransformerLayer(size, heads, wide, dropout, generator) for _ in range(layers)
        )
        self.norm = LayerNorm(size)

    def forward(self, x: Tensor, allowed: Tensor | None = None) -> Tensor:
        """All tokens of every sample."""
        for layer in self.layers:
            x = layer(x, allowed)
        result: Tensor = self.norm(x)
        return result


def power_weights(strength: Tensor, observed: Tensor, power: float) -> Tensor:
    """Softmax of |a_v|^γ over the views that a sample has; 0 for missing ones.

    Shape: strength (m,), observed (B, m) bool -> (B, m).
    """
    scores = strength.abs().pow(power).expand(observed.shape).masked_fill(~observed, _FAR)
    return scores.softmax(dim=-1) * observed
