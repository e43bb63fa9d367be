"""Epoch index: every entry once, padding of weight zero, shapes that only grow, and inverses."""

from typing import NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from viewgap.training.batches.epoch_index import Capacity, EpochIndex
from viewgap.training.batches.index import BatchIndex
from viewgap.training.batches.sampled import Layout, SampledBatches, sample_batches

LAYOUTS = [
    Layout(rows, norm_rows, pairs)
    for rows in ("dense", "packed")
    for norm_rows in ("observed", "all")
    for pairs in ("none", "own", "cross")
]


class Case(NamedTuple):
    observed: np.ndarray
    batches: list[torch.Tensor]
    layout: Layout
    fixed: bool
    sampled: SampledBatches
    epoch: EpochIndex
    blank: list[int]


@st.composite
def cases(draw: st.DrawFn, layouts: list[Layout] = LAYOUTS) -> Case:
    n, m = draw(st.integers(2, 40)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    observed = rng.random((n, m)) < draw(st.sampled_from([0.0, 0.2, 0.6, 1.0]))
    sizes = draw(st.lists(st.integers(1, n), min_size=1, max_size=3))
    batches = [torch.from_numpy(rng.permutation(n)[:size]) for size in sizes]
    rate = draw(st.sampled_from([0.0, 0.5]))
    layout, fixed = draw(st.sampled_from(layouts)), draw(st.booleans())
    sampled = sample_batches(
        batches, observed, Layout(view_dropout=rate), torch.Generator().manual_seed(0)
    )
    blank = [int(column.argmax()) for column in (~observed).T]
    epoch = EpochIndex(sampled, blank, layout, Capacity() if fixed else None)
    return Case(observed, batches, layout, fixed, sampled, epoch, blank)


def rows_of(case: Case, t: int) -> int:
    """ΣR: the number of rows that all views of a batch have together."""
    step = case.epoch.batch(t)
    if case.layout.rows == "packed":
        return sum(len(view.rows) for view in step.views)
    return len(step.rows) * case.observed.shape[1]


# ---------------------------------------------------------------------- which samples and views


@given(cases())
def test_samples_are_those_asked_for(case: Case) -> None:
    longest = max(len(batch) for batch in case.batches)
    for t, batch in enumerate(case.batches):
        step = case.epoch.batch(t)
        size = len(batch)
        assert int(step.n_samples) == size
        assert step.rows[:size].tolist() == batch.tolist()
        assert len(step.rows) == (longest if case.fixed else size)
        assert torch.equal(
            step.visible, torch.from_numpy(case.sampled.visible[t])[: len(step.rows)]
        )
        if case.fixed:
            assert step.is_sample.tolist() == [1.0] * size + [0.0] * (longest - size)
            assert not step.visible[size:].any()
        else:
            assert step.is_sample is None


@given(cases())
def test_only_observed_views_are_visible_and_all_without_hiding(case: Case) -> None:
    whole = sample_batches(case.batches, case.observed, Layout(), None)
    assert np.array_equal(whole.visible, whole.observed)
    for t, batch in enumerate(case.batches):
        assert np.array_equal(whole.observed[t, : len(batch)], case.observed[batch.numpy()])
        assert not whole.observed[t, len(batch) :].any()
    assert not (case.sampled.visible & ~case.sampled.observed).any()
    assert np.array_equal(case.sampled.visible.any(axis=2), case.sampled.observed.any(axis=2))


# ---------------------------------------------------------------------- rows of every view


PACKED = [layout for layout in LAYOUTS if layout.rows == "packed"]


@given(cases(PACKED))
def test_every_visible_entry_has_one_row_and_no_row_is_left(case: Case) -> None:
    m = case.observed.shape[1]
    for t, batch in enumerate(case.batches):
        step = case.epoch.batch(t)
        samples, found = len(step.rows), []
        for v in range(m):
            for row, place in zip(
                step.views[v].rows.tolist(), step.views[v].entry.tolist(), strict=True
            ):
                if place == m * samples:  # belongs to nobody
                    assert row == case.blank[v]
                    continue
                assert place // samples == v
                assert row == int(batch[place % samples])
                found.append((place % samples, v))
        assert sorted(found) == sorted(zip(*np.nonzero(case.sampled.visible[t]), strict=True))


@given(cases(PACKED))
def test_entries_and_rows_are_inverse(case: Case) -> None:
    m = case.observed.shape[1]
    for t in range(len(case.batches)):
        step, total = case.epoch.batch(t), rows_of(case, t)
        places = torch.cat([step.views[v].entry for v in range(m)])
        entry_rows = step.entry_rows
        assert entry_rows.shape == (m, len(step.rows))
        assert torch.equal(entry_rows < total, step.visible.T)
        assert (entry_rows <= total).all()
        flat = entry_rows.flatten()
        for row, place in enumerate(places.tolist()):
            assert place == flat.numel() or int(flat[place]) == row
        assert int((places < flat.numel()).sum()) == int((flat < total).sum())


@given(cases(PACKED))
def test_weights_of_rows(case: Case) -> None:
    """Padding weighs nothing; in normalisation over all, one row stands for the missing ones."""
    m = case.observed.shape[1]
    for t, batch in enumerate(case.batches):
        step = case.epoch.batch(t)
        for v in range(m):
            nobody = step.views[v].entry == m * len(step.rows)
            if not case.fixed and not case.layout.folded:
                assert step.views[v].row_weight is None
                assert not nobody.any()
                continue
            counted, norm = step.views[v].row_weight, step.views[v].norm_weight
            assert torch.equal(counted, (~nobody).double())
            assert torch.equal(norm[~nobody], counted[~nobody])
            missing = len(batch) - int(counted.sum())
            assert norm[nobody].sum() == (missing if case.layout.folded else 0)
            assert int((norm[nobody] > 0).sum()) <= 1
            assert norm.sum() == (len(batch) if case.layout.folded else counted.sum())


# ---------------------------------------------------------------------- pairs to decode


PAIRED = [layout for layout in LAYOUTS if layout.pairs != "none"]


def entry_of_code(case: Case, t: int) -> dict[int, tuple[int, int]]:
    """(sample, view) by the number of the code, for the codes of visible entries."""
    step, m = case.epoch.batch(t), case.observed.shape[1]
    if case.layout.rows == "packed":
        places = torch.cat([step.views[v].entry for v in range(m)]).tolist()
    else:
        places = list(range(m * len(step.rows)))
    size = len(step.rows)
    known = {row: (place % size, place // size) for row, place in enumerate(places)}
    return {r: (b, v) for r, (b, v) in known.items() if v < m and case.sampled.visible[t, b, v]}


@given(cases(PAIRED))
def test_every_pair_once_with_its_share(case: Case) -> None:
    m = case.observed.shape[1]
    for t, batch in enumerate(case.batches):
        step, entries, nothing = case.epoch.batch(t), entry_of_code(case, t), rows_of(case, t)
        for j in range(m):
            expected = {}
            for b in range(len(batch)):
                visible = np.flatnonzero(case.sampled.visible[t, b])
                for v in visible if case.layout.pairs == "cross" else visible[visible == j]:
                    if case.sampled.observed[t, b, j]:
                        expected[b, int(v)] = (1 / len(visible), int(batch[b]))
            found = {}
            pairs = step.pairs[j]
            arrays = (pairs.source, pairs.weight, pairs.target)
            for source, share, target in zip(*(a.flatten().tolist() for a in arrays), strict=True):
                assert 0 <= source <= nothing
                if share > 0:
                    assert entries[source] not in found
                    found[entries[source]] = (share, target)
            assert found == expected


@given(cases(PAIRED))
def test_back_inverts_source(case: Case) -> None:
    for t in range(len(case.batches)):
        step, nothing = case.epoch.batch(t), rows_of(case, t)
        for j in range(case.observed.shape[1]):
            source, back = step.pairs[j].source.flatten(), step.pairs[j].back
            assert len(back) == nothing
            for code, pair in enumerate(back.tolist()):
                assert pair == len(source) or int(source[pair]) == code
            assert int((back < len(source)).sum()) == int((source < nothing).sum())
            assert len(source[source < nothing].unique()) == int((source < nothing).sum())


@given(cases(PAIRED))
def test_pairs_that_count_in_normalisation(case: Case) -> None:
    m = case.observed.shape[1]
    for t, batch in enumerate(case.batches):
        step = case.epoch.batch(t)
        for j in range(m):
            share, norm = step.pairs[j].weight, step.pairs[j].norm_weight
            if case.layout.norm_rows == "all":
                groups = 1 if case.layout.pairs == "own" else m
                assert share.shape[0] == groups
                weights = torch.ones(share.shape) if norm is None else norm
                # Every group counts every sample once, those without the view included.
                assert weights.sum(dim=-1).tolist() == [len(batch)] * groups
                assert (weights[share > 0] == 1).all()
            elif norm is not None:
                assert torch.equal(norm, (share > 0).double())
            else:
                assert (share > 0).all()


# ---------------------------------------------------------------------- fixed shapes


def shapes_of(index: BatchIndex[torch.Tensor]) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = []
    index.map(lambda values: found.append(tuple(values.shape)))
    return found


numbers = st.lists(st.integers(0, 300), min_size=3, max_size=3)


@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=6))
def test_capacity_grows_in_steps_and_never_shrinks(
    needs: list[tuple[list[int], list[int]]],
) -> None:
    capacity = Capacity()
    for t, (views, pairs) in enumerate(needs):
        before = capacity.views or [0] * 3, capacity.pairs or [0] * 3
        changed = capacity.grow(views, pairs)
        for need, old, new in [
            *zip(views, before[0], capacity.views, strict=True),
            *zip(pairs, before[1], capacity.pairs, strict=True),
        ]:
            assert new % 16 == 0
            assert new >= max(need, old)
            assert new == old or new - need < 16  # no larger than it has to be
        assert changed == (t == 0 or before != (capacity.views, capacity.pairs))
        assert not capacity.grow(views, pairs)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_steps_of_a_fixed_shape_have_one_shape(layout: Layout) -> None:
    rng = np.random.default_rng(0)
    observed = rng.random((40, 3)) < 0.5
    capacity, shapes = Capacity(), []
    for size in (20, 17, 20):
        batches = [torch.from_numpy(rng.permutation(40)[:k]) for k in (20, size)]
        epoch = EpochIndex(
            sample_batches(batches, observed, Layout(), None), [0, 0, 0], layout, capacity
        )
        reshaped = epoch.reshaped
        shapes += [shapes_of(epoch.batch(t)) for t in range(2)]
        assert shapes[-1] == shapes[-2]
        assert reshaped or shapes[-1] == shapes[-3]


def test_too_long_batches_of_a_later_epoch_ask_for_another_shape() -> None:
    observed, capacity = np.ones((64, 2), dtype=bool), Capacity()
    layout = Layout("packed", "observed", "cross")
    for size, reshaped in [(10, True), (16, True), (17, True), (3, False), (24, False)]:
        sampled = sample_batches([torch.arange(size)], observed, Layout(), None)
        assert EpochIndex(sampled, [0, 0], layout, capacity).reshaped == reshaped
