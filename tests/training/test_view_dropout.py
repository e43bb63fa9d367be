"""Hiding views in training: at the asked rate, never the last one, the same in all layouts."""

import numpy as np
import pytest
import torch

from viewgap.data.labels import Labels
from viewgap.data.viewset import ViewSet
from viewgap.training.batches.batch import Batch
from viewgap.training.batches.epoch_index import Capacity
from viewgap.training.batches.sampled import Layout, SampledBatches, sample_batches
from viewgap.training.batches.source import BatchSource
from viewgap.training.runtime import choose_runtime

N = 400


def make_observed() -> np.ndarray:
    observed = np.random.default_rng(0).random((N, 3)) < 0.7
    observed[:, 1] |= ~observed.any(axis=1)
    return observed


def make_batch(layout: Layout, capacity: Capacity | None = None) -> Batch:
    rng = np.random.default_rng(1)
    arrays = {name: rng.normal(size=(N, 2)) for name in "abc"}
    labels = Labels(np.zeros((N, 2), np.uint8), np.ones((N, 2), bool), ("x", "y"))
    source = BatchSource(ViewSet(arrays, make_observed()), labels, None, choose_runtime("cpu"))
    order = torch.Generator().manual_seed(0)
    return source.assemble(source.index([torch.arange(N)], layout, order, capacity).batch(0))


def hide(rate: float, seed: int = 0, parts: int = 1) -> SampledBatches:
    batches = list(torch.arange(N).split(N // parts))
    return sample_batches(
        batches, make_observed(), Layout(view_dropout=rate), torch.Generator().manual_seed(seed)
    )


def test_nobody_stays_hidden_without_a_rate_and_nothing_is_drawn() -> None:
    generator = torch.Generator().manual_seed(0)
    before = generator.get_state()
    sampled = sample_batches([torch.arange(N)], make_observed(), Layout(), generator)
    assert np.array_equal(sampled.visible, sampled.observed)
    assert torch.equal(generator.get_state(), before)


def test_rate_is_met_where_enough_views_are_left() -> None:
    full = make_observed().all(axis=1)
    hidden = 1 - hide(0.2).visible[0][full].mean()
    assert abs(hidden - 0.2) < 0.05  # 0.2^3 of the rows would lose all three


def test_one_of_the_observed_views_stays_each_as_often() -> None:
    """At a rate near one a single view is left, and no view is left more often than another."""
    full = make_observed().all(axis=1)
    left = np.mean([hide(0.999, seed).visible[0][full].mean(axis=0) for seed in range(20)], axis=0)
    np.testing.assert_allclose(left, 1 / 3, atol=0.03)


def test_batches_are_hidden_one_after_the_other() -> None:
    """The draws of an epoch do not depend on how many batches are indexed at once."""
    together, generator = hide(0.5, parts=4), torch.Generator().manual_seed(0)
    for t, rows in enumerate(torch.arange(N).split(N // 4)):
        alone = sample_batches([rows], make_observed(), Layout(view_dropout=0.5), generator)
        assert np.array_equal(alone.visible[0], together.visible[t])


@pytest.mark.parametrize("capacity", [None, Capacity()])
def test_layouts_hide_the_same_rows(capacity: Capacity | None) -> None:
    dense = make_batch(Layout("dense", view_dropout=0.5))
    packed = make_batch(Layout("packed", view_dropout=0.5), capacity)
    assert torch.equal(dense.observed, packed.observed)
    values = torch.cat([packed.views[v] for v in range(3)])
    expected = torch.stack([dense.views[v] for v in range(3)])
    expected = torch.where(dense.observed.T.unsqueeze(-1), expected, 0.0)
    torch.testing.assert_close(packed.stack(values), expected)


@pytest.mark.parametrize("norm_rows", ["observed", "all"])
def test_hidden_views_are_still_to_be_decoded(norm_rows: str) -> None:
    """The encoders do not see a hidden view; the decoders must reproduce it all the same."""
    batch = make_batch(Layout("packed", norm_rows, "cross", view_dropout=0.5))
    observed = torch.from_numpy(make_observed())
    visible = batch.observed
    for j, target in enumerate(batch.targets):
        counts = target.weight > 0
        expected = (visible.sum(dim=1) * observed[:, j]).sum()
        assert int(counts.sum()) == int(expected)
        hidden = observed[:, j] & ~visible[:, j]
        assert int(hidden[target.rows[counts]].sum()) > 0
        assert float(target.weight.sum()) == pytest.approx(float(observed[:, j].sum()), rel=1e-5)
