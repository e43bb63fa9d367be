"""Batches of sparse labels are those of dense ones, from the host and from tables of a device."""

import numpy as np
import pytest
import torch

from viewgap.data import Labels, SparseLabels, ViewSet
from viewgap.training.batches.epoch_index import Capacity
from viewgap.training.batches.label_rows import LabelRows
from viewgap.training.batches.source import BatchSource
from viewgap.training.runtime import choose_runtime


def make_labels(n: int = 12, c: int = 7) -> Labels:
    rng = np.random.default_rng(3)
    observed = rng.random((n, c)) < 0.6
    observed[:3] = [[True], [False], [True]]
    observed[0, 2] = False
    return Labels((rng.random((n, c)) < 0.4).astype(np.uint8), observed, tuple("abcdefg"[:c]))


@pytest.mark.parametrize("precision", ["highest", "float64"])
def test_rows_are_those_of_dense_labels(precision: str) -> None:
    labels, runtime = make_labels(), choose_runtime("cpu", precision)
    rows = torch.tensor([5, 0, 1, 11, 5])
    table, host = (LabelRows(SparseLabels.from_labels(labels), runtime) for _ in range(2))
    table.make_tables()
    for made in (table.rows(rows, rows), host.rows(rows, rows)):
        for found, expected in zip(made, (labels.values, labels.observed), strict=True):
            assert found.dtype == runtime.dtype
            assert found.is_contiguous()
            np.testing.assert_array_equal(found.numpy(), expected[rows.numpy()])


def test_batches_are_the_same() -> None:
    labels, runtime = make_labels(), choose_runtime("cpu", "highest")
    views = ViewSet({"a": np.random.default_rng(0).random((12, 3))})
    both = [
        BatchSource(views, own, None, runtime) for own in (labels, SparseLabels.from_labels(labels))
    ]
    layout_of = both[0].batch(torch.arange(3))
    for source in both:
        assert source.is_resident
        batch = source.batch(torch.arange(3))
        assert torch.equal(batch.labels, layout_of.labels)
        assert torch.equal(batch.label_mask, layout_of.label_mask)
    batches = [torch.tensor([1, 2]), torch.arange(5)]
    from viewgap.training.batches.sampled import Layout

    filled = [s.assemble(s.index(batches, Layout(), None, Capacity()).batch(0)) for s in both]
    assert torch.equal(filled[0].label_mask, filled[1].label_mask)
    assert (filled[1].label_mask[2:] == 0).all()
