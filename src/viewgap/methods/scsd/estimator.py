"""SCSD: shared codebook and fused-teacher self-distillation."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from viewgap.constraints import Doc
from viewgap.data.labels import Labels
from viewgap.data.viewset import ViewSet
from viewgap.errors import SettingError, parameter
from viewgap.methods.deep import DeepClassifier
from viewgap.methods.scsd.committee import SCSDCommittee
from viewgap.methods.scsd.imputation import filled_view, rows_to_fill
from viewgap.methods.scsd.network import SCSDNetwork
from viewgap.methods.scsd.prediction import SCSDPrediction
from viewgap.methods.scsd.settings import PROFILES, SCSDSettings
from viewgap.metrics import expected_f1_thresholds
from viewgap.nn.fusion import fusion_weights, label_correlation
from viewgap.nn.voting import HeldOut, Known
from viewgap.parameters import Seed
from viewgap.training.batches import BatchSource
from viewgap.training.callbacks import Callback
from viewgap.training.prediction import RowFunction


class SCSD(DeepClassifier):
    """Shared Codebook and fused-teacher Self-Distillation.

    View encoders are quantised by one codebook shared by all views and trained to reconstruct one
    view from another; the views' predictions are fused by how well each keeps the label
    correlations; the fused prediction teaches every view:

    $$L = L_c + L_{dis} + \\alpha L_{rec} + L_{vq}$$  (Eq. 10)

    `profile="default"` is the clean model: views prepared by what their columns look like,
    normalisation over observed rows, and trust in the views learned on held-out rows, so that a
    prediction never depends on its batch mates and its probabilities mean what they say.
    Held-out rows are those passed to `fit` as `validation`, or `validation_fraction` of the
    training rows: they choose the epoch, and from them come trust (`view_weights_`), calibration
    and `thresholds_`. Without any, views count alike and thresholds are one half.
    `profile="paper"` keeps the released code's semantics with the settings published for Corel5k
    (missing rows enter the normalisation as zeros; view qualities come from the batch at hand, in
    prediction too); `configs/` has the settings for the other data sets.

    A parameter left at None takes the profile's value; `settings_` shows what was used. The
    switches of the paper's ablation table: `self_distillation`, `teacher` (the distillation term
    alone), `reconstruction`, `quantise`, `cross_view`, `fusion="mean"`.

    Examples
    --------
    >>> import numpy as np, viewgap
    >>> rng = np.random.default_rng(0)
    >>> X = {"a": rng.normal(size=(40, 6)), "b": rng.normal(size=(40, 3))}
    >>> X["b"][:10] = np.nan
    >>> Y = (X["a"][:, :2] > 0).astype(float)
    >>> model = viewgap.SCSD(max_epochs=2, random_state=0).fit(X, Y)
    >>> model.predict_proba(X).shape
    (40, 2)
    """

    summary: ClassVar[str] = (
        "shared codebook, correlation-weighted fusion, fused-teacher distillation"
    )
    reference: ClassVar[str] = "Yan, Yin, Sun, Wan: SCSD, ICLR 2026"
    certainty: ClassVar[str] = "released code"

    settings_type = SCSDSettings
    profiles = PROFILES

    network_: SCSDNetwork | SCSDCommittee
    settings_: SCSDSettings
    view_weights_: Annotated[dict[str, float], Doc("Weight of every view in prediction.")]
    codebook_usage_: Annotated[float, Doc("Share of the codes in use; NaN without a codebook.")]
    thresholds_: Annotated[Any, Doc("Probability of each label above which `predict` says 1.")]

    def __init__(
        self,
        *,
        profile: str = "default",
        random_state: Seed = None,
        device: str = "auto",
        precision: str = "auto",
        alpha: float | None = None,
        distill_weight: float | None = None,
        temperature: float | None = None,
        hidden: Sequence[int] | None = None,
        embedding: int | None = None,
        dropout: float | None = None,
        input_dropout: float | None = None,
        view_dropout: float | None = None,
        codebook_size: int | None = None,
        code_dim: int | None = None,
        codebook_decay: float | None = None,
        codebook_learning: str | None = None,
        quantise: bool | None = None,
        reconstruction: bool | None = None,
        cross_view: bool | None = None,
        self_distillation: bool | None = None,
        teacher: bool | None = None,
        fusion: str | None = None,
        fusion_statistics: str | None = None,
        n_networks: int | None = None,
        scaling: str | None = None,
        features: str | None = None,
        norm_rows: str | None = None,
        learning_rate: float | None = None,
        weight_decay: float | None = None,
        max_grad_norm: float | None = None,
        ema_decay: float | None = None,
        batch_size: int | None = None,
        max_epochs: int | None = None,
        patience: int | None = None,
        min_epochs: int | None = None,
        ties_renew_patience: bool | None = None,
        shuffle: bool | None = None,
        score_weights: Sequence[float] | None = None,
        validation_fraction: float = 0.15,
        views: Mapping[str, Any] | None = None,
        nan: str = "mean",
        on_empty: str = "error",
        callbacks: Sequence[Callback] | None = None,
        verbose: bool | int = False,
    ) -> None:
        self._store_parameters(locals())

    # ------------------------------------------------------------------ what the model knows

    def predict_views(self, X: Any) -> dict[str, Any]:
        """Every view's own prediction, {view: (n, c)}; NaN where the view is missing.

        DataFrames if X came as DataFrames.
        """
        views = self._check_for_prediction(X)
        answers = self._answers(views, SCSDPrediction.by_view).astype(np.float64)
        self._check_finite(views, np.where(views.observed[:, :, None], answers, 0.0))
        return {name: self._with_ids(views, answers[:, v]) for v, name in enumerate(views.names)}

    def transform(self, X: Any) -> NDArray[np.int64]:
        """Code numbers of every view, (n, m, g); -1 where the view is missing."""
        self._check_fitted()
        if not self.settings_.quantise:
            raise SettingError("there are no codes: this model was fitted with quantise=False")
        views = self._check_for_prediction(X)
        return self._answers(views, SCSDPrediction.numbers)

    def impute(self, X: Any) -> ViewSet | dict[str, Any]:
        """Fill missing views and missing cells by decoding the other views of the sample.

        Several other views are decoded one by one, and the mean is taken. A missing cell (NaN in a
        row that is there) of a sample without any other view gets the mean of its column in the
        training data; a sample without any view stays as it is.

        Observed values come back as they are, also those beside a missing cell, and also with
        `nan="missing_view"`, which leaves such a row out of what is decoded. They keep their type,
        except that integers, where something beside them had to be filled, become floating-point
        numbers of the same value.

        Returns a ViewSet, or `{view: DataFrame}` if X came as DataFrames.
        """
        self._check_fitted()
        if not self.settings_.reconstruction:
            raise SettingError("nothing to decode with: fitted with reconstruction=False")
        given = self._match(X, "error" if self.nan == "error" else "mean")
        views = self._check_for_prediction(given)
        values, observed = {}, np.array(given.observed)
        for j, name in enumerate(views.names):
            values[name], observed[:, j] = self._impute_view(given, views, j)
        result = views.with_values(values, observed)
        return result.to_frames() if views.from_frames and not isinstance(X, ViewSet) else result

    def _impute_view(self, given: ViewSet, views: ViewSet, j: int) -> tuple[Any, Any]:
        """Values of one view, filled where that is possible, and which rows then have values."""
        others = np.ones(views.observed.shape, dtype=np.bool_)
        others[:, j] = False
        rest = views.with_observed(others)
        wanted = rows_to_fill(given, j)
        decodable = np.flatnonzero(wanted & rest.has_view)
        decoded = None
        if len(decodable):
            decode = partial(SCSDPrediction.decoded, target=j)
            decoded = self._unscale(j, self._answers(rest[decodable], decode))
            self._check_finite(rest[decodable], decoded)
        return filled_view(given, j, decodable, decoded, partial(self._raw_mean, j))

    def _raw_mean(self, view: int) -> NDArray[Any]:
        """Mean of every column of a view in the training data, (d,), in the units of the data."""
        if self.column_ranges_ is not None:
            return self.column_ranges_.views[view].mean
        width = self.view_dims_[view]  # a model saved before the means were kept
        return np.asarray(self._unscale(view, np.zeros((1, width), dtype=np.float32))[0])

    def _answers(
        self, views: ViewSet, function: Callable[[SCSDPrediction], RowFunction]
    ) -> NDArray[Any]:
        return self._run(views, function(SCSDPrediction(self.network_)))

    def _unscale(self, view: int, values: NDArray[Any]) -> NDArray[Any]:
        return values if self.scaler_ is None else self.scaler_.invert(view, values)

    # ------------------------------------------------------------------ the hooks of a deep method

    def _make(
        self,
        dims: tuple[int, ...],
        n_labels: int,
        settings: SCSDSettings,
        generator: torch.Generator,
    ) -> SCSDNetwork | SCSDCommittee:
        size = 0 if settings.fusion == "mean" else n_labels
        kind = _network_type(settings)
        return kind(dims, torch.zeros(n_labels, size), settings, generator)

    def _build(
        self,
        dims: tuple[int, ...],
        labels: Labels,
        settings: SCSDSettings,
        generator: torch.Generator,
    ) -> SCSDNetwork | SCSDCommittee:
        return _network_type(settings)(dims, _target(labels, settings), settings, generator)

    def _remedy_for_many_labels(self) -> str:
        return f"use {parameter('fusion', 'mean')}"

    def _label_matrices(self, settings: SCSDSettings, n_views: int) -> float:
        # Each view compares a correlation of its own with that of the labels.
        return 0.0 if settings.fusion == "mean" else settings.n_networks * (n_views + 2.0)

    def _after_training(self, source: BatchSource) -> None:
        if self.settings_.fusion_statistics == "batch":
            # Shown as view_weights_; prediction does not use it.
            for member in self.network_.members:
                member.freeze_quality(source)

    def _use_held_out(self, views: ViewSet, labels: Labels, training: Labels) -> None:
        """Learn how far to trust each view, and from which probability on to decide."""
        network = self.network_
        if not isinstance(network, SCSDCommittee):
            return
        views, labels = views[views.has_view], labels[views.has_view]
        answers = self._answers(views, SCSDPrediction.by_view)
        held_out = HeldOut(
            torch.from_numpy(answers).transpose(0, 1),
            torch.from_numpy(np.array(views.observed)),
            torch.from_numpy(labels.values.astype(np.float32)),
            torch.from_numpy(np.array(labels.observed)),
        )
        known = Known.of(
            torch.from_numpy(np.array(training.values)),
            torch.from_numpy(np.array(training.observed)),
        )
        network.votes.learn(held_out, known)
        thresholds = expected_f1_thresholds(self._answers(views, SCSDPrediction.fused))
        network.votes.threshold.copy_(torch.from_numpy(thresholds))

    def _summarise(self) -> None:
        network = self.network_
        if isinstance(network, SCSDCommittee):
            weights = network.votes.shares().cpu()
            self.thresholds_ = network.votes.threshold.cpu().numpy().astype(np.float64)
        else:
            everything = torch.ones(1, len(self.view_names_), dtype=torch.bool)
            quality = network.view_quality.detach().cpu()
            weights = fusion_weights(quality, everything, self.settings_.temperature)[0]
        self.view_weights_ = dict(zip(self.view_names_, weights.tolist(), strict=True))
        self.codebook_usage_ = math.nan
        if self.settings_.quantise:
            used = [float(member.codebook.usage()) for member in network.members]
            self.codebook_usage_ = sum(used) / len(used)

    def _predict_proba(self, views: ViewSet) -> NDArray[Any]:
        if self.settings_.prediction == "batch":
            return self._predict_in_batches(views)
        return self._answers(views, SCSDPrediction.fused)


def _network_type(settings: SCSDSettings) -> type[SCSDNetwork] | type[SCSDCommittee]:
    return SCSDCommittee if settings.fusion_statistics == "held_out" else SCSDNetwork


def _target(labels: Labels, settings: SCSDSettings) -> Tensor:
    """Ŝ of the training labels (Eq. 4)."""
    if settings.fusion == "mean":
        return torch.zeros(labels.n_labels, 0)
    return label_correlation(torch.from_numpy(labels.values.astype(np.float32)))
