"""The losses of SIP and DRLS against loops written from the equations, one number at a time."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import small_batches
from small_batches import (
    FORMS,
    B,
    C,
    assert_finite,
    assert_forms_agree,
    draw,
    in_rows,
    naive_kl,
    normal,
)
from viewgap.methods._autoencoders import fused_reconstruction, information_losses
from viewgap.methods.drls import DRLSNetwork, DRLSSettings, topology_loss
from viewgap.methods.sip import SIPNetwork, SIPSettings, prototype_loss
from viewgap.nn.label_graph import conditional_labels
from viewgap.nn.losses import masked_bce
from viewgap.training.batches import Batch, BatchSource, batches_of_epoch
from viewgap.training.fit_state import FitState
from viewgap.training.network import RowwiseNetwork
from viewgap.training.settings import DeepSettings
from viewgap.training.steps import PlainSteps, ReplayedSteps, make_optimiser

K, DIMS = 6, (5, 3, 7)
SIZES = {"embedding": K, "hidden": (8,), "batch_size": 4}
SIP, SIP_ALL = SIPSettings(**SIZES), SIPSettings(**SIZES, norm_rows="all")
DRLS, DRLS_ALL = DRLSSettings(**SIZES), DRLSSettings(**SIZES, norm_rows="all")
VARIANTS: dict[str, DeepSettings] = {
    "sip": SIP,
    "sip, all rows": SIP_ALL,
    "drls": DRLS,
    "drls, all rows": DRLS_ALL,
    "drls, hidden views": replace(DRLS, view_dropout=0.5),
}
# Rows of missing views count where "all" do: they have to be there, one by one.
CASES = [
    (name, form)
    for name, settings in VARIANTS.items()
    for form in FORMS
    if "dense" in form or settings.norm_rows == "observed"
]


def make_source(observed: Tensor | None = None) -> BatchSource:
    return small_batches.make_source(observed, dims=DIMS, without_positive=[2])


def make_network(settings: DeepSettings, seed: int = 0) -> Any:
    """In double precision, every code its mean: draws of another shape are other draws."""
    generator = torch.Generator().manual_seed(seed)
    kind: Callable[..., Any] = SIPNetwork if isinstance(settings, SIPSettings) else DRLSNetwork
    network = kind(DIMS, C, settings, generator).double()
    network.draw.scale = 0.0
    network.use_noise(torch.Generator().manual_seed(5))
    if isinstance(network, DRLSNetwork):
        graph = conditional_labels((draw(B, C, seed=9) > 0.6).double())
        network.label_graph.copy_(graph.fill_diagonal_(0.0))
    return network


def make_batch(
    form: str,
    network: RowwiseNetwork,
    source: BatchSource | None = None,
    rows: Tensor | None = None,
) -> Batch:
    return small_batches.make_batch(form, source or make_source(), rows, network.layout)


# ---------------------------------------------------------------------- SIP


def test_classifier_of_sip_is_a_grouped_convolution() -> None:
    network = make_network(SIP)
    z, labels = normal(B, K), normal(C, K, seed=1)
    both = torch.cat([z.unsqueeze(1).expand(B, C, K), labels.expand(B, C, K)], dim=-1)
    weight, bias = network.classifier.weight.unsqueeze(1), network.classifier.bias
    expected = torch.sigmoid(F.conv1d(both, weight, bias, groups=C)).squeeze(-1)
    torch.testing.assert_close(network.classify(z, labels), expected)


@pytest.mark.parametrize("form", FORMS)
def test_prototype_loss(form: str) -> None:
    batch = make_batch(form, make_network(SIP))
    z, labels = normal(len(batch), K), normal(C, K, seed=1)
    expected = 0.0
    for i in range(B):
        has = [j for j in range(C) if batch.labels[i, j] * batch.label_mask[i, j] == 1]
        for d in range(K):
            centre = sum(float(labels[j, d]) for j in has) / (len(has) + 1e-9)
            expected += (float(z[i, d]) - centre) ** 2 / (B * K)
    assert not (batch.labels * batch.label_mask)[2].any()
    assert float(prototype_loss(batch, z, labels)) == pytest.approx(expected, rel=1e-9)
    pair = (z.requires_grad_(), labels.requires_grad_())
    assert torch.autograd.gradcheck(lambda a, b: prototype_loss(batch, a, b), pair)


@pytest.mark.parametrize("form", FORMS)
def test_reconstruction_of_sip(form: str) -> None:
    """With frozen normalisation a decoder works row by row, so rows can be walked singly."""
    network = make_network(SIP).eval()
    batch = make_batch(form, network)
    z = normal(len(batch), K)
    expected = 0.0
    for v, dim in enumerate(DIMS):
        for i in range(B):
            if batch.observed[i, v]:
                rebuilt = network.decoders[v](z[i : i + 1])[0].tolist()
                truth = draw(B, dim, seed=2 + v)[i].tolist()
                error = sum((a - b) ** 2 for a, b in zip(rebuilt, truth, strict=True))
                expected += error / (B * dim)
    found = fused_reconstruction(batch, network.decoders, z)
    assert float(found.detach()) == pytest.approx(expected, rel=1e-10)
    z.requires_grad_()
    decoders = network.train().decoders
    assert torch.autograd.gradcheck(lambda a: fused_reconstruction(batch, decoders, a), (z,))


def test_shared_head_is_called_once_per_view() -> None:
    """Its statistics are those of one view at a time, and move in the order of the views."""
    network, other = make_network(SIP_ALL), make_network(SIP_ALL)
    batch = make_batch("dense", network)
    found = network.encode(batch)
    for v in range(3):
        torch.testing.assert_close(found[v], other.encode_view(v, batch.views[v]))
    for a, b in zip(network.shared.buffers(), other.shared.buffers(), strict=True):
        torch.testing.assert_close(a, b)


# ---------------------------------------------------------------------- DRLS


def test_classifier_of_drls_sees_label_specific_features() -> None:
    network = make_network(DRLS)
    shared, specific, labels = normal(B, K), normal(B, K, seed=1), normal(C, K, seed=2)
    found = network.classify(shared, specific, labels)
    for i in range(B):
        both = [*shared[i].tolist(), *specific[i].tolist()]
        for j in range(C):
            gate = torch.sigmoid(network.gate(labels[j])).tolist()
            weight = network.classifier.weight[j].tolist()
            score = sum(w * f * g for w, f, g in zip(weight, both, gate, strict=True))
            score += network.classifier.bias[j].item()
            assert found[i, j].item() == pytest.approx(1 / (1 + math.exp(-score)), rel=1e-10)


def test_topology_loss() -> None:
    labels, graph = normal(C, K), draw(C, C, seed=1).fill_diagonal_(0.0)
    expected = 0.0
    for i in range(C):
        for j in range(C):
            product = sum(
                a * b for a, b in zip(labels[i].tolist(), labels[j].tolist(), strict=True)
            )
            cosine = product / float(labels[i].norm() * labels[j].norm())
            wanted = 1.0 if i == j else (float(graph[i, j]) + float(graph[j, i])) / 2
            expected += (cosine - wanted) ** 2 / C**2
    assert float(topology_loss(labels, graph)) == pytest.approx(expected, rel=1e-10)
    assert torch.autograd.gradcheck(lambda e: topology_loss(e, graph), (labels.requires_grad_(),))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "form"), [case for case in CASES if "drls" in case[0]])
def test_cross_view_reconstruction(name: str, form: str) -> None:
    """A view's own specific code with the shared code of every view that is shown."""
    network = make_network(VARIANTS[name]).eval()
    source = make_source()
    batch = make_batch(form, network, source)
    shared, specific = normal(3, len(batch), K), normal(3, len(batch), K, seed=1)
    total, count = 0.0, 0
    for i in range(B):
        for v in range(3):
            for j in range(3):
                if batch.observed[i, v] and source.observed[i, j]:
                    both = torch.cat([shared[v, i], specific[j, i]]).unsqueeze(0)
                    rebuilt = network.decoders[j](both)[0].tolist()
                    truth = draw(B, DIMS[j], seed=2 + j)[i].tolist()
                    error = sum((a - b) ** 2 for a, b in zip(rebuilt, truth, strict=True))
                    total, count = total + error / DIMS[j], count + 1
    rows = in_rows(batch, shared)
    found = network.reconstruction_loss(batch, rows, specific)
    assert float(found.detach()) == pytest.approx(total / count, rel=1e-10)
    pair = (rows.requires_grad_(), specific.requires_grad_())
    network.train()
    assert torch.autograd.gradcheck(lambda a, b: network.reconstruction_loss(batch, a, b), pair)


@pytest.mark.parametrize(("name", "form"), [case for case in CASES if "drls" in case[0]])
def test_other_terms_of_drls(name: str, form: str) -> None:
    """Information view by view, the prior over all observed cells."""
    network = make_network(VARIANTS[name])
    batch = make_batch(form, network)
    mean, variance = normal(3, len(batch), K), draw(3, len(batch), K, seed=1) + 0.1
    bounds, misfits, divergences = [], [], []
    for v in range(3):
        rows = [i for i in range(B) if batch.observed[i, v]]
        ones = torch.ones(len(rows), dtype=torch.float64)
        part, pair = network.information[v], (mean[v, rows], variance[v, rows])
        bounds.append(float(part.bound(*pair, ones)))
        misfits.append(float(part.misfit(*pair, ones).detach()))
        for i in rows:
            cells = zip(mean[v, i].tolist(), variance[v, i].tolist(), strict=True)
            divergences.append(sum(naive_kl(m, s, 0.0, 1.0) for m, s in cells) / K)
    arguments = in_rows(batch, mean), in_rows(batch, variance)
    bound, misfit = information_losses(batch, network.information, *arguments)
    assert bound.item() == pytest.approx(sum(bounds) / 3, rel=1e-9)
    assert float(misfit.detach()) == pytest.approx(sum(misfits) / 3, rel=1e-9)
    prior = network.prior_loss(batch, *arguments)
    assert float(prior) == pytest.approx(sum(divergences) / len(divergences), rel=1e-9)


# ---------------------------------------------------------------------- whole networks


@pytest.mark.parametrize("name", ["sip", "drls"])
def test_classification_is_the_masked_cross_entropy_of_the_answers(name: str) -> None:
    """Where draws do not move, training sees what prediction answers."""
    network = make_network(VARIANTS[name])
    batch = make_batch("packed", network)
    with torch.no_grad():
        found = network.loss_terms(batch)["classification"]
        other = make_network(VARIANTS[name])
        answers = other.answer(batch.stack(torch.cat(other.encode(batch))), batch.observed)
    torch.testing.assert_close(found, masked_bce(answers, batch.labels, batch.label_mask))


@pytest.mark.parametrize(("name", "form"), [case for case in CASES if case[1] != "dense"])
@pytest.mark.parametrize("rows", [None, torch.tensor([7, 0, 4, 2])], ids=["all", "some"])
def test_forms_agree(name: str, form: str, rows: Tensor | None) -> None:
    """Padding changes nothing: same terms, same gradients, same running statistics."""
    networks = [make_network(VARIANTS[name]) for _ in range(2)]
    batches = [
        make_batch(f, network, None, rows)
        for f, network in zip(("dense", form), networks, strict=True)
    ]
    assert_forms_agree(networks, batches, steps=2, gradients=(1e-8, 1e-10))


@pytest.mark.parametrize("name", ["sip", "drls"])
@pytest.mark.parametrize("form", FORMS)
def test_view_absent_from_the_batch(name: str, form: str) -> None:
    observed = draw(B, 3, seed=1) > 0.4
    observed[:, 0] = True
    observed[: B - 2, 1] = False
    observed[B - 2 :, 1] = True
    network = make_network(VARIANTS[name])
    batch = make_batch(form, network, make_source(observed), torch.arange(B - 2))
    assert not batch.observed[:, 1].any()
    assert_finite(network, batch)


@pytest.mark.parametrize("name", VARIANTS)
def test_fixed_shapes_train_the_same_network(name: str) -> None:
    """As a GPU replays them: all batches of one shape."""
    settings, results = VARIANTS[name], []
    for kind in (PlainSteps, ReplayedSteps):
        network = make_network(settings).train()
        optimiser = make_optimiser(network, settings)
        state = FitState(network, optimiser, torch.Generator().manual_seed(1), torch.Generator())
        steps: Any = kind(state, make_source(), settings)
        for _ in range(3):
            terms = steps.run([batches_of_epoch(B, 4, state.order)])
        results.append({term: float(value) for term, value in terms.items()})
    assert results[1] == pytest.approx(results[0], rel=1e-6)
