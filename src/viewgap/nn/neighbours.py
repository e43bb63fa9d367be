"""Nearest neighbours among rows of a table, and views filled in from those of other views."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from viewgap.nn.contrast import unit_rows
from viewgap.nn.linear import in_equal_blocks, split_blocks

NONE = -1
"""Stands for a neighbour that there is not."""

_BLOCK_BYTES = 8 << 20  # of the distances at a time
_NOTHING = -1e9  # similarity of a neighbour that is not there: exp(_NOTHING / τ) is 0
_BLOCK = 4096  # rows of the table that are compared at once


def nearest_rows(x: Tensor, table: Tensor, count: int, own: Tensor | None = None) -> Tensor:
    """Numbers of the `count` rows of `table` that are nearest to each row of x.

    Euclidean distances; of rows that are equally near, the first ones. `own` (R,): the row of the
    table that a row of x is itself, and so no neighbour of. `NONE` where the table has too few.

    Shape: (R, d), (n, d) -> (R, count) int64.
    """
    found = torch.full((x.shape[0], count), NONE, dtype=torch.long, device=x.device)
    kept = min(count, len(table))
    if kept == 0:
        return found
    # Half the squared distance, less what is the same for all rows of the table.
    half_norms, start = table.square().sum(dim=1) / 2, 0
    for block in _blocks(x, len(table)):
        rows = slice(start, start + block.shape[0])
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
    if torch.compiler.is_exporting():  # for any number of rows, which is not known then
        return [x]
    if in_equal_blocks():
        return split_blocks(x)
    return torch.split(x, max(1, _BLOCK_BYTES // (x.element_size() * n)))


def most_similar(
    queries: Tensor, table: Tensor, allowed: Tensor, k: int, block: int = _BLOCK
) -> tuple[Tensor, Tensor]:
    """The k rows of a table with the largest inner products, for several sets of admissible rows.

    The table is walked in blocks, so that B x N similarities never exist together; gradients pass
    through the similarities of the rows that are found. Where fewer than k rows are admissible, the
    rest has a similarity of -1e9 and any row number; of a table with fewer rows, all are found.

    Shape: queries (B, F), table (N, F), allowed (S, N) bool -> similarities and rows,
    (S, B, min(k, N)).
    """
    k = min(k, len(table))
    shape = (len(allowed), queries.shape[0], k)
    best = queries.new_full(shape, _NOTHING)
    rows = torch.zeros(shape, dtype=torch.long, device=queries.device)
    for start in range(0, len(table), block):
        similar = queries @ table[start : start + block].T
        admissible = allowed[:, None, start : start + block]
        found = similar.masked_fill(~admissible, _NOTHING).topk(min(k, similar.shape[1]), dim=-1)
        both = torch.cat([best, found.values], dim=-1)
        best, place = both.topk(k, dim=-1)
        rows = torch.cat([rows, found.indices + start], dim=-1).gather(-1, place)
    return best, rows


def fill_from_neighbours(
    codes: Tensor,
    observed: Tensor,
    others: Tensor,
    others_observed: Tensor,
    k: int,
    temperature: float,
) -> tuple[Tensor, Tensor]:
    """Codes of missing views from samples that are near in another view, and how far to trust them.

    Sample i lacks view v. In every view u that it has, its k nearest are looked up among the
    samples j that have both u and v, by cos(h_i^u, h_j^u): the neighbourhoods of u, carried over to
    v. All of these (u, j) together are weighted by softmax(cos / τ), which gives
    h_i^v = Σ_uj a_uj h_j^v; the trust is Σ_uj a_uj cos_uj within [0, 1]. Observed views stay as
    they are, with a trust of 1; a view without any neighbour is 0, with a trust of 0.

    Shape: codes (m, B, F), observed (B, m) bool, others (m, N, F), others_observed (N, m) bool ->
    codes (m, B, F), trust (B, m).
    """
    query, table = unit_rows(codes), unit_rows(others)
    has_view = others_observed.T
    found = [most_similar(query[u], table[u], has_view & has_view[u], k) for u in range(len(codes))]
    looked_up = observed.T.unsqueeze(-1)  # (u, B, 1): only views that a sample has are asked
    similar = torch.cat(
        [best.masked_fill(~looked_up[u], _NOTHING) for u, (best, _) in enumerate(found)], dim=-1
    )
    rows = torch.cat([own for _, own in found], dim=-1)
    weight = (similar / temperature).softmax(dim=-1) * (similar > _NOTHING)
    spread = weight.new_zeros(len(codes), codes.shape[1], others.shape[1])
    filled = spread.scatter_add(-1, rows, weight) @ others
    trust = (weight * similar).sum(dim=-1).clamp(0.0, 1.0)
    own = observed.T
    return (
        torch.where(own.unsqueeze(-1), codes, filled),
        torch.where(own, torch.ones_like(trust), trust).T,
    )
