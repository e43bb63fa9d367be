"""NAIM3L: linear models of non-aligned views, with low rank per label and high rank over all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from viewgap.data.labels import Labels
from viewgap.data.viewset import ViewSet
from viewgap.methods.base import Validation
from viewgap.methods.fitting.random_state import as_generator
from viewgap.methods.linalg.blocks import Matrix, in_parts, soft_clip
from viewgap.methods.naim3l.features import Projection
from viewgap.methods.naim3l.settings import PROFILES, NAIM3LSettings
from viewgap.methods.naim3l.solver import Problem, Solver
from viewgap.methods.profiled import SolverClassifier, check_label_matrices
from viewgap.parameters import Seed
from viewgap.state import State


class NAIM3L(SolverClassifier):
    r"""Non-Aligned Incomplete Multi-view and Missing Multi-label Learning.

    Every view has a linear model into the common label space, and the rows of all views are
    stacked there, so that it need not be known which rows belong to one sample. Predictions of
    rows that share a positive label should be alike (low rank), all of them together should not
    (high rank). With X block-diagonal over the views, Y in {-1, 1}, P the mask of observed labels
    and :math:`X_k` the rows with an observed positive label k,

    .. math:: \min_W \tfrac12 \lVert P \circ (XW - Y) \rVert_F^2
              + \lambda \Big( \sum_k \lVert X_k W \rVert_* - \lVert XW \rVert_* \Big) .

    Solved by ADMM on :math:`Z_k = X_k W` (penalty μ) with the concave term linearised. A view's
    features are its principal components, each row scaled to length 1, and a constant. The answer
    is the mean of :math:`x^v W^v` over the views that a sample has, mapped by (s + 1) / 2 with
    soft ends: above one half where the mean score is positive.

    `rank_weight` is λ, `penalty` is μ. A parameter left at None takes the profile's value:

    - `profile="default"`: columns standardised on observed training values before the principal
      components; two guards (`guarded`): the high-rank term has only rows with an observed
      positive label, without which the objective has no lower bound, and the linearised data term
      gets :math:`\tfrac12\lVert X(W - W_t)\rVert^2`, so that the W step cannot overshoot; W
      starts at 0, so that directions without any evidence have no say (and nothing is random);
      λ = 0.2, chosen on validation rows of Corel5k.
    - `profile="paper"`: the released procedure with λ = 0.4, its value for Corel5k (Pascal07 1.5,
      MIRFlickr 0.6, ESPGame and IAPRTC12 0.2): components of raw columns, the bare
      linearisation, W from uniform(-1, 1), and `RunError` where the released code gives up (a
      singular value above 3000).

    Reference: Li and Chen, "A Concise yet Effective Model for Non-Aligned Incomplete Multi-view
    and Missing Multi-label Learning", IEEE TPAMI 2022. Written from its mathematics.

    Notes
    -----
    Deviations from the released procedure, in both profiles:

    - principal components are fitted on the training rows that have the view; released: on all
      samples, test rows and values declared missing included;
    - a sample's views are averaged before the metrics; released: metrics per view, then averaged
      over the views, all of them complete in the test rows, samples without positives left out;
    - a ridge of 1e-6, relative to the mean of the diagonal, in the W step;
    - the released protocol has no validation rows, removes views from training rows only, and
      protects the first positive sample of each label; here the protocol is the caller's.

    The solver often uses all its iterations. That is no reason for a warning; `converged_` tells.
    The objective is computed with Z in place of :math:`X_k W`, and `residual_` is the largest
    change of an entry of W or Z.

    Examples
    --------
    >>> import numpy as np, viewgap
    >>> rng = np.random.default_rng(0)
    >>> X = {"a": rng.normal(size=(40, 6)), "b": rng.normal(size=(40, 3))}
    >>> X["b"][:10] = np.nan
    >>> Y = (X["a"][:, :2] > 0).astype(float)
    >>> model = viewgap.NAIM3L(random_state=0).fit(X, Y)
    >>> model.predict_proba(X).shape
    (40, 2)
    >>> len(model.objective_) == model.n_iter_
    True
    """

    summary: ClassVar[str] = "a linear model per view; low rank for each label, high rank over all"
    reference: ClassVar[str] = (
        "Li and Chen: A Concise yet Effective Model for Non-Aligned Incomplete Multi-View and "
        "Missing Multi-Label Learning, TPAMI 2022"
    )
    certainty: ClassVar[str] = "released code"
    rounds_by_batch: ClassVar[bool] = True

    settings_type = NAIM3LSettings
    profiles: ClassVar = PROFILES

    settings_: NAIM3LSettings

    def __init__(
        self,
        *,
        profile: str = "default",
        random_state: Seed = None,
        rank_weight: float | None = None,
        penalty: float | None = None,
        components: int | None = None,
        standardise: bool | None = None,
        guarded: bool | None = None,
        start: str | None = None,
        ridge: float | None = None,
        tolerance: float | None = None,
        max_iter: int | None = None,
        views: Mapping[str, Any] | None = None,
        nan: str = "mean",
        on_empty: str = "error",
    ) -> None:
        self._store_parameters(locals())

    def _fit(self, views: ViewSet, labels: Labels, validation: Validation | None) -> None:
        check_label_matrices(type(self).__name__, 8, labels.n_labels)
        settings = self.settings_ = self._resolve(labels.n_labels)
        signs = np.where(labels.observed, 2 * labels.values.astype(np.int8) - 1, 0).astype(np.int8)
        self._projections: list[Projection] = []
        features, stacked = [], []
        for index, name in enumerate(views.names):
            rows = np.flatnonzero(views.observed[:, index])
            block = views.rows(name, rows)
            gaps = views.may_miss_values(name)
            projection = Projection.fit(block, settings.components, settings.standardise, gaps)
            self._projections.append(projection)
            features.append(projection.features(block))
            stacked.append(signs[rows])
        start = [np.zeros((part.shape[1], labels.n_labels)) for part in features]
        if settings.start == "uniform":
            rng = as_generator(self.random_state)
            start = [rng.uniform(-1.0, 1.0, part.shape) for part in start]
        problem = Problem.of(features, np.vstack(stacked), settings.guarded)
        solver = Solver(problem, settings, start)
        self._iterate(solver.step)
        self._weights = solver.weights

    def _predict_proba(self, views: ViewSet) -> Matrix:
        return in_parts(views, self._predict_part)

    def _predict_part(self, views: ViewSet) -> Matrix:
        total = np.zeros((len(views), len(self.label_names_)))
        for index, name in enumerate(views.names):
            rows = np.flatnonzero(views.observed[:, index])
            block = views.rows(name, rows)
            if views.may_miss_values(name):
                block = self._projections[index].filled(block)
            total[rows] += self._projections[index].features(block) @ self._weights[index]
        return soft_clip((total / views.observed.sum(axis=1, keepdims=True) + 1.0) / 2.0)

    def _get_state(self) -> State:
        arrays: dict[str, NDArray[Any]] = {}
        for index, (projection, weights) in enumerate(
            zip(self._projections, self._weights, strict=True)
        ):
            arrays[f"centre.{index}"] = projection.centre
            arrays[f"components.{index}"] = projection.components
            arrays[f"weights.{index}"] = weights
        return State(arrays, self._metadata())

    def _set_state(self, state: State) -> None:
        self._set_metadata(state)
        self._projections, self._weights = [], []
        for index, dim in enumerate(self.view_dims_):
            centre = state.array(f"centre.{index}", (dim,), np.float64)
            components = state.array(f"components.{index}", (dim, None), np.float64)
            shape = (components.shape[1] + 1, len(self.label_names_))
            self._projections.append(Projection(centre, components))
            self._weights.append(state.array(f"weights.{index}", shape, np.float64))
