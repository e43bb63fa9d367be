"""RANK: codes as similar as their labels, views weighed by a quality network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Unpack

import numpy as np
import torch
from torch import Tensor, nn

from viewgap.constraints import Choice
from viewgap.data.labels import Labels
from viewgap.methods.deep import DeepClassifier
from viewgap.methods.networks.autoencoders import (
    AutoencoderNetwork,
    AutoencoderSettings,
    reconstruction_loss,
)
from viewgap.methods.networks.parameters import NetworkParameters
from viewgap.nn.contrast import label_guided_contrast, label_similarity, view_agreement
from viewgap.nn.label_graph import conditional_labels
from viewgap.nn.linear import make_linear
from viewgap.nn.losses import dependent_bce, quality_loss
from viewgap.nn.memory_bank import MemoryBank
from viewgap.parameters import Count, Fraction, NonNegative, setting
from viewgap.search import Around
from viewgap.training.batches.batch import Batch


@dataclass(frozen=True, kw_only=True)
class RANKSettings(AutoencoderSettings):
    """The settings of RANK."""

    alpha: NonNegative = setting(1.0, "Weight α of the label-guided contrast.", Around(10))
    beta: Fraction = setting(
        0.97, "Decay β of the start of cross-view agreement: its weight is 1 - β^epoch."
    )
    gamma: NonNegative = setting(0.1, "Weight γ of the reconstruction.")
    sigma: Fraction = setting(0.0, "Conditional label probabilities up to this are taken for 0.")
    trust: Annotated[str, Choice("observed", "all")] = setting(
        "observed",
        "Views that the quality network chooses among: observed ones or, as released, all.",
    )
    max_epochs: Count = 250


class _Network(AutoencoderNetwork):
    shares_batches = True

    dependency: Tensor
    bank: MemoryBank | None

    def __init__(
        self,
        dims: Sequence[int],
        n_labels: int,
        settings: RANKSettings,
        generator: torch.Generator,
    ) -> None:
        super().__init__(dims, settings, generator, square=False)
        self.dims, size = dims, settings.embedding
        self.quality = nn.ModuleList(
            [make_linear(size, size, generator), make_linear(size, 1, generator)]
        )
        self.classifier = make_linear(size, n_labels, generator)
        self.register_buffer("dependency", torch.eye(n_labels))
        self.bank = None

    # ------------------------------------------------------------------ life of a fit

    def prepare(self, labels: Labels) -> None:
        positives = torch.from_numpy(labels.values.astype(np.float32))
        depends = conditional_labels(positives)
        depends = torch.where(depends > self.settings.sigma, depends, torch.zeros_like(depends))
        self.dependency.copy_(depends.fill_diagonal_(1.0))
        sizes = (self.n_views, self.settings.embedding, labels.n_labels)
        self.bank = MemoryBank(len(labels), *sizes)

    def begin_epoch(self) -> None:
        if self.bank is not None:
            self.bank.passes += 1

    def end_training(self) -> None:
        self.bank = None

    # ------------------------------------------------------------------ evaluation

    def answer(self, codes: Tensor, observed: Tensor) -> Tensor:
        if self.settings.trust == "all":
            blank = [
                self.encode_view(v, codes.new_zeros(1, columns))
                for v, columns in enumerate(self.dims)
            ]
            codes = torch.where(observed.T.unsqueeze(-1), codes, torch.stack(blank))
        return self._classify(self._fuse(codes, self._trust(codes, observed)))

    def _trust(self, codes: Tensor, observed: Tensor) -> Tensor:
        """s: how much each view of a sample counts, (B, m)."""
        first, second = self.quality
        scores = second(torch.relu(first(codes))).squeeze(-1).T
        if self.settings.trust == "observed":
            scores = scores.masked_fill(~observed, -1e9)
        return torch.softmax(scores, dim=-1)

    def _fuse(self, codes: Tensor, trust: Tensor) -> Tensor:
        return (codes * trust.T.unsqueeze(-1)).sum(dim=0)

    def _classify(self, codes: Tensor) -> Tensor:
        return torch.sigmoid(self.classifier(torch.relu(codes)))

    # ------------------------------------------------------------------ training

    def loss_terms(self, batch: Batch) -> dict[str, Tensor]:
        settings, of_rows = self.settings, self.encode(batch)
        rebuilt = reconstruction_loss(batch, self.decoders, of_rows)
        codes = batch.gather(batch.stack(torch.cat(of_rows)), dim=1)
        # As released, views that are missing are weighed and added up like the others.
        everything = codes
        if settings.trust == "all":
            everything = batch.gather(torch.stack(of_rows), dim=1)
        batch = batch.whole
        trust = self._trust(everything, batch.observed)
        answers = self._classify(self._fuse(everything, trust.detach()))
        with torch.no_grad():
            alone = self._classify(codes)
        labels = (batch.labels, batch.label_mask)
        agreement, guided = self._contrasts(batch, codes)
        return {
            "classification": dependent_bce(answers, *labels, self.dependency, batch.n_samples),
            "reconstruction": settings.gamma * rebuilt,
            "agreement": agreement,
            "labels": guided,
            "quality": quality_loss(trust, alone, *labels, batch.observed, batch.n_samples),
        }

    def _contrasts(self, batch: Batch, codes: Tensor) -> tuple[Tensor, Tensor]:
        """The two contrastive terms, with their weights in this epoch; then remembers the batch."""
        bank, rows = self.bank, batch.rows
        if bank is None or rows is None:
            raise RuntimeError("training needs `prepare`, and batches that know their rows")
        positives, epoch = batch.labels * batch.label_mask, bank.passes - 1
        target = label_similarity(positives, batch.label_mask, bank.labels, bank.label_mask)
        itself = rows.unsqueeze(1) == torch.arange(len(bank) + 1, device=rows.device)
        target = target.masked_fill(itself, 0.0)
        target = target / (target.max(dim=1, keepdim=True).values + 1e-9)
        guided = label_guided_contrast(
            codes, bank.codes, batch.observed, bank.observed, target, ~itself
        )
        bank.write(rows, batch.sample_weight, codes, batch.observed, positives, batch.label_mask)
        agreement = (1.0 - self.settings.beta**epoch) * view_agreement(codes, batch.observed)
        return agreement, self.settings.alpha * (epoch > 0).to(guided.dtype) * guided


class RANK(DeepClassifier):
    r"""Label-guided contrast, cross-view agreement and learned view quality.

    Every view has an auto-encoder. A quality network gives each sample's views weights
    :math:`s_{iv}`; :math:`z_i = \sum_v s_{iv} z_i^v` and :math:`P = \sigma(F(\mathrm{relu}(z)))`.
    In epoch e = 0, 1, ...

    .. math:: L = L_{cls} + \gamma L_{AE} + (1 - \beta^e) L_{gp} + \alpha [e > 0] L_{lg} + L_{dis}

    :math:`L_{cls}`: cross-entropy spread over dependent labels; :math:`L_{AE}`: reconstruction;
    :math:`L_{gp}`: codes of a sample agree across views; :math:`L_{lg}`: codes of two samples (one
    from a memory of all training samples) are as similar as their labels; :math:`L_{dis}`: the
    quality network learns how well each view answers alone.

    Deviations from the released code. Both profiles: the memory is kept by row number (the released
    offset puts the last, shorter batch of an epoch into the wrong rows); a sample without observed
    labels gives no NaN. `profile="default"`: normalisation over observed rows only, quality weights
    over observed views only, shuffled batches, equal weights in the score, patience of 50 epochs.
    σ = 0 is what the released code notes for Corel5k and Pascal07; use 0.5 for ESPGame, IAPRTC12.

    Reference: Liu, Wen, Xu, Zhang, Nie, Zhang, TPAMI 2025.

    Examples
    --------
    >>> import numpy as np, viewgap
    >>> X = {"a": np.random.default_rng(0).normal(size=(40, 6)), "b": np.ones((40, 3))}
    >>> Y = (X["a"][:, :2] > 0).astype(float)
    >>> model = viewgap.RANK(max_epochs=2, wide=16, embedding=8, random_state=0).fit(X, Y)
    >>> model.predict_proba(X).shape
    (40, 2)
    """

    summary: ClassVar[str] = "label-guided contrast with a memory bank, learned view quality"
    reference: ClassVar[str] = (
        "Liu, Wen, Xu et al.: Reliable Representation Learning (RANK), TPAMI 2025"
    )
    certainty: ClassVar[str] = "released code"
    rounds_by_batch: ClassVar[bool] = True

    settings_type = RANKSettings
    network_type = _Network
    profiles: ClassVar = {
        "default": RANKSettings(),
        "paper": RANKSettings(
            norm_rows="all",
            trust="all",
            shuffle=False,
            score_weights=(0.25, 0.25, 0.5),
            patience=250,
        ),
    }

    def __init__(
        self,
        *,
        embedding: int | None = None,
        wide: int | None = None,
        alpha: float | None = None,
        beta: float | None = None,
        gamma: float | None = None,
        sigma: float | None = None,
        trust: str | None = None,
        **shared: Unpack[NetworkParameters],
    ) -> None:
        self._store_parameters(locals())

    def _label_matrices(self, settings: RANKSettings, n_views: int) -> float:
        return 3.0  # the dependencies, while they are made
