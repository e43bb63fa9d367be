"""The naive SCSD and the library's compute the same: losses, gradients, statistics, codes."""

from dataclasses import replace

import pytest
import torch
from benchmarks._step import terms_and_network
from torch import Tensor

from benchmarks import data, naive_scsd
from viewgap.methods._scsd_settings import PROFILES, SCSDSettings

B, C, DIMS = 24, 7, (9, 5, 6)
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}


def settings(profile: str) -> SCSDSettings:
    """The profile at a small size and without what is drawn at random."""
    return replace(
        PROFILES[profile](C),
        **(data.ONE_NETWORK if profile == "default" else {}),
        hidden=(16, 12),
        embedding=8,
        codebook_size=13,
        dropout=0.0,
        input_dropout=0.0,
        view_dropout=0.0,
        temperature=0.5,
    )


def batch(dtype: torch.dtype) -> tuple[list[Tensor], Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    observed = torch.rand(B, len(DIMS), generator=generator) > 0.5
    observed[:, 0] |= ~observed.any(dim=1)
    full = [torch.randn(B, d, generator=generator, dtype=torch.float64) for d in DIMS]
    views = [torch.where(observed[:, [v]], x, 0.0).to(dtype) for v, x in enumerate(full)]
    known = (torch.rand(B, C, generator=generator) > 0.4).to(dtype)
    labels = (torch.rand(B, C, generator=generator) > 0.6).to(dtype) * known
    return views, observed, labels, known


def assert_equal(found: Tensor, expected: Tensor, floor: float = 1e-3) -> None:
    """Relative to the largest entry, or to `floor`, under which entries are what rounding left."""
    gap, largest = (found - expected).abs().max(), expected.abs().max()
    assert gap <= TOLERANCE[expected.dtype] * largest.clamp(min=floor)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
@pytest.mark.parametrize(
    ("profile", "layout"),
    [
        ("paper", "dense"),
        ("paper", "packed"),
        ("paper", "fixed"),
        ("default", "packed"),
        ("default", "fixed"),
    ],
)
def test_same_losses_gradients_and_statistics(
    profile: str, layout: str, dtype: torch.dtype
) -> None:
    views, observed, labels, known = batch(dtype)
    terms, network, before = terms_and_network(
        settings(profile), views, observed, labels, known, layout
    )
    naive = naive_scsd.from_weights(DIMS, C, settings(profile), before)
    expected = naive.loss_terms(views, observed, labels, known)
    torch.stack(list(expected.values())).sum().backward()
    assert terms.keys() == expected.keys()
    for name, value in expected.items():
        assert_equal(terms[name], value)
    mine = dict(network.named_parameters())
    # A bias just before a normalisation has no gradient but rounding errors.
    floor = 0.1 * max(float(p.grad.abs().max()) for p in naive.parameters())
    for name, parameter in naive.named_parameters():
        assert_equal(mine[name].grad, parameter.grad, floor)
    after = network.state_dict()
    for name, state in naive.state_dict().items():
        assert_equal(after[name], state)


def test_every_term_and_gradient_is_there() -> None:
    """The comparison above would be empty if a part of the network were never reached."""
    views, observed, labels, known = batch(torch.float64)
    terms, network, before = terms_and_network(
        settings("paper"), views, observed, labels, known, "dense"
    )
    assert min(terms.values()) > 0
    assert all(parameter.grad.abs().sum() > 0 for parameter in network.parameters())
    assert not torch.equal(before["codebook.codes"], network.codebook.codes)


def test_hide_views_leaves_one() -> None:
    observed = batch(torch.float64)[1]
    shown = naive_scsd.hide_views(observed, 0.9)
    assert (shown & ~observed).sum() == 0
    assert shown.any(dim=1).all()
    assert shown.sum() < observed.sum()
