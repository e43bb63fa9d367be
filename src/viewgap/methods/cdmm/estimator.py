"""CDMM: kernel ridge regression per view, kept apart from the other views, weighted by its loss."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from viewgap.constraints import Doc
from viewgap.data.labels import Labels
from viewgap.data.preprocessing import PreparedRows, Standardiser
from viewgap.data.viewset import ViewSet
from viewgap.methods.base import Validation
from viewgap.methods.cdmm.kernel import Block, gaussian_kernel, unit_rows
from viewgap.methods.cdmm.labels import Targets, label_agreement, label_correlation, view_agreement
from viewgap.methods.cdmm.settings import PROFILES, CDMMSettings
from viewgap.methods.cdmm.solver import (
    Indices,
    System,
    ViewRows,
    choose_by_leave_one_out,
    exact_systems,
    hamming_threshold,
    nystroem_systems,
    solve_masked,
    view_weights,
)
from viewgap.methods.fitting.random_state import as_generator
from viewgap.methods.linalg.blocks import (
    Matrix,
    in_parts,
    restore_scaler,
    save_scaler,
    soft_clip,
    used_rows,
)
from viewgap.methods.profiled import ProfiledClassifier, check_label_matrices
from viewgap.parameters import Seed
from viewgap.state import State

_CHOICE_ROWS = 1000  # rows of a view that width and error weight are chosen on, at most


class CDMM(ProfiledClassifier):
    r"""Consistency and Diversity Multi-view Multi-label learning.

    Every view has a kernel ridge regression of its own (a kernel extreme learning machine) with
    :math:`\Omega_v` its Gaussian kernel :math:`\exp(-\lVert x - x' \rVert^2 / s)`. The term with
    :math:`\tilde K_v`, the centred kernels of all other views, keeps the answers of the views
    apart (Hilbert-Schmidt independence criterion); targets are the labels, mixed by the
    correlation S of labels that behave alike in the rows and in the views:

    .. math:: \beta_v = (\Omega_v + \alpha \tilde K_v \Omega_v + I / E)^{-1} Y S, \qquad
              \tilde K_v = \sum_{u \ne v} P \Omega_u P .

    A sample's score is :math:`\sum_v \theta_v k_v(x) \beta_v`, with larger weights for views with
    smaller losses :math:`r_v`: :math:`\theta_v = (\lambda + \sum_u r_u - V r_v) / (V \lambda)`,
    negative ones made very small.

    A parameter left at None takes the profile's value:

    - `profile="default"`: nothing is filled in. A view's regression has the rows that have the
      view, :math:`\tilde K_v` those that have both views; labels are centred, and those not
      observed have no weight in the error (found by filling in fitted values until nothing
      changes); the correlation S counts observed labels only. Kernel width and error weight of a
      view are the pair with the best leave-one-out answers on up to 1000 training rows, of four
      widths around the median distance and five weights; :math:`r_v` is the share of the labels
      that these answers do not explain. Views that a sample does not have are left out, the
      weights of the others scaled up to 1.
    - `profile="paper"`: as the literature runs it on incomplete data, with the numbers published
      for emotions: a missing view is the mean of the training rows that have it, and a label not
      observed is 0. Rows have length 1. Its one threshold for all labels is in `thresholds_`.

    Beyond `max_exact_rows` rows the kernels are replaced by Nyström features of `landmarks` rows
    of each view, drawn by `random_state`: memory then grows with rows times landmarks, not with
    the square of the rows. `exact_` tells which. The models keep the rows of their kernels.

    Reference: Zhao, Gao, Lu, Sun and Cheng, "Consistency and diversity neural network multi-view
    multi-label learning", Knowledge-Based Systems 218, 2021. Written from its mathematics and
    from what the released code computes.

    Notes
    -----
    Where the paper and the released code differ, this is the code: S is the normalised
    :math:`D^{-1/2} A D^{-1/2}` (paper: D - A), label agreement is the share of equal labels
    (paper: Jaccard), and no term is divided by (n - 1)². Deviations from it: :math:`\tilde K_v`
    starts anew for every view (released: the sums of the views before it stay); rows are not
    shifted before they are scaled; columns in which all label sums are equal have no part in the
    distance of labels (released: they make it undefined, and the agreement 0).

    Examples
    --------
    >>> import numpy as np, viewgap
    >>> rng = np.random.default_rng(0)
    >>> X = {"a": rng.normal(size=(40, 6)), "b": rng.normal(size=(40, 3))}
    >>> X["b"][:10] = np.nan
    >>> Y = (X["a"][:, :2] > 0).astype(float)
    >>> model = viewgap.CDMM(random_state=0).fit(X, Y)
    >>> model.predict_proba(X).shape
    (40, 2)
    >>> round(sum(model.view_weights_.values()), 6)
    1.0
    """

    summary: ClassVar[str] = "kernel ridge regression per view, kept apart and weighted by loss"
    reference: ClassVar[str] = (
        "Zhao et al.: Consistency and Diversity Neural Network Multi-View Multi-Label Learning, "
        "Knowledge-Based Systems 218, 2021"
    )
    certainty: ClassVar[str] = "released code"
    rounds_by_batch: ClassVar[bool] = True

    settings_type = CDMMSettings
    profiles: ClassVar = PROFILES

    settings_: CDMMSettings
    view_weights_: Annotated[dict[str, float], Doc("Weight θ of every view.")]
    kernel_widths_: Annotated[dict[str, float], Doc("Width s of every view's kernel.")]
    error_weights_: Annotated[dict[str, float], Doc("Weight E of every view's error.")]
    exact_: Annotated[bool, Doc("Whether the systems are over all rows, not Nyström features.")]

    def __init__(
        self,
        *,
        profile: str = "default",
        random_state: Seed = None,
        kernel_width: float | None = None,
        error_weight: float | None = None,
        diversity_weight: float | None = None,
        weight_smoothness: float | None = None,
        label_share: float | None = None,
        cutoff: float | None = None,
        features: str | None = None,
        masked: bool | None = None,
        max_exact_rows: int | None = None,
        landmarks: int | None = None,
        max_refills: int | None = None,
        tolerance: float | None = None,
        views: Mapping[str, Any] | None = None,
        nan: str = "mean",
        on_empty: str = "error",
    ) -> None:
        self._store_parameters(locals())

    # ------------------------------------------------------------------ fit

    def _fit(self, views: ViewSet, labels: Labels, validation: Validation | None) -> None:
        check_label_matrices(type(self).__name__, 12, labels.n_labels)
        settings = self.settings_ = self._resolve(labels.n_labels)
        rng = as_generator(self.random_state)
        self._scaler = None
        if settings.features != "rows":
            self._scaler = Standardiser.fit(views, features=settings.features)
        targets = Targets.of(labels, settings.masked)
        self._shift = targets.shift
        rows = used_rows(views, settings.masked)
        blocks = [self._features(views, index, own) for index, own in enumerate(rows)]
        self._correlation = self._correlate(rows, blocks, targets)
        parts, losses = self._parts(rows, blocks, targets, rng)
        fitted = self._solve(self._systems(parts, len(views), rng), parts, targets)
        self.thresholds_ = 0.5
        if not settings.masked:
            mixed = targets.values @ self._correlation
            losses = [float(np.square(each - mixed).sum()) for each in fitted]
        self._weights = view_weights(np.asarray(losses), settings.weight_smoothness)
        if not settings.masked:
            scores = sum(np.multiply(*pair) for pair in zip(self._weights, fitted, strict=True))
            threshold = hamming_threshold(np.asarray(scores), targets.positive)
            self.thresholds_ = float(soft_clip(np.asarray(threshold)))
        self._remember_views(parts)

    def _systems(self, parts: list[ViewRows], n: int, rng: np.random.Generator) -> Iterable[System]:
        settings = self.settings_
        self.exact_ = max(len(part.rows) for part in parts) <= settings.max_exact_rows
        if self.exact_:
            return exact_systems(parts, n, settings.diversity_weight)
        return nystroem_systems(parts, settings.diversity_weight, settings.landmarks, rng)

    def _features(self, views: ViewSet, index: int, rows: Indices) -> Block:
        """Features of rows of one view; those that do not have it get the mean of the training."""
        if self._scaler is not None:
            return PreparedRows(views, self._scaler).read(index, rows)  # 0 is the mean
        raw = self._unscaled()
        block = PreparedRows(views, raw).read(index, rows)
        if raw.mean is not None:
            block[~views.observed[rows, index]] = np.nan_to_num(raw.mean[index])
        return unit_rows(block)

    def _correlate(self, rows: list[Indices], blocks: list[Block], targets: Targets) -> Matrix:
        positive, observed = targets.positive, targets.observed.astype(np.float64)
        by_views = [
            view_agreement(block, positive[own], observed[own])
            for own, block in zip(rows, blocks, strict=True)
        ]
        agreement = label_agreement(positive, observed)
        settings = self.settings_
        return label_correlation(agreement, by_views, settings.label_share, settings.cutoff)

    def _parts(
        self, rows: list[Indices], blocks: list[Block], targets: Targets, rng: np.random.Generator
    ) -> tuple[list[ViewRows], list[float]]:
        """Views with their width and error weight, and the shares that they do not explain."""
        settings = self.settings_
        parts, losses = [], []
        for own, block in zip(rows, blocks, strict=True):
            width, weight = settings.kernel_width, settings.error_weight
            if settings.masked or width is None or weight is None:
                some = np.arange(len(own))
                if len(own) > _CHOICE_ROWS:
                    some = np.sort(rng.choice(len(own), _CHOICE_ROWS, replace=False))
                values, observed = targets.values[own[some]], targets.observed[own[some]]
                choice = choose_by_leave_one_out(block[some], values, observed, width, weight)
                width, weight = choice.width, choice.error_weight
                losses.append(choice.unexplained)
            parts.append(ViewRows(own, block, width, weight))
        return parts, losses

    def _solve(
        self, systems: Iterable[System], parts: list[ViewRows], targets: Targets
    ) -> list[Matrix]:
        """Solve every view's system; return its scores of the rows, if nothing is masked.

        The solution is linear in the target, so that S is applied to the scores instead.
        """
        self._anchors: list[Block] = []
        self._coefficients: list[Matrix] = []
        scores = []
        for part, system in zip(parts, systems, strict=True):
            values, observed = targets.values[part.rows], targets.observed[part.rows]
            refills, tolerance = self.settings_.max_refills, self.settings_.tolerance
            solution = solve_masked(system, values, observed, refills, tolerance)
            self._anchors.append(system.anchors)
            self._coefficients.append(system.coefficients(solution))
            if not self.settings_.masked:
                scores.append(system.design @ solution @ self._correlation)
        return scores

    def _remember_views(self, parts: list[ViewRows]) -> None:
        names = self.view_names_
        self.kernel_widths_ = {n: p.width for n, p in zip(names, parts, strict=True)}
        self.error_weights_ = {n: p.error_weight for n, p in zip(names, parts, strict=True)}
        self.view_weights_ = dict(zip(names, map(float, self._weights), strict=True))

    # ------------------------------------------------------------------ predict

    def _predict_proba(self, views: ViewSet) -> Matrix:
        return in_parts(views, self._predict_part, size=512)

    def _predict_part(self, views: ViewSet) -> Matrix:
        total = np.zeros((len(views), len(self.label_names_)))
        weight = np.zeros((len(views), 1))
        used = used_rows(views, self.settings_.masked)
        for index, (name, rows) in enumerate(zip(views.names, used, strict=True)):
            block = self._features(views, index, rows)
            kernel = gaussian_kernel(block, self._anchors[index], self.kernel_widths_[name])
            total[rows] += self._weights[index] * (kernel @ self._coefficients[index])
            weight[rows] += self._weights[index]
        return soft_clip(self._shift + (total / weight) @ self._correlation)

    # ------------------------------------------------------------------ state

    def _get_state(self) -> State:
        arrays: dict[str, NDArray[Any]] = {
            "shift": self._shift,
            "correlation": self._correlation,
            "weights": self._weights,
        }
        if self._scaler is not None:
            arrays |= save_scaler(self._scaler)
        for index, anchors in enumerate(self._anchors):
            arrays[f"anchors.{index}"] = anchors
            arrays[f"coefficients.{index}"] = self._coefficients[index]
        metadata = {
            "settings": asdict(self.settings_),
            "kernel_widths": self.kernel_widths_,
            "error_weights": self.error_weights_,
            "exact": self.exact_,
            "threshold": self.thresholds_,
        }
        return State(arrays, metadata)

    def _set_state(self, state: State) -> None:
        self.settings_ = self._stored_settings(state.metadata["settings"])
        names, n_labels = self.view_names_, len(self.label_names_)
        self._scaler = None
        if self.settings_.features != "rows":
            self._scaler = restore_scaler(state, self.view_dims_, names)
        self._shift = state.array("shift", (n_labels,), np.float64)
        self._correlation = state.array("correlation", (n_labels, n_labels), np.float64)
        self._weights = state.array("weights", (len(names),), np.float64)
        self._anchors, self._coefficients = [], []
        for index, dim in enumerate(self.view_dims_):
            anchors = state.array(f"anchors.{index}", (None, dim), np.float32)
            shape = (len(anchors), n_labels)
            self._anchors.append(anchors)
            self._coefficients.append(state.array(f"coefficients.{index}", shape, np.float64))
        metadata = state.metadata
        self.kernel_widths_ = {name: float(metadata["kernel_widths"][name]) for name in names}
        self.error_weights_ = {name: float(metadata["error_weights"][name]) for name in names}
        if not min(self.kernel_widths_.values()) > 0 or not (self._weights > 0).all():
            raise ValueError("widths and weights of the views must be positive")
        if not 0 <= metadata["threshold"] <= 1:
            raise ValueError("the threshold must be a probability")
        self.view_weights_ = dict(zip(names, map(float, self._weights), strict=True))
        self.exact_ = bool(metadata["exact"])
        self.thresholds_ = float(metadata["threshold"])
