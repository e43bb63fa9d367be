"""The parts of a batch: together they are the whole, and every row knows its place in it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from torch import Tensor

from viewgap.nn.dropout import ALL_HERE, ColumnMask, Dropout, RowPlaces, draws_for
from viewgap.nn.reduce import Reducer
from viewgap.training.batches.batch import Batch
from viewgap.training.batches.epoch_index import Capacity, EpochIndex
from viewgap.training.batches.sampled import Layout, SampledBatches, part_of, sample_batches
from viewgap.training.batches.share import BatchShare

N, VIEWS = 23, 3
LAYOUTS = [
    Layout(rows, norm_rows, pairs, dropout)
    for rows, norm_rows, pairs in itertools.product(
        ("dense", "packed"), ("observed", "all"), ("own", "cross", "sampled")
    )
    for dropout in (0.0, 0.4)
    if not (norm_rows == "all" and dropout)
]


class OneOf(Reducer):
    def __init__(self, rank: int, count: int) -> None:
        self.rank, self.count = rank, count


def sampled(layout: Layout) -> SampledBatches:
    rng = np.random.default_rng(0)
    observed = rng.random((N, VIEWS)) > 0.5
    observed[~observed.any(axis=1), 0] = True
    batches = list(torch.arange(N).split(10))  # 10, 10 and 3
    return sample_batches(batches, observed, layout, torch.Generator().manual_seed(0))


def share_of(index: EpochIndex, t: int, reducer: Reducer) -> BatchShare:
    found = index.batch(t).share
    assert found is not None

    def no_labels() -> Batch:
        raise AssertionError

    return BatchShare(found, reducer, no_labels)


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("count", [2, 4, 5])
def test_rows_and_pairs_are_found_at_their_places(layout: Layout, count: int, fixed: bool) -> None:
    batches, blank = sampled(layout), [0] * VIEWS
    whole = EpochIndex(batches, blank, layout, Capacity() if fixed else None)
    for rank in range(count):
        reducer = OneOf(rank, count)
        room = Capacity() if fixed else None
        part = EpochIndex(batches, blank, layout, room, reducer=reducer)
        for t in range(whole.n_batches):
            share, mine, all_rows = share_of(part, t, reducer), part.batch(t), whole.batch(t)
            same(share.samples, mine.rows, all_rows.rows)
            same(share.samples, mine.visible, all_rows.visible, dim=0)
            for v, (here, there) in enumerate(zip(mine.views, all_rows.views, strict=True)):
                same(share.view(v), here.rows, there.rows)
                if there.row_weight is not None and here.row_weight is not None:
                    same(share.view(v), here.row_weight, there.row_weight)
            for j, (here, there) in enumerate(zip(mine.pairs, all_rows.pairs, strict=True)):
                if not layout.folded:  # nothing is drawn for these: only the layout without dropout
                    same(share.pairs(j), here.target, there.target)
                    same(share.pairs(j), here.weight, there.weight)


def same(at: RowPlaces, here: Tensor, there: Tensor, dim: int = -1) -> None:
    """These values are those of all at their places, and the rest only fills up."""
    assert at.total == there.shape[dim]
    own = (at.places < at.total).nonzero()[:, 0]
    assert len(at.places) == here.shape[dim]
    expected = there.index_select(dim, at.places[own])
    assert torch.equal(here.index_select(dim, own), expected)


def test_rows_of_all_views_follow_each_other_and_what_fills_up_is_in_none_of_them() -> None:
    layout, blank = Layout("packed"), [0] * VIEWS
    batches = sampled(layout)
    found = torch.zeros(0)
    for rank in range(3):
        reducer = OneOf(rank, 3)
        part = EpochIndex(batches, blank, layout, Capacity(), reducer=reducer)
        share = share_of(part, 2, reducer)
        rows = share.views()
        counted = rows.among_all(torch.ones(len(rows.places), 2), 0)
        found = counted if rank == 0 else found + counted
        assert torch.equal(rows.of(counted, 0)[rows.places < rows.total].mean(), torch.tensor(1.0))
    visible = batches.visible[2].sum()
    assert found.sum() == 2 * visible
    assert found.max() == 1


def test_no_sample_is_in_two_parts_or_in_none() -> None:
    batches = sampled(Layout())
    parts = [part_of(batches, OneOf(rank, 4)) for rank in range(4)]
    for t in range(3):
        rows = np.concatenate([part.rows[t][part.is_sample[t]] for part in parts])
        assert rows.tolist() == batches.rows[t][batches.is_sample[t]].tolist()
    assert min(int(part.is_sample[2].sum()) for part in parts) == 0  # three rows for four


def test_processes_draw_what_one_process_draws() -> None:
    for module, x in ((Dropout(0.5), torch.ones(6, 4)), (ColumnMask(0.5), torch.ones(6, 4))):
        module.generator = torch.Generator().manual_seed(0)
        expected = module(x)
        for places in (torch.tensor([4, 1]), torch.arange(0)):
            module.generator = torch.Generator().manual_seed(0)
            with draws_for(RowPlaces(places, 6)):
                assert torch.equal(module(x[places]), expected[places])


def test_groups_of_rows_are_drawn_side_by_side() -> None:
    module, x = Dropout(0.5), torch.ones(2, 6, 4)
    module.generator = torch.Generator().manual_seed(0)
    expected = module(x)
    module.generator = torch.Generator().manual_seed(0)
    with draws_for(RowPlaces(torch.tensor([0, 5]), 6)):
        assert torch.equal(module(x[:, [0, 5]]), expected[:, [0, 5]])


def test_a_draw_for_unknown_rows_is_refused() -> None:
    module = Dropout(0.5)
    with draws_for(None), pytest.raises(RuntimeError, match="Dropout draws for rows"):
        module(torch.ones(2, 3))
    with draws_for(RowPlaces(torch.arange(3), 6)), pytest.raises(RuntimeError, match="3 rows"):
        module(torch.ones(2, 3))
    with draws_for(None), draws_for(ALL_HERE):
        assert module(torch.ones(2, 3)).shape == (2, 3)
