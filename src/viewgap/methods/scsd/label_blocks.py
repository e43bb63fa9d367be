"""The losses of SCSD's predictions, some labels at a time: memory for a block, not for all labels.

The losses are sums over labels. A block of labels is predicted, its part of the sums is taken, and
its predictions are dropped; in the backward pass they are computed once more. The numbers are those
of all labels at once, but for the order in which they are added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from viewgap.nn.linear import Linear

Entries = Callable[[Tensor, Tensor], Tensor]
"""Loss of every entry, of probabilities and labels."""
Rows = Callable[[Tensor, Tensor], Tensor]
"""Loss of every row, of the probabilities of student and teacher, added up over the labels."""


@dataclass(frozen=True)
class BlockLosses:
    """What is added up over the labels of every sample.

    `entries` (a function of probabilities and labels) and `taught` (of student and teacher, None:
    there is no teacher) are those of the network; `of_views` says whether single views are learned
    from at all.
    """

    entries: Entries
    taught: Rows | None
    of_views: bool


@dataclass(frozen=True)
class LossSums:
    """Sums over the observed labels, and over all labels for the teacher.

    Shape: `fused` and `count` (B,), `views` and `taught` (m, B).
    """

    fused: Tensor
    count: Tensor
    views: Tensor
    taught: Tensor


def sum_over_labels(
    stacked: Tensor,
    classifiers: Sequence[Linear],
    weights: Tensor,
    observed: Tensor,
    labels: Tensor,
    label_mask: Tensor,
    losses: BlockLosses,
    size: int,
) -> LossSums:
    """Go through the labels, `size` at a time.

    Shape: `stacked` (m, B, d_e) codes, zero where a view is missing; `weights` (B, m) with which
    the views are fused, 0 where missing; observed (B, m) bool; labels and label_mask (B, c).
    """

    def of_block(
        codes: Tensor, shares: Tensor, label: Tensor, mask: Tensor, *linear: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        predictions = _predict(codes, observed, linear)
        fused = (shares.T.unsqueeze(-1) * predictions).sum(dim=0).clamp(0.0, 1.0)
        none = predictions.new_zeros(predictions.shape[:2])
        entries, taught = none, none
        if losses.of_views:
            entries = (losses.entries(predictions, label) * mask).sum(dim=-1)
        if losses.of_views and losses.taught is not None:
            taught = losses.taught(predictions, fused.expand_as(predictions))
        return (losses.entries(fused, label) * mask).sum(dim=-1), entries, taught

    parts = [
        checkpoint(
            of_block, stacked, weights, *block, use_reentrant=False, preserve_rng_state=False
        )
        for block in _blocks(classifiers, labels, label_mask, size)
    ]
    fused, views, taught = (torch.stack(own).sum(dim=0) for own in zip(*parts, strict=True))
    return LossSums(fused, label_mask.sum(dim=-1), views, taught)


def _blocks(
    classifiers: Sequence[Linear], labels: Tensor, label_mask: Tensor, size: int
) -> Iterator[list[Tensor]]:
    """Labels, mask, and weights and biases of every classifier, block by block.

    Split at once: the gradients of all blocks are then joined at once, and the work grows as the
    number of labels does.
    """
    parts = [labels.split(size, dim=1), label_mask.split(size, dim=1)]
    parts += [layer.weight.split(size) for layer in classifiers]
    parts += [layer.bias.split(size) for layer in classifiers]
    yield from map(list, zip(*parts, strict=True))


def _predict(codes: Tensor, observed: Tensor, linear: Sequence[Tensor]) -> Tensor:
    """P^v of every view for the labels of a block, (m, B, block); zero where a view is missing."""
    m = len(linear) // 2
    weight, bias = torch.stack(list(linear[:m])), torch.stack(list(linear[m:]))
    scores = torch.baddbmm(bias.unsqueeze(1), codes, weight.transpose(1, 2))
    return torch.sigmoid(scores) * observed.T.unsqueeze(-1)
