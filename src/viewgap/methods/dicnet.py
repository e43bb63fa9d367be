"""DICNet: auto-encoders per view, and codes of one sample that agree across its views."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Unpack

import torch
from torch import Tensor

from viewgap.constraints import Choice
from viewgap.errors import parameter
from viewgap.methods.deep import DeepClassifier
from viewgap.methods.networks.autoencoders import (
    AutoencoderNetwork,
    AutoencoderSettings,
    mean_over_views,
    reconstruction_loss,
)
from viewgap.methods.networks.parameters import NetworkParameters
from viewgap.nn.autoencoder import xavier_linear
from viewgap.nn.contrast import instance_contrast
from viewgap.nn.linear import make_linear
from viewgap.nn.losses import bce_over_all, masked_bce
from viewgap.parameters import NonNegative, Positive, Units, setting
from viewgap.training.batches.batch import Batch


@dataclass(frozen=True, kw_only=True)
class DICNetSettings(AutoencoderSettings):
    """The settings of DICNet."""

    embedding: Units = field(metadata={"doc": "Size of the code; by default the number of labels."})
    beta: NonNegative = setting(1e-3, "Weight β of the contrast between views.")
    gamma: NonNegative = setting(0.1, "Weight γ of the reconstruction.")
    temperature: Positive = setting(0.5, "Temperature τ of the contrast.")
    divide_by: Annotated[str, Choice("observed", "all")] = setting(
        "observed",
        "What divides the cross-entropy: the number of observed labels, or of all entries.",
    )
    fill: Annotated[str, Choice("zero", "noise")] = setting(
        "zero", "What stands for a missing view in the normalisation, if missing rows count there."
    )
    start: Annotated[str, Choice("usual", "xavier")] = setting("xavier", "How weights are drawn.")

    @property
    def fills_with_noise(self) -> bool:
        """See `fill`."""
        return self.fill == "noise"


class _Network(AutoencoderNetwork):
    shares_batches = True

    def __init__(
        self,
        dims: Sequence[int],
        n_labels: int,
        settings: DICNetSettings,
        generator: torch.Generator,
    ) -> None:
        make = xavier_linear if settings.start == "xavier" else make_linear
        super().__init__(dims, settings, generator, make)
        self.classifier = make(settings.embedding, n_labels, generator)

    def answer(self, codes: Tensor, observed: Tensor) -> Tensor:
        return torch.sigmoid(self.classifier(torch.relu(mean_over_views(codes, observed))))

    def loss_terms(self, batch: Batch) -> dict[str, Tensor]:
        settings, of_rows = self.settings, self.encode(batch)
        codes, whole = batch.gather(batch.stack(torch.cat(of_rows)), dim=1), batch.whole
        answers = self.answer(codes, whole.observed)
        contrast = instance_contrast(codes, whole.observed, settings.temperature)
        labels = (whole.labels, whole.label_mask)
        return {
            "classification": (
                masked_bce(answers, *labels)
                if settings.divide_by == "observed"
                else bce_over_all(answers, *labels, whole.n_samples)
            ),
            "reconstruction": settings.gamma * reconstruction_loss(batch, self.decoders, of_rows),
            "contrast": settings.beta * contrast,
        }


class DICNet(DeepClassifier):
    r"""Deep instance-level contrastive network.

    Every view has an auto-encoder whose code has one number per label. The mean code of the views
    a sample has classifies, :math:`P = \sigma(F(\mathrm{relu}(z)))`; codes of a sample in its views
    attract each other (NT-Xent with temperature τ):

    .. math:: L = L_{cls} + \gamma \sum_v \frac{1}{B d_v} \sum_{ij} W_{iv}
              (\hat x^v_{ij} - x^v_{ij})^2 + \beta \sum_{u<v} \ell_{uv}

    with the cross-entropy :math:`L_{cls}` of the observed labels.

    `fit(..., X_unlabeled=)`: samples without labels take part in reconstruction and contrast, as in
    the semi-supervised form of the released code.

    Deviations from the released code. It comes in two forms; `profile="paper"` has the settings of
    the semi-supervised one, on which the published figures rest, without its stop rules (the best
    weights are kept anyway), and learns from unlabelled samples only if they are given. The
    supervised form is `DICNet(profile="paper", fill="noise", start="usual", shuffle=False,
    divide_by="observed", score_weights=(0.5, 0.25, 0.25))`. `profile="default"`: normalisation over
    observed rows only, cross-entropy averaged over observed labels, equal weights in the score,
    patience of 50 epochs.

    Reference: Liu, Wen, Luo, Huang, Wu, Xu, AAAI 2023.

    Examples
    --------
    >>> import numpy as np, viewgap
    >>> X = {"a": np.random.default_rng(0).normal(size=(40, 6)), "b": np.ones((40, 3))}
    >>> Y = (X["a"][:, :2] > 0).astype(float)
    >>> model = viewgap.DICNet(max_epochs=2, wide=16, random_state=0).fit(X, Y)
    >>> model.predict_proba(X).shape
    (40, 2)
    """

    summary: ClassVar[str] = "view auto-encoders with instance-level contrast between the views"
    reference: ClassVar[str] = (
        "Liu, Wen, Luo et al.: Deep Instance-Level Contrastive Network, AAAI 2023"
    )
    certainty: ClassVar[str] = "released code"
    rounds_by_batch: ClassVar[bool] = True
    semi_supervised: ClassVar[bool] = True

    settings_type = DICNetSettings
    network_type = _Network

    embedding: int | None
    profiles: ClassVar = {
        "default": lambda n_labels, size: DICNetSettings(embedding=n_labels),
        "paper": lambda n_labels, size: DICNetSettings(
            embedding=n_labels,
            norm_rows="all",
            divide_by="all",
            score_weights=(1.0, 0.0, 0.0),
            patience=300,
        ),
    }

    def __init__(
        self,
        *,
        embedding: int | None = None,
        wide: int | None = None,
        beta: float | None = None,
        gamma: float | None = None,
        temperature: float | None = None,
        divide_by: str | None = None,
        fill: str | None = None,
        start: str | None = None,
        **shared: Unpack[NetworkParameters],
    ) -> None:
        self._store_parameters(locals())

    def _remedy_for_many_labels(self) -> str:
        return f"choose a smaller {parameter('embedding')}"

    def _label_matrices(self, settings: DICNetSettings, n_views: int) -> float:
        # Codes are as wide as the labels by default, and the classifier and every decoder begin
        # with a square layer: with gradient, momentum and the best weights so far.
        return 4.0 * (n_views + 1) if self.embedding is None else 0.0
