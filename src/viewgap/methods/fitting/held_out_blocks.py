"""What is learned from held-out rows where there are thousands of labels: block by block.

The pooling is fitted on some of these rows, evenly spaced, for which the predictions of all views
fit into memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from viewgap.data.labels import SparseLabels
from viewgap.data.viewset import ViewSet
from viewgap.methods.fitting.held_out import HeldOutRows
from viewgap.methods.fitting.pooling import fit_pooling
from viewgap.nn.pooling import LogOddsPooling, most_rows
from viewgap.training.committee import Committee, networks_of
from viewgap.training.network import RowwiseNetwork
from viewgap.training.prediction import RowFunction, probabilities, view_probabilities

Rows = NDArray[np.intp]
Run = Callable[[ViewSet, RowFunction], NDArray[Any]]

_BLOCK_BYTES = 64 << 20  # of the answers for a block of rows
_FEWEST_ROWS = 32
_NO_ROW = -1


@dataclass(frozen=True)
class Group:
    """Rows that one network, or a committee, was not trained on.

    `rows` (k,): their numbers in the training data, -1 for rows of `validation=`.
    """

    network: RowwiseNetwork
    views: ViewSet
    labels: SparseLabels
    rows: Rows

    def __len__(self) -> int:
        return len(self.rows)


def held_out_groups(
    network: RowwiseNetwork, views: ViewSet, labels: SparseLabels, held_out: HeldOutRows
) -> list[Group]:
    """The held-out rows of a fit, by the network that answers them."""
    groups = []
    if held_out.parts is not None and isinstance(network, Committee):
        for part, own in enumerate(networks_of(network)):
            rows = held_out.parts.left_out(part)
            alone = Committee([own], network.pooling)
            groups.append(Group(alone, views[rows], labels[rows], rows))
    if held_out.validation is not None:
        own_views, own_labels = held_out.validation
        known = SparseLabels.from_labels(own_labels)
        groups.append(Group(network, own_views, known, np.full(len(known), _NO_ROW)))
    return [group for group in groups if len(group)]


def fit_on_some_rows(
    pooling: LogOddsPooling, groups: Sequence[Group], training: SparseLabels, run: Run
) -> None:
    """Fit the pooling on as many rows as their entries fit into memory."""
    c, ends = training.n_labels, np.cumsum([0, *map(len, groups)])
    count = min(most_rows(c), int(ends[-1]))
    chosen = torch.linspace(0, int(ends[-1]) - 1, count).long().numpy()
    predictions, known = [], []
    for group, start, end in zip(groups, ends[:-1], ends[1:], strict=True):
        rows = chosen[(chosen >= start) & (chosen < end)] - start
        if len(rows):
            answers = run(group.views[rows], view_probabilities(group.network, c))
            predictions.append(answers.transpose(1, 0, 2))
            known.append(group.labels[rows])
    truth = known[0].followed_by(known[1:])
    fit_pooling(pooling, np.concatenate(predictions, axis=1), truth, training)


def answers_of(groups: Iterable[Group], run: Run) -> Iterator[tuple[Rows, NDArray[Any]]]:
    """Numbers and probabilities of all rows, some at a time."""
    for group in groups:
        step = max(_FEWEST_ROWS, _BLOCK_BYTES // (8 * group.labels.n_labels))
        for start in range(0, len(group), step):
            part = slice(start, start + step)
            yield group.rows[part], run(group.views[part], probabilities(group.network))
