"""Gradient boosting on all views side by side, cross-fitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viewgap.data.labels import Labels
from viewgap.data.viewset import ViewSet
from viewgap.methods.linalg.blocks import side_by_side
from viewgap.methods.trees.boosting import BoostedTrees
from viewgap.methods.trees.view_models import Copy, Inputs, ViewModel
from viewgap.parameters import Seed


class JointBoosting(BoostedTrees):
    r"""Gradient-boosted trees per label on all views side by side; fitted by LightGBM.

    Every tree may split by columns of several views, so that it learns what only two views together
    tell: models of single views, however they are weighted, cannot. The input x is every view, set
    to its training mean where it is missing, and one column per view that says whether it was
    observed:

    .. math:: p_j(x) = \sigma\left(\sum_t f_{jt}(x)\right) .

    Every row is learned from twice, as it is and with some of its views hidden, each with
    probability 1/2 and never all of them: a view that is missing in prediction then is nothing
    new, even if no training row lacks it. A tree has at most 300 columns, however many there are.

    Rows are dealt to `n_parts` parts, with boosters for each, fitted on the rows outside of it; the
    calibration and the thresholds are fitted on the predictions of the rows inside. New samples get
    the calibrated mean. After `fit` the trees are plain arrays: prediction and model files need no
    LightGBM.

    Examples
    --------
    >>> import numpy as np, viewgap
    >>> X = {"a": np.random.default_rng(0).normal(size=(40, 6)), "b": np.ones((40, 3))}
    >>> X["b"][:10] = np.nan
    >>> Y = (X["a"][:, :2] > 0).astype(float)
    >>> model = viewgap.JointBoosting(n_estimators=10, random_state=0).fit(X, Y)
    >>> model.predict_proba(X).shape
    (40, 2)
    """

    _most_columns = (
        300  # as extra trees try: more of all views together make a fit slow, not better
    )

    _most_bins = 63  # a third of the time less, and no answer that was worse by more than chance

    summary = "gradient-boosted trees per label on all views side by side, cross-fitted"
    reference = (
        "Ke et al., LightGBM: a highly efficient gradient boosting decision tree, NeurIPS 2017"
    )

    def __init__(
        self,
        *,
        n_estimators: int = 150,
        learning_rate: float = 0.05,
        num_leaves: int = 15,
        min_child_samples: int = 5,
        colsample_bytree: float = 0.3,
        subsample: float = 0.8,
        reg_lambda: float = 1.0,
        n_parts: int = 5,
        random_state: Seed = None,
        n_jobs: int | None = None,
        views: Mapping[str, Any] | None = None,
        nan: str = "mean",
        on_empty: str = "error",
    ) -> None:
        self._store_parameters(locals())

    def _columns_of_models(self) -> tuple[int, ...]:
        return (self.n_features_in_ + len(self.view_dims_),)

    def _rows_of_models(self, views: ViewSet) -> NDArray[np.bool_]:
        return np.ones((len(views), 1), dtype=np.bool_)

    def _inputs(self, views: ViewSet, model: int, rows: NDArray[np.intp]) -> Inputs:
        return side_by_side(views, self._scaler, rows)

    def _fit_view(self, inputs: Inputs, labels: Labels, copies: Sequence[Copy]) -> ViewModel:
        n = len(inputs)
        twice = np.vstack([inputs, self._with_views_hidden(inputs, copies[0].seed)])
        again = [own._replace(rows=np.concatenate([own.rows, own.rows + n])) for own in copies]
        return super()._fit_view(twice, labels[np.arange(2 * n) % n], again)

    def _with_views_hidden(self, inputs: Inputs, seed: int) -> Inputs:
        """The rows with some of their views missing: set to 0, the mean, and said to be so."""
        dims = self.view_dims_
        observed = inputs[:, sum(dims) :] > 0
        draws = np.random.default_rng(seed).random(observed.shape)
        kept = observed & (draws < 0.5)
        one = np.where(observed, draws, np.inf).argmin(axis=1)  # stays, whatever is hidden
        kept[np.arange(len(kept)), one] = observed[np.arange(len(kept)), one]
        return np.where(np.hstack([np.repeat(kept, dims, axis=1), kept]), inputs, np.float32(0))

    def _shapes_of_models(self, views: ViewSet) -> list[tuple[int, float]]:
        return [(sum(views.dims) + views.n_views, 2 * len(views))]
