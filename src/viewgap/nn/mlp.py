"""Multi-layer perceptrons: linear layers, weighted batch normalisation, GELU and dropout."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

import torch
from torch import Tensor, nn

from viewgap.nn.dropout import Dropout
from viewgap.nn.linear import Linear, make_linear
from viewgap.nn.norm import RowNorm, linear_norm


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
            x = linear_norm(linear, norm, x, weight, gelu=True)
            if self.training:
                x = self.dropout(x)
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
        norm: type[RowNorm] = RowNorm,
    ) -> None:
        super().__init__(inputs, hidden, dropout, generator, norm)
        self.output = make_linear([inputs, *hidden][-1], outputs, generator)

    def forward(self, x: Tensor, weight: Tensor | None = None) -> Tensor:
        """`weight`: which rows count in the normalisation statistics (all, if None)."""
        result: Tensor = self.output(self.hidden(x, weight))
        return result

    @property
    def matmul_dtype(self) -> torch.dtype | None:
        """The number format of the products, None = that of the weights."""
        return self.output.matmul_dtype
