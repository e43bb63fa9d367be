"""Batches: both layouts, resident or read on demand, and nothing lost at the edges."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from viewgap.data.checks import as_labels
from viewgap.data.labels import Labels
from viewgap.data.scaling import Standardiser
from viewgap.data.viewset import ViewSet
from viewgap.training import batches
from viewgap.training.batches import BatchSource, cut, seed_words, shuffled_batches, stack_views
from viewgap.training.runtime import choose_runtime

CPU = choose_runtime("cpu")


def data(n: int = 12) -> tuple[ViewSet, Labels]:
    rng = np.random.default_rng(0)
    observed = rng.random((n, 2)) < 0.6
    observed[:, 0] |= ~observed.any(axis=1)
    views = ViewSet({"a": rng.normal(size=(n, 4)), "b": rng.normal(size=(n, 3))}, observed=observed)
    Y = (rng.random((n, 2)) < 0.5).astype(float)
    Y[rng.random((n, 2)) < 0.3] = np.nan
    return views, as_labels(Y, views)


@given(st.integers(2, 300), st.integers(2, 140))
def test_every_row_once_and_no_batch_of_one(n: int, size: int) -> None:
    parts = shuffled_batches(n, size, torch.Generator().manual_seed(0))
    assert sorted(torch.cat(parts).tolist()) == list(range(n))
    assert all(2 <= len(part) <= size + 1 for part in parts)


def test_a_single_row_is_still_a_batch() -> None:
    assert [part.tolist() for part in cut(torch.arange(1), 4)] == [[0]]


@pytest.mark.parametrize("limit", [1 << 30, 0])
def test_layouts_hold_the_same_rows(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "RESIDENT_BYTES", limit)
    views, labels = data()
    scaler = Standardiser.fit(views)
    rows = torch.tensor([5, 0, 7, 2])
    dense = BatchSource(views, labels, scaler, CPU, "dense").batch(rows)
    packed = BatchSource(views, labels, scaler, CPU, "packed").batch(rows)
    assert packed.positions is not None
    for v, name in enumerate(views.names):
        expected = views.rows(name, rows.numpy())
        expected = (expected - scaler.mean[v]) * scaler.scale[v]
        expected[~views.observed[rows.numpy(), v]] = 0
        np.testing.assert_allclose(dense.views[v].numpy(), expected, rtol=1e-6)
        torch.testing.assert_close(packed.spread(v, packed.views[v]), dense.views[v])
        torch.testing.assert_close(packed.views[v], dense.views[v][packed.positions[v]])
    labelled = np.nan_to_num(labels.as_float())[rows.numpy()]
    np.testing.assert_array_equal(packed.labels.numpy(), labelled)
    np.testing.assert_array_equal(packed.label_mask.numpy(), labels.observed[rows.numpy()])


def test_spread_zeroes_missing_rows_whatever_they_hold() -> None:
    views, labels = data()
    batch = BatchSource(views, labels, None, CPU, "dense").batch(torch.arange(12))
    values = torch.full((12, 3), torch.nan)
    found = stack_views(batch, [values, values])
    assert (found.transpose(0, 1)[~batch.observed] == 0).all()
    assert torch.isnan(found.transpose(0, 1)[batch.observed]).all()


def test_seeds_are_fixed_by_the_random_state() -> None:
    assert seed_words(3, 4) == seed_words(3, 4)
    assert len({*seed_words(3, 4), *seed_words(4, 4)}) == 8


def test_sparse_views_are_made_dense_by_the_batch_only() -> None:
    rng = np.random.default_rng(0)
    dense = rng.random((12, 5)) * (rng.random((12, 5)) < 0.3)
    views = ViewSet({"a": sparse.csr_array(dense), "b": rng.normal(size=(12, 3))})
    source = BatchSource(views, None, None, CPU, "packed")
    assert set(source._resident) == {1}
    rows = torch.tensor([4, 1, 9])
    found = source.batch(rows).views[0].numpy()
    np.testing.assert_allclose(found, dense[rows.numpy()], rtol=1e-6)
