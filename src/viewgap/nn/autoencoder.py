"""The view auto-encoder that several published methods share: ReLU layers, a norm on the code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import cast

import torch
from torch import Tensor, nn

from viewgap.nn.linear import Linear, linear_relu, make_linear
from viewgap.nn.norm import RowNorm, linear_norm

MakeLinear = Callable[[int, int, torch.Generator], Linear]


def xavier_linear(inputs: int, outputs: int, generator: torch.Generator) -> Linear:
    """A linear layer with Xavier's uniform weights and no bias at the start."""
    layer = make_linear(inputs, outputs, generator)
    with torch.no_grad():
        nn.init.xavier_uniform_(layer.weight, generator=generator)
        layer.bias.zero_()
    return layer


def narrow(inputs: int) -> int:
    """Width of the layers next to the input: four fifths of it."""
    return aligned(max(1, round(0.8 * inputs)))


def aligned(width: int) -> int:
    """A large width rounded up to a multiple of 16, as the matrix units of a GPU want it.

    Of rows of 3277 numbers none but the first begins at an aligned address: fits took about twice
    as long as with 3280. Nothing hangs on the published widths to the unit.
    """
    return width if width < 256 else -(-width // 16) * 16


class ViewEncoder(nn.Module):
    """d -> 0.8 d -> 0.8 d -> wide -> code, with ReLU between and a norm over rows at the end.

    Shape: x (R, d), weight (R,) -> (R, code). `weight`: how often a row counts in the norm.
    """

    def __init__(
        self,
        inputs: int,
        wide: int,
        code: int,
        generator: torch.Generator,
        make: MakeLinear = make_linear,
    ) -> None:
        super().__init__()
        sizes = [inputs, narrow(inputs), narrow(inputs), aligned(wide), code]
        self.layers = _chain(sizes, generator, make)
        self.norm = RowNorm(code)

    def forward(self, x: Tensor, weight: Tensor | None = None) -> Tensor:
        """Codes of rows."""
        return linear_norm(self.layers[-1], self.norm, _relu_layers(self.layers[:-1], x), weight)


class ViewDecoder(nn.Module):
    """code -> (code ->) wide -> 0.8 d -> 0.8 d -> d, with ReLU between. No norm.

    Shape: (R, code) -> (R, d). `square`: whether there is a layer code -> code first.
    """

    def __init__(
        self,
        outputs: int,
        wide: int,
        code: int,
        generator: torch.Generator,
        make: MakeLinear = make_linear,
        square: bool = True,
    ) -> None:
        super().__init__()
        start = [code, code] if square else [code]
        sizes = [*start, aligned(wide), narrow(outputs), narrow(outputs), outputs]
        self.layers = _chain(sizes, generator, make)

    def forward(self, codes: Tensor) -> Tensor:
        """Rows of the view."""
        result: Tensor = self.output(self.hidden(codes))
        return result

    def hidden(self, codes: Tensor) -> Tensor:
        """What the last layer gets."""
        return _relu_layers(self.layers[:-1], codes)

    @property
    def output(self) -> Linear:
        """The last layer."""
        return self.layers[-1]


def _chain(sizes: Sequence[int], generator: torch.Generator, make: MakeLinear) -> Sequence[Linear]:
    layers = [make(a, b, generator) for a, b in pairwise(sizes)]
    return cast("Sequence[Linear]", nn.ModuleList(layers))


def _relu_layers(layers: Sequence[Linear], x: Tensor) -> Tensor:
    for layer in layers:
        x = linear_relu(layer, x)
    return x
