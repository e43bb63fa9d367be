"""A few random rows of three views in double precision, as a batch of every form it can have."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from viewgap.data.labels import Labels
from viewgap.data.viewset import ViewSet
from viewgap.training.batches.batch import Batch
from viewgap.training.batches.epoch_index import Capacity
from viewgap.training.batches.sampled import Layout
from viewgap.training.batches.source import BatchSource
from viewgap.training.runtime import choose_runtime

B, C, DIMS = 9, 4, (5, 3, 6)
# The same batch in every form it can have: (rows, whether filled up to a fixed shape).
FORMS = {"dense": False, "packed": False, "dense fixed": True, "packed fixed": True}


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def draw(*shape: int, seed: int = 0) -> Tensor:
    """Uniform numbers from 0 to 1."""
    return torch.rand(*shape, dtype=torch.float64, generator=seeded(seed))


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=seeded(seed))


def naive_kl(m: float, s: float, mv: float, sv: float) -> float:
    """KL(N(m, s) || N(mv, sv)), by variances."""
    return 0.5 * (math.log(sv / s) + s / sv + (m - mv) ** 2 / sv - 1)


def make_source(
    observed: Tensor | None = None,
    seen: Tensor | None = None,
    n: int = B,
    noise_seed: int | None = None,
    *,
    dims: Sequence[int] = DIMS,
    without_positive: Sequence[int] = (),
) -> BatchSource:
    """`observed`: views that are there; `seen`: labels that are."""
    if observed is None:
        observed = draw(n, 3, seed=1) > 0.4
        observed[:, 0] |= ~observed.any(dim=1)
    seen = draw(n, C, seed=8) > 0.3 if seen is None else seen
    arrays = {f"v{v}": draw(n, d, seed=2 + v).numpy() for v, d in enumerate(dims)}
    values = (draw(n, C, seed=9) > 0.6).numpy().astype(np.uint8)
    values[list(without_positive)] = 0
    views = ViewSet(arrays, observed.numpy())
    labels = Labels(values, seen.numpy(), tuple("abcd"))
    return BatchSource(views, labels, None, choose_runtime("cpu", "float64"), noise_seed)


def make_batch(
    form: str, source: BatchSource, rows: Tensor | None = None, layout: Layout | None = None
) -> Batch:
    """All rows (or these) as a network of this layout wants them, but in this form."""
    kind = form.split()[0]
    layout = Layout(kind) if layout is None else replace(layout, rows=kind)
    capacity = Capacity() if FORMS[form] else None
    everything = torch.arange(len(source))
    order = torch.Generator().manual_seed(4)
    # The longer batch beside it makes the fixed shape larger than this one needs.
    batches = [everything if rows is None else rows, everything]
    return source.assemble(source.index(batches, layout, order, capacity).batch(0))


def in_rows(batch: Batch, entries: Tensor) -> Tensor:
    """Values of every (view, sample) in the order of the batch's rows, (ΣR, F)."""
    flat = entries.flatten(0, 1)
    if batch.row_entries is None:
        return flat
    spare = torch.full((1, entries.shape[2]), 7.0, dtype=entries.dtype)
    return torch.cat([flat, spare])[batch.row_entries]


def assert_forms_agree(
    networks: Sequence[nn.Module],
    batches: Sequence[Batch],
    steps: int = 1,
    *,
    gradients: tuple[float, float] = (1e-9, 1e-12),
) -> None:
    """Two equal networks, each with its form of a batch: same terms, gradients and buffers.

    `gradients`: how far those may differ, relative and absolute.
    """
    for _ in range(steps):
        terms = [
            network.loss_terms(batch) for network, batch in zip(networks, batches, strict=True)
        ]
        assert set(terms[0]) == set(terms[1])
        for name in terms[0]:
            torch.testing.assert_close(terms[0][name], terms[1][name], rtol=1e-10, atol=1e-12)
        for network, values in zip(networks, terms, strict=True):
            network.zero_grad()
            sum(values.values()).backward()
        for a, b in zip(*(network.parameters() for network in networks), strict=True):
            rtol, atol = gradients
            torch.testing.assert_close(a.grad, b.grad, rtol=rtol, atol=atol)
    for a, b in zip(*(network.buffers() for network in networks), strict=True):
        torch.testing.assert_close(a, b)


def assert_finite(network: nn.Module, batch: Batch) -> None:
    """Every term of the loss and every gradient is a finite number."""
    terms = network.loss_terms(batch)
    assert all(torch.isfinite(value) for value in terms.values())
    sum(terms.values()).backward()
    found = [p.grad for p in network.parameters() if p.grad is not None]
    assert found
    assert all(torch.isfinite(gradient).all() for gradient in found)
