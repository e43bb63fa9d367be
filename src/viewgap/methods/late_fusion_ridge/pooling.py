"""Log-odds pooling of ridge regressions, learned from answers of rows that they were not fitted on.

Torch, in which the pooling is written, is imported only where it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from viewgap.data.labels import Labels
from viewgap.methods.linalg.blocks import Matrix, row_products, soft_clip
from viewgap.state import State

if TYPE_CHECKING:
    from viewgap.nn.pooling import LogOddsPooling

N_PARTS = 5

Solve = Callable[[Matrix, Labels], tuple[Matrix, Matrix]]


def out_of_fold_scores(
    block: Matrix, labels: Labels, parts: NDArray[np.intp], solve: Solve
) -> Matrix:
    """Answer the rows of a view by regressions on the rows outside of their part, (n, c).

    NaN where no row lies outside, or no label of those is known.
    """
    scores = np.full(labels.shape, np.nan)
    for part in np.unique(parts):
        inside, outside = np.flatnonzero(parts == part), np.flatnonzero(parts != part)
        own = labels[outside]
        if own.n_observed:
            weights, intercepts = solve(block[outside], own)
            scores[inside] = row_products(block[inside], weights) + intercepts
    return scores


def fit_ridge_pooling(scores: Matrix, labels: Labels, training: Labels) -> LogOddsPooling:
    """Learn the pooling from scores (m, n, c) of rows with these labels; NaN: no answer.

    `training` are the labels of the training rows, whose frequencies are the prior.
    """
    from viewgap.methods.fitting.pooling import fit_pooling
    from viewgap.nn.pooling import LogOddsPooling

    pooling = LogOddsPooling(len(scores), labels.n_labels)
    told = np.flatnonzero(~np.isnan(scores[:, :, 0]).all(axis=0))
    if len(told):
        fit_pooling(pooling, _probabilities(scores[:, told]), labels[told], training)
    return pooling


def pooled_scores(
    pooling: LogOddsPooling, scores: Iterable[Matrix], observed: NDArray[np.bool_]
) -> Matrix:
    """Probabilities (n, c) from the scores of every view, anything where it is not observed."""
    from viewgap.methods.fitting.pooling import pooled

    seen = [np.where(there[:, None], own, np.nan) for own, there in _pairs(scores, observed)]
    return pooled(pooling, _probabilities(np.stack(seen)))


def restored_pooling(state: State, n_views: int, n_labels: int) -> LogOddsPooling | None:
    """The pooling of a model file; None if it has none."""
    arrays = state.part("pooling.")
    if not arrays:
        return None
    from viewgap.methods.fitting.pooling import pooling_from_state

    return pooling_from_state(State(arrays), n_views, n_labels)


def _pairs(scores: Iterable[Matrix], observed: NDArray[np.bool_]) -> Iterable[Any]:
    return zip(scores, observed.T, strict=True)


def _probabilities(scores: Matrix) -> Matrix:
    return np.where(np.isnan(scores), np.nan, soft_clip(np.nan_to_num(scores)))
