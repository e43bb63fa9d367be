"""How labels depend on each other: graphs of the observed positives, attention along them."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from viewgap.nn.dropout import Dropout
from viewgap.nn.linear import make_linear
from viewgap.nn.mlp import Trunk
from viewgap.nn.norm import SetNorm

_EPS = 1e-10
_FAR = -1e9


def conditional_labels(positives: Tensor) -> Tensor:
    """S_ij = P(j | i): the share of the samples with label i that have label j too.

    From the observed positives (n, c) of the training rows; the row of a label that no row has is
    0. Shape: (n, c) -> (c, c).
    """
    together = positives.T @ positives
    return together / (torch.diagonal(together).unsqueeze(1) + _EPS)


class GraphAttention(nn.Module):
    """One dense graph attention layer with several heads side by side.

    Head h: u_i = W_h x_i, e_ij = leaky_relu(a_h·u_i + b_h·u_j), x_i' = elu(Σ_j softmax_j(e_ij) u_j)
    over the neighbours j of i. A node without neighbours attends to all nodes alike. Dropout on x
    and on the attention.

    Shape: x (c, inputs), neighbours (c, c) bool -> (c, outputs); `heads` divides `outputs`.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        heads: int,
        dropout: float,
        slope: float,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.slope = slope
        size = outputs // heads
        self.weight = nn.Parameter(torch.empty(heads, inputs, size))
        self.source = nn.Parameter(torch.empty(heads, size, 1))
        self.target = nn.Parameter(torch.empty(heads, size, 1))
        # Xavier's start with the gain of a ReLU; source and target are halves of one vector.
        fans = {self.weight: inputs + size, self.source: 2 * size + 1, self.target: 2 * size + 1}
        with torch.no_grad():
            for parameter, fan in fans.items():
                bound = math.sqrt(12.0 / fan)
                parameter.uniform_(-bound, bound, generator=generator)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, neighbours: Tensor) -> Tensor:
        """Nodes after one exchange with their neighbours."""
        nodes = self.dropout(x) @ self.weight
        scores = nodes @ self.source + (nodes @ self.target).transpose(1, 2)
        scores = F.leaky_relu(scores, self.slope).masked_fill(~neighbours, _FAR)
        attention = self.dropout(scores.softmax(dim=-1))
        return F.elu(attention @ nodes).transpose(0, 1).flatten(1)


class LabelSemantics(nn.Module):
    """Embeddings of the labels: a learned table, and two rounds over the graph of labels.

    In every round a label adds those of the labels that occur with it. Shape: (c, c) -> (c, F).
    """

    def __init__(self, n_labels: int, size: int, generator: torch.Generator) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(n_labels, size))
        with torch.no_grad():
            self.table.normal_(generator=generator)
        self.first = Trunk(size, (size,), 0.0, generator, SetNorm)
        self.second = make_linear(size, size, generator)

    def forward(self, graph: Tensor) -> Tensor:
        """`graph`: S with zeros on its diagonal."""
        features = self.first(self.table + graph @ self.table).to(self.table.dtype)
        result: Tensor = self.second(features + graph @ features)
        return result


def reweighted_graph(positives: Tensor, threshold: float = 0.4, share: float = 0.25) -> Tensor:
    """The label graph of ML-GCN: each label listens to those that mostly come with it.

    A_ij = 1 where P(j | i) >= threshold, i ≠ j; columns scaled to sum to `share`, so that many
    neighbours do not drown a label; plus the identity; D^-½ Aᵀ D^-½ with D the row sums of A.
    Shape: observed positives (n, c) -> (c, c).
    """
    together = positives.T @ positives
    # Shares without an epsilon: two of five are 0.4.
    shares = together / torch.diagonal(together).clamp(min=1.0).unsqueeze(1)
    near = (shares >= threshold).to(positives.dtype).fill_diagonal_(0.0)
    scaled = share * near / near.sum(dim=0).clamp(min=1.0)
    graph = scaled + torch.eye(len(near), dtype=near.dtype, device=near.device)
    root = graph.sum(dim=1).rsqrt()
    return (graph * root).T * root


def symmetric_graph(positives: Tensor) -> Tensor:
    """(P(j | i) + P(i | j)) / 2, without the diagonal. Shape: (n, c) -> (c, c)."""
    conditional = conditional_labels(positives)
    return ((conditional + conditional.T) / 2).fill_diagonal_(0.0)
