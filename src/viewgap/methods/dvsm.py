"""D-VSM, reconstructed: graph attention between the views of samples and their neighbours.

Letters: view v of m, x_i^v features of sample i, h_i^v state of its node, W observed views.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar, Unpack, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from viewgap.constraints import Integer
from viewgap.methods.deep import DeepClassifier
from viewgap.methods.networks.autoencoders import mean_over_views
from viewgap.methods.networks.complete_data import CompleteDataNetwork, CompleteDataSettings
from viewgap.methods.networks.parameters import NetworkParameters
from viewgap.nn.dropout import Dropout
from viewgap.nn.linear import Linear, make_linear
from viewgap.nn.neighbours import nearest_rows
from viewgap.nn.node_graph import NodeLayer, TrainingGraph, ViewNodes
from viewgap.nn.streams import run_on_streams
from viewgap.parameters import MOST_LAYERS, Count, NonNegative, Share, Units, setting
from viewgap.search import Range
from viewgap.training.batches.batch import Batch
from viewgap.training.batches.source import BatchSource

_ROWS = 1024  # of the training data that are read or updated at once
_FULL_BATCH = 4096  # rows up to which `profile="paper"` trains on all at once


@dataclass(frozen=True, kw_only=True)
class DVSMSettings(CompleteDataSettings):
    """The settings of D-VSM. `norm_rows` changes nothing: there is no normalisation over rows."""

    embedding: Units = setting(256, "Size of a node's state.")
    neighbours: Annotated[int, Integer(1, 1000)] = setting(
        5, "Nearest training samples, within its view, that a node is joined to."
    )
    layers: Annotated[int, Integer(1, MOST_LAYERS)] = setting(2, "Layers of graph attention.")
    dropout: Share = setting(
        0.5, "Dropout on the states, and on what a layer adds to them.", Range(0, 0.7)
    )
    weight_decay: NonNegative = 1e-5
    max_epochs: Count = 200


@dataclass(frozen=True, eq=False)
class _Near:
    """Neighbours of the nodes of a batch: which nodes of their view, and whether there are any.

    `position` (m, B, k): where in the batch the neighbour is, negative if it is not there.
    """

    nodes: Tensor
    exists: Tensor
    position: Tensor | None = None


class DVSMNetwork(CompleteDataNetwork):
    """Embeddings of views, layers of attention, a classifier, and the nodes of training."""

    over_rows = False  # its loss is that of a whole batch already

    def __init__(
        self,
        dims: Sequence[int],
        n_labels: int,
        settings: DVSMSettings,
        generator: torch.Generator,
    ) -> None:
        super().__init__(dims, settings)
        size, dropout = settings.embedding, settings.dropout
        embed = [make_linear(d, size, generator) for d in dims]
        self.embed = cast("Sequence[Linear]", nn.ModuleList(embed))
        layers = [NodeLayer(size, dropout, generator) for _ in range(settings.layers)]
        self.layers = cast("Sequence[NodeLayer]", nn.ModuleList(layers))
        self.classifier = make_linear(size, n_labels, generator)
        self.dropout = Dropout(dropout)
        nodes = [ViewNodes(d, settings.layers, size) for d in dims]
        self.nodes = cast("Sequence[ViewNodes]", nn.ModuleList(nodes))
        self.graph: TrainingGraph | None = None
        self._is_refreshed = False

    # ------------------------------------------------------------------ nodes of training

    def prepare_rows(self, source: BatchSource, rows: NDArray[np.intp]) -> None:
        """Keep the views of these rows, and search the neighbours of each among them."""
        chunks = torch.from_numpy(rows).split(_ROWS)
        batches = [source.batch(chunk, self.layout) for chunk in chunks]
        for v, nodes in enumerate(self.nodes):
            nodes.set_features(torch.cat([batch.views[v] for batch in batches]))
        present = torch.cat([self.present(batch) for batch in batches])
        numbers = torch.from_numpy(rows).to(present.device)
        of_nodes = [numbers[column] for column in present.T]
        count = self.settings.neighbours
        self.graph = TrainingGraph.build(self.nodes, of_nodes, len(source), count)
        self._is_refreshed = False

    def begin_epoch(self) -> None:
        """Neighbours that are not in a batch are taken as they were before the epoch."""
        if not self._is_refreshed:
            self.refresh()

    @property
    def finishes_epochs(self) -> bool:
        """New samples are predicted from the nodes of training."""
        return True

    def finish_epoch(self, source: BatchSource) -> None:
        """Compute the nodes of training by the weights of now."""
        self.refresh()
        self._is_refreshed = True

    @torch.no_grad()
    def refresh(self) -> None:
        """What every node of training tells its neighbours in every layer, without dropout."""
        graph = self.graph
        if graph is None:
            return
        was_training = self.training
        self.eval()
        like = self.classifier.weight
        h = like.new_zeros(self.n_views, len(graph) + 1, like.shape[1])
        for v, (nodes, rows) in enumerate(zip(self.nodes, graph.rows, strict=True)):
            h[v, rows] = self._embed(v, nodes.features)
        for number, layer in enumerate(self.layers):
            for v, (nodes, rows) in enumerate(zip(self.nodes, graph.rows, strict=True)):
                nodes.messages[number] = layer.message(h[v, rows])
            if number + 1 < len(self.layers):
                parts = torch.arange(len(graph), device=h.device).split(_ROWS)
                h = torch.cat([self._update_rows(number, h, graph, part) for part in parts], dim=1)
        self.train(was_training)

    def _update_rows(self, number: int, h: Tensor, graph: TrainingGraph, rows: Tensor) -> Tensor:
        near = graph.neighbours[:, rows]
        return self._update(number, h[:, rows], _Near(near, near >= 0), graph.present[rows])

    def end_training(self) -> None:
        """The columns of the nodes become a part of the model."""
        self.graph = None
        for nodes in self.nodes:
            nodes.keep()

    def allocate(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """See `DeepNetwork`."""
        for v, nodes in enumerate(self.nodes):
            nodes.allocate(next(iter(shapes.get(f"nodes.{v}.features", ())), 0))

    # ------------------------------------------------------------------ rows, in evaluation

    @property
    def encoder_size(self) -> int:
        """The columns of all nodes are compared with those of a row."""
        return self.size + sum(nodes.features.numel() for nodes in self.nodes)

    @property
    def code_size(self) -> int:
        """The first state of a node, and which nodes of training are its neighbours."""
        return int(self.settings.embedding + self.settings.neighbours)

    def encode_view(self, view: int, x: Tensor, norm: Tensor | None = None) -> Tensor:
        """State and neighbours of rows of a view; a float32 holds node numbers up to 2²⁴."""
        near = nearest_rows(x, self.nodes[view].features, self.settings.neighbours)
        return torch.cat([self._embed(view, x), near.to(x.dtype)], dim=-1)

    def _embed(self, view: int, x: Tensor) -> Tensor:
        return torch.relu(self.embed[view](x))

    def answer(self, codes: Tensor, observed: Tensor) -> Tensor:
        """See `RowwiseNetwork`."""
        codes, present = self.fill_in(codes, observed)
        sizes = (self.settings.embedding, self.settings.neighbours)
        h, numbers = codes.split(sizes, dim=-1)
        nodes = numbers.long()
        exists = (nodes >= 0) & present.T.unsqueeze(-1)
        return torch.sigmoid(self.logits(h, _Near(nodes, exists), present))

    # ------------------------------------------------------------------ layers

    def logits(self, h: Tensor, near: _Near, present: Tensor) -> Tensor:
        """Mean over the views of what the last states say. Shape: (m, B, F), (B, m) -> (B, c)."""
        for number in range(len(self.layers)):
            h = self._update(number, h, near, present)
        logits: Tensor = self.classifier(mean_over_views(h, present))
        return logits

    def _update(self, number: int, h: Tensor, near: _Near, present: Tensor) -> Tensor:
        layer = self.layers[number]
        z = layer.message(h)
        messages = [self._messages(number, v, z[v], near) for v in range(self.n_views)]
        updated: Tensor = layer(h, z, torch.stack(messages), near.exists, present)
        return updated

    def _messages(self, number: int, view: int, z: Tensor, near: _Near) -> Tensor:
        """What the neighbours tell, (B, k, F): from the batch, or as of the last refresh."""
        kept, nodes = self.nodes[view].messages[number], near.nodes[view].clamp(min=0)
        told = kept[nodes] if len(kept) else z.new_zeros(*nodes.shape, z.shape[-1])
        if near.position is None:
            return told
        position = near.position[view]
        return torch.where((position >= 0).unsqueeze(-1), z[position.clamp(min=0)], told)

    # ------------------------------------------------------------------ loss

    def loss_terms(self, batch: Batch) -> dict[str, Tensor]:
        """The cross-entropy alone."""
        pieces = [partial(self._embed_rows, batch, v) for v in range(self.n_views)]
        rows = run_on_streams(pieces, [[table] for table in batch.views.tables])
        h, batch = batch.gather(self.stack(batch, rows), dim=1), batch.whole
        with batch.draws_of_whole():  # nodes of the batch have to do with each other
            logits = self.logits(self.dropout(h), self._near(batch), self.present(batch))
        return {"classification": self.bce(logits, batch)}

    def _embed_rows(self, batch: Batch, view: int) -> Tensor:
        return self._embed(view, batch.views[view])

    def _near(self, batch: Batch) -> _Near:
        """Neighbours of the nodes of training rows, and which of them are in the same batch."""
        graph = self.graph
        if graph is None or batch.rows is None:
            raise RuntimeError("the network was not prepared for training rows")
        rows = torch.where(batch.sample_weight > 0, batch.rows, len(graph))
        nodes = graph.neighbours[:, rows]
        places = torch.arange(len(batch), device=rows.device)
        in_batch = torch.full((len(graph) + 1,), -1, device=rows.device)
        in_batch = in_batch.index_copy(0, rows, places)
        position = [
            in_batch[numbers[own.clamp(min=0)]] if len(numbers) else torch.full_like(own, -1)
            for numbers, own in zip(graph.rows, nodes, strict=True)
        ]
        return _Near(nodes, nodes >= 0, torch.stack(position))


class DVSM(DeepClassifier):
    r"""A reconstruction of D-VSM: a graph of views and neighbours instead of a shared subspace.

    Every view of every sample is a node. It is joined to its k nearest neighbours in the same view,
    :math:`N_v(i)`, and to the other views of the sample; :math:`h_i^v = \mathrm{relu}(A_v x_i^v)`
    at first, then in every layer, with :math:`z = U h`,

    .. math:: h_i^v \leftarrow h_i^v + \mathrm{relu}\Big(\Theta \Big[ h_i^v \,\Big\|\,
              \sum_{j \in N_v(i)} a_{ij} z_j^v \,\Big\|\, \sum_{u \neq v} b_{iu} z_i^u \Big]\Big)

    .. math:: a_{ij} = \mathrm{softmax}_j\, \mathrm{leaky}(a^\top [z_i^v \| z_j^v]), \qquad
              b_{iu} = \mathrm{softmax}_u\, \mathrm{leaky}(b^\top [z_i^v \| z_i^u])

    :math:`P_i = \sigma(\mathrm{mean}_v (C h_i^v + c))`, trained by its cross-entropy. Nothing else
    is learned: there is no loss that makes views alike.

    Neither the paper's text nor code was at hand, only its abstract and what its successors say:
    nodes, edges, attention, the three parts of a node's state, the mean over views and the loss
    are certain; sizes, the residual form, the number of layers and of neighbours, dropout and the
    optimiser's settings are inferred. Its figures say nothing about the original.

    The published graph has the test samples in it. Here a new sample is joined to training
    samples only, and is answered for itself; for that a model keeps the views of its training
    samples, as nearest neighbours do. `fit(..., X_unlabeled=)`: samples without labels are nodes
    of the graph, too, which is the published form if they are the test samples. Training is by
    batches: neighbours in the same batch are computed with it, others are as of the beginning of
    the epoch. A batch of all rows is the training on the full graph.

    D-VSM is for complete data. `profile="paper"` runs on incomplete data as the literature does
    (`incomplete="filled"`): column means for a missing view, 0 for an unknown label; up to 4,096
    rows in one batch, the weights of the last of 200 epochs. `profile="default"`
    (`incomplete="masked"`): a missing view is no node, unknown labels count in no loss; batches,
    and early stopping.

    Reference: Lyu et al., AAAI 2022.

    Examples
    --------
    >>> import numpy as np, viewgap
    >>> X = {"a": np.random.default_rng(0).normal(size=(40, 6)), "b": np.ones((40, 3))}
    >>> X["b"][:10] = np.nan
    >>> Y = (X["a"][:, :2] > 0).astype(float)
    >>> model = viewgap.DVSM(max_epochs=2, embedding=8, random_state=0).fit(X, Y)
    >>> model.predict_proba(X).shape
    (40, 2)
    """

    summary: ClassVar[str] = (
        "reconstruction of D-VSM: attention between neighbours and views of a sample"
    )
    reference: ClassVar[str] = (
        "Lyu, Deng, Wu et al.: Beyond Shared Subspace: A View-Specific Fusion for Multi-View "
        "Multi-Label Learning, AAAI 2022"
    )
    certainty: ClassVar[str] = "reconstruction (partly inferred)"
    semi_supervised: ClassVar[bool] = True

    settings_type = DVSMSettings
    network_type = DVSMNetwork
    profiles: ClassVar = {
        "default": DVSMSettings(),
        "paper": DVSMSettings(incomplete="filled", batch_size=_FULL_BATCH, min_epochs=200),
    }

    def __init__(
        self,
        *,
        incomplete: str | None = None,
        embedding: int | None = None,
        neighbours: int | None = None,
        layers: int | None = None,
        dropout: float | None = None,
        **shared: Unpack[NetworkParameters],
    ) -> None:
        self._store_parameters(locals())
