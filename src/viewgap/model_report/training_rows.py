"""Were these rows learned from? Told by what a model keeps of its training data.

A model keeps counts and the smallest and largest value of every column, no rows. A value of a
continuous column that equals the training extreme to the last bit is hardly one of a new sample;
the share of extremes that are found again estimates the share of training rows in the data.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from viewgap.data.labels import Labels
from viewgap.data.values import row_chunks
from viewgap.data.viewset import ViewSet
from viewgap.methods._training_summary import TrainingSummary
from viewgap.methods.base import MultiViewClassifier

FEWEST_EXTREMES = 10
_MOST_EQUAL = 2  # samples at an extreme; more of them, and the column is no continuous one
_FOUND = 0.02


@dataclass(frozen=True)
class TrainingRows:
    """What the data has of the training data.

    Attributes
    ----------
    same_counts : bool
        Samples, views, labels, positives and patterns are counted as in training, all of them.
    n_extremes, n_found : int
        Smallest and largest values of continuous columns in training, and those found in the data.
    """

    same_counts: bool
    n_extremes: int
    n_found: int

    @property
    def share(self) -> float | None:
        """Estimated share of the training rows that the data holds; None where it cannot be."""
        return None if self.n_extremes < FEWEST_EXTREMES else self.n_found / self.n_extremes

    @property
    def found(self) -> bool | None:
        """Whether training rows are in the data; None where that cannot be told."""
        if self.same_counts:
            return True
        return None if self.share is None else self.share > _FOUND


def find_training_rows(
    model: MultiViewClassifier, views: ViewSet, labels: Labels | None
) -> TrainingRows:
    """Compare matched views, and labels where there are any, with what the model keeps."""
    n_extremes, n_found = _extremes(model, views)
    return TrainingRows(_same_counts(model, views, labels), n_extremes, n_found)


def _same_counts(model: MultiViewClassifier, views: ViewSet, labels: Labels | None) -> bool:
    known = model.training_summary_
    if known is None or labels is None:
        return False
    seen = views.has_view
    own = TrainingSummary.of(views[seen], labels[seen])
    names = ("n_samples", "n_observed_views", "n_observed_labels", "n_positives", "patterns")
    return all(getattr(own, name) == getattr(known, name) for name in names)


def _extremes(model: MultiViewClassifier, views: ViewSet) -> tuple[int, int]:
    ranges = model.column_ranges_
    if ranges is None:
        return 0, 0
    n_extremes = n_found = 0
    for j, (name, fitted) in enumerate(zip(views.names, ranges.views, strict=True)):
        rows = np.flatnonzero(views.observed[:, j])
        ends = np.stack([fitted.low, fitted.high])
        equal = np.zeros(ends.shape, dtype=np.intp)
        whole = np.ones(ends.shape[1], dtype=np.bool_)
        for part in row_chunks(len(rows), 8 * max(1, views.dims[j])):
            block = views.rows(name, rows[part], dtype=np.float64)
            equal += (block[None] == ends[:, None]).sum(axis=1)
            whole &= _is_whole(block)
        continuous = (fitted.low < fitted.high) & ~whole & (equal <= _MOST_EQUAL).all(axis=0)
        n_extremes += 2 * int(continuous.sum())
        n_found += int((equal[:, continuous] > 0).sum())
    return n_extremes, n_found


def _is_whole(block: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Columns of whole numbers, such as counts and codes, whose extremes come again."""
    finite = np.isfinite(block)
    return np.asarray((np.where(finite, block, 0.0) % 1 == 0).all(axis=0))
