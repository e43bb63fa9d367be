"""Parts of the rows that networks leave out, and the batches that follow from them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from viewgap.data.labels import Labels
from viewgap.training.cross_fit import Parts


def make_parts(n: int, count: int, seed: int = 0) -> Parts:
    number = np.random.default_rng(seed).permutation(np.arange(n) % count)
    return Parts.of_rows(number, count, np.ones((n, 2), dtype=bool))


@given(n=st.integers(20, 200), count=st.integers(2, 7), size=st.integers(2, 64))
def test_every_network_sees_each_row_it_does_not_leave_out_once_an_epoch(
    n: int, count: int, size: int
) -> None:
    parts = make_parts(n, count)
    batches = parts.batches(size, torch.Generator().manual_seed(1))
    assert len(batches) == count
    assert len({len(own) for own in batches}) == 1
    for part, own in enumerate(batches):
        rows = torch.cat(own).numpy()
        assert sorted(rows) == list(np.flatnonzero(parts.number != part))
        assert min(len(batch) for batch in own) > 0


@given(n=st.integers(60, 300), size=st.integers(8, 64))
def test_batches_have_about_the_size_asked_for(n: int, size: int) -> None:
    parts = make_parts(n, 5)
    lengths = [len(batch) for own in parts.batches(size, None) for batch in own]
    if size <= 0.4 * n:
        assert size / 2 - 2 <= min(lengths)
        assert max(lengths) <= 2 * size + 2


def test_another_epoch_has_another_order() -> None:
    parts, generator = make_parts(50, 5), torch.Generator().manual_seed(0)
    first, second = (parts.batches(16, generator)[0] for _ in range(2))
    assert not torch.equal(torch.cat(first), torch.cat(second))


def test_rows_without_labels_are_left_out_by_nobody() -> None:
    parts = Parts.of_rows(np.array([0, 1, 0, 1]), 2, np.ones((6, 1), dtype=bool))
    assert parts.number.tolist() == [0, 1, 0, 1, -1, -1]
    assert all({4, 5} <= set(torch.cat(own).tolist()) for own in parts.batches(2, None))


def test_a_view_that_one_part_alone_has_is_kept_by_every_network() -> None:
    observed = np.ones((6, 2), dtype=bool)
    observed[[0, 1, 2, 3, 5], 1] = False  # only row 4 has the second view
    parts = Parts.of_rows(np.array([0, 1, 0, 1, 0, 1]), 2, observed)
    assert parts.number[4] == -1
    assert parts.left_out(0).tolist() == [0, 2]


@pytest.mark.parametrize("part", [0, 1])
def test_labels_of_the_rows_left_out_are_unknown_to_a_network(part: int) -> None:
    labels = Labels(np.ones((4, 2), dtype=np.uint8), np.ones((4, 2), dtype=bool), ("a", "b"))
    parts = Parts.of_rows(np.array([0, 0, 1, 1]), 2, np.ones((4, 1), dtype=bool))
    seen = parts.labels_for(part, labels)
    assert seen.observed.any(axis=1).tolist() == [part != 0, part != 0, part != 1, part != 1]
    assert not seen.values[parts.left_out(part)].any()
