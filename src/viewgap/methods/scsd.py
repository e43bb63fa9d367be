"""SCSD: shared codebook and fused-teacher self-distillation."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from viewgap.data.labels import Labels
from viewgap.data.scaling import Standardiser
from viewgap.data.viewset import ViewSet
from viewgap.errors import SettingError
from viewgap.methods._scsd_network import SCSDNetwork
from viewgap.methods._scsd_prediction import SCSDPrediction
from viewgap.methods._scsd_settings import PROFILES, SCSDSettings
from viewgap.methods.deep import DeepClassifier
from viewgap.nn.fusion import fusion_weights, label_correlation
from viewgap.state import State
from viewgap.training.batches import BatchSource
from viewgap.training.plan import Layout
from viewgap.training.prediction import RowFunction
from viewgap.training.runtime import choose_runtime

# The label correlation is a (c, c) matrix, and each view compares one of its own with it.
_LARGEST_CORRELATION_BYTES = 2 << 30


class SCSD(DeepClassifier):
    """Shared Codebook and fused-teacher Self-Distillation.

    View encoders are quantised by one codebook shared by all views and trained to reconstruct one
    view from another; the views' predictions are fused by how well each keeps the label
    correlations; the fused prediction teaches every view:

    $$L = L_c + L_{dis} + \\alpha L_{rec} + L_{vq}$$  (Eq. 10)

    `profile="default"` is the clean model: normalisation over observed rows, view qualities frozen
    at the end of `fit`, so that a prediction never depends on its batch mates.
    `profile="paper"` keeps the released code's semantics with the settings published for Corel5k
    (missing rows enter the normalisation as zeros; view qualities come from the batch at hand, in
    prediction too); `configs/` has the settings for the other data sets.

    A parameter left at None takes the profile's value; `settings_` shows what was used. The
    switches of the paper's ablation table: `self_distillation`, `teacher` (the distillation term
    alone), `reconstruction`, `quantise`, `cross_view`, `fusion="mean"`.

    Fitted: `history_`, `best_epoch_`, `view_weights_`, `codebook_usage_`, `settings_`.

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

    network_: SCSDNetwork
    settings_: SCSDSettings
    view_weights_: dict[str, float]
    codebook_usage_: float

    def __init__(
        self,
        *,
        profile: str = "default",
        random_state: int | None = None,
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
        weight_average: float | None = None,
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
        norm_rows: str | None = None,
        scaling: str | None = None,
        learning_rate: float | None = None,
        weight_decay: float | None = None,
        clip: float | None = None,
        batch_size: int | None = None,
        max_epochs: int | None = None,
        patience: int | None = None,
        validation_fraction: float = 0.15,
        views: Mapping[str, Any] | None = None,
        nan: str = "error",
        on_empty: str = "error",
        verbose: bool = False,
    ) -> None:
        self.profile = profile
        self.random_state = random_state
        self.device = device
        self.precision = precision
        self.alpha = alpha
        self.distill_weight = distill_weight
        self.temperature = temperature
        self.hidden = hidden
        self.embedding = embedding
        self.dropout = dropout
        self.input_dropout = input_dropout
        self.view_dropout = view_dropout
        self.weight_average = weight_average
        self.codebook_size = codebook_size
        self.code_dim = code_dim
        self.codebook_decay = codebook_decay
        self.codebook_learning = codebook_learning
        self.quantise = quantise
        self.reconstruction = reconstruction
        self.cross_view = cross_view
        self.self_distillation = self_distillation
        self.teacher = teacher
        self.fusion = fusion
        self.fusion_statistics = fusion_statistics
        self.norm_rows = norm_rows
        self.scaling = scaling
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.clip = clip
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.views = views
        self.nan = nan
        self.on_empty = on_empty
        self.verbose = verbose

    # ------------------------------------------------------------------ what the model knows

    def predict_views(self, X: Any) -> dict[str, NDArray[np.float64]]:
        """Every view's own prediction, {view: (n, c)}; NaN where the view is missing."""
        views = self._check_for_prediction(X)
        answers = self._answers(views, SCSDPrediction.by_view).astype(np.float64)
        return {name: answers[:, v] for v, name in enumerate(views.names)}

    def transform(self, X: Any) -> NDArray[np.int64]:
        """Code numbers of every view, (n, m, g); -1 where the view is missing."""
        if not self.settings_.quantise:
            raise SettingError("there are no codes: this model was fitted with quantise=False")
        views = self._check_for_prediction(X)
        return self._answers(views, SCSDPrediction.numbers)

    def impute(self, X: Any) -> ViewSet:
        """Fill missing views by decoding the views that are there (mean over the latter)."""
        if not self.settings_.reconstruction:
            raise SettingError("nothing to decode with: fitted with reconstruction=False")
        views = self._check_for_prediction(X)
        filled: dict[str, NDArray[Any]] = {}
        for j, name in enumerate(views.names):
            values = views.rows(name).copy()
            gone = ~views.observed[:, j] & views.has_view
            if gone.any():
                decode = partial(SCSDPrediction.decoded, target=j)
                values[gone] = self._unscale(j, self._answers(views[gone], decode))
            filled[name] = values
        observed = views.observed | views.has_view[:, None]
        return ViewSet(filled, observed=observed, sample_ids=views.sample_ids)

    def _answers(
        self, views: ViewSet, function: Callable[[SCSDPrediction], RowFunction]
    ) -> NDArray[Any]:
        return self._run(views, function(SCSDPrediction(self.network_)))

    def _unscale(self, view: int, values: NDArray[Any]) -> NDArray[Any]:
        if self.scaler_ is None:
            return values
        return values / self.scaler_.scale[view] + self.scaler_.mean[view]

    # ------------------------------------------------------------------ the hooks of a deep method

    def _resolve(self, n_labels: int) -> SCSDSettings:
        if self.profile not in PROFILES:
            raise SettingError(f"profile must be one of {tuple(PROFILES)}, found {self.profile!r}")
        given = {f.name: getattr(self, f.name) for f in fields(SCSDSettings)}
        given = {name: value for name, value in given.items() if value is not None}
        if "hidden" in given:
            given["hidden"] = tuple(int(size) for size in given["hidden"])
        return replace(PROFILES[self.profile](n_labels), **given)

    def _build(
        self,
        dims: tuple[int, ...],
        labels: Labels,
        settings: SCSDSettings,
        generator: torch.Generator,
    ) -> SCSDNetwork:
        return SCSDNetwork(dims, _target(labels, settings, len(dims)), settings, generator)

    def _after_training(self, source: BatchSource) -> None:
        network = self.network_
        if self.settings_.fusion_statistics == "batch":
            network.freeze_quality(source)  # shown as view_weights_; prediction does not use it
        self._summarise()

    def _summarise(self) -> None:
        network = self.network_
        everything = torch.ones(1, len(self.view_names_), dtype=torch.bool)
        quality = network.view_quality.detach().cpu()
        weights = fusion_weights(quality, everything, self.settings_.temperature)[0]
        self.view_weights_ = dict(zip(self.view_names_, weights.tolist(), strict=True))
        self.codebook_usage_ = (
            float(network.codebook.usage()) if self.settings_.quantise else math.nan
        )

    def _predict_proba(self, views: ViewSet) -> NDArray[Any]:
        if self.settings_.fusion_statistics == "train":
            return self._answers(views, SCSDPrediction.fused)
        # As released: batches in the order given, each with view qualities of its own.
        with self._evaluating() as runtime:
            source = BatchSource(views, None, self.scaler_, runtime)
            batches = source.in_order(self.settings_.batch_size, Layout("dense"))
            return torch.cat([self.network_.predict_batch(b).cpu() for b in batches]).numpy()

    def _get_state(self) -> State:
        network = self.network_.state_dict()
        arrays = {f"network/{k}": v.detach().cpu().numpy() for k, v in network.items()}
        if self.scaler_ is not None:
            arrays |= {f"scaler/{k}": v for k, v in self.scaler_.to_arrays().items()}
        facts = {
            "settings": asdict(self.settings_),
            "history": self.history_,
            "best_epoch": self.best_epoch_,
            "n_epochs": self.n_epochs_,
        }
        return State(arrays, facts)

    def _set_state(self, state: State) -> None:
        settings = state.facts["settings"]
        self.settings_ = SCSDSettings(**settings | {"hidden": tuple(settings["hidden"])})
        tensors = {k: torch.from_numpy(np.array(v)) for k, v in state.part("network/").items()}
        _check_sizes(self.settings_, self.view_dims_, len(self.label_names_), tensors)
        generator = torch.Generator().manual_seed(0)
        network = SCSDNetwork(
            self.view_dims_, tensors["label_correlation"], self.settings_, generator
        )
        network.to(dtype=tensors["view_quality"].dtype).load_state_dict(tensors)
        self.network_ = network.to(choose_runtime(self.device).device).eval()
        scaler = state.part("scaler/")
        self.scaler_ = Standardiser.from_arrays(scaler) if scaler else None
        self.history_ = state.facts["history"]
        self.best_epoch_ = state.facts["best_epoch"]
        self.n_epochs_ = state.facts["n_epochs"]
        self._summarise()


def _check_sizes(
    settings: SCSDSettings, dims: tuple[int, ...], n_labels: int, tensors: Mapping[str, Tensor]
) -> None:
    """Refuse settings that do not fit the tensors before a network of that size is built."""
    expected = {f"classifiers.{v}.weight": (n_labels, settings.embedding) for v in range(len(dims))}
    for v, columns in enumerate(dims):
        sizes = (columns, *settings.hidden)
        for layer, pair in enumerate(zip(sizes[1:], sizes, strict=False)):
            expected[f"encoders.{v}.linears.{layer}.weight"] = pair
    if settings.quantise:
        expected["codebook.codes"] = (settings.codebook_size, settings.code_dim)
    for name, shape in expected.items():
        if name not in tensors or tuple(tensors[name].shape) != shape:
            raise ValueError(f"the settings ask for {name} of shape {shape}; the file has none")


def _target(labels: Labels, settings: SCSDSettings, n_views: int) -> Tensor:
    """Ŝ of the training labels (Eq. 4); refused when it would not fit into memory."""
    c = labels.n_labels
    needed = 4 * c * c * (n_views + 2)
    if settings.fusion == "label_correlation" and needed > _LARGEST_CORRELATION_BYTES:
        raise SettingError(
            f"fusion by label correlation needs {needed / 2**30:.1f} GiB for {c} labels and "
            f"{n_views} views (limit {_LARGEST_CORRELATION_BYTES / 2**30:.0f} GiB); "
            "pass fusion='mean'"
        )
    if settings.fusion == "mean":
        return torch.zeros(c, 0)
    return label_correlation(torch.from_numpy(labels.values.astype(np.float32)))
