"""What SCSD answers for rows of one view, and how the views of a sample are merged."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit, logit
from torch import Tensor
from torch.nn import functional as F

from viewgap.data.values import row_chunks
from viewgap.methods.scsd.committee import SCSDCommittee
from viewgap.methods.scsd.network import SCSDNetwork
from viewgap.nn.codebook import nearest_codes
from viewgap.nn.fusion import fusion_weights
from viewgap.nn.linear import Linear
from viewgap.nn.mlp import MLP
from viewgap.nn.voting import LEAST, Votes
from viewgap.training.prediction import RowFunction, Rows, block_rows, linear

Array = NDArray[Any]
Mask = NDArray[np.bool_]


class SCSDPrediction:
    """The network in evaluation, row by row: functions for `run_by_view`."""

    def __init__(self, network: SCSDNetwork | SCSDCommittee) -> None:
        self.network = network
        self._votes = network.votes
        members = network.members
        weights = sum(layer.weight.numel() for net in members for layer in _layers(net))
        self._weights = weights // len(members[0].encoders)
        self._block = block_rows(members[0].view_quality.device, self._weights)
        self._members = [_Member(member, self._block) for member in members]

    # ------------------------------------------------------------------ functions of a sample

    def fused(self) -> RowFunction:
        """P (Eq. 7), (n, c)."""
        merge = self._fuse if self._votes is None else self._vote
        return RowFunction(self._probabilities, merge, self._labels, self._weights, self._block)

    def by_view(self) -> RowFunction:
        """P^v of every view, (n, m, c); NaN where the view is missing."""
        merge = partial(_side_by_side, width=self._labels, nothing=self._dtype.type(np.nan))
        return RowFunction(self._probabilities, merge, self._labels, self._weights, self._block)

    def numbers(self) -> RowFunction:
        """Numbers of the codes of every view, (n, m, g); -1 where the view is missing.

        Every member of a committee has a codebook of its own; these are the first one's.
        """
        first = self._members[0]
        settings = first.network.settings
        groups = settings.embedding // settings.code_dim
        merge = partial(_side_by_side, width=groups, nothing=np.int64(-1))
        return RowFunction(first.numbers, merge, groups, self._weights, self._block)

    def decoded(self, target: int) -> RowFunction:
        """Mean over the views of what the decoder of `target` makes of their codes, (n, d)."""

        def decode(view: int, x: Tensor, count: int) -> Tensor:
            return _average([m.decoded(view, target, x, count) for m in self._members])

        width = self._members[0].network.decoders[target].output.out_features
        return RowFunction(decode, _mean, width, 2 * self._weights, self._block)

    def _probabilities(self, view: int, x: Tensor, count: int) -> Tensor:
        """P^v, averaged over the members."""
        return _average([member.probabilities(view, x, count) for member in self._members])

    @property
    def _labels(self) -> int:
        return len(self._members[0].network.label_correlation)

    # ------------------------------------------------------------------ merging

    def _fuse(self, observed: Mask, rows: Sequence[Rows], values: Sequence[Array]) -> Array:
        """Σ_v w^v P^v, added in the order of the views."""
        network = self._members[0].network
        quality = network.view_quality.detach().cpu()
        seen = torch.from_numpy(np.array(observed))
        weights = fusion_weights(quality, seen, network.settings.temperature).numpy()
        total = np.zeros((len(observed), self._labels), dtype=weights.dtype)
        for view, (wanted, answers) in enumerate(zip(rows, values, strict=True)):
            if len(wanted):
                answers *= weights[wanted, view, np.newaxis]
                total[wanted] += answers
        return np.clip(total, 0.0, 1.0, out=total)

    def _vote(self, observed: Mask, rows: Sequence[Rows], values: Sequence[Array]) -> Array:
        """The pooled evidence (`nn.voting`), added in the order of the views.

        In numpy, number by number: vector units round the ends of a tensor differently from its
        middle, and no answer may depend on where in a batch it stands.
        """
        votes = {k: v.double().cpu().numpy() for k, v in cast(Votes, self._votes).named_buffers()}
        total = np.zeros((len(observed), self._labels))
        for weight, wanted, answers in zip(votes["weight"], rows, values, strict=True):
            for part in row_chunks(len(wanted), 8 * self._labels):
                evidence = logit(np.clip(answers[part].astype(np.float64), LEAST, 1.0 - LEAST))
                evidence -= votes["prior"]
                total[wanted[part]] += weight * evidence
        patterns, which = np.unique(observed, axis=0, return_inverse=True)
        counts = [float(votes["weight"][pattern].sum()) or 1.0 for pattern in patterns]
        slope, power = float(votes["slope"]), float(votes["power"])
        scale = np.array([_damped(slope, count, power) for count in counts])
        total *= scale[which.reshape(-1), np.newaxis]
        total += votes["prior"] + votes["shift"]
        return np.asarray(expit(total), dtype=self._dtype)

    @property
    def _dtype(self) -> Any:
        return self._members[0].network.view_quality.detach().cpu().numpy().dtype


class _Member:
    """One network, on rows of one view."""

    def __init__(self, network: SCSDNetwork, block: int) -> None:
        self.network = network
        self._block = block
        if network.settings.quantise:
            self._codes = F.normalize(network.codebook.codes.detach(), dim=1)

    def probabilities(self, view: int, x: Tensor, count: int) -> Tensor:
        """P^v = σ(F^v(ẑ^v))."""
        codes = self._quantised(view, x, count)
        scores = linear(self.network.classifiers[view], codes, self._block)
        return torch.sigmoid(scores)[:count]

    def decoded(self, view: int, target: int, x: Tensor, count: int) -> Tensor:
        """What the decoder of `target` makes of the codes of `view`."""
        decoder = self.network.decoders[target]
        return _mlp(decoder, self._quantised(view, x, count), self._block)[:count]

    def numbers(self, view: int, x: Tensor, count: int) -> Tensor:
        """Number of the code nearest to every segment; its length does not matter for that."""
        raw = _mlp(self.network.encoders[view], x, self._block)[:count]
        return nearest_codes(raw.view(-1, self._codes.shape[1]), self._codes).view(count, -1)

    def _quantised(self, view: int, x: Tensor, count: int) -> Tensor:
        """ẑ^v; zero in the rows that only fill the block."""
        if not self.network.settings.quantise:
            return _mlp(self.network.encoders[view], x, self._block)
        numbers = self.numbers(view, x, count)
        result = x.new_zeros(len(x), self.network.settings.embedding)
        into = result[:count].view(-1, self._codes.shape[1])
        torch.index_select(self._codes, 0, numbers.view(-1), out=into)
        return result


def _damped(slope: float, count: float, power: float) -> float:
    """slope / count^power, as IEEE has it: a file may hold any numbers."""
    try:
        return float(slope / count**power)
    except OverflowError:
        return 0.0
    except ZeroDivisionError:
        return math.inf


def _layers(network: SCSDNetwork) -> list[Linear]:
    return [layer for mlp in network.encoders for layer in (*mlp.linears, mlp.output)]


def _average(answers: list[Tensor]) -> Tensor:
    """The mean, added up one after the other: the same order for any number of rows."""
    total = answers[0]
    for own in answers[1:]:
        total = total + own
    return total / len(answers) if len(answers) > 1 else total


def _mlp(mlp: MLP, x: Tensor, block: int) -> Tensor:
    """mlp(x) in evaluation mode, every product in blocks of one shape."""
    for layer, norm in zip(mlp.linears, mlp.norms, strict=True):
        known = (norm.running_mean, norm.running_var, norm.weight, norm.bias)
        x = F.gelu(F.batch_norm(linear(layer, x, block), *known, eps=norm.eps))
    return linear(mlp.output, x, block)


def _side_by_side(
    observed: Mask,
    rows: Sequence[Rows],
    values: Sequence[Array],
    *,
    width: int,
    nothing: np.generic,
) -> Array:
    """(n, m, width); `nothing` where a view is missing."""
    result = np.full((*observed.shape, width), nothing)
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
