"""Hiding views in training: at the asked rate, never the last one, the same in both layouts."""

import numpy as np
import torch

from viewgap.data.labels import Labels
from viewgap.data.viewset import ViewSet
from viewgap.training.batches import Batch, BatchSource
from viewgap.training.runtime import choose_runtime

N = 400


def make_batch(layout: str) -> Batch:
    rng = np.random.default_rng(0)
    observed = rng.random((N, 3)) < 0.7
    observed[:, 1] |= ~observed.any(axis=1)
    arrays = {name: rng.normal(size=(N, 2)) for name in "abc"}
    labels = Labels(np.zeros((N, 2), np.uint8), np.ones((N, 2), bool), ("x", "y"))
    source = BatchSource(ViewSet(arrays, observed), labels, None, choose_runtime("cpu"), layout)
    return source.batch(torch.arange(N))


def hide(batch: Batch, rate: float, seed: int = 0) -> Batch:
    return batch.hide_views(rate, torch.Generator().manual_seed(seed))


def test_hidden_views_were_observed_and_one_stays() -> None:
    batch = make_batch("dense")
    for rate in (0.1, 0.5, 0.95):
        shown = hide(batch, rate).observed
        assert not (shown & ~batch.observed).any()
        assert shown.any(dim=1).all()


def test_rate_is_met_where_enough_views_are_left() -> None:
    batch = make_batch("dense")
    full = batch.observed.all(dim=1)
    hidden = 1 - hide(batch, 0.2).observed[full].double().mean()
    assert abs(float(hidden) - 0.2) < 0.05  # 0.2^3 of the rows would lose all three


def test_both_layouts_hide_the_same_rows() -> None:
    dense, packed = hide(make_batch("dense"), 0.5), hide(make_batch("packed"), 0.5)
    assert torch.equal(dense.observed, packed.observed)
    for v in range(3):
        expected = torch.where(dense.observed[:, [v]], dense.views[v], 0.0)
        torch.testing.assert_close(packed.spread(v, packed.views[v]), expected)


def test_the_batch_itself_stays_whole() -> None:
    batch = make_batch("packed")
    before = [x.clone() for x in batch.views], batch.observed.clone()
    hide(batch, 0.5)
    assert torch.equal(batch.observed, before[1])
    assert all(torch.equal(a, b) for a, b in zip(batch.views, before[0], strict=True))
