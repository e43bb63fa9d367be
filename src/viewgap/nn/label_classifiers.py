"""Classifiers of a representation that know which labels come together."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from viewgap.nn.label_graph import reweighted_graph, symmetric_graph
from viewgap.nn.linear import Linear, make_linear

_LABEL_VECTOR = 300  # numbers, as the word vectors that ML-GCN starts from


class LabelGraphClassifier(nn.Module):
    """One linear classifier per label, made from all labels by two graph convolutions (ML-GCN).

    Scores x·w_j with w = A leaky_relu(A E U) V: E (c, 300) learned vectors of the labels, A their
    `reweighted_graph` (Chen et al.: Multi-Label Image Recognition with GCN, CVPR 2019, where E are
    word vectors).

    Shape: (R, inputs) -> (R, c).
    """

    graph: Tensor

    def __init__(self, inputs: int, n_labels: int, generator: torch.Generator) -> None:
        super().__init__()
        hidden = max(1, inputs // 2)
        self.labels = nn.Parameter(torch.randn(n_labels, _LABEL_VECTOR, generator=generator))
        self.first = _weights(_LABEL_VECTOR, hidden, generator)
        self.second = _weights(hidden, inputs, generator)
        self.register_buffer("graph", torch.eye(n_labels))

    def prepare(self, positives: Tensor) -> None:
        """Take the graph from the observed positives (n, c) of the training rows."""
        self.graph.copy_(reweighted_graph(positives))

    def label_weights(self) -> Tensor:
        """The classifiers of all labels, (c, inputs)."""
        hidden = F.leaky_relu(self.graph @ (self.labels @ self.first), 0.2)
        return self.graph @ (hidden @ self.second)

    def forward(self, x: Tensor) -> Tensor:
        """Scores of every label, before the sigmoid."""
        return x @ self.label_weights().T


class LabelSpecificClassifier(nn.Module):
    """A linear classifier per label on features that are selected for it (CLIF).

    Label vectors e exchange along the `symmetric_graph` A of the labels in two rounds, e ← MLP(e +
    A e), and select features, f_j = leaky_relu(V (W x ∘ σ(U e_j)) + b); the score is f_j·w_j + b_j
    (Hang, Zhang: Collaborative Learning of Label Semantics and Deep Label-Specific Features, TPAMI
    2022; without its loss of the label vectors).

    Shape: (R, inputs) -> (R, c). It makes (R, c, inputs) numbers.
    """

    graph: Tensor

    def __init__(self, inputs: int, n_labels: int, generator: torch.Generator) -> None:
        super().__init__()
        self.labels = nn.Parameter(torch.randn(n_labels, inputs, generator=generator))
        rounds = [make_linear(inputs, inputs, generator) for _ in range(4)]
        self.rounds = nn.ModuleList(rounds)
        self.features = make_linear(inputs, inputs, generator)
        self.gate = make_linear(inputs, inputs, generator)
        self.block = make_linear(inputs, inputs, generator)
        self.output = make_linear(inputs, n_labels, generator)
        self.register_buffer("graph", torch.zeros(n_labels, n_labels))

    def prepare(self, positives: Tensor) -> None:
        """Take the graph from the observed positives (n, c) of the training rows."""
        self.graph.copy_(symmetric_graph(positives))

    def label_vectors(self) -> Tensor:
        """Vectors of the labels after two rounds, (c, inputs)."""
        vectors: Tensor = self.labels
        for first, second in (self.rounds[:2], self.rounds[2:]):
            vectors = second(F.leaky_relu(first(vectors + self.graph @ vectors), 0.1))
        return vectors

    def forward(self, x: Tensor) -> Tensor:
        """Scores of every label, before the sigmoid."""
        gate = torch.sigmoid(self.gate(self.label_vectors()))
        selected = self.block(self.features(x).unsqueeze(1) * gate)
        specific = F.leaky_relu(selected, 0.1) * self.output.weight
        return specific.sum(dim=-1) + self.output.bias


LabelClassifier = Linear | LabelGraphClassifier | LabelSpecificClassifier


def make_classifier(
    kind: str, inputs: int, n_labels: int, generator: torch.Generator
) -> LabelClassifier:
    """A classifier: `"linear"`, `"label_graph"` or `"label_specific"`."""
    if kind == "label_graph":
        return LabelGraphClassifier(inputs, n_labels, generator)
    if kind == "label_specific":
        return LabelSpecificClassifier(inputs, n_labels, generator)
    return make_linear(inputs, n_labels, generator)


def _weights(inputs: int, outputs: int, generator: torch.Generator) -> nn.Parameter:
    bound = 1.0 / math.sqrt(outputs)
    drawn = torch.empty(inputs, outputs).uniform_(-bound, bound, generator=generator)
    return nn.Parameter(drawn)
