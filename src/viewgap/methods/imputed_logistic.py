"""Logistic regression on all views side by side, missing views replaced by the mean."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from viewgap.constraints import Doc
from viewgap.data.labels import Labels
from viewgap.data.preprocessing import Standardiser
from viewgap.data.viewset import ViewSet
from viewgap.errors import ViewgapWarning, parameter
from viewgap.methods.base import MultiViewClassifier, Validation
from viewgap.methods.linalg.blocks import (
    Matrix,
    design_matrix,
    in_parts,
    restore_scaler,
    row_products,
    save_scaler,
)
from viewgap.parameters import Count, Positive
from viewgap.search import Range
from viewgap.state import State


class ImputedLogistic(MultiViewClassifier):
    r"""One logistic regression per label, on the rows where the label is observed.

    The input is every view, standardised and set to 0 (the training mean) where it is missing, and
    one column per view that says whether it was observed. For label j

    .. math:: \min_{w, b} \tfrac12 \lVert w \rVert^2
              + C \sum_i \log(1 + \exp(-(2 y_{ij} - 1)(w^\top x_i + b))) .

    A label that was observed with one value only keeps that value.

    Examples
    --------
    >>> import numpy as np, viewgap
    >>> X = {"a": np.random.default_rng(0).normal(size=(40, 6)), "b": np.ones((40, 3))}
    >>> X["b"][:10] = np.nan
    >>> Y = (X["a"][:, :2] > 0).astype(float)
    >>> model = viewgap.ImputedLogistic().fit(X, Y)
    >>> model.predict_proba(X).shape
    (40, 2)
    """

    summary = "logistic regression on mean-imputed views with observed-indicators"
    reference = "Cox, The regression analysis of binary sequences, JRSS B 20(2), 1958"

    C: Annotated[
        Positive, Doc("Weight of the data against the penalty."), Range(1e-4, 1.0, log=True)
    ]
    max_iter: Annotated[Count, Doc("Most iterations of the optimiser per label.")]
    n_iter_: Annotated[int, Doc("Most iterations that a label took; not kept in a model file.")]

    def __init__(
        self,
        C: float = 0.005,
        max_iter: int = 500,
        views: Mapping[str, Any] | None = None,
        nan: str = "mean",
        on_empty: str = "error",
    ) -> None:
        self._store_parameters(locals())

    def _fit(self, views: ViewSet, labels: Labels, validation: Validation | None) -> None:
        self._scaler = Standardiser.fit(views)
        inputs, back = _rotate(design_matrix(views, self._scaler))
        weights = np.zeros((inputs.shape[1], labels.n_labels))
        self._intercepts = np.zeros(labels.n_labels)
        iterations = [0]
        for label in np.flatnonzero(~self._constant()):
            rows = labels.observed[:, label]
            model = LogisticRegression(C=self.C, max_iter=self.max_iter)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                model.fit(inputs[rows], labels.values[rows, label])
            iterations.append(int(model.n_iter_[0]))
            weights[:, label] = model.coef_[0]
            self._intercepts[label] = model.intercept_[0]
        self._weights = weights if back is None else back @ weights
        self.n_iter_ = max(iterations)
        unfinished = sum(count >= self.max_iter for count in iterations)
        if unfinished:
            warnings.warn(
                f"{unfinished} of {labels.n_labels} labels stopped at max_iter={self.max_iter} "
                f"before the optimum; raise {parameter('max_iter')}",
                ViewgapWarning,
                stacklevel=3,
            )

    def _constant(self) -> NDArray[np.bool_]:
        """Labels with nothing to tell apart: always 0, always 1, or never observed."""
        return ~((self.label_frequency_ > 0) & (self.label_frequency_ < 1))

    def _predict_proba(self, views: ViewSet) -> Matrix:
        return in_parts(views, self._predict_part)

    def _predict_part(self, views: ViewSet) -> Matrix:
        inputs = design_matrix(views, self._scaler)
        probabilities: Matrix = expit(row_products(inputs, self._weights) + self._intercepts)
        constant = self._constant()
        probabilities[:, constant] = self.label_frequency_[constant]
        return probabilities

    def _get_state(self) -> State:
        arrays: dict[str, NDArray[Any]] = save_scaler(self._scaler)
        return State(arrays | {"weights": self._weights, "intercepts": self._intercepts})

    def _set_state(self, state: State) -> None:
        labels, inputs = len(self.label_names_), self.n_features_in_ + len(self.view_dims_)
        self._scaler = restore_scaler(state, self.view_dims_, self.view_names_)
        self._weights = state.array("weights", (inputs, labels), np.float64)
        self._intercepts = state.array("intercepts", (labels,), np.float64)


def _rotate(inputs: Matrix) -> tuple[Matrix, Matrix | None]:
    """Return coordinates of the rows in the space they span, and the way back to the columns.

    The optimum of a penalised linear model lies in the span of its rows, so with more columns than
    rows the same model is found among at most n coordinates. Shape: (n, r) and (columns, r); None
    when there is nothing to gain.
    """
    rows, columns = inputs.shape
    if columns <= rows:
        return inputs, None
    values, vectors = np.linalg.eigh(inputs @ inputs.T)
    kept = values > values[-1] * 1e-12
    lengths = np.sqrt(values[kept])
    return vectors[:, kept] * lengths, inputs.T @ (vectors[:, kept] / lengths)
