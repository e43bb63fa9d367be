"""D-VSM against a graph walked node by node."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

from small_batches import (
    DIMS,
    B,
    C,
    make_batch,
    make_source,
    normal,
)
from small_networks import DVSM, forms, make_network
from viewgap.methods.dvsm import DVSMNetwork
from viewgap.nn.node_graph import NodeLayer

M, K, NEAR = len(DIMS), 4, 3
SETTINGS = {"masked": DVSM, "filled": replace(DVSM, incomplete="filled")}
CASES = [(i, f) for i in SETTINGS for f in forms(i)]
EVERY = np.arange(B)


class NaiveGraph:
    """Every node (v, i) with its columns; states and messages by recursion over the layers."""

    def __init__(self, network: DVSMNetwork, source: Any, filled: bool, rows: Any = EVERY) -> None:
        batch = make_batch("dense", source)
        self.network = network
        self.columns = {
            (v, i): batch.views[v][i] if batch.observed[i, v] else torch.zeros(DIMS[v]).double()
            for v in range(M)
            for i in range(B)
            if filled or batch.observed[i, v]
        }
        self.training = {node for node in self.columns if node[1] in rows}

    def neighbours(self, v: int, i: int) -> list[int]:
        others = [j for u, j in self.training if u == v and j != i]
        here = self.columns[v, i]
        return sorted(others, key=lambda j: (float((here - self.columns[v, j]).norm()), j))[:NEAR]

    def state(self, v: int, i: int, layer: int) -> Tensor:
        """h of a node after so many layers."""
        if layer == 0:
            embed = self.network.embed[v]
            return (embed.weight @ self.columns[v, i] + embed.bias).clamp(min=0)
        own, before = self.network.layers[layer - 1], self.state(v, i, layer - 1)
        z = self.message(v, i, layer)
        near = [self.message(v, j, layer) for j in self.neighbours(v, i)]
        views = [self.message(u, i, layer) for u in range(M) if u != v and (u, i) in self.columns]
        parts = [before, mixed(z, near, own.neighbour_scores), mixed(z, views, own.view_scores)]
        return before + (own.update.weight @ torch.cat(parts) + own.update.bias).clamp(min=0)

    def message(self, v: int, i: int, layer: int) -> Tensor:
        own = self.network.layers[layer - 1].message
        return own.weight @ self.state(v, i, layer - 1) + own.bias

    def logits(self, i: int) -> Tensor:
        last = [self.state(v, i, 2) for v in range(M) if (v, i) in self.columns]
        classifier = self.network.classifier
        of_views = [classifier.weight @ h + classifier.bias for h in last]
        return sum(of_views, torch.zeros(C).double()) / len(of_views)


def mixed(z: Tensor, others: list[Tensor], scores: Tensor) -> Tensor:
    """Σ_j softmax_j(leaky(a·z + b·z_j)) z_j."""
    raw = [float(scores[0] @ z + scores[1] @ other) for other in others]
    powers = [math.exp(e if e > 0 else 0.2 * e) for e in raw]
    parts = [p / sum(powers) * other for p, other in zip(powers, others, strict=True)]
    return sum(parts, torch.zeros(K).double())


@pytest.mark.parametrize(("incomplete", "form"), CASES)
@torch.no_grad()
def test_loss_on_the_full_graph(incomplete: str, form: str) -> None:
    """A missing view is no node of its sample, and nobody's neighbour."""
    source = make_source()
    network = make_network(SETTINGS[incomplete], source)
    batch = make_batch(form, source, layout=network.layout)
    graph = NaiveGraph(network, source, incomplete == "filled")
    total, count = 0.0, 0
    for i in range(B):
        probabilities = graph.logits(i).sigmoid()
        for j in range(C):
            filled_in = incomplete == "filled" and batch.label_mask[i].any()
            if filled_in or batch.label_mask[i, j]:
                is_there = bool(batch.labels[i, j] * batch.label_mask[i, j])
                total -= math.log(probabilities[j] if is_there else 1 - probabilities[j])
                count += 1
    for _ in range(2):  # a full batch needs nothing that was kept
        found = float(network.loss_terms(batch)["classification"])
        assert found == pytest.approx(total / count, rel=1e-9)
        for nodes in network.nodes:
            nodes.messages.zero_()


@pytest.mark.parametrize("incomplete", SETTINGS)
@torch.no_grad()
def test_what_nodes_of_training_tell(incomplete: str) -> None:
    source = make_source()
    network = make_network(SETTINGS[incomplete], source)
    graph = NaiveGraph(network, source, incomplete == "filled")
    for v, (nodes, rows) in enumerate(zip(network.nodes, network.graph.rows, strict=True)):
        assert {(v, i) for i in rows.tolist()} == {node for node in graph.training if node[0] == v}
        for node, i in enumerate(rows.tolist()):
            for layer in (1, 2):
                torch.testing.assert_close(
                    nodes.messages[layer - 1, node], graph.message(v, i, layer)
                )


@pytest.mark.parametrize("incomplete", SETTINGS)
@torch.no_grad()
def test_answers_to_rows_that_were_not_trained_on(incomplete: str) -> None:
    source, trained_on = make_source(), np.arange(0, B, 2)
    network = make_network(SETTINGS[incomplete], source, trained_on).eval()
    graph = NaiveGraph(network, source, incomplete == "filled", trained_on)
    new = torch.tensor([1, 3, 5])
    found = network.predict_batch(make_batch("dense", source, new))
    expected = torch.stack([graph.logits(i).sigmoid() for i in new.tolist()])
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("incomplete", SETTINGS)
@torch.no_grad()
def test_a_part_of_the_rows_is_computed_as_in_the_full_graph(incomplete: str) -> None:
    """Neighbours outside of the batch are as they were, which with the same weights is as now."""
    source, rows = make_source(), torch.tensor([7, 0, 4, 2])
    network = make_network(SETTINGS[incomplete], source)
    graph = NaiveGraph(network, source, incomplete == "filled")
    batch = make_batch(network.layout.rows, source, rows)
    h = network.stack(batch, [network._embed(v, batch.views[v]) for v in range(M)])
    found = network.logits(h, network._near(batch), network.present(batch))
    expected = torch.stack([graph.logits(i) for i in rows.tolist()])
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("rows", [None, torch.tensor([7, 0, 4, 2])], ids=["all", "some"])
def test_gradient_of_the_loss(rows: Tensor | None) -> None:
    source = make_source()
    network = make_network(DVSM, source)
    batch = make_batch("packed", source, rows)

    def loss(*_: Tensor) -> Tensor:
        return network.loss_terms(batch)["classification"]

    assert gradcheck(loss, tuple(network.parameters()), fast_mode=True)


def test_gradient_of_a_layer() -> None:
    layer = NodeLayer(K, 0.0, torch.Generator().manual_seed(0)).double()
    exists = torch.tensor([[True, True], [True, False], [False, False]]).unsqueeze(0)
    present = torch.tensor([[True, True], [True, False], [False, True]])
    values = [normal(2, 3, K), normal(2, 3, K, seed=1), normal(2, 3, 2, K, seed=2)]
    arguments = tuple(value.requires_grad_() for value in values)
    assert gradcheck(lambda *x: layer(*x, exists.expand(2, 3, 2), present), arguments)
