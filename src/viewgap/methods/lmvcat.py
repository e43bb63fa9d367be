"""LMVCAT: transformers over the views of a sample, and over its fused view and label tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Unpack, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from viewgap.constraints import Integer
from viewgap.errors import parameter
from viewgap.methods.deep import DeepClassifier
from viewgap.methods.networks.parameters import NetworkParameters
from viewgap.nn.attention import (
    LayerNorm,
    SharedTokenLayer,
    TransformerStack,
    power_weights,
    xavier_blocks,
)
from viewgap.nn.contrast import label_guided_contrast, label_similarity
from viewgap.nn.dropout import Dropout
from viewgap.nn.linear import Linear
from viewgap.nn.losses import masked_bce
from viewgap.parameters import MOST_LAYERS, Count, NonNegative, Positive, Share, Units, setting
from viewgap.search import Around, Range
from viewgap.training.batches.batch import Batch
from viewgap.training.batches.sampled import Layout
from viewgap.training.network import RowwiseNetwork
from viewgap.training.settings import DeepSettings


@dataclass(frozen=True, kw_only=True)
class LMVCATSettings(DeepSettings):
    """The settings of LMVCAT. `norm_rows` changes nothing: there is no normalisation over rows."""

    optimiser: ClassVar[str] = "sgd"

    embedding: Units = setting(512, "Size of a token; a multiple of `heads`.")
    heads: Units = setting(4, "Attention heads of a layer.")
    layers: Annotated[int, Integer(1, MOST_LAYERS)] = setting(
        6, "Layers of the transformer over views."
    )
    feed_forward: Units = setting(2048, "Hidden units of the feed-forward part of a layer.")
    dropout: Share = setting(0.3, "Dropout in the transformers.", Range(0, 0.7))
    input_dropout: Share = setting(0.2, "Dropout in the embedding of a view.", Range(0, 0.7))
    gamma: Positive = setting(2.0, "Power γ in the weights of the views.")
    alpha: NonNegative = setting(10.0, "Weight α of the label-guided term.", Around(10))
    beta: NonNegative = setting(0.1, "Weight β of the auxiliary prediction.")
    learning_rate: Positive = 0.1
    max_epochs: Count = 500

    def _check_together(self) -> None:
        super()._check_together()
        if self.embedding % self.heads:
            self._refuse("embedding", f"a multiple of {parameter('heads')} ({self.heads})")


def _xavier(shape: tuple[int, ...], fans: int, generator: torch.Generator) -> nn.Parameter:
    """Xavier's uniform start, for a map with so many inputs and outputs together."""
    bound = math.sqrt(6.0 / fans)
    with torch.no_grad():
        return nn.Parameter(torch.empty(shape).uniform_(-bound, bound, generator=generator))


class _Network(RowwiseNetwork):
    shares_batches = True

    def __init__(
        self,
        dims: Sequence[int],
        n_labels: int,
        settings: LMVCATSettings,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.settings, self.n_views, size = settings, len(dims), settings.embedding
        first = [xavier_blocks(d, d, generator) for d in dims]
        second = [xavier_blocks(d, size, generator) for d in dims]
        self.first = cast("Sequence[Linear]", nn.ModuleList(first))
        self.second = cast("Sequence[Linear]", nn.ModuleList(second))
        self.input_dropout = Dropout(settings.input_dropout)
        sizes = (size, settings.heads, settings.feed_forward, settings.dropout, generator)
        self.views = TransformerStack(settings.layers, *sizes)
        self.strength = _xavier((len(dims),), 1 + len(dims), generator)
        # As released, where the tokens are started as one map of c·F inputs and F outputs.
        self.label_tokens = _xavier((n_labels, size), (n_labels + 1) * size, generator)
        self.joint = SharedTokenLayer(*sizes)
        self.norm = LayerNorm(size)
        self.classifier = xavier_blocks(size, n_labels, generator)
        # One row is the linear map of a label's token to a number.
        self.label_weight = _xavier((n_labels, size), size + 1, generator)
        self.label_bias = nn.Parameter(torch.zeros(n_labels))

    @property
    def layout(self) -> Layout:
        """Only observed rows: no row has to do with the missing ones."""
        return Layout("packed")

    @property
    def code_size(self) -> int:
        return self.settings.embedding

    def encode_view(self, view: int, x: Tensor, norm: Tensor | None = None) -> Tensor:
        hidden = self.input_dropout(F.gelu(self.first[view](x)))
        code: Tensor = self.input_dropout(self.second[view](hidden))
        return code

    def answer(self, codes: Tensor, observed: Tensor) -> Tensor:
        return self.answer_tokens(self.view_tokens(codes, observed), observed)[0]

    def view_tokens(self, codes: Tensor, observed: Tensor) -> Tensor:
        """The views of every sample after they have looked at each other, (B, m, F)."""
        allowed = observed.unsqueeze(1) & observed.unsqueeze(2)
        tokens: Tensor = self.views(codes.transpose(0, 1), allowed)
        return tokens

    def answer_tokens(self, tokens: Tensor, observed: Tensor) -> tuple[Tensor, Tensor | None]:
        """Main and, in training, auxiliary probabilities, (B, c) each."""
        weights = power_weights(self.strength, observed, self.settings.gamma)
        fused = torch.einsum("bv,bvf->bf", weights, tokens)
        alone = not self.training or self.settings.beta == 0.0
        joined = self.norm(self.joint(fused, self.label_tokens, alone))
        own, of_labels = joined.split([1, joined.shape[1] - 1], dim=1)
        main = torch.sigmoid(self.classifier(own.squeeze(1)))
        if alone:
            return main, None
        scores = torch.einsum("bcf,cf->bc", of_labels, self.label_weight) + self.label_bias
        return main, torch.sigmoid(scores)

    def loss_terms(self, batch: Batch) -> dict[str, Tensor]:
        codes = batch.gather(batch.stack(torch.cat(self.encode(batch))), dim=1)
        batch = batch.whole  # every process has all tokens
        with batch.draws_of_whole():
            tokens = self.view_tokens(codes, batch.observed)
            main, auxiliary = self.answer_tokens(tokens, batch.observed)
        guided = self.guided_contrast(batch, tokens)
        terms = {
            "classification": masked_bce(main, batch.labels, batch.label_mask),
            "label_guided": self.settings.alpha * guided,
        }
        if auxiliary is not None:
            loss = masked_bce(auxiliary, batch.labels, batch.label_mask)
            terms["auxiliary"] = self.settings.beta * loss
        return terms

    def guided_contrast(self, batch: Batch, tokens: Tensor) -> Tensor:
        """L_lab among the samples of the batch."""
        mask, observed = batch.label_mask, batch.observed
        positives = batch.labels * mask
        target = label_similarity(positives, mask, positives, mask)
        views = tokens.transpose(0, 1)
        others = 1.0 - torch.eye(len(batch), dtype=views.dtype, device=views.device)
        # What fills the batch up has no view and is in no pair.
        return label_guided_contrast(views, views, observed, observed, target, others)


class LMVCAT(DeepClassifier):
    r"""Label-guided masked view- and category-aware transformers.

    Every view is embedded as a token. A transformer lets the views :math:`z^v` of a sample attend
    to each other, missing ones neither attending nor attended to. Their weighted mean, weights
    :math:`\mathrm{softmax}_v(a_v^\gamma)` over the views that are there, meets one learned token
    for every label in one more transformer layer. The mean's token gives the prediction P, every
    label's token an auxiliary one Q for its label:

    .. math:: L = L_{bce}(P) + \alpha L_{lab} + \beta L_{bce}(Q)

    :math:`L_{bce}` is the mean over observed labels. :math:`L_{lab}` makes two samples of the batch
    as similar in every view, :math:`s = (1 + \cos(z_i^v, z_j^v)) / 2`, as their labels are, BCE of
    s with the target :math:`y_i \cdot y_j / (G_i \cdot G_j)`, averaged over pairs, halved.

    The released code fills missing views with noise. The mask keeps it out of every number that
    counts, so that nothing is filled in here.

    Deviations from the released code. Both profiles: samples that were never asked about the same
    label count as dissimilar. `profile="default"`: batches in a new order every epoch, equal
    weights in the validation score, patience of 50 epochs. The released settings for Pascal07 are
    `alpha=100` and `beta=0.001`.

    Reference: Liu et al., AAAI 2023.

    Examples
    --------
    >>> import numpy as np, viewgap
    >>> X = {"a": np.random.default_rng(0).normal(size=(40, 6)), "b": np.ones((40, 3))}
    >>> X["b"][:10] = np.nan
    >>> Y = (X["a"][:, :2] > 0).astype(float)
    >>> small = {"embedding": 16, "layers": 1, "feed_forward": 32}
    >>> model = viewgap.LMVCAT(max_epochs=2, random_state=0, **small).fit(X, Y)
    >>> model.predict_proba(X).shape
    (40, 2)
    """

    summary: ClassVar[str] = "masked transformer over views, then over label tokens; label-guided"
    reference: ClassVar[str] = (
        "Liu, Wen, Luo et al.: Incomplete Multi-View Multi-Label Learning via Label-Guided Masked "
        "View- and Category-Aware Transformers, AAAI 2023"
    )
    certainty: ClassVar[str] = "released code"
    rounds_by_batch: ClassVar[bool] = True

    settings_type = LMVCATSettings
    network_type = _Network
    profiles: ClassVar = {
        "default": LMVCATSettings(),
        "paper": LMVCATSettings(
            norm_rows="all", shuffle=False, score_weights=(0.25, 0.25, 0.5), patience=500
        ),
    }

    def __init__(
        self,
        *,
        embedding: int | None = None,
        heads: int | None = None,
        layers: int | None = None,
        feed_forward: int | None = None,
        dropout: float | None = None,
        input_dropout: float | None = None,
        gamma: float | None = None,
        alpha: float | None = None,
        beta: float | None = None,
        **shared: Unpack[NetworkParameters],
    ) -> None:
        self._store_parameters(locals())

    def _remedy_for_many_labels(self) -> str:
        return f"lower {parameter('batch_size')}, or use {parameter('beta', 0)}"

    def _label_matrices(self, settings: LMVCATSettings, n_views: int) -> float:
        # In training, labels attend to labels in every head of every sample.
        return 0.0 if settings.beta == 0.0 else 1.0 * settings.batch_size * settings.heads
