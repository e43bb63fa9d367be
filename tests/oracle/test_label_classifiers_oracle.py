"""Classifiers that know the label graph, against loops over plain numbers."""

import math
from dataclasses import replace
from itertools import product

import pytest
import torch
from torch import Tensor

from small_batches import DIMS, B, C, assert_forms_agree, draw, make_batch, make_source, normal
from viewgap.methods.scsd.network import SCSDNetwork
from viewgap.methods.scsd.settings import PROFILES
from viewgap.nn.label_classifiers import (
    LabelGraphClassifier,
    LabelSpecificClassifier,
    make_classifier,
)
from viewgap.nn.label_graph import reweighted_graph, symmetric_graph

INPUTS, N = 3, 14
KINDS = ("label_graph", "label_specific")


def positives() -> Tensor:
    labels = (draw(N, C, seed=5) > 0.45).double()
    labels[:, 3] = 0.0  # a label that nobody has
    return labels


def conditional(rows: list[list[float]]) -> dict[tuple[int, int], float]:
    found = {}
    for i, j in product(range(C), repeat=2):
        mine = [row for row in rows if row[i]]
        found[i, j] = sum(row[j] for row in mine) / len(mine) if mine else 0.0
    return found


def matrix(values: dict[tuple[int, int], float]) -> list[list[float]]:
    return [[values[i, j] for j in range(C)] for i in range(C)]


def naive_reweighted(threshold: float) -> list[list[float]]:
    p = conditional(positives().tolist())
    near = {(i, j): float(i != j and p[i, j] >= threshold) for i, j in p}
    a = {}
    for i, j in near:
        neighbours = sum(near[k, j] for k in range(C))
        a[i, j] = float(i == j) + (0.25 * near[i, j] / neighbours if neighbours else 0.0)
    d = [sum(a[i, j] for j in range(C)) for i in range(C)]
    return matrix({(i, j): a[j, i] / math.sqrt(d[i] * d[j]) for i, j in a})


def naive_symmetric() -> list[list[float]]:
    p = conditional(positives().tolist())
    return matrix({(i, j): (p[i, j] + p[j, i]) / 2 if i != j else 0.0 for i, j in p})


@pytest.mark.parametrize("threshold", [0.2, 0.4, 0.6])
def test_graph_of_ml_gcn(threshold: float) -> None:
    found = reweighted_graph(positives(), threshold)
    expected = torch.tensor(naive_reweighted(threshold), dtype=torch.float64)
    torch.testing.assert_close(found, expected)
    assert found[3].tolist() == [0.0, 0.0, 0.0, 1.0]


def test_graph_of_clif() -> None:
    expected = torch.tensor(naive_symmetric(), dtype=torch.float64)
    torch.testing.assert_close(symmetric_graph(positives()), expected)


# ------------------------------------------------------------------ naive layers

Rows = list[list[float]]


def product_of(a: Rows, b: Rows) -> Rows:
    return [[sum(x * b[k][j] for k, x in enumerate(row)) for j in range(len(b[0]))] for row in a]


def leaky(rows: Rows, slope: float) -> Rows:
    return [[x if x > 0 else slope * x for x in row] for row in rows]


def added(a: list[float], b: list[float]) -> list[float]:
    return [x + y for x, y in zip(a, b, strict=True)]


def through(layer: torch.nn.Module, rows: Rows) -> Rows:
    weight, bias = layer.weight.tolist(), layer.bias.tolist()
    transposed = list(map(list, zip(*weight, strict=True)))
    return [added(row, bias) for row in product_of(rows, transposed)]


def make(kind: str) -> LabelGraphClassifier | LabelSpecificClassifier:
    layer = make_classifier(kind, INPUTS, C, torch.Generator().manual_seed(1)).double()
    assert isinstance(layer, LabelGraphClassifier | LabelSpecificClassifier)
    layer.prepare(positives())
    return layer


def test_label_graph_classifier() -> None:
    layer, x = make("label_graph"), normal(5, INPUTS, seed=2)
    graph = naive_reweighted(0.4)
    hidden = product_of(layer.labels.tolist(), layer.first.tolist())
    hidden = leaky(product_of(graph, hidden), 0.2)
    weights = product_of(graph, product_of(hidden, layer.second.tolist()))
    expected = product_of(x.tolist(), list(map(list, zip(*weights, strict=True))))
    torch.testing.assert_close(layer(x).tolist(), expected)


def test_label_specific_classifier() -> None:
    layer, x = make("label_specific"), normal(5, INPUTS, seed=2)
    graph, vectors = naive_symmetric(), layer.labels.tolist()
    for first, second in (layer.rounds[:2], layer.rounds[2:]):
        around = product_of(graph, vectors)
        both = list(map(added, vectors, around))
        vectors = through(second, leaky(through(first, both), 0.1))
    gate = [[1 / (1 + math.exp(-s)) for s in row] for row in through(layer.gate, vectors)]
    features = through(layer.features, x.tolist())
    found = layer(x)
    for i, j in product(range(5), range(C)):
        selected = [a * b for a, b in zip(features[i], gate[j], strict=True)]
        own = leaky(through(layer.block, [selected]), 0.1)[0]
        weight, bias = layer.output.weight[j].tolist(), layer.output.bias.tolist()[j]
        expected = sum(a * b for a, b in zip(own, weight, strict=True)) + bias
        assert found.tolist()[i][j] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_gradcheck(kind: str) -> None:
    layer, x = make(kind), normal(4, INPUTS, seed=2).requires_grad_()
    assert torch.autograd.gradcheck(layer, (x,))
    layer(x).sum().backward()
    assert all(parameter.grad is not None for parameter in layer.parameters())


@pytest.mark.parametrize("kind", KINDS)
def test_network_with_such_classifiers(kind: str) -> None:
    """Every form of a batch gives the same; a row is predicted as in training."""
    sizes = {"hidden": (8,), "embedding": 8, "codebook_size": 11, "classifier": kind}
    settings = replace(PROFILES["paper"](C), **sizes)
    source = make_source()
    networks = [
        SCSDNetwork(DIMS, C, settings, torch.Generator().manual_seed(0)).double() for _ in range(2)
    ]
    layout = networks[0].layout
    batches = [make_batch(form, source, None, layout) for form in ("dense", "packed fixed")]
    for network in networks:
        for layer in network.classifiers:
            layer.prepare(source.labels)
    assert_forms_agree(networks, batches, steps=2, gradients=(1e-8, 1e-10))
    network = networks[0].eval()
    with torch.no_grad():
        together = network.predict_views_of(batches[0])
        alone = network.encode_rows(1, draw(B, DIMS[1], seed=3), B)
    seen = batches[0].observed[:, 1]
    torch.testing.assert_close(together[1][seen], alone[seen])
