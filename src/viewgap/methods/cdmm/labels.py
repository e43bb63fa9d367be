"""CDMM's label correlation: how alike labels are in the rows, and in the views."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from viewgap.data.labels import Labels
from viewgap.methods.linalg.blocks import Matrix, squared_distances

_SMALLEST = 1e-10  # as released: keeps row sums from 0


@dataclass(frozen=True)
class Targets:
    """Labels (n, c) as the regressions want them.

    `observed` tells which count; `positive` is 1 for observed positives; `shift` (c,) is taken off
    the labels and added to the answers; `values` are the labels without it, 0 if not observed.
    """

    observed: NDArray[np.bool_]
    positive: Matrix
    shift: Matrix
    values: Matrix

    @classmethod
    def of(cls, labels: Labels, masked: bool) -> Targets:
        """Observed labels less their frequency or, if not `masked`, all with 0 for unknown."""
        positive = np.where(labels.observed, labels.values, 0).astype(np.float64)
        if not masked:
            observed = np.ones_like(labels.observed)
            return cls(observed, positive, np.zeros(labels.n_labels), positive)
        shift = positive.sum(axis=0) / np.maximum(labels.observed.sum(axis=0), 1)
        values = np.where(labels.observed, positive - shift, 0.0)
        return cls(labels.observed, positive, shift, values)


def label_agreement(positive: Matrix, observed: Matrix) -> Matrix:
    """Share of the rows in which labels j and k agree, (c, c), of those that observe both.

    `positive` (n, c) is 1 where a label is observed and positive, `observed` 1 where it is
    observed. 0 where no row observes both.
    """
    negative = observed - positive
    differ = positive.T @ negative
    both = observed.T @ observed
    share = np.divide(differ + differ.T, both, out=np.ones_like(both), where=both > 0)
    return np.asarray(1.0 - share)


def view_agreement(block: NDArray[np.float32], positive: Matrix, observed: Matrix) -> Matrix:
    """1 - standardised Euclidean distance of the label sums of one view, (c, c).

    `block` (n, d) holds the rows that have the view, and is given a constant column, as released;
    the other two are of the same rows, see `label_agreement`. The sum over the rows with a label
    is scaled up to all rows where some do not observe it. Columns in which all sums are alike have
    no part; a label that no row observes is as far from the others as can be (-infinity).
    """
    counts = observed.sum(axis=0)
    up = np.divide(len(block), counts, out=np.full_like(counts, np.nan), where=counts > 0)
    sums = np.hstack([positive.T @ block, positive.sum(axis=0)[:, None]]) * up[:, None]
    seen = counts > 0
    result = np.full((len(sums), len(sums)), -np.inf)
    np.fill_diagonal(result, 1.0)
    if seen.sum() > 1:
        deviation = sums[seen].std(axis=0, ddof=1)
        used = deviation > 0
        scaled = sums[seen][:, used] / deviation[used]
        result[np.ix_(seen, seen)] = 1.0 - np.sqrt(squared_distances(scaled, scaled))
    return result


def label_correlation(
    by_rows: Matrix, by_views: Sequence[Matrix], label_share: float, cutoff: float
) -> Matrix:
    """S (c, c): η of the agreement in rows, 1 - η of that in views, cut off and normalised."""
    affinity = label_share * by_rows
    if label_share < 1.0:
        affinity = affinity + (1.0 - label_share) * np.mean(by_views, axis=0)
    affinity[affinity < cutoff] = 0.0
    root = np.sqrt(affinity.sum(axis=1) + _SMALLEST)
    return np.asarray(affinity / root[:, None] / root)
