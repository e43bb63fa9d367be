"""Were these rows learned from? Told by what a model keeps of its training data.

A model keeps counts and the smallest and largest value of every column, no rows. A value of a
continuous column that equals the training extreme in single precision is hardly a new sample's;
the share of extremes that are found again estimates the share of training rows in the data.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from viewgap.data.labels import Labels
from viewgap.data.viewset import ViewSet
from viewgap.errors import ViewgapWarning
from viewgap.methods.estimator.training_summary import TrainingSummary

if TYPE_CHECKING:
    from viewgap.methods.base import MultiViewClassifier

FEWEST_EXTREMES = 10
_DISTINCT = 0.9  # share of different values from which on a column counts as continuous
_FOUND = 0.1  # floors and rounded values meet by chance: up to 4 % on held-out rows of birds
_MOST_VALUES = 20_000_000  # of a view: more are not sorted for this


@dataclass(frozen=True)
class TrainingRows:
    """What the data has of the training data.

    Attributes
    ----------
    same_counts : bool
        Samples, views, labels, positives and patterns are counted as in training, all of them.
    n_extremes, n_found, n_absent : int
        Smallest and largest values of continuous columns in training, those found in one sample of
        the data, and those found in none.
    """

    same_counts: bool
    n_extremes: int
    n_found: int
    n_absent: int

    @property
    def share(self) -> float | None:
        """Estimated share of the training rows that the data holds; None where it cannot be."""
        if self.n_extremes < FEWEST_EXTREMES:
            return None
        if self.n_found >= FEWEST_EXTREMES and not self.n_absent:
            return 1.0  # however many are floors, which come again in any data
        return self.n_found / self.n_extremes

    @property
    def found(self) -> bool | None:
        """Whether training rows are in the data; None where that cannot be told."""
        if self.same_counts:
            return True
        return None if self.share is None else self.share >= _FOUND

    @property
    def evidence(self) -> str:
        """What tells that training rows are in the data, in words."""
        if self.same_counts:
            return "samples, labels and patterns of views are counted as in training"
        return f"{self.n_found} of {self.n_extremes} extremes of the training columns were found"


def find_training_rows(
    model: MultiViewClassifier, views: ViewSet, labels: Labels | None
) -> TrainingRows:
    """Compare matched views, and labels where there are any, with what the model keeps."""
    return TrainingRows(_same_counts(model, views, labels), *_extremes(model, views))


def warn_of_training_rows(
    model: MultiViewClassifier, views: ViewSet, labels: Labels, consequence: str
) -> None:
    """Warn where training rows are found among matched rows that should be none."""
    rows = find_training_rows(model, views, labels)
    if rows.found:
        warnings.warn(
            f"{consequence} ({rows.evidence}); take rows that the model has not seen",
            ViewgapWarning,
            stacklevel=3,
        )


def _same_counts(model: MultiViewClassifier, views: ViewSet, labels: Labels | None) -> bool:
    known = model.training_summary_
    if known is None or labels is None:
        return False
    seen = views.has_view
    own = TrainingSummary.of(views[seen], labels[seen])
    names = ("n_samples", "n_observed_views", "n_observed_labels", "n_positives", "patterns")
    return all(getattr(own, name) == getattr(known, name) for name in names)


def _extremes(model: MultiViewClassifier, views: ViewSet) -> tuple[int, int, int]:
    ranges = model.column_ranges_
    n_extremes = n_found = n_absent = 0
    if ranges is None:
        return n_extremes, n_found, n_absent
    for j, (name, fitted) in enumerate(zip(views.names, ranges.views, strict=True)):
        rows = np.flatnonzero(views.observed[:, j])
        width = max(1, _MOST_VALUES // max(1, len(rows)))
        if views.is_sparse(name) or not len(rows) or views.dims[j] > width:
            continue  # counts, mostly zeros; or too large
        block = views.rows(name, rows, dtype=np.float64)
        continuous = _is_continuous(block) & (fitted.low < fitted.high)
        ends = np.stack([fitted.low, fitted.high])[:, continuous]
        n_extremes += ends.size
        hits = (_single(block[None, :, continuous]) == _single(ends[:, None])).sum(axis=1)
        n_found += int((hits == 1).sum())  # more: a floor or a ceiling of the measurement
        n_absent += int((hits == 0).sum())
    return n_extremes, n_found, n_absent


def _single(values: NDArray[np.float64]) -> NDArray[np.float32]:
    """In single precision: the same values may come from a table, or an array of another type."""
    with np.errstate(over="ignore"):
        return values.astype(np.float32)


def _is_continuous(block: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Columns whose values hardly ever come twice: an extreme that comes again is the same row."""
    ordered = np.sort(block, axis=0)  # NaN last
    known = (~np.isnan(block)).sum(axis=0)
    distinct = (np.diff(ordered, axis=0) > 0).sum(axis=0) + (known > 0)
    return np.asarray(distinct >= np.maximum(2, _DISTINCT * known))
