"""Gradient boosting, one model per view and label, cross-fitted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from viewgap.data.viewset import ViewSet
from viewgap.methods.trees.boosting import BoostedTrees
from viewgap.methods.trees.view_models import ViewwiseClassifier
from viewgap.parameters import Seed


class GradientBoosting(BoostedTrees, ViewwiseClassifier):
    r"""Gradient-boosted trees per view and label, cross-fitted and pooled; fitted by LightGBM.

    The log-odds of label j in view v are a sum of small trees, each fitted to the gradient of the
    log loss on the rows that have the view and of which the label is observed:

    .. math:: p_{vj}(x) = \sigma\left(\sum_t f_{vjt}(x)\right) .

    Rows are dealt to `n_parts` parts, and every view has boosters for each part, fitted on the rows
    outside of it; the weights of the views, the calibration and the thresholds are fitted on the
    predictions of the rows inside. New samples get the mean of the boosters of each view, pooled by
    their log-odds over the views they have. Where a label has one value only among the rows of a
    booster, its smoothed frequency is the answer.

    The time of a fit grows with labels x views. After `fit` the trees are plain arrays: prediction
    and model files need no LightGBM.

    Examples
    --------
    >>> import numpy as np, viewgap
    >>> X = {"a": np.random.default_rng(0).normal(size=(40, 6)), "b": np.ones((40, 3))}
    >>> X["b"][:10] = np.nan
    >>> Y = (X["a"][:, :2] > 0).astype(float)
    >>> model = viewgap.GradientBoosting(n_estimators=10, random_state=0).fit(X, Y)
    >>> model.predict_proba(X).shape
    (40, 2)
    """

    summary = "gradient-boosted trees per view and label, cross-fitted and pooled"
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

    def _shapes_of_models(self, views: ViewSet) -> list[tuple[int, float]]:
        return list(zip(views.dims, views.observed.sum(axis=0).tolist(), strict=True))
