"""Nearest rows of a table, in blocks of bounded memory."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from viewgap.nn.linear import in_equal_blocks, split_blocks

NONE = -1
"""Stands for a neighbour that there is not."""

_BLOCK_BYTES = 8 << 20  # of the distances at a time


def nearest_rows(x: Tensor, table: Tensor, count: int, own: Tensor | None = None) -> Tensor:
    """Numbers of the `count` rows of `table` that are nearest to each row of x.

    Euclidean distances; of rows that are equally near, the first ones. `own` (R,): the row of the
    table that a row of x is itself, and so no neighbour of. `NONE` where the table has too few.

    Shape: (R, d), (n, d) -> (R, count) int64.
    """
    found = torch.full((len(x), count), NONE, dtype=torch.long, device=x.device)
    kept = min(count, len(table))
    if kept == 0:
        return found
    # Half the squared distance, less what is the same for all rows of the table.
    half_norms, start = table.square().sum(dim=1) / 2, 0
    for block in _blocks(x, len(table)):
        rows = slice(start, start + len(block))
        distance = half_norms - block @ table.T
        if own is not None:
            distance.scatter_(1, own[rows].unsqueeze(1), torch.inf)
        found[rows, :kept] = _smallest(distance, kept)
        start = rows.stop
    return found


def _smallest(distance: Tensor, count: int) -> Tensor:
    """Columns of the smallest numbers of every row; `topk` alone leaves open which of equal ones.

    Shape: (R, n) -> (R, count).
    """
    limit = distance.topk(count, dim=1, largest=False).values[:, -1:]
    below, at_limit = distance < limit, distance == limit
    free = count - below.sum(dim=1, keepdim=True)
    chosen = below | (at_limit & (at_limit.cumsum(dim=1, dtype=torch.int32) <= free))
    columns = torch.arange(distance.shape[1], device=distance.device)
    numbers = torch.where(chosen, columns, len(columns)).topk(count, dim=1, largest=False).values
    exists = distance.gather(1, numbers) < torch.inf
    return torch.where(exists, numbers, NONE)


def _blocks(x: Tensor, n: int) -> Sequence[Tensor]:
    """Rows whose distances from n others fit into memory; in prediction the blocks given."""
    if in_equal_blocks():
        return split_blocks(x)
    return torch.split(x, max(1, _BLOCK_BYTES // (x.element_size() * n)))
