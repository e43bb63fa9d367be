"""A graph whose nodes are the views of samples: its nodes, and one layer of attention along it.

A node is joined to its nearest neighbours in the same view and to the other views of its sample.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from viewgap.nn.dropout import Dropout
from viewgap.nn.linear import make_linear
from viewgap.nn.neighbours import NONE, nearest_rows

_SLOPE = 0.2  # of the leaky ReLU of attention scores
_FAR = -1e9


def attention(own: Tensor, others: Tensor, exists: Tensor) -> Tensor:
    """Weights of others: softmax of leaky_relu(own + other) over those that exist, else 0.

    Shape: own (...), others and exists (..., k) -> (..., k).
    """
    scores = F.leaky_relu(own.unsqueeze(-1) + others, _SLOPE).masked_fill(~exists, _FAR)
    return scores.softmax(dim=-1) * exists


class NodeLayer(nn.Module):
    """One layer: h ← h + relu(Θ [h ‖ neighbours in the view ‖ other views of the sample]).

    With z = U h, both are weighted means of z: Σ_j softmax_j(leaky_relu(a·z_i + b·z_j)) z_j, with
    a and b of their own for neighbours and for views. Zero where there is no other node. Dropout
    on what is added to h. All views have the same weights.
    """

    def __init__(self, size: int, dropout: float, generator: torch.Generator) -> None:
        super().__init__()
        self.message = make_linear(size, size, generator)
        self.update = make_linear(3 * size, size, generator)
        self.neighbour_scores = nn.Parameter(torch.empty(2, size))
        self.view_scores = nn.Parameter(torch.empty(2, size))
        bound = math.sqrt(6.0 / (2 * size + 1))  # Xavier's start of a vector of both halves
        with torch.no_grad():
            for scores in (self.neighbour_scores, self.view_scores):
                scores.uniform_(-bound, bound, generator=generator)
        self.dropout = Dropout(dropout)

    def forward(
        self, h: Tensor, z: Tensor, neighbours: Tensor, exists: Tensor, present: Tensor
    ) -> Tensor:
        """Shape: h and z (m, B, F), neighbours (m, B, k, F), exists (m, B, k), present (B, m)."""
        own, other = self.neighbour_scores
        weight = attention(z @ own, neighbours @ other, exists)
        near = (weight.unsqueeze(-1) * neighbours).sum(dim=2)
        parts = torch.cat([h, near, self._from_views(z, present)], dim=-1)
        added: Tensor = self.dropout(torch.relu(self.update(parts)))
        return h + added

    def _from_views(self, z: Tensor, present: Tensor) -> Tensor:
        own, other = self.view_scores
        another = ~torch.eye(len(z), dtype=torch.bool, device=z.device).unsqueeze(1)
        weight = attention(z @ own, (z @ other).T.unsqueeze(0), another & present)
        return torch.einsum("vbu,ubf->vbf", weight, z)


class ViewNodes(nn.Module):
    """The training rows that have a view: their columns, and U h of every layer.

    In training the columns are no part of the state: they do not change, and would be copied with
    every best epoch. `keep` makes them one.

    Shape: features (n, d), messages (layers, n, F).
    """

    features: Tensor
    messages: Tensor

    def __init__(self, columns: int, layers: int, size: int) -> None:
        super().__init__()
        self._sizes = (columns, layers, size)
        self.allocate(0)

    def allocate(self, rows: int) -> None:
        """Make room for this many rows."""
        columns, layers, size = self._sizes
        self.register_buffer("features", torch.zeros(rows, columns))
        self.register_buffer("messages", torch.zeros(layers, rows, size))

    def set_features(self, features: Tensor) -> None:
        """Take the rows of a fit."""
        _, layers, size = self._sizes
        self.register_buffer("features", features, persistent=False)
        self.register_buffer("messages", features.new_zeros(layers, len(features), size))

    def keep(self) -> None:
        """Make the columns a part of the state."""
        self.register_buffer("features", self.features)

    def __len__(self) -> int:
        return len(self.features)


@dataclass(frozen=True, eq=False)
class TrainingGraph:
    """Which row of the training data every node is, and its neighbours.

    `rows[v]` (n_v,): row numbers of the nodes of view v. `neighbours` (m, n + 1, k): nodes of the
    same view that are nearest to the row, `NONE` where there are none; the last row has none,
    and stands for what only fills a batch up. `present` (n + 1, m): rows that are nodes.
    """

    rows: list[Tensor]
    neighbours: Tensor
    present: Tensor

    @classmethod
    def build(
        cls, nodes: Sequence[ViewNodes], rows: list[Tensor], n: int, count: int
    ) -> TrainingGraph:
        """Search the `count` nearest other nodes of every node."""
        device = rows[0].device
        neighbours = torch.full((len(nodes), n + 1, count), NONE, device=device)
        present = torch.zeros(n + 1, len(nodes), dtype=torch.bool, device=device)
        for v, (own, numbers) in enumerate(zip(nodes, rows, strict=True)):
            itself = torch.arange(len(own), device=device)
            neighbours[v, numbers] = nearest_rows(own.features, own.features, count, itself)
            present[numbers, v] = True
        return cls(rows, neighbours, present)

    def __len__(self) -> int:
        return len(self.present) - 1

    def __deepcopy__(self, memo: dict[int, object]) -> TrainingGraph:
        """Nothing of it changes: a copied network has the same one."""
        return self
