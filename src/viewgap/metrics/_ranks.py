"""Where the positives of every sample stand in its ranking: all that ranking metrics need.

Rank 1 is the highest score of the row. With `above` = entries that score strictly higher, `tied` =
other entries that score the same, a positive has three ranks: `best` = above + 1, `worst` = above +
tied + 1, and an ordinal `rank` in between, in which the higher column index goes first.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from viewgap.metrics._inputs import Bools, Floats, Ints, LabelEntries

# Positives per row, on average, up to which comparing them takes less time than sorting the row:
# half of it with three, where a fit scores thousands of rows in every epoch.
_FEW_POSITIVES = 6
_COMPARED = 1 << 18  # entries compared at once


@dataclass(frozen=True)
class PositiveRanks:
    """One entry per positive, ordered by row and by ordinal rank inside the row.

    Shape: `positives` and `counts` (n,): positives and entries that count, per row. The others have
    one entry per positive: its row, its three ranks, and how many positives of the row stand
    strictly above it (`hits_above`), at its ordinal rank or before (`hits`), and score at least
    the same (`hits_worst`).
    """

    positives: Ints
    counts: Ints
    row: Ints
    best: Ints
    rank: Ints
    worst: Ints
    hits_above: Ints
    hits: Ints
    hits_worst: Ints

    @property
    def n_rows(self) -> int:
        """Rows ranked."""
        return len(self.counts)

    @cached_property
    def negatives(self) -> Ints:
        """Negatives that count, per row (n,)."""
        return self.counts - self.positives

    @cached_property
    def last(self) -> Ints:
        """Entry of the worst-ranked positive of each row with a positive."""
        ends = np.cumsum(self.positives)
        entries: Ints = ends[self.positives > 0] - 1
        return entries

    def row_sum(self, values: Ints | Floats) -> Floats:
        """Sum of one value per positive over each row, (n,)."""
        sums = np.bincount(self.row, weights=values, minlength=self.n_rows)
        return sums.astype(np.float64, copy=False)


def rank_positives(entries: LabelEntries) -> PositiveRanks:
    """Rank every row of `entries` and keep what concerns its positives."""
    few = np.count_nonzero(entries.truth) <= _FEW_POSITIVES * len(entries.truth)
    return _by_counting(entries) if few else _by_sorting(entries)


# ---------------------------------------------------------------------- few positives


def _by_counting(entries: LabelEntries) -> PositiveRanks:
    """Compare every positive with all entries of its row."""
    row, column = np.nonzero(entries.truth)
    above, rank, worst = _counts(entries.scores, row, column)
    order = np.lexsort((rank, row))
    row, best, rank, worst = row[order], above[order] + 1, rank[order], worst[order]
    positives = np.bincount(row, minlength=len(entries.truth))
    starts = (np.cumsum(positives) - positives)[row]
    opens_group = np.ones(len(row), dtype=bool)
    opens_group[1:] = (row[1:] != row[:-1]) | (best[1:] != best[:-1])
    first, after = _tie_groups(opens_group, np.arange(len(row)))
    return PositiveRanks(
        positives,
        entries.counts,
        row,
        best,
        rank,
        worst,
        hits_above=first - starts,
        hits=np.arange(len(row)) - starts + 1,
        hits_worst=after - starts,
    )


def _counts(scores: Floats, row: Ints, column: Ints) -> tuple[Ints, Ints, Ints]:
    """Per positive: entries above it, its ordinal rank, entries that score at least the same."""
    above, rank, worst = (np.empty(len(row), dtype=np.int64) for _ in range(3))
    step = max(1, _COMPARED // max(1, scores.shape[1]))
    for start in range(0, len(row), step):
        part = slice(start, start + step)
        others, own = scores[row[part]], scores[row[part], column[part]][:, None]
        above[part] = np.count_nonzero(others > own, axis=1)
        worst[part] = np.count_nonzero(others >= own, axis=1)
        rank[part] = above[part] + 1
        tied = np.flatnonzero(worst[part] > rank[part])
        if len(tied):
            later = np.arange(scores.shape[1]) > column[part][tied, None]
            before = (others[tied] == own[tied]) & later
            rank[part][tied] += np.count_nonzero(before, axis=1)
    return above, rank, worst


# ---------------------------------------------------------------------- many positives


def _by_sorting(entries: LabelEntries) -> PositiveRanks:
    """Sort every row."""
    n_rows, n_columns = entries.truth.shape
    flat_order, opens_group = _descending_order(entries)
    truth = entries.truth.ravel().take(flat_order)
    where = np.flatnonzero(truth)
    row, position = np.divmod(where, max(n_columns, 1))
    positives = np.bincount(row, minlength=n_rows)
    starts = np.cumsum(positives) - positives
    rank, hits = position + 1, np.arange(len(where)) - starts[row] + 1
    counts = entries.counts
    if opens_group.all():
        return PositiveRanks(positives, counts, row, rank, rank, rank, hits - 1, hits, hits)
    first, after = _tie_groups(opens_group, where)
    running = np.concatenate([[0], np.cumsum(truth)])
    return PositiveRanks(
        positives,
        counts,
        row,
        best=first - row * n_columns + 1,
        rank=rank,
        worst=after - row * n_columns,
        hits_above=running[first] - starts[row],
        hits=hits,
        hits_worst=running[after] - starts[row],
    )


def _descending_order(entries: LabelEntries) -> tuple[Ints, Bools]:
    """Flat indices of the entries by row and falling score, and where a new score begins, (n * c,).

    The fast sort leaves equal scores in any order; they are put in order of falling column.
    """
    n_rows, n_columns = entries.scores.shape
    offset = np.arange(n_rows)[:, None] * n_columns
    falling = -entries.scores
    order = np.argsort(falling, axis=1)
    order += offset  # in place: fresh memory costs as much as the sort
    values = falling.ravel().take(order)
    opens_group = np.ones((n_rows, n_columns), dtype=bool)
    np.not_equal(values[:, 1:], values[:, :-1], out=opens_group[:, 1:])
    if entries.valid is not None:
        opens_group |= np.isinf(values)
    tied = ~opens_group.all(axis=1)
    if tied.any():
        columns = order[tied] - offset[tied]
        order[tied] = _higher_columns_first(columns, opens_group[tied]) + offset[tied]
    return order.ravel(), opens_group.ravel()


def _higher_columns_first(order: Ints, opens_group: Bools) -> Ints:
    """Sort columns inside each group by one whole number per entry: group first, then column."""
    n_columns = order.shape[1]
    kind = np.int32 if n_columns < 2**15 else np.int64  # half the width sorts twice as fast
    key: NDArray[np.signedinteger] = np.cumsum(opens_group, axis=1, dtype=kind)
    key *= n_columns
    key += (n_columns - 1 - order).astype(kind)
    key.sort(axis=1)
    columns: Ints = (n_columns - 1 - key % n_columns).astype(np.int64)
    return columns


def _tie_groups(opens_group: Bools, where: Ints) -> tuple[Ints, Ints]:
    """Flat start, and flat end (exclusive), of the group of equal scores around each `where`."""
    group = np.cumsum(opens_group)[where] - 1
    starts = np.flatnonzero(opens_group)
    ends = np.append(starts[1:], len(opens_group))
    return starts[group], ends[group]
