"""What SCSD answers for rows of one view, and how the views of a sample are merged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from viewgap.methods._scsd_network import SCSDNetwork
from viewgap.nn.codebook import nearest_codes
from viewgap.nn.fusion import fusion_weights
from viewgap.nn.mlp import MLP
from viewgap.training.prediction import RowFunction, Rows, block_rows, linear

Array = NDArray[Any]
Mask = NDArray[np.bool_]


class SCSDPrediction:
    """The network in evaluation, row by row: functions for `run_by_view`."""

    def __init__(self, network: SCSDNetwork) -> None:
        self.network = network
        self._encoders = network.encoders
        self._classifiers = network.classifiers
        layers = [layer for mlp in self._encoders for layer in (*mlp.linears, mlp.output)]
        self._weights = sum(layer.weight.numel() for layer in layers) // len(self._encoders)
        self._block = block_rows(network.view_quality.device, self._weights)
        if network.settings.quantise:
            self._codes = F.normalize(network.codebook.codes.detach(), dim=1)

    # ------------------------------------------------------------------ functions of a sample

    def fused(self) -> RowFunction:
        """P (Eq. 7), (n, c)."""
        return RowFunction(
            self._probabilities, self._fuse, self._labels, self._weights, self._block
        )

    def by_view(self) -> RowFunction:
        """P^v of every view, (n, m, c); NaN where the view is missing."""
        return RowFunction(
            self._probabilities, _side_by_side, self._labels, self._weights, self._block
        )

    def numbers(self) -> RowFunction:
        """Numbers of the codes of every view, (n, m, g); -1 where the view is missing."""
        groups = self.network.settings.embedding // self.network.settings.code_dim
        return RowFunction(self._numbers, _side_by_side, groups, self._weights, self._block)

    def decoded(self, target: int) -> RowFunction:
        """Mean over the views of what the decoder of `target` makes of their codes, (n, d)."""
        decoder = self.network.decoders[target]

        def decode(view: int, x: Tensor, count: int) -> Tensor:
            return _mlp(decoder, self._quantised(view, x, count), self._block)[:count]

        width = decoder.output.out_features
        return RowFunction(decode, _mean, width, 2 * self._weights, self._block)

    # ------------------------------------------------------------------ rows of one view

    @property
    def _labels(self) -> int:
        return len(self.network.label_correlation)

    def _probabilities(self, view: int, x: Tensor, count: int) -> Tensor:
        """P^v = σ(F^v(ẑ^v))."""
        codes = self._quantised(view, x, count)
        scores = linear(self._classifiers[view], codes, self._block)
        return torch.sigmoid(scores)[:count]

    def _quantised(self, view: int, x: Tensor, count: int) -> Tensor:
        """ẑ^v; zero in the rows that only fill the block."""
        if not self.network.settings.quantise:
            return _mlp(self._encoders[view], x, self._block)
        numbers = self._numbers(view, x, count)
        result = x.new_zeros(len(x), self.network.settings.embedding)
        into = result[:count].view(-1, self._codes.shape[1])
        torch.index_select(self._codes, 0, numbers.view(-1), out=into)
        return result

    def _numbers(self, view: int, x: Tensor, count: int) -> Tensor:
        """Number of the code nearest to every segment; its length does not matter for that."""
        raw = _mlp(self._encoders[view], x, self._block)[:count]
        return nearest_codes(raw.view(-1, self._codes.shape[1]), self._codes).view(count, -1)

    # ------------------------------------------------------------------ merging

    def _fuse(self, observed: Mask, rows: Sequence[Rows], values: Sequence[Array]) -> Array:
        """Σ_v w^v P^v, added in the order of the views."""
        network = self.network
        quality = network.view_quality.detach().cpu()
        seen = torch.from_numpy(np.array(observed))
        weights = fusion_weights(quality, seen, network.settings.temperature).numpy()
        total = np.zeros((len(observed), self._labels), dtype=weights.dtype)
        for view, (wanted, answers) in enumerate(zip(rows, values, strict=True)):
            if len(wanted):
                answers *= weights[wanted, view, np.newaxis]
                total[wanted] += answers
        return np.clip(total, 0.0, 1.0, out=total)


def _mlp(mlp: MLP, x: Tensor, block: int) -> Tensor:
    """mlp(x) in evaluation mode, every product in blocks of one shape."""
    for layer, norm in zip(mlp.linears, mlp.norms, strict=True):
        known = (norm.running_mean, norm.running_var, norm.weight, norm.bias)
        x = F.gelu(F.batch_norm(linear(layer, x, block), *known, eps=norm.eps))
    return linear(mlp.output, x, block)


def _side_by_side(observed: Mask, rows: Sequence[Rows], values: Sequence[Array]) -> Array:
    """(n, m, F); NaN or -1 where a view is missing."""
    known = next(answers for answers in values if len(answers))
    nothing = np.nan if known.dtype.kind == "f" else -1
    result = np.full((*observed.shape, known.shape[1]), nothing, dtype=known.dtype)
    for view, (wanted, answers) in enumerate(zip(rows, values, strict=True)):
        if len(wanted):
            result[wanted, view] = answers
    return result


def _mean(observed: Mask, rows: Sequence[Rows], values: Sequence[Array]) -> Array:
    known = next(answers for answers in values if len(answers))
    total = np.zeros((len(observed), known.shape[1]), dtype=known.dtype)
    for wanted, answers in zip(rows, values, strict=True):
        if len(wanted):
            total[wanted] += answers
    total /= np.maximum(observed.sum(axis=1, keepdims=True), 1).astype(total.dtype)
    return total
