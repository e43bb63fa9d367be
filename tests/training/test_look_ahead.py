"""Shapes and indices of coming epochs are drawn from copies: a fit stays what it is."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from tests.training.test_steps import VARIANTS, make_state

from viewgap.data.viewset import ViewSet
from viewgap.training.batches.epoch_index import Capacity, EpochIndex
from viewgap.training.batches.sampled import Layout, sample_batches
from viewgap.training.batches.source import BatchSource
from viewgap.training.cross_fit import Parts
from viewgap.training.runtime import choose_runtime
from viewgap.training.steps.epoch import ReplayedSteps
from viewgap.training.steps.look_ahead import NextEpoch, capacities_ahead

LAYOUTS = [
    Layout("packed", "observed", "cross", 0.3),
    Layout("packed", "observed", "sampled", 0.3),
    Layout("packed", "observed", "own", 0.3),
    Layout("packed", "all", "cross"),
    Layout("dense"),
]


@dataclass
class Settings:
    batch_size: int = 16
    shuffle: bool = True


def make_source(parts: bool = False) -> BatchSource:
    rng = np.random.default_rng(0)
    observed = rng.random((150, 3)) < 0.5
    observed[:, 0] |= ~observed.any(axis=1)
    views = ViewSet({f"v{j}": rng.normal(size=(150, 2)) for j in range(3)}, observed)
    left_out = Parts(np.arange(150) % 3, 3) if parts else None
    return BatchSource(views, None, None, choose_runtime("cpu"), parts=left_out)


@pytest.mark.parametrize("parts", [False, True])
@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_the_capacity_is_what_the_epochs_turn_out_to_need(
    layout: Layout, shuffle: bool, parts: bool
) -> None:
    source, order = make_source(parts), torch.Generator().manual_seed(3)
    before = order.get_state()
    found = capacities_ahead(source, layout, Settings(shuffle=shuffle), order, 20)
    assert torch.equal(order.get_state(), before)
    assert len(found) == (3 if parts else 1)
    grown = [Capacity() for _ in found]
    for _ in range(20):
        batches = source.batches_of_epoch(16, order if shuffle else None)
        for own, ahead, as_they_come in zip(batches, found, grown, strict=True):
            sampled = sample_batches(own, source.observed, layout, order)
            assert not EpochIndex(sampled, [0] * 3, layout, ahead).reshaped
            EpochIndex(sampled, [0] * 3, layout, as_they_come)
    assert found == grown


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_pairs_are_counted_as_they_are_listed(layout: Layout) -> None:
    source, order = make_source(), torch.Generator().manual_seed(0)
    (batches,) = source.batches_of_epoch(16, order)
    sampled = sample_batches(batches, source.observed, layout, order)
    if sampled.most_pairs(layout):
        masks = [sampled.pair_mask(j, layout.pairs) for j in range(3)]
        assert sampled.most_pairs(layout) == [mask.sum(axis=(1, 2)).max() for mask in masks]


def test_a_large_set_is_looked_at_for_fewer_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("viewgap.training.steps.look_ahead._MOST_ENTRIES", 1)
    source, order = make_source(), torch.Generator().manual_seed(3)
    one = capacities_ahead(source, LAYOUTS[0], Settings(), order, 1)
    assert capacities_ahead(source, LAYOUTS[0], Settings(), order, 50) == one


@pytest.mark.parametrize("name", ["default", "paper"])
def test_steps_are_recorded_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = []
    prepare = ReplayedSteps._prepare

    def counted(self: ReplayedSteps, epochs: list[EpochIndex]) -> None:
        prepared.append(epochs)
        prepare(self, epochs)

    monkeypatch.setattr(ReplayedSteps, "_prepare", counted)
    settings = VARIANTS[name]
    state, source = make_state(settings)
    steps = ReplayedSteps(state, source, settings)
    for _ in range(12):
        steps.run(source.batches_of_epoch(settings.batch_size, state.order))
    assert len(prepared) == 1


def index_values(index: EpochIndex) -> list[np.ndarray]:
    return [leaf.values for leaf in index.leaves()]


def test_the_next_epoch_is_the_one_that_comes() -> None:
    settings = VARIANTS["default"]
    state, source = make_state(settings)
    before, layout = state.order.get_state(), state.network.layout
    ahead = NextEpoch(source, state, settings, [Capacity()])
    assert torch.equal(state.order.get_state(), before)
    batches = source.batches_of_epoch(settings.batch_size, state.order)
    drawn = state.order.get_state()
    expected = source.index(batches[0], layout, state.order, Capacity())
    after = state.order.get_state()
    state.order.set_state(drawn)
    (found,) = ahead.take(batches, state.order)
    assert torch.equal(state.order.get_state(), after)
    for a, b in zip(index_values(found), index_values(expected), strict=True):
        np.testing.assert_array_equal(a, b)


def test_another_epoch_is_not_taken_for_it() -> None:
    """After a fit was restored, or when a callback drew from the generator."""
    settings = VARIANTS["default"]
    state, source = make_state(settings)
    ahead = NextEpoch(source, state, settings, [Capacity()])
    (batches,) = source.batches_of_epoch(settings.batch_size, state.order)
    drawn = state.order.get_state()
    assert ahead.take([batches[:-1]], state.order) is None
    assert ahead.take([batches[::-1]], state.order) is None
    torch.rand(1, generator=state.order)
    assert ahead.take([batches], state.order) is None
    state.order.set_state(drawn)
    assert ahead.take([batches], state.order) is not None


def test_draws_are_those_of_every_batch_for_itself() -> None:
    """Views are hidden by numbers drawn for all batches at once: the same ones."""
    one, many = (torch.Generator().manual_seed(5) for _ in range(2))
    parts = [torch.rand(k, 3, generator=many) for k in (16, 16, 7)]
    assert torch.equal(torch.rand(39, 3, generator=one), torch.cat(parts))
