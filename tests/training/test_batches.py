"""Batches: all layouts, resident or read on demand, and nothing lost at the edges."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from torch import Tensor

from viewgap.data.labels import Labels
from viewgap.data.preprocessing import Standardiser
from viewgap.data.validation import as_labels
from viewgap.data.viewset import ViewSet
from viewgap.training.batches import source as batches
from viewgap.training.batches.batch import Batch
from viewgap.training.batches.epoch_index import Capacity
from viewgap.training.batches.sampled import Layout
from viewgap.training.batches.source import BatchSource, batches_of_epoch, cut
from viewgap.training.runtime import choose_runtime

CPU = choose_runtime("cpu")
FOLDED = Layout("packed", "all", "cross")


def data(n: int = 12) -> tuple[ViewSet, Labels]:
    rng = np.random.default_rng(0)
    observed = rng.random((n, 2)) < 0.6
    observed[:, 0] |= ~observed.any(axis=1)
    observed[3, 0] = False
    views = ViewSet({"a": rng.normal(size=(n, 4)), "b": rng.normal(size=(n, 3))}, observed=observed)
    Y = (rng.random((n, 2)) < 0.5).astype(float)
    Y[rng.random((n, 2)) < 0.3] = np.nan
    return views, as_labels(Y, views)


def in_place(batch: Batch, view: int) -> Tensor:
    """The rows of one view in batch order, zero where it is missing, (B, d_v)."""
    parts = [
        batch.views[v] if v == view else torch.zeros(size, batch.views[view].shape[1])
        for v, size in enumerate(batch.sizes)
    ]
    return batch.stack(torch.cat(parts))[view]


@given(st.integers(2, 300), st.integers(2, 140))
def test_every_row_once_and_no_batch_of_one(n: int, size: int) -> None:
    parts = batches_of_epoch(n, size, torch.Generator().manual_seed(0))
    assert sorted(torch.cat(parts).tolist()) == list(range(n))
    assert all(2 <= len(part) <= size + 1 for part in parts)


def test_a_single_row_is_still_a_batch() -> None:
    assert [part.tolist() for part in cut(torch.arange(1), 4)] == [[0]]


@pytest.mark.parametrize("limit", [1 << 30, 0])
@pytest.mark.parametrize("norm_rows", ["observed", "all"])
@pytest.mark.parametrize("fixed", [False, True])
def test_layouts_hold_the_same_rows(
    limit: int, norm_rows: str, fixed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "RESIDENT_BYTES", {"cpu": limit})
    views, labels = data()
    scaler = Standardiser.fit(views)
    rows = torch.tensor([5, 0, 7, 2])
    source = BatchSource(views, labels, scaler, CPU)
    assert source.is_resident == (limit > 0)
    dense = source.batch(rows, Layout("dense", norm_rows))
    capacity = Capacity() if fixed else None
    packed = source.assemble(
        source.index([rows], Layout("packed", norm_rows), None, capacity).batch(0)
    )
    for v, name in enumerate(views.names):
        expected = views.rows(name, rows.numpy())
        expected = (expected - scaler.mean[v]) * scaler.scale[v]
        expected[~views.observed[rows.numpy(), v]] = 0
        np.testing.assert_allclose(dense.views[v].numpy(), expected, rtol=1e-6)
        torch.testing.assert_close(in_place(packed, v), dense.views[v])
        counted = (
            packed.row_weight.split(packed.sizes)[v] if packed.row_weight is not None else None
        )
        kept = packed.views[v] if counted is None else packed.views[v][counted > 0]
        torch.testing.assert_close(kept, dense.views[v][dense.observed[:, v]])
        if counted is not None:  # what fills a batch up, and what stands for missing rows
            assert (packed.views[v][counted == 0] == 0).all()
    labelled = np.nan_to_num(labels.as_float())[rows.numpy()]
    np.testing.assert_array_equal(packed.labels.numpy(), labelled)
    np.testing.assert_array_equal(packed.label_mask.numpy(), labels.observed[rows.numpy()])
    assert torch.equal(packed.observed, dense.observed)
    assert float(packed.n_samples) == float(dense.n_samples) == 4


@pytest.mark.parametrize("layout", [FOLDED, replace(FOLDED, norm_rows="observed")])
@pytest.mark.parametrize("fixed", [False, True])
def test_rows_read_on_demand_are_the_resident_ones(
    layout: Layout, fixed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pairs name their rows in the table of the batch, whichever rows that table has."""
    views, labels = data()
    found = []
    for limit in (1 << 30, 0):
        monkeypatch.setattr(batches, "RESIDENT_BYTES", {"cpu": limit})
        source = BatchSource(views, labels, Standardiser.fit(views), CPU)
        capacity = Capacity() if fixed else None
        epoch = source.index([torch.tensor([5, 0, 7]), torch.arange(6)], layout, None, capacity)
        found.append([source.assemble(epoch.batch(t)) for t in range(2)])
    for resident, read in zip(*found, strict=True):
        for v in range(2):
            assert torch.equal(resident.views[v], read.views[v])
        for one, other in zip(resident.targets, read.targets, strict=True):
            assert torch.equal(one.table[one.rows], other.table[other.rows])
            assert torch.equal(one.source, other.source)
            assert torch.equal(one.back, other.back)
            assert torch.equal(one.weight, other.weight)


def test_stack_zeroes_missing_rows_whatever_they_hold() -> None:
    views, labels = data()
    batch = BatchSource(views, labels, None, CPU).batch(torch.arange(12))
    found = batch.stack(torch.full((24, 3), torch.nan))
    assert (found.transpose(0, 1)[~batch.observed] == 0).all()
    assert torch.isnan(found.transpose(0, 1)[batch.observed]).all()


@pytest.mark.parametrize("layout", [Layout("dense"), Layout("packed"), FOLDED])
def test_stack_gives_every_row_its_gradient_once(layout: Layout) -> None:
    views, labels = data()
    runtime = choose_runtime("cpu", "float64")
    batch = BatchSource(views, labels, None, runtime).batch(torch.arange(12), layout)
    values = torch.rand(sum(batch.sizes), 3, dtype=torch.float64, requires_grad=True)
    upstream = torch.rand(2, 12, 3, dtype=torch.float64)
    (batch.stack(values) * upstream).sum().backward()
    expected = torch.zeros_like(values)
    counted = torch.ones(len(values)) if batch.row_weight is None else batch.row_weight
    expected[counted > 0] = upstream[batch.observed.T]
    assert torch.equal(values.grad, expected)
    assert torch.autograd.gradcheck(batch.stack, (values,))


def test_padding_has_no_labels() -> None:
    views, labels = data()
    source = BatchSource(views, labels, None, CPU)
    epoch = source.index(
        [torch.tensor([1, 2]), torch.arange(9)], Layout("packed"), None, Capacity()
    )
    batch = source.assemble(epoch.batch(0))
    assert len(batch) == 9
    assert float(batch.n_samples) == 2
    assert (batch.label_mask[2:] == 0).all()
    assert torch.equal(batch.label_mask[:2], source.label_mask[1:3])


@pytest.mark.parametrize("size", [5, 12, 100])
def test_in_order_gives_all_rows_every_time(size: int) -> None:
    views, labels = data()
    source = BatchSource(views, labels, None, CPU)
    for _ in range(2):
        parts = list(source.in_order(size, Layout("packed")))
        assert sum(len(part) for part in parts) == 12
        for v, name in enumerate(views.names):
            found = torch.cat([in_place(part, v) for part in parts])
            np.testing.assert_allclose(found.numpy(), views.rows(name), rtol=1e-6)


@pytest.mark.parametrize("layout", [Layout("dense"), Layout("packed"), FOLDED])
def test_sparse_views_are_made_dense_by_the_batch_only(layout: Layout) -> None:
    rng = np.random.default_rng(0)
    dense = rng.random((12, 5)) * (rng.random((12, 5)) < 0.3)
    views = ViewSet({"a": sparse.csr_array(dense), "b": rng.normal(size=(12, 3))})
    source = BatchSource(views, None, None, CPU)
    assert set(source._resident) == {1}
    assert not source.is_resident  # nothing that waits for the host can be recorded
    assert source.replay_device.type == "cpu"
    rows = torch.tensor([4, 1, 9])
    found = source.batch(rows, layout).views[0].numpy()
    np.testing.assert_allclose(found[:3], dense[rows.numpy()], rtol=1e-6)
