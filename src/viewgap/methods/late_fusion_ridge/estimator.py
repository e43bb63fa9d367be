"""One ridge regression per view; the answers of the observed views are averaged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from viewgap.constraints import Choice, Doc, Real, SequenceOf
from viewgap.data.labels import Labels
from viewgap.data.preprocessing import Standardiser
from viewgap.data.viewset import ViewSet
from viewgap.methods.base import MultiViewClassifier, Validation
from viewgap.methods.fitting.estimate import EstimatedFit
from viewgap.methods.fitting.random_state import as_generator
from viewgap.methods.late_fusion_ridge.solver import products, solve_ridge
from viewgap.methods.linalg.blocks import (
    Matrix,
    in_parts,
    restore_scaler,
    row_products,
    save_scaler,
    scaled_block,
    soft_clip,
)
from viewgap.parameters import Seed
from viewgap.search import Options
from viewgap.state import State

Examples = tuple[Matrix, Labels]

_HELD_OUT_SHARE = 0.2
_PRODUCTS_A_SECOND = 1e10  # in double precision on one processor, about
_VALUES_A_SECOND = 1e7  # prepared and standardised, about
_Penalties = SequenceOf(Real(0, None, closed="neither"), 1, 1000, (0.1, 1.0))


class LateFusionRidge(EstimatedFit, MultiViewClassifier):
    r"""Ridge regression on every view alone, averaged over the views that a sample has.

    For view v with d standardised columns and label j, over the rows where both are observed,

    .. math:: \min_{w, b} \sum_i (y_{ij} - b - w^\top x_i^v)^2 + \lambda d \lVert w \rVert^2 .

    The penalty λ of a view is the one of `penalties` with the smallest squared error on the
    validation rows; without validation data, on a fifth of the training rows, drawn by
    `random_state` and used for the final fit as well.

    Examples
    --------
    >>> import numpy as np, viewgap
    >>> X = {"a": np.random.default_rng(0).normal(size=(40, 6)), "b": np.ones((40, 3))}
    >>> X["b"][:10] = np.nan
    >>> Y = (X["a"][:, :2] > 0).astype(float)
    >>> model = viewgap.LateFusionRidge(random_state=0).fit(X, Y)
    >>> model.predict_proba(X).shape
    (40, 2)
    """

    summary = "ridge regression per view, averaged over the observed views"
    reference = "Hoerl and Kennard, Ridge regression, Technometrics 12(1), 1970"

    penalties_: Annotated[dict[str, float], Doc("The penalty chosen for every view.")]

    penalties: Annotated[
        Sequence[float],
        _Penalties,
        Doc("Penalties λ to choose from."),
        Options((0.01, 0.1, 1.0, 10.0, 100.0), (0.01, 0.03, 0.1, 0.3), (3.0, 10.0, 30.0, 100.0)),
    ]
    features: Annotated[
        str,
        Choice("plain", "auto"),
        Doc(
            "What is standardised: the values as they are, or prepared as those of each view "
            "suggest (counts as directions, all else by rank)."
        ),
        Options("plain", "auto"),
    ]

    def __init__(
        self,
        penalties: Sequence[float] = (0.1, 0.3, 1.0, 3.0, 10.0),
        random_state: Seed = None,
        views: Mapping[str, Any] | None = None,
        nan: str = "mean",
        on_empty: str = "error",
        features: str = "plain",
    ) -> None:
        self._store_parameters(locals())

    def _fit(self, views: ViewSet, labels: Labels, validation: Validation | None) -> None:
        self._scaler = Standardiser.fit(views, features=self.features)
        self._weights: list[Matrix] = []
        self._intercepts: list[Matrix] = []
        self.penalties_ = {}
        order = as_generator(self.random_state).permutation(len(views))
        held_out = order[: int(_HELD_OUT_SHARE * len(views))]
        for index, name in enumerate(views.names):
            examples = self._examples(views, labels, index)
            if validation is None:
                is_held_out = np.isin(np.flatnonzero(views.observed[:, index]), held_out)
                penalty = self._choose(_part(examples, ~is_held_out), _part(examples, is_held_out))
            else:
                penalty = self._choose(examples, self._examples(*validation, index))
            [(weights, intercepts)] = self._solve(examples, [penalty])
            self._weights.append(weights)
            self._intercepts.append(intercepts)
            self.penalties_[name] = penalty

    def _examples(self, views: ViewSet, labels: Labels, index: int) -> Examples:
        rows = np.flatnonzero(views.observed[:, index])
        return scaled_block(views, self._scaler, index, rows), labels[rows]

    def _choose(self, examples: Examples, held_out: Examples) -> float:
        """Return the penalty whose solution on `examples` has the smallest error on `held_out`."""
        penalties = [float(penalty) for penalty in self.penalties]
        block, labels = held_out
        if len(penalties) == 1 or not labels.observed.any() or not examples[1].observed.any():
            return penalties[len(penalties) // 2]
        errors = []
        for weights, intercepts in self._solve(examples, penalties):
            difference = block @ weights + intercepts - labels.values
            errors.append(np.sum(difference[labels.observed] ** 2))
        return penalties[int(np.argmin(errors))]

    def _solve(self, examples: Examples, penalties: Sequence[float]) -> list[tuple[Matrix, Matrix]]:
        prior = np.nan_to_num(self.label_frequency_)
        return solve_ridge(*examples, penalties, prior, self._check_time)

    def _seconds(self, views: ViewSet, labels: Labels) -> float:
        total = 0.0
        for dim, observed in zip(views.dims, views.observed.T, strict=True):
            own = labels[np.flatnonzero(observed)]
            total += products(dim, own, len(self.penalties) + 1)
        values = float((views.observed * views.dims).sum())
        return total / _PRODUCTS_A_SECOND + values / _VALUES_A_SECOND

    def _predict_proba(self, views: ViewSet) -> Matrix:
        return in_parts(views, self._predict_part)

    def _predict_part(self, views: ViewSet) -> Matrix:
        scores = (self._view_scores(views, index) for index in range(views.n_views))
        return self._from_view_scores(scores, views.observed)

    def _view_scores(self, views: ViewSet, view: int) -> Matrix:
        """What one view says, (n, c); zero where it is missing."""
        scores = np.zeros((len(views), len(self.label_names_)))
        rows = np.flatnonzero(views.observed[:, view])
        block = scaled_block(views, self._scaler, view, rows)
        scores[rows] = row_products(block, self._weights[view]) + self._intercepts[view]
        return scores

    def _from_view_scores(self, scores: Iterable[Matrix], observed: NDArray[np.bool_]) -> Matrix:
        """Probabilities (n, c) from what every view says."""
        total = np.zeros((len(observed), len(self.label_names_)))
        for own in scores:
            total += own
        return soft_clip(total / observed.sum(axis=1, keepdims=True))

    def _get_state(self) -> State:
        arrays: dict[str, NDArray[Any]] = save_scaler(self._scaler)
        arrays |= {f"weights.{v}": part for v, part in enumerate(self._weights)}
        arrays |= {f"intercepts.{v}": part for v, part in enumerate(self._intercepts)}
        return State(arrays, {"penalties": self.penalties_})

    def _set_state(self, state: State) -> None:
        labels = len(self.label_names_)
        self._scaler = restore_scaler(state, self.view_dims_, self.view_names_)
        self._weights = [
            state.array(f"weights.{v}", (dim, labels), np.float64)
            for v, dim in enumerate(self.view_dims_)
        ]
        self._intercepts = [
            state.array(f"intercepts.{v}", (labels,), np.float64)
            for v in range(len(self.view_dims_))
        ]
        self.penalties_ = {
            name: float(state.metadata["penalties"][name]) for name in self.view_names_
        }


def _part(examples: Examples, rows: NDArray[np.bool_]) -> Examples:
    return examples[0][rows], examples[1][np.flatnonzero(rows)]
