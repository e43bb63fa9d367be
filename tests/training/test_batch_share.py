"""The parts of a batch: together they are the whole, and every row knows its place in it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from torch import Tensor

from viewgap.nn.dropout import ALL_HERE, ColumnMask, Dropout, RowPlaces, draws_for
from viewgap.nn.reduce import Reducer
from viewgap.training.batch_share import BatchShare, part_of
from viewgap.training.epoch_index import EpochIndex, Layout, SampledBatches, sample_batches
from viewgap.training.epoch_parts import some_of

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


def places_of(places: RowPlaces) -> Tensor:
    assert places.places is not None
    return places.places


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("count", [2, 4, 5])
def test_rows_and_pairs_are_found_at_their_places(layout: Layout, count: int) -> None:
    batches, blank = sampled(layout), [0] * VIEWS
    whole = EpochIndex(batches, blank, layout)
    for rank in range(count):
        reducer = OneOf(rank, count)
        part = EpochIndex(part_of(batches, reducer), blank, layout)
        for t in range(whole.n_batches):
            share = BatchShare(some_of(batches, t, 1), layout, reducer)
            mine, all_rows = part.batch(t), whole.batch(t)
            own = slice(share.start, share.stop)
            assert torch.equal(mine.rows, all_rows.rows[own])
            assert torch.equal(mine.visible, all_rows.visible[own])
            for v, (here, there) in enumerate(zip(mine.views, all_rows.views, strict=True)):
                at = share.view(v)
                assert at.total == len(there.rows)
                assert torch.equal(here.rows, there.rows[places_of(at)])
            for j, (here, there) in enumerate(zip(mine.pairs, all_rows.pairs, strict=True)):
                at = share.pairs(j)
                if layout.folded:  # nothing is drawn for these: only the layout without dropout
                    continue
                assert at.total == there.target.shape[-1]
                found = there.target.index_select(-1, places_of(at))
                assert torch.equal(here.target, found)
                weight = there.weight.index_select(-1, places_of(at))
                assert torch.equal(here.weight, weight)


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
