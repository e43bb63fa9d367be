"""DDINet: auto-encoders whose codes are averaged over the views a sample has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Unpack

import torch
from torch import Tensor

from viewgap.methods.deep import DeepClassifier
from viewgap.methods.networks.autoencoders import (
    AutoencoderNetwork,
    AutoencoderSettings,
    mean_over_views,
    reconstruction_loss,
)
from viewgap.methods.networks.parameters import NetworkParameters
from viewgap.nn.autoencoder import xavier_linear
from viewgap.nn.losses import bce_over_all
from viewgap.parameters import NonNegative, Units, setting
from viewgap.search import Around
from viewgap.training.batches.batch import Batch


@dataclass(frozen=True, kw_only=True)
class DDINetSettings(AutoencoderSettings):
    """The settings of DDINet."""

    embedding: Units = 256
    alpha: NonNegative = setting(0.1, "Weight α of the reconstruction.", Around(10))


class _Network(AutoencoderNetwork):
    shares_batches = True

    def __init__(
        self,
        dims: Sequence[int],
        n_labels: int,
        settings: DDINetSettings,
        generator: torch.Generator,
    ) -> None:
        super().__init__(dims, settings, generator, xavier_linear)
        self.classifier = xavier_linear(settings.embedding, n_labels, generator)

    def answer(self, codes: Tensor, observed: Tensor) -> Tensor:
        return self._classify(mean_over_views(codes, observed))

    def _classify(self, fused: Tensor) -> Tensor:
        return torch.sigmoid(self.classifier(torch.relu(fused)))

    def loss_terms(self, batch: Batch) -> dict[str, Tensor]:
        codes = batch.stack(torch.cat(self.encode(batch)))
        fused = mean_over_views(codes, batch.observed)
        of_rows = [fused[batch.samples_of(v)] for v in range(self.n_views)]
        rebuilt = reconstruction_loss(batch, self.decoders, of_rows)
        answers, whole = batch.gather(self._classify(fused)), batch.whole
        return {
            "classification": bce_over_all(
                answers, whole.labels, whole.label_mask, whole.n_samples
            ),
            "reconstruction": self.settings.alpha * rebuilt,
        }


class DDINet(DeepClassifier):
    r"""Deep double incomplete multi-view multi-label classification (also called DIMC).

    Every view has an auto-encoder. The fused code z, the mean of the codes of the views a sample
    has, classifies, :math:`P = \sigma(F(\mathrm{relu}(z)))`, and every decoder rebuilds its view
    from it:

    .. math:: L = \frac{1}{Bc} \sum_{ij} G_{ij}\, \mathrm{BCE}(P_{ij}, Y_{ij})
              + \alpha \sum_v \frac{1}{B d_v} \sum_{ij} W_{iv} (\hat x^v_{ij} - x^v_{ij})^2

    `fit(..., X_unlabeled=)`: samples without labels take part in the reconstruction, as in the
    semi-supervised form of the released code.

    Deviations from the released code. Both profiles: weights of the validation score are those of
    its supervised form, and its stop rules are left out: the best weights are kept anyway, and a
    rule that ends runs of low AP would end legitimate ones. Samples without positives stay in the
    validation score, which moves it by a constant factor and no choice. `profile="default"`:
    normalisation over observed rows only, equal weights in the score, patience of 50 epochs.

    Reference: Wen et al., TNNLS 2023.

    Examples
    --------
    >>> import numpy as np, viewgap
    >>> X = {"a": np.random.default_rng(0).normal(size=(40, 6)), "b": np.ones((40, 3))}
    >>> Y = (X["a"][:, :2] > 0).astype(float)
    >>> model = viewgap.DDINet(max_epochs=2, wide=16, random_state=0).fit(X, Y)
    >>> model.predict_proba(X).shape
    (40, 2)
    """

    summary: ClassVar[str] = "view auto-encoders; the mean code classifies and rebuilds every view"
    reference: ClassVar[str] = (
        "Wen, Liu, Deng et al.: Deep Double Incomplete Multi-View Multi-Label Learning, TNNLS 2023"
    )
    certainty: ClassVar[str] = "released code"
    rounds_by_batch: ClassVar[bool] = True
    semi_supervised: ClassVar[bool] = True

    settings_type = DDINetSettings
    network_type = _Network
    profiles: ClassVar = {
        "default": DDINetSettings(),
        "paper": DDINetSettings(norm_rows="all", score_weights=(1.0, 0.5, 0.0), patience=300),
    }

    def __init__(
        self,
        *,
        embedding: int | None = None,
        wide: int | None = None,
        alpha: float | None = None,
        **shared: Unpack[NetworkParameters],
    ) -> None:
        self._store_parameters(locals())
