"""The losses of SIP and DRLS against loops written from the equations, one number at a time."""

import math

import pytest
import torch
from torch.nn import functional as F

from small_batches import (
    DIMS,
    FORMS,
    B,
    C,
    draw,
    in_rows,
    naive_kl,
    normal,
)
from small_networks import (
    DRLS,
    SIP,
    VARIANTS,
    forms,
    make_batch,
    make_network,
    make_source,
)
from viewgap.methods.drls import topology_loss
from viewgap.methods.networks.autoencoders import fused_reconstruction, information_losses
from viewgap.methods.sip import prototype_loss

K = SIP.embedding
CASES = [(name, form) for name in VARIANTS if "drls" in name for form in forms(name)]


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
    network, other = (make_network(VARIANTS["sip, all rows"]) for _ in range(2))
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
@pytest.mark.parametrize(("name", "form"), CASES)
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


@pytest.mark.parametrize(("name", "form"), CASES)
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
