"""SCSD: shared codebook and fused-teacher self-distillation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, ClassVar, Unpack, cast

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from torch import Tensor

from viewgap.constraints import Doc
from viewgap.data.labels import Labels
from viewgap.data.viewset import ViewSet
from viewgap.errors import SettingError, parameter
from viewgap.methods.base import Validation
from viewgap.methods.deep import DeepClassifier
from viewgap.methods.linalg.threads import one_blas_thread
from viewgap.methods.networks.parameters import NetworkParameters
from viewgap.methods.scsd.imputation import filled_view, rows_to_fill, warn_of_means
from viewgap.methods.scsd.network import SCSDNetwork
from viewgap.methods.scsd.settings import COMPARED_LABELS, PROFILES, SCSDSettings
from viewgap.methods.scsd.view_regression import ViewRegression
from viewgap.state import State
from viewgap.training.batches.source import BatchSource
from viewgap.training.committee import mean, networks_of
from viewgap.training.prediction import RowFunction, mean_of_views, row_function, stack_views


class SCSD(ClassNamePrefixFeaturesOutMixin, TransformerMixin, DeepClassifier):  # type: ignore[misc]
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
    prediction too); `configs/` has the settings for the other data sets. `profile="equations"` is
    the same with the paper's equations to the letter, where the released code deviates from them.

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
    network_type = SCSDNetwork
    profiles = PROFILES

    settings_: SCSDSettings
    view_weights_: Annotated[dict[str, float], Doc("Weight of every view in prediction.")]
    codebook_usage_: Annotated[float, Doc("Share of the codes in use; NaN without a codebook.")]
    thresholds_: Annotated[Any, Doc("Probability of each label above which `predict` says 1.")]
    imputation_error_: Annotated[
        dict[str, float] | None,
        Doc(
            "Squared error of `impute` for every view, relative to that of the column means: 1 "
            "where nothing could be learned. From training rows that were left out; columns count "
            "in units of their standard deviation. None where `impute` decodes."
        ),
    ] = None
    _regression: ViewRegression | None = None

    def __init__(
        self,
        *,
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
        code_length: str | None = None,
        quantisation_reduction: str | None = None,
        quantise: bool | None = None,
        reconstruction: bool | None = None,
        cross_view: bool | None = None,
        pairs: str | None = None,
        decoder: str | None = None,
        reconstruction_reduction: str | None = None,
        reconstruction_average: str | None = None,
        label_loss: str | None = None,
        log_epsilon: float | None = None,
        classifier: str | None = None,
        self_distillation: bool | None = None,
        teacher: bool | None = None,
        distillation: str | None = None,
        distillation_average: str | None = None,
        fusion: str | None = None,
        label_block: int | None = None,
        correlation_labels: int | None = None,
        correlation_diagonal: bool | None = None,
        **shared: Unpack[NetworkParameters],
    ) -> None:
        self._store_parameters(locals())

    # ------------------------------------------------------------------ what the model knows

    def codes(self, X: Any) -> NDArray[np.int64]:
        """Return the indices of the codes of every view.

        Parameters
        ----------
        X : ViewSet, dict, list, DataFrame or array
            The views, as in `fit`.

        Returns
        -------
        array of int of shape (n, m, g)
            One index for each of the g segments of a view's representation; -1 where the view is
            missing. Every network of a committee has a codebook of its own; these are the codes of
            the first one.
        """
        self._check_fitted()
        if not self.settings_.quantise:
            raise SettingError("there are no codes: this model was fitted with quantise=False")
        views = self._check_for_prediction(X)
        groups = self.settings_.embedding // self.settings_.code_dim
        merge = partial(stack_views, width=groups, missing=np.int64(-1))
        of_view = self._networks[0].code_indices
        return self._run(views, row_function(self.network_, of_view, merge, groups))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []  # `transform` gives the network's own type
        return tags

    def transform(self, X: Any) -> Any:
        """Return one representation per sample.

        Parameters
        ----------
        X : ViewSet, dict, list, DataFrame or array
            The views, as in `fit`.

        Returns
        -------
        array of float of shape (n, n_networks * embedding)
            The mean of the (quantised) codes of the observed views, weighted as prediction weighs
            the views: by the weights of the pooling, or by the frozen view qualities. The networks
            of a committee stand side by side, for each has a code space of its own. Zero for a
            sample without any view. A DataFrame if X came as DataFrames, or by `set_output`.
        """
        views = self._check_for_prediction(X)
        merge = partial(mean_of_views, weights=self._view_weights)
        function = row_function(self.network_, self._latent, merge, self._n_features_out)
        values = self._run(views, function)
        self._check_finite(views, values)
        return self._with_ids(views, values, self.get_feature_names_out())

    @property
    def _n_features_out(self) -> int:
        return self.settings_.n_networks * self.settings_.embedding

    def _latent(self, view: int, x: Tensor, n_rows: int) -> Tensor:
        return torch.cat([network.latent(view, x, n_rows) for network in self._networks], dim=1)

    def _view_weights(self, observed: NDArray[np.bool_]) -> NDArray[Any]:
        """Share of every view in the answer, averaged over the networks, (n, m)."""
        here = torch.from_numpy(np.array(observed)).to(next(self.network_.parameters()).device)
        if self._pooling is not None:
            weights = self._pooling.view_weights(here)
        else:
            weights = mean([network.view_weights(here) for network in self._networks])
        return np.asarray(weights.cpu().numpy())

    def impute(self, X: Any) -> ViewSet | dict[str, Any]:
        """Fill missing views and missing values from the other views of the sample.

        A linear regression on whichever other views a sample has, learned by `fit` from the
        samples with at least two views; `imputation_error_` tells how good it is for every view.
        Where nothing could be learned, the means of the columns in the training data are filled
        in, with a `ViewgapWarning`. Filled values stay within the range of the training data.

        With the published profiles, and of models saved by earlier versions, the other views are
        decoded by the network one by one, and the mean is taken.

        A missing value (NaN in a row that is there) of a sample without any other view gets the
        mean of its column; a sample without any view stays as it is.

        Observed values come back as they are, also those beside a missing value, and also with
        `nan="missing_view"`, which leaves such a row out of what the others are filled from. They
        keep their type, except that integers, where something beside them had to be filled, become
        floating-point numbers of the same value.

        Parameters
        ----------
        X : ViewSet, dict, list, DataFrame or array
            The views, as in `fit`.

        Returns
        -------
        ViewSet or dict of str to DataFrame
            `{view: DataFrame}` if X came as DataFrames.

        Examples
        --------
        >>> import numpy as np, viewgap
        >>> rng = np.random.default_rng(0)
        >>> a = rng.normal(size=(200, 3))
        >>> X = {"a": a, "b": a @ rng.normal(size=(3, 4))}
        >>> X["b"][:50] = np.nan
        >>> model = viewgap.SCSD(max_epochs=2, random_state=0).fit(X, (a > 0).astype(float))
        >>> model.impute(X).observed.all()
        np.True_
        >>> model.imputation_error_["b"] < 0.1
        True
        """
        self._check_fitted()
        if not self.settings_.reconstruction:
            raise SettingError("nothing to decode with: fitted with reconstruction=False")
        given = self._match(X, "error" if self.nan == "error" else "mean")
        views = self._check_for_prediction(given)
        predict = self._decode_view
        if self._regression is not None:
            scores = self._regression.scores(views, self.scaler_)
            predict = partial(self._regress_view, self._regression, scores)
        values, observed = {}, np.array(given.observed)
        with_mean: dict[str, int] = {}
        for j, name in enumerate(views.names):
            others = np.array(views.observed)
            others[:, j] = False
            rows = np.flatnonzero(rows_to_fill(given, j) & others.any(axis=1))
            filled = None
            if len(rows):
                rest = views.with_observed(others)[rows]
                filled, n_means = predict(j, rest, rows)
                self._check_finite(rest, filled)
                with_mean |= {name: n_means} if n_means else {}
            filling = filled_view(given, j, rows, filled, partial(self._raw_mean, j))
            values[name], observed[:, j] = filling
        warn_of_means(with_mean)
        result = views.with_values(values, observed)
        return result.to_frames() if views.from_frames and not isinstance(X, ViewSet) else result

    def _decode_view(
        self, j: int, rest: ViewSet, rows: NDArray[np.intp]
    ) -> tuple[NDArray[Any], int]:
        """Values (k, d) of view j decoded from the others, and how many rows are means: none."""
        return self._unscale(j, self._run(rest, self._decoded(j))), 0

    def _regress_view(
        self,
        regression: ViewRegression,
        scores: NDArray[np.float32],
        j: int,
        rest: ViewSet,
        rows: NDArray[np.intp],
    ) -> tuple[NDArray[Any], int]:
        """Values (k, d) of view j by regression on the others, and how many rows are means."""
        found, learned = regression.predict(j, scores[rows], rest.observed)
        values = self._raw_mean(j) + found / regression.column_scale(j)
        if self.column_ranges_ is not None:
            columns = self.column_ranges_.views[j]
            values = np.clip(values, columns.low, columns.high)
        return values, int((~learned).sum())

    def _raw_mean(self, view: int) -> NDArray[Any]:
        """Mean of every column of a view in the training data, (d,), in the units of the data."""
        if self.column_ranges_ is not None:
            return self.column_ranges_.views[view].mean
        width = self.view_dims_[view]  # a model saved before the means were kept
        return np.asarray(self._unscale(view, np.zeros((1, width), dtype=np.float32))[0])

    def _decoded(self, target: int) -> RowFunction:
        """Mean over the views of what the decoder of `target` makes of their codes, (n, d)."""

        def decode(view: int, x: Tensor, n_rows: int) -> Tensor:
            return mean([network.decode(view, target, x, n_rows) for network in self._networks])

        width = self.view_dims_[target]
        return row_function(self.network_, decode, mean_of_views, width, passes=2)

    @property
    def _networks(self) -> Sequence[SCSDNetwork]:
        return cast("Sequence[SCSDNetwork]", networks_of(self.network_))

    def _unscale(self, view: int, values: NDArray[Any]) -> NDArray[Any]:
        return values if self.scaler_ is None else self.scaler_.invert(view, values)

    # ------------------------------------------------------------------ the hooks of a deep method

    def _fit(self, views: ViewSet, labels: Labels, validation: Validation | None) -> None:
        super()._fit(views, labels, validation)
        self._regression = None
        if self.profile == "default" and self.settings_.reconstruction and not self._only_predicts:
            device = next(self.network_.parameters()).device
            with one_blas_thread():  # its systems are small
                self._regression = ViewRegression.fit(views, self.scaler_, device)
        self._summarise_imputation()

    def _summarise_imputation(self) -> None:
        self.imputation_error_ = None
        if self._regression is not None:
            errors = self._regression.error.tolist()
            self.imputation_error_ = dict(zip(self.view_names_, errors, strict=True))

    def _get_state(self) -> State:
        state = super()._get_state()
        if self._regression is not None:
            arrays = self._regression.to_arrays()
            state.arrays |= {f"imputation/{name}": array for name, array in arrays.items()}
        return state

    def _set_state(self, state: State) -> None:
        super()._set_state(state)
        for network in self._networks:
            network.check_compared_labels()
        arrays = state.part("imputation/")
        self._regression = None
        if arrays:  # models of earlier versions have none
            self._regression = ViewRegression.from_arrays(
                arrays, self.view_names_, self.view_dims_, self.scaler_
            )
        self._summarise_imputation()

    def _remedy_for_many_labels(self) -> str:
        compared = parameter("correlation_labels", COMPARED_LABELS)
        return f"use {parameter('fusion', 'mean')}, or {compared} to compare the most frequent"

    def _label_matrices(self, settings: SCSDSettings, n_views: int) -> float:
        # Each view compares a correlation of its own with that of the labels.
        all_labels = settings.fusion != "mean" and not settings.correlation_labels
        compared = n_views + 2.0 if all_labels else 0.0
        return compared + (0.0 if settings.classifier == "linear" else n_views)

    @property
    def _answers_single_views(self) -> bool:
        return True  # where the batch decides, it is about their weights

    def _after_training(self, source: BatchSource) -> None:
        if self.settings_.pooling == "batch":
            # Shown as view_weights_; prediction does not use it.
            for network in self._networks:
                network.freeze_quality(source)

    def _summarise(self) -> None:
        super()._summarise()
        weights = self._view_weights(np.ones((1, len(self.view_names_)), dtype=np.bool_))[0]
        self.view_weights_ = dict(zip(self.view_names_, weights.tolist(), strict=True))
        self.codebook_usage_ = math.nan
        if self.settings_.quantise:
            used = [float(network.codebook.usage()) for network in self._networks]
            self.codebook_usage_ = sum(used) / len(used)
