"""The reference of SCSD and the library agree: losses, gradients, statistics, predictions."""

from dataclasses import fields, replace

import pytest
import torch
from benchmarks._step import terms_and_network
from torch import Tensor

from benchmarks import data, scsd_reference
from viewgap.methods.scsd.settings import SCSDSettings
from viewgap.nn.fusion import label_correlation

B, C, DIMS = 24, 7, (9, 5, 6)
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-4}


def settings(model: str) -> SCSDSettings:
    """A model of the figures at a small size and without what is drawn at random.

    The default keeps its linear decoders here, and has all pairs of views, as the reference.
    """
    resolved: SCSDSettings = data.make_model(model, "cpu")._resolve(C)
    return replace(
        resolved,
        n_networks=2 if model == "default" else 1,
        pairs="all",
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
    ("model", "layout"),
    [
        ("paper", "dense"),
        ("paper", "packed"),
        ("paper", "fixed"),
        ("default", "packed"),
        ("default", "fixed"),
        ("bare_network", "packed"),
        ("bare_network", "fixed"),
    ],
)
def test_same_losses_gradients_and_statistics(model: str, layout: str, dtype: torch.dtype) -> None:
    views, observed, labels, known = batch(dtype)
    terms, network, before = terms_and_network(
        settings(model), views, observed, labels, known, layout
    )
    reference = scsd_reference.from_weights(DIMS, C, settings(model), before)
    expected = reference.loss_terms(views, observed, labels, known)
    torch.stack(list(expected.values())).sum().backward()
    assert terms.keys() == expected.keys()
    for name, value in expected.items():
        assert_equal(terms[name], value)
    mine = dict(network.named_parameters())
    # A bias just before a normalisation has no gradient but rounding errors.
    floor = 0.1 * max(float(p.grad.abs().max()) for p in reference.parameters())
    for name, parameter in reference.named_parameters():
        assert_equal(mine[name].grad, parameter.grad, floor)
    after = network.state_dict()
    for name, state in reference.state_dict().items():
        if state.numel():  # a plain mean compares no label correlations
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
    shown = scsd_reference.hide_views(observed, 0.9)
    assert (shown & ~observed).sum() == 0
    assert shown.any(dim=1).all()
    assert shown.sum() < observed.sum()


@pytest.mark.parametrize("model", ["default", "bare_network", "paper"])
def test_the_reference_predicts_what_the_library_predicts(model: str) -> None:
    shape = data.Shape(60, DIMS, C, data.SMALL_NETWORK)
    views, Y = data.random_data(shape)
    fitted = data.make_model(model, "cpu", shape, max_epochs=1, precision="float64")
    fitted.fit(views, Y)
    weights = {k: v.clone() for k, v in fitted.network_.state_dict().items()}
    reference = scsd_reference.from_weights(DIMS, C, fitted.settings_, weights).eval()
    views = views[:30]  # one batch: the published model answers batch by batch
    scaled = [
        fitted.scaler_.apply(v, views.rows(name), views.observed[:, v])
        for v, name in enumerate(views.names)
    ]
    observed = torch.from_numpy(views.observed.copy())
    found = reference.predict([torch.from_numpy(x).double() for x in scaled], observed)
    torch.testing.assert_close(
        found, torch.from_numpy(fitted.predict_proba(views)), rtol=1e-6, atol=1e-6
    )


def test_settings_are_those_of_the_paper_profile() -> None:
    """The reference names its settings as the library does, with the published values."""
    ours = data.make_model("paper", "cpu")._resolve(260)
    for field in fields(scsd_reference.Settings):
        assert getattr(ours, field.name) == field.default, field.name


def test_label_correlation_is_that_of_the_library() -> None:
    labels = batch(torch.float64)[2]
    torch.testing.assert_close(scsd_reference.correlation(labels), label_correlation(labels))


def test_the_reference_learns() -> None:
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    labels = (torch.rand(400, 4, generator=generator) > 0.5).float()
    mix = [torch.randn(4, d, generator=generator) for d in (12, 8)]
    views = [labels @ m + 0.3 * torch.randn(400, m.shape[1], generator=generator) for m in mix]
    small = scsd_reference.Settings(hidden=(32,), embedding=32, codebook_size=64)
    everything = torch.ones(400, 2, dtype=torch.bool)
    network = scsd_reference.fit(
        [x[:300] for x in views], everything[:300], labels[:300], small, 30
    )
    with torch.no_grad():
        found = network.predict([x[300:] for x in views], everything[300:])
    right = ((found > 0.5) == (labels[300:] > 0.5)).float().mean()
    assert right > 0.75  # chance has one half
