"""Cross-fitting: every network of a committee leaves out one part of the training rows.

Together they predict all rows out of fold, so that nothing has to be held out: each row is left out
by one network and trained on by the others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from viewgap.data.labels import Labels

_EVERY_PART = -1


@dataclass(frozen=True, eq=False)
class Parts:
    """Which part of the rows each network leaves out.

    `number` (n,): the part of every row, the number of the network that leaves it out; -1 where
    no network does. `count`: number of parts.
    """

    number: NDArray[np.intp]
    count: int

    @classmethod
    def of_rows(cls, number: NDArray[np.intp], count: int, observed: NDArray[np.bool_]) -> Parts:
        """Parts that leave every network some rows of every view.

        `number` (n,) may be shorter than `observed` (N, m): rows behind it have no labels, and
        no network leaves them out.
        """
        whole = np.full(len(observed), _EVERY_PART, dtype=np.intp)
        whole[: len(number)] = number
        for view in observed.T:
            parts = np.unique(whole[view])
            if len(parts) == 1:  # all rows that have this view are in one part
                whole[view] = _EVERY_PART
        return cls(whole, count)

    def left_out(self, part: int) -> NDArray[np.intp]:
        """Rows that network `part` leaves out."""
        return np.flatnonzero(self.number == part)

    def labels_for(self, part: int, labels: Labels) -> Labels:
        """The labels that network `part` may see: nothing is known about the rows it leaves out."""
        return labels.without_rows(self.number == part)

    def batches(self, size: int, generator: torch.Generator | None) -> list[list[Tensor]]:
        """Batches of one epoch, for every network those of the rows that it does not leave out.

        All networks make the same number of steps; a batch has about `size` rows, and the parts
        are spread evenly over the batches.
        """
        n = len(self.number)
        order = (
            np.arange(n) if generator is None else torch.randperm(n, generator=generator).numpy()
        )
        return self.cut(order, size)

    def cut(
        self, order: NDArray[np.intp], size: int, window: int | None = None
    ) -> list[list[Tensor]]:
        """Cut an order of all rows into batches.

        `window`: rows stay among so many that follow each other; None: the whole epoch.
        """
        n = len(order)
        shared = size * self.count / (self.count - 1)
        steps = max(1, min(round(n / shared), n // (2 * self.count)))
        batches = self._batches(self._spread(order, window or n), steps)
        if min(len(rows) for own in batches for rows in own) < 2:
            batches = self._batches(self._spread(order, n), steps)
        return batches

    def _spread(self, order: NDArray[np.intp], window: int) -> NDArray[np.intp]:
        """The same rows with the parts spread evenly over every window."""
        windows = [order[start : start + window] for start in range(0, len(order), window)]
        positions = [_position_in_part(self.number[own]) for own in windows]
        return np.concatenate(
            [own[np.argsort(at, kind="stable")] for own, at in zip(windows, positions, strict=True)]
        )

    def _batches(self, order: NDArray[np.intp], steps: int) -> list[list[Tensor]]:
        chunks = np.array_split(order, steps)
        return [
            [torch.from_numpy(chunk[self.number[chunk] != part]) for chunk in chunks]
            for part in range(self.count)
        ]


def _position_in_part(number: NDArray[np.intp]) -> NDArray[np.float64]:
    """How far through its part every row is, between 0 and 1."""
    position = np.empty(len(number))
    for part in np.unique(number):
        rows = np.flatnonzero(number == part)
        position[rows] = (np.arange(len(rows)) + 0.5) / len(rows)
    return position
