"""SIP: a multi-view variational auto-encoder whose fused code keeps what the views share.

Letters: view v of m, x^v features, N(μ^v, s^v) code of a view, z fused code, l_j prototype of label
j, W observed views, G observed labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Unpack, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from viewgap.methods.deep import DeepClassifier
from viewgap.methods.networks.autoencoders import fused_reconstruction
from viewgap.methods.networks.parameters import NetworkParameters
from viewgap.nn.gaussian import GaussianHead, MeanOfDraws, coherence_loss, product_of_experts
from viewgap.nn.linear import make_linear
from viewgap.nn.losses import masked_bce
from viewgap.nn.mlp import MLP, Trunk
from viewgap.nn.norm import SetNorm
from viewgap.nn.streams import run_on_streams
from viewgap.parameters import AnyLayers, Count, NonNegative, Share, Steps, Switch, Units, setting
from viewgap.search import Around, Range
from viewgap.training.batches.batch import Batch
from viewgap.training.network import RowwiseNetwork
from viewgap.training.settings import DeepSettings

_POSITIVES_EPS = 1e-9


@dataclass(frozen=True, kw_only=True)
class SIPSettings(DeepSettings):
    """The settings of SIP."""

    embedding: Units = setting(512, "Size of a code.")
    hidden: AnyLayers = setting((1024,), "Hidden layers of every perceptron.")
    alpha: NonNegative = setting(1.0, "Weight α of the reconstruction.", Around(10))
    beta: NonNegative = setting(1e-3, "Weight β of the prototypes.")
    sigma: NonNegative = setting(1.0, "Weight σ of the coherence.")
    draws: Steps = setting(10, "Number of draws that a code is the mean of in training.")
    draws_in_prediction: Switch = setting(
        False, "Whether prediction draws too, as released, instead of taking the mean."
    )
    dropout: Share = setting(0.0, "Dropout after every hidden layer.", Range(0, 0.7))
    max_epochs: Count = 200

    @property
    def prediction(self) -> str:
        """Draws make an answer depend on where in its batch a sample is."""
        return "batch" if self.draws_in_prediction else "row"


class Prototypes(nn.Module):
    """One Gaussian per label, from a learned square table that starts as the identity.

    Shape: -> (c, 2F), mean and variance side by side.
    """

    def __init__(self, n_labels: int, settings: SIPSettings, generator: torch.Generator) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.eye(n_labels))
        sizes = (*settings.hidden, settings.embedding)
        self.trunk = Trunk(n_labels, sizes, settings.dropout, generator, SetNorm)
        self.head = GaussianHead(settings.embedding, settings.embedding, generator)

    def forward(self) -> Tensor:
        """The Gaussians of all labels."""
        result: Tensor = self.head(self.trunk(self.table))
        return result


class SIPNetwork(RowwiseNetwork):
    """View encoders, a head that all views share, decoders, prototypes and a classifier."""

    shares_batches = True

    def __init__(
        self,
        dims: Sequence[int],
        n_labels: int,
        settings: SIPSettings,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.settings, self.norm_rows, self.n_views = settings, settings.norm_rows, len(dims)
        size, dropout = settings.embedding, settings.dropout
        sizes = (*settings.hidden, size)
        encoders = [Trunk(d, sizes, dropout, generator) for d in dims]
        self.encoders = cast("Sequence[Trunk]", nn.ModuleList(encoders))
        self.shared = Trunk(size, sizes, dropout, generator)
        self.head = GaussianHead(size, size, generator)
        decoders = [MLP(size, (size,), d, dropout, generator) for d in dims]
        self.decoders = cast("Sequence[MLP]", nn.ModuleList(decoders))
        self.prototypes = Prototypes(n_labels, settings, generator)
        self.classifier = make_linear(2 * size, n_labels, generator)
        self.draw = MeanOfDraws(settings.draws)

    # ------------------------------------------------------------------ codes

    @property
    def code_size(self) -> int:
        """Mean and variance."""
        return 2 * self.settings.embedding

    def encode_view(self, view: int, x: Tensor, norm: Tensor | None = None) -> Tensor:
        """Mean and variance of rows of a view, side by side."""
        return self._finish_code(self.encoders[view](x, norm), norm)

    def _finish_code(self, features: Tensor, norm: Tensor | None) -> Tensor:
        code: Tensor = self.head(self.shared(features, norm))
        return code

    def encode(self, batch: Batch) -> list[Tensor]:
        """Codes of the rows of every view, m times (R_v, 2F).

        The shared head takes one view after the other: every call moves its running statistics.
        """
        norms = [batch.norm_weight(v, self.norm_rows) for v in range(self.n_views)]

        def features(view: int) -> Tensor:
            with batch.draws_of_view(view):
                rows: Tensor = self.encoders[view](batch.views[view], norms[view])
            return rows

        def finish(view: int, rows: Tensor) -> Tensor:
            with batch.draws_of_view(view):
                return self._finish_code(rows, norms[view])

        pieces = [partial(features, v) for v in range(self.n_views)]
        of_views = run_on_streams(pieces, [[table] for table in batch.views.tables])
        return [finish(view, rows) for view, rows in enumerate(of_views)]

    # ------------------------------------------------------------------ answers

    def _pick(self, mean: Tensor, variance: Tensor) -> Tensor:
        """A draw where draws are wanted, else the mean."""
        if self.training or self.settings.draws_in_prediction:
            drawn: Tensor = self.draw(mean, variance)
            return drawn
        return mean

    def label_codes(self) -> Tensor:
        """l of every label, (c, F)."""
        mean, variance = self.prototypes().chunk(2, dim=-1)
        return self._pick(mean, variance)

    def answer(self, codes: Tensor, observed: Tensor) -> Tensor:
        """See `RowwiseNetwork`."""
        mean, variance = codes.chunk(2, dim=-1)
        z = self._pick(*product_of_experts(mean, variance, observed))
        return self.classify(z, self.label_codes())

    def classify(self, z: Tensor, labels: Tensor) -> Tensor:
        """σ(w_jᵀ[z_i; l_j] + b_j): what a label's prototype adds is the same for all samples.

        Shape: (B, F), (c, F) -> (B, c).
        """
        of_sample, of_label = self.classifier.weight.chunk(2, dim=1)
        shift = (of_label * labels).sum(dim=1) + self.classifier.bias
        return torch.sigmoid(F.linear(z, of_sample, shift))

    # ------------------------------------------------------------------ loss

    def loss_terms(self, batch: Batch) -> dict[str, Tensor]:
        """L = wBCE + α L_rec + β L_proto + σ L_coh, as named terms."""
        codes = batch.gather(batch.stack(torch.cat(self.encode(batch))), dim=1)
        mean, variance = codes.chunk(2, dim=-1)
        settings, whole = self.settings, batch.whole
        fused = product_of_experts(mean, variance, whole.observed)
        with batch.draws_of_whole():
            z, labels = self.draw(*fused), self.label_codes()
        return {
            "classification": masked_bce(self.classify(z, labels), whole.labels, whole.label_mask),
            "reconstruction": settings.alpha * fused_reconstruction(batch, self.decoders, z),
            "prototypes": settings.beta * prototype_loss(whole, z, labels),
            "coherence": settings.sigma * coherence_loss(mean, variance, *fused, whole.observed),
        }


def prototype_loss(batch: Batch, z: Tensor, labels: Tensor) -> Tensor:
    """L_proto: mean squared distance of z_i from the mean prototype of its observed positives.

    Shape: z (B, F), labels (c, F) -> ().
    """
    positive = batch.labels * batch.label_mask
    centre = positive @ labels / (positive.sum(dim=1, keepdim=True) + _POSITIVES_EPS)
    rows = (z - centre).square().mean(dim=1)
    return (rows * batch.sample_weight).sum() / batch.n_samples


class SIP(DeepClassifier):
    r"""Variational codes of views, their product of experts, and label prototypes.

    View v has a Gaussian code :math:`N(\mu_i^v, s_i^v)`, from an encoder of its own and a head that
    all views share. The product of the experts of the views that a sample has, and of a standard
    normal prior, is :math:`N(\mu_i, s_i)`; z is the mean of draws from it, and every decoder
    rebuilds its view from z. Label j has a Gaussian prototype in the same space, of which
    :math:`l_j` is drawn; :math:`P_{ij} = \sigma(w_j^\top [z_i; l_j] + b_j)`.

    .. math:: L = \frac{\sum_{ij} G_{ij}\, \mathrm{BCE}(P_{ij}, Y_{ij})}{\sum_{ij} G_{ij}}
              + \alpha \sum_v \frac{1}{B d_v} \sum_{ij} W_{iv} (\hat x^v_{ij} - x^v_{ij})^2
              + \beta L_{proto} + \sigma L_{coh}

    .. math:: L_{proto} = \frac{1}{B} \sum_i \mathrm{mean}_d \Big( z_i
              - \frac{\sum_j G_{ij} Y_{ij} l_j}{\sum_j G_{ij} Y_{ij}} \Big)^2, \quad
              L_{coh} = \frac{\sum_{iv} W_{iv}\, \mathrm{mean}_d\, \mathrm{KL}(
              N(\mu_i, s_i) \,\|\, N(\mu_i^v, s_i^v))}{\sum_{iv} W_{iv}}

    The coherence term :math:`L_{coh}` presses what only one view knows out of the fused code. A
    sample without an observed positive is pulled to 0 by :math:`L_{proto}`.

    Deviations from the released code. Both profiles: prototypes are normalised over the labels
    themselves in evaluation too, which running statistics follow with a lag; the mean of draws is
    drawn at once, which is the same distribution; parts of the released network that nothing uses
    are left out. `profile="paper"` has the weights published for Corel5k, and draws in prediction
    as released, from a fixed seed. `profile="default"`: prediction from means, so that every
    sample is answered for itself and repeatably; normalisation over observed rows only; equal
    weights in the score; patience of 40 epochs.

    Examples
    --------
    >>> import numpy as np, viewgap
    >>> X = {"a": np.random.default_rng(0).normal(size=(40, 6)), "b": np.ones((40, 3))}
    >>> Y = (X["a"][:, :2] > 0).astype(float)
    >>> small = {"hidden": (16,), "embedding": 8}
    >>> model = viewgap.SIP(max_epochs=2, random_state=0, **small).fit(X, Y)
    >>> model.predict_proba(X).shape
    (40, 2)
    """

    summary: ClassVar[str] = (
        "variational codes fused by precision; label prototypes; coherent views"
    )
    reference: ClassVar[str] = (
        "Liu, Xu, Wen et al.: Partial Multi-View Multi-Label Classification via Semantic "
        "Invariance Learning and Prototype Modeling, ICML 2024"
    )
    certainty: ClassVar[str] = "released code"

    settings_type = SIPSettings
    network_type = SIPNetwork
    profiles: ClassVar = {
        "default": SIPSettings(patience=40),
        "paper": SIPSettings(
            norm_rows="all",
            draws_in_prediction=True,
            score_weights=(0.25, 0.25, 0.25),
            patience=200,
        ),
    }

    def __init__(
        self,
        *,
        embedding: int | None = None,
        hidden: Sequence[int] | None = None,
        alpha: float | None = None,
        beta: float | None = None,
        sigma: float | None = None,
        draws: int | None = None,
        draws_in_prediction: bool | None = None,
        dropout: float | None = None,
        **shared: Unpack[NetworkParameters],
    ) -> None:
        self._store_parameters(locals())

    def _label_matrices(self, settings: SIPSettings, n_views: int) -> float:
        return 5.0  # the table of prototypes, its gradient, its moments, the best one so far
