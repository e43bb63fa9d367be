"""AIMNet: missing views filled in by attention to similar samples, labels by a label graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Unpack, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from viewgap.constraints import Choice
from viewgap.data.labels import Labels
from viewgap.errors import parameter
from viewgap.methods.deep import DeepClassifier
from viewgap.methods.networks.parameters import NetworkParameters
from viewgap.methods.networks.references import ReferencedNetwork
from viewgap.nn.batch_attention import (
    attention_weights,
    best_cosine,
    confidence,
    fill_in,
    mean_by_confidence,
    without_self,
)
from viewgap.nn.label_graph import GraphAttention, conditional_labels
from viewgap.nn.linear import Linear, make_linear
from viewgap.nn.losses import masked_bce
from viewgap.parameters import Count, Positive, Share, Units, setting
from viewgap.search import Range
from viewgap.training.batches.batch import Batch
from viewgap.training.batches.sampled import Layout
from viewgap.training.settings import DeepSettings

_SLOPE = 0.1  # of the leaky ReLU after the embedding
_GRAPH_SLOPE = 0.2


@dataclass(frozen=True, kw_only=True)
class AIMNetSettings(DeepSettings):
    """The settings of AIMNet. `norm_rows` changes nothing: there is no normalisation over rows."""

    optimiser: ClassVar[str] = "sgd"

    embedding: Units = setting(512, "Size of a view's code; a multiple of `heads`.")
    heads: Units = setting(8, "Attention heads of the label graph.")
    dropout: Share = setting(0.2, "Dropout in the label graph.", Range(0, 0.7))
    temperature: Positive = setting(0.2, "Temperature τ of the attention between samples.")
    sources: Annotated[str, Choice("references", "batch")] = setting(
        "references",
        "What a sample is completed from in prediction: training samples kept in the model,"
        " or its batch, as released.",
    )
    references: Units = setting(
        1024, "Most training samples kept for `sources='references'`, drawn by the seed."
    )
    learning_rate: Positive = 1.0
    max_epochs: Count = 100

    def _check_together(self) -> None:
        super()._check_together()
        if self.embedding % self.heads:
            self._refuse("embedding", f"a multiple of {parameter('heads')} ({self.heads})")

    @property
    def prediction(self) -> str:
        """See `DeepSettings`."""
        return "batch" if self.sources == "batch" else "row"


class _Network(ReferencedNetwork):
    shares_batches = True

    neighbours: Tensor

    def __init__(
        self,
        dims: Sequence[int],
        n_labels: int,
        settings: AIMNetSettings,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.settings, self.n_views, size = settings, len(dims), settings.embedding
        embed = [make_linear(d, size, generator) for d in dims]
        self.embed = cast("Sequence[Linear]", nn.ModuleList(embed))
        self.label_codes = nn.Parameter(torch.empty(n_labels, n_labels))
        with torch.no_grad():
            self.label_codes.normal_(generator=generator)
        self.graph = GraphAttention(
            n_labels, size, settings.heads, settings.dropout, _GRAPH_SLOPE, generator
        )
        self.gate = make_linear(size, size, generator)
        self.classifier = make_linear(size, n_labels, generator)
        self.register_buffer("neighbours", torch.zeros(n_labels, n_labels, dtype=torch.bool))
        kept = settings.references if self.finishes_epochs else 0
        self._make_room(len(dims), kept, size, generator)

    def prepare(self, labels: Labels) -> None:
        """Labels that occur together are neighbours."""
        positives = torch.from_numpy(labels.values.astype(np.float32))
        self.neighbours.copy_(conditional_labels(positives).fill_diagonal_(0.0) > 0)

    @property
    def layout(self) -> Layout:
        """Only observed rows: no row has to do with the missing ones."""
        return Layout("packed")

    @property
    def code_size(self) -> int:
        return self.settings.embedding

    def encode_view(self, view: int, x: Tensor, norm: Tensor | None = None) -> Tensor:
        return F.leaky_relu(self.embed[view](x), _SLOPE)

    # ------------------------------------------------------------------ probabilities

    def answer(self, codes: Tensor, observed: Tensor) -> Tensor:
        references, has_view = self.reference_codes, self.reference_observed
        cosine = best_cosine(codes, references, observed, has_view)
        return self._classify(self._fuse(codes, references, observed, has_view, cosine))

    def answer_together(self, codes: Tensor, observed: Tensor) -> Tensor:
        """As `answer`, with the samples themselves as each other's references."""
        cosine = without_self(best_cosine(codes, codes, observed, observed))
        return self._classify(self._fuse(codes, codes, observed, observed, cosine))

    def _fuse(
        self, codes: Tensor, others: Tensor, observed: Tensor, has_view: Tensor, cosine: Tensor
    ) -> Tensor:
        """Mean of all views of a sample, missing ones filled in, by how far they are trusted."""
        weights = attention_weights(cosine, self.settings.temperature)
        filled = fill_in(codes, others, observed, has_view, weights)
        return mean_by_confidence(filled, confidence(cosine, observed, has_view))

    def _classify(self, fused: Tensor) -> Tensor:
        """σ(w_jᵀ (x ⊙ y_j) + b_j): linear in x, so that the mean over views may come before it."""
        labels = torch.sigmoid(self.gate(self.graph(self.label_codes, self.neighbours)))
        return torch.sigmoid(F.linear(fused, self.classifier.weight * labels, self.classifier.bias))

    def loss_terms(self, batch: Batch) -> dict[str, Tensor]:
        codes = batch.gather(batch.stack(torch.cat(self.encode(batch))), dim=1)
        batch = batch.whole  # samples are completed from all others
        with batch.draws_of_whole():
            answers = self.answer_together(codes, batch.observed)
        return {"classification": masked_bce(answers, batch.labels, batch.label_mask)}

    def predict_batch(self, batch: Batch) -> Tensor:
        codes = batch.stack(torch.cat(self.encode(batch)))
        answer = self.answer if self.finishes_epochs else self.answer_together
        return answer(codes, batch.observed)

    @property
    def finishes_epochs(self) -> bool:
        """Whether predictions are completed from reference samples."""
        return self.settings.sources == "references"


class AIMNet(DeepClassifier):
    r"""Attention-induced missing-view imputation network.

    Every view is embedded, :math:`x^v = \mathrm{leaky}(A_v \xi^v + a_v)`. A missing one is filled
    in from the samples j of the batch, weighted by their best cosine over common views:

    .. math:: K_{ij} \propto \max_{v: W_{iv} W_{jv} = 1} \exp(\cos(x_i^v, x_j^v) / \tau), \quad
              K_{ii} = 0, \qquad x_i^v := \sum_j K_{ij} W_{jv} x_j^v

    and trusted as far as the best of these cosines says, :math:`t_{iv} \in [0, 1]` (observed: 1).
    A graph attention network over labels that occur together gives :math:`y_j \in (0, 1)^k`, and

    .. math:: P_{ij} = \sigma\Big(\frac{\sum_v t_{iv}\,(w_j^\top (x_i^v \odot y_j) + b_j)}
              {\sum_v t_{iv}}\Big), \qquad
              L = \frac{\sum_{ij} G_{ij}\,\mathrm{BCE}(P_{ij}, Y_{ij})}{\sum_{ij} G_{ij}}

    In `profile="default"` a prediction is completed from training samples that are kept in the
    model, so that it does not depend on the samples beside it; in `profile="paper"` from its batch,
    as released.

    Deviations from the released code. Both profiles: the label graph is read as one attention layer
    whose heads together give the code; divisions are safe where nothing is observed.
    `profile="default"`: batches in a new order every epoch, equal weights in the validation score,
    patience of 50 epochs, reference samples at prediction. The released settings for Pascal07 and
    MIRFlickr stop after 10 epochs (`max_epochs=10`).

    Reference: Liu et al., AAAI 2024.

    Examples
    --------
    >>> import numpy as np, viewgap
    >>> X = {"a": np.random.default_rng(0).normal(size=(40, 6)), "b": np.ones((40, 3))}
    >>> X["b"][:10] = np.nan
    >>> Y = (X["a"][:, :2] > 0).astype(float)
    >>> model = viewgap.AIMNet(max_epochs=2, embedding=16, random_state=0).fit(X, Y)
    >>> model.predict_proba(X).shape
    (40, 2)
    """

    summary: ClassVar[str] = "missing views filled in from similar samples; a graph over the labels"
    reference: ClassVar[str] = (
        "Liu, Jia, Wen et al.: Attention-Induced Embedding Imputation for Incomplete Multi-View "
        "Partial Multi-Label Classification, AAAI 2024"
    )
    certainty: ClassVar[str] = "released code"

    settings_type = AIMNetSettings
    network_type = _Network
    profiles: ClassVar = {
        "default": AIMNetSettings(),
        "paper": AIMNetSettings(
            norm_rows="all",
            shuffle=False,
            score_weights=(0.25, 0.25, 0.5),
            patience=100,
            sources="batch",
        ),
    }

    def __init__(
        self,
        *,
        embedding: int | None = None,
        heads: int | None = None,
        dropout: float | None = None,
        temperature: float | None = None,
        sources: str | None = None,
        references: int | None = None,
        **shared: Unpack[NetworkParameters],
    ) -> None:
        self._store_parameters(locals())

    def _label_matrices(self, settings: AIMNetSettings, n_views: int) -> float:
        # The table of labels with gradient, momentum and best one; attention of every head, twice.
        return 4.0 + 2.0 * settings.heads
