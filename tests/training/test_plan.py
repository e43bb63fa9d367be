"""Plans: every cell once, padding that weighs nothing, shapes that only grow, and the way back."""

from typing import NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from viewgap.training.plan import Capacity, Choice, Layout, Plan, choose

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
    choice: Choice
    plan: Plan
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
    choice = choose(batches, observed, rate, torch.Generator().manual_seed(0))
    blank = [int(column.argmax()) for column in (~observed).T]
    plan = Plan(choice, blank, layout, Capacity() if fixed else None)
    return Case(observed, batches, layout, fixed, choice, plan, blank)


def rows_of(case: Case, t: int) -> int:
    """ΣR: the number of rows that all views of a batch have together."""
    m, step = case.observed.shape[1], case.plan.step(t)
    names = [f"rows{v}" if case.layout.rows == "packed" else "rows" for v in range(m)]
    return sum(len(step[name]) for name in names)


# ---------------------------------------------------------------------- which samples and views


@given(cases())
def test_samples_are_those_asked_for(case: Case) -> None:
    longest = max(len(batch) for batch in case.batches)
    for t, batch in enumerate(case.batches):
        step = case.plan.step(t)
        size = len(batch)
        assert int(step["count"]) == size
        assert step["rows"][:size].tolist() == batch.tolist()
        assert len(step["rows"]) == (longest if case.fixed else size)
        assert torch.equal(
            step["observed"], torch.from_numpy(case.choice.shown[t])[: len(step["rows"])]
        )
        if case.fixed:
            assert step["real"].tolist() == [1.0] * size + [0.0] * (longest - size)
            assert not step["observed"][size:].any()
        else:
            assert "real" not in step


@given(cases())
def test_only_observed_views_are_shown_and_all_without_hiding(case: Case) -> None:
    whole = choose(case.batches, case.observed, 0.0, None)
    assert np.array_equal(whole.shown, whole.seen)
    for t, batch in enumerate(case.batches):
        assert np.array_equal(whole.seen[t, : len(batch)], case.observed[batch.numpy()])
        assert not whole.seen[t, len(batch) :].any()
    assert not (case.choice.shown & ~case.choice.seen).any()
    assert np.array_equal(case.choice.shown.any(axis=2), case.choice.seen.any(axis=2))


# ---------------------------------------------------------------------- rows of every view


PACKED = [layout for layout in LAYOUTS if layout.rows == "packed"]


@given(cases(PACKED))
def test_every_shown_cell_has_one_row_and_no_row_is_left(case: Case) -> None:
    m = case.observed.shape[1]
    for t, batch in enumerate(case.batches):
        step = case.plan.step(t)
        samples, found = len(step["rows"]), []
        for v in range(m):
            for row, place in zip(
                step[f"rows{v}"].tolist(), step[f"places{v}"].tolist(), strict=True
            ):
                if place == m * samples:  # belongs to nobody
                    assert row == case.blank[v]
                    continue
                assert place // samples == v
                assert row == int(batch[place % samples])
                found.append((place % samples, v))
        assert sorted(found) == sorted(zip(*np.nonzero(case.choice.shown[t]), strict=True))


@given(cases(PACKED))
def test_cells_and_places_are_each_others_way_back(case: Case) -> None:
    m = case.observed.shape[1]
    for t in range(len(case.batches)):
        step, total = case.plan.step(t), rows_of(case, t)
        places = torch.cat([step[f"places{v}"] for v in range(m)])
        cells = step["cells"]
        assert cells.shape == (m, len(step["rows"]))
        assert torch.equal(cells < total, step["observed"].T)
        assert (cells <= total).all()
        flat = cells.flatten()
        for row, place in enumerate(places.tolist()):
            assert place == flat.numel() or int(flat[place]) == row
        assert int((places < flat.numel()).sum()) == int((flat < total).sum())


@given(cases(PACKED))
def test_weights_of_rows(case: Case) -> None:
    """Padding weighs nothing; in normalisation over all, one row stands for the missing ones."""
    m = case.observed.shape[1]
    for t, batch in enumerate(case.batches):
        step = case.plan.step(t)
        for v in range(m):
            nobody = step[f"places{v}"] == m * len(step["rows"])
            if not case.fixed and not case.layout.folded:
                assert f"counted{v}" not in step
                assert not nobody.any()
                continue
            counted, norm = step[f"counted{v}"], step[f"norm{v}"]
            assert torch.equal(counted, (~nobody).double())
            assert torch.equal(norm[~nobody], counted[~nobody])
            missing = len(batch) - int(counted.sum())
            assert norm[nobody].sum() == (missing if case.layout.folded else 0)
            assert int((norm[nobody] > 0).sum()) <= 1
            assert norm.sum() == (len(batch) if case.layout.folded else counted.sum())


# ---------------------------------------------------------------------- pairs to decode


PAIRED = [layout for layout in LAYOUTS if layout.pairs != "none"]


def cell_of_code(case: Case, t: int) -> dict[int, tuple[int, int]]:
    """(sample, view) by the number of the code, for the codes of shown cells."""
    step, m = case.plan.step(t), case.observed.shape[1]
    if case.layout.rows == "packed":
        places = torch.cat([step[f"places{v}"] for v in range(m)]).tolist()
    else:
        places = list(range(m * len(step["rows"])))
    size = len(step["rows"])
    known = {row: (place % size, place // size) for row, place in enumerate(places)}
    return {r: (b, v) for r, (b, v) in known.items() if v < m and case.choice.shown[t, b, v]}


@given(cases(PAIRED))
def test_every_pair_once_with_its_share(case: Case) -> None:
    m = case.observed.shape[1]
    for t, batch in enumerate(case.batches):
        step, cells, nothing = case.plan.step(t), cell_of_code(case, t), rows_of(case, t)
        for j in range(m):
            expected = {}
            for b in range(len(batch)):
                shown = np.flatnonzero(case.choice.shown[t, b])
                for v in shown if case.layout.pairs == "cross" else shown[shown == j]:
                    if case.choice.seen[t, b, j]:
                        expected[b, int(v)] = (1 / len(shown), int(batch[b]))
            found = {}
            names = ("source", "share", "target")
            for source, share, target in zip(
                *(step[f"{name}{j}"].flatten().tolist() for name in names), strict=True
            ):
                assert 0 <= source <= nothing
                if share > 0:
                    assert cells[source] not in found
                    found[cells[source]] = (share, target)
            assert found == expected


@given(cases(PAIRED))
def test_back_inverts_source(case: Case) -> None:
    for t in range(len(case.batches)):
        step, nothing = case.plan.step(t), rows_of(case, t)
        for j in range(case.observed.shape[1]):
            source, back = step[f"source{j}"].flatten(), step[f"back{j}"]
            assert len(back) == nothing
            for code, pair in enumerate(back.tolist()):
                assert pair == len(source) or int(source[pair]) == code
            assert int((back < len(source)).sum()) == int((source < nothing).sum())
            assert len(source[source < nothing].unique()) == int((source < nothing).sum())


@given(cases(PAIRED))
def test_pairs_that_count_in_normalisation(case: Case) -> None:
    m = case.observed.shape[1]
    for t, batch in enumerate(case.batches):
        step = case.plan.step(t)
        for j in range(m):
            share, norm = step[f"share{j}"], step.get(f"pair_norm{j}")
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
        plan = Plan(choose(batches, observed, 0.0, None), [0, 0, 0], layout, capacity)
        reshaped = plan.reshaped
        shapes += [{k: tuple(v.shape) for k, v in plan.step(t).items()} for t in range(2)]
        assert shapes[-1] == shapes[-2]
        assert reshaped or shapes[-1] == shapes[-3]


def test_too_long_batches_of_a_later_epoch_ask_for_another_shape() -> None:
    observed, capacity = np.ones((64, 2), dtype=bool), Capacity()
    layout = Layout("packed", "observed", "cross")
    for size, reshaped in [(10, True), (16, False), (17, True), (3, False), (24, False)]:
        choice = choose([torch.arange(size)], observed, 0.0, None)
        assert Plan(choice, [0, 0], layout, capacity).reshaped == reshaped
