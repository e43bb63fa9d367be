"""The index of an epoch in parts is that of the whole, batch for batch."""

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
import torch

from viewgap.training.batches import epoch_parts
from viewgap.training.batches.epoch_index import EpochIndex
from viewgap.training.batches.epoch_parts import EpochParts
from viewgap.training.batches.sampled import Layout, sample_batches

LAYOUTS = [
    Layout("dense"),
    Layout("packed", "observed", "own", 0.4),
    Layout("packed", "observed", "sampled", 0.4),
    Layout("packed", "all", "cross"),
]


def same(one: Any, other: Any) -> None:
    if isinstance(one, torch.Tensor):
        assert torch.equal(one, other)
    elif isinstance(one, list):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            same(a, b)
    elif one is None:
        assert other is None
    else:
        for field in fields(one):
            same(getattr(one, field.name), getattr(other, field.name))


@pytest.mark.parametrize("layout", LAYOUTS, ids=repr)
def test_batch_for_batch(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    observed = rng.random((50, 3)) < 0.6
    observed[:, 0] |= ~observed.any(axis=1)
    batches = torch.randperm(50, generator=torch.Generator().manual_seed(1)).split(8)
    blank = [int((~column).argmax()) for column in observed.T]
    sampled = sample_batches(batches, observed, layout, torch.Generator().manual_seed(2))
    whole = EpochIndex(sampled, blank, layout)
    monkeypatch.setattr(epoch_parts, "PART_ENTRIES", 50)  # two batches
    made: list[int] = []

    def make(some: Any) -> EpochIndex:
        made.append(len(some.rows))
        return EpochIndex(some, blank, layout)

    parts = EpochParts(sampled, make)
    assert len(parts) == parts.n_batches == 7
    for t, index in enumerate(parts):
        same(index, whole.batch(t))
    assert made == [2, 2, 2, 1]
    same(parts[-1], whole.batch(6))
    same(list(parts[1:3]), [whole.batch(1), whole.batch(2)])
