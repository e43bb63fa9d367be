"""SIMM against loops written from the equations, one number at a time."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

from small_batches import (
    DIMS,
    B,
    C,
    draw,
    make_batch,
    make_source,
    normal,
)
from small_networks import SIMM, forms, make_network
from viewgap.methods.simm import (
    SIMMNetwork,
    confusion_loss,
    orthogonality_loss,
    shared_label_loss,
)

M, K = len(DIMS), 4
SETTINGS = {"masked": SIMM, "filled": replace(SIMM, incomplete="filled")}
CASES = [(i, f) for i in SETTINGS for f in forms(i)]


def weights() -> Tensor:
    """Which rows of the views count; nobody has the last view."""
    counts = (draw(M, B, seed=3) > 0.4).double()
    counts[2] = 0.0
    return counts


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def cross_entropy(logit: float, label: float) -> float:
    return -math.log(sigmoid(logit) if label else 1 - sigmoid(logit))


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def naive_confusion(logits: Tensor, counts: Tensor) -> float:
    of_views = []
    for v in range(M):
        rows = [i for i in range(B) if counts[v, i]]
        total = [sum(math.exp(x) for x in logits[v, i].tolist()) for i in rows]
        errors = [
            -math.log(math.exp(logits[v, i, v]) / t) for i, t in zip(rows, total, strict=True)
        ]
        of_views += [mean(errors)] if rows else []
    return math.exp(-mean(of_views))


def naive_shared_labels(logits: Tensor, labels: Tensor, known: Tensor, counts: Tensor) -> float:
    of_views = []
    for v in range(M):
        entries = [
            cross_entropy(float(logits[v, i, j]), float(labels[i, j]))
            for i in range(B)
            for j in range(C)
            if counts[v, i] and known[i, j]
        ]
        of_views += [mean(entries)] if entries else []
    return mean(of_views)


def naive_orthogonality(private: Tensor, shared: Tensor, counts: Tensor) -> float:
    of_views = []
    for v in range(M):
        rows = [i for i in range(B) if counts[v, i]]
        products = [
            abs(sum(float(private[v, i, d] * shared[i, d]) for d in range(K))) for i in rows
        ]
        of_views += [mean(products)] if rows else []
    return mean(of_views)


def test_confusion() -> None:
    logits, counts = normal(M, B, M), weights()
    found = confusion_loss(logits, counts)
    assert float(found) == pytest.approx(naive_confusion(logits, counts), rel=1e-12)
    assert gradcheck(lambda x: confusion_loss(x, counts), (logits.requires_grad_(),))


def test_labels_from_shared_codes() -> None:
    logits, counts = normal(M, B, C), weights()
    labels, known = (draw(B, C, seed=1) > 0.6).double(), (draw(B, C, seed=2) > 0.3).double()
    rest = (labels, known, counts)
    found = shared_label_loss(logits, *rest)
    assert float(found) == pytest.approx(naive_shared_labels(logits, *rest), rel=1e-12)
    assert gradcheck(lambda x: shared_label_loss(x, *rest), (logits.requires_grad_(),))


def test_orthogonality() -> None:
    private, shared, counts = normal(M, B, K), normal(B, K, seed=1), weights()
    found = orthogonality_loss(private, shared, counts)
    assert float(found) == pytest.approx(naive_orthogonality(private, shared, counts), rel=1e-12)
    pair = (private.requires_grad_(), shared.requires_grad_())
    assert gradcheck(lambda a, b: orthogonality_loss(a, b, counts), pair)


def linear(layer: torch.nn.Linear, x: Tensor) -> Tensor:
    return layer.weight.detach() @ x + layer.bias.detach()


def naive_terms(network: SIMMNetwork, incomplete: str) -> tuple[dict[str, float], Tensor]:
    """Every term of the loss, and the logits, from one entry to the next."""
    source = make_source()
    batch = make_batch("dense", source)
    filled = incomplete == "filled"
    present = torch.ones(B, M, dtype=torch.bool) if filled else batch.observed
    some = batch.label_mask.any(dim=1, keepdim=True)
    known = some.double().expand(B, C) if filled else batch.label_mask
    private, of_views = torch.zeros(M, B, K).double(), torch.zeros(M, B, K).double()
    for v in range(M):
        for i in range(B):
            x = batch.views[v][i] if batch.observed[i, v] else torch.zeros(DIMS[v]).double()
            private[v, i] = linear(network.private[v], x).clamp(min=0)
            of_views[v, i] = linear(
                network.shared, linear(network.before_shared[v], x).clamp(min=0)
            )
    logits, shared = torch.zeros(B, C).double(), torch.zeros(B, K).double()
    for i in range(B):
        has = [v for v in range(M) if present[i, v]]
        shared[i] = sum(of_views[v, i] for v in has) / len(has)
        alone = [private[v, i] if v in has else network.missing[v].detach() for v in range(M)]
        logits[i] = linear(network.classifier, torch.cat([*alone, shared[i]]))
    counts = present.T.double()
    guesses = torch.stack(
        [torch.stack([linear(network.discriminator, x) for x in of_view]) for of_view in of_views]
    )
    predicted = torch.stack(
        [torch.stack([linear(network.shared_classifier, x) for x in view]) for view in of_views]
    )
    labels = batch.labels * batch.label_mask
    entries = [
        cross_entropy(float(logits[i, j]), float(labels[i, j]))
        for i in range(B)
        for j in range(C)
        if known[i, j]
    ]
    terms = {
        "classification": mean(entries),
        "confusion": 0.3 * naive_confusion(guesses, counts),
        "shared_labels": 0.3 * naive_shared_labels(predicted, labels, known, counts),
        "orthogonality": 0.2 * naive_orthogonality(private, shared, counts),
    }
    return terms, logits


@pytest.mark.parametrize(("incomplete", "form"), CASES)
def test_every_term_and_answer(incomplete: str, form: str) -> None:
    network = make_network(SETTINGS[incomplete])
    batch = make_batch(form, make_source(), layout=network.layout)
    expected, logits = naive_terms(network, incomplete)
    found = network.loss_terms(batch)
    assert {k: float(v.detach()) for k, v in found.items()} == pytest.approx(expected, rel=1e-10)
    with torch.no_grad():
        answers = network.eval().predict_batch(batch)[:B]
    torch.testing.assert_close(answers, logits.sigmoid(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("incomplete", SETTINGS)
def test_gradient_of_the_loss(incomplete: str) -> None:
    network = make_network(SETTINGS[incomplete])
    batch = make_batch(network.layout.rows, make_source())

    def loss(*_: Tensor) -> Tensor:
        return torch.stack(list(network.loss_terms(batch).values())).sum()

    assert gradcheck(loss, tuple(network.parameters()), fast_mode=True)
