"""Nearest neighbours among rows of a table, and views filled in from those of other views."""

from __future__ import annotations

import torch
from torch import Tensor

from viewgap.nn.contrast import unit_rows

_NOTHING = -1e9  # similarity of a neighbour that is not there: exp(_NOTHING / τ) is 0
_BLOCK = 4096  # rows of the table that are compared at once


def nearest(
    queries: Tensor, table: Tensor, allowed: Tensor, k: int, block: int = _BLOCK
) -> tuple[Tensor, Tensor]:
    """The k rows of a table with the largest inner products, for several sets of admissible rows.

    The table is walked in blocks, so that B x N similarities never exist together; gradients pass
    through the similarities of the rows that are found. Where fewer than k rows are admissible, the
    rest has a similarity of -1e9 and any row number.

    Shape: queries (B, F), table (N, F), allowed (S, N) bool -> similarities and rows, (S, B, k).
    """
    shape = (len(allowed), len(queries), k)
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
    found = [nearest(query[u], table[u], has_view & has_view[u], k) for u in range(len(codes))]
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
