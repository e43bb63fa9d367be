r"""The six metrics of the field, each as a score (higher is better), in two variants.

Notation: row i has positives $P_i$, negatives $N_i$ and $k_i$ entries that count ($k_i = c$ without
NaN); $r_{ij}$ is the ordinal rank of entry j (1 = highest score; of equal scores the higher column
index ranks better), $w_{ij} = |\{k: s_{ik} \ge s_{ij}\}|$ the worst rank its ties allow. Rows with
no entry left are skipped in both variants; n is the number of rows that remain.

Field variant
    The published tables' definitions. Rows without positives stay in every mean: 0 in AP and 1-OE,
    no loss in RL, $1 + 1/k_i$ in 1-Cov, which may so exceed 1. Every function warns about them.
Clean variant (the default)
    Rows without positives are skipped (ranking and AUC: also rows without negatives). Ties count
    against the scores ($w$ in the place of $r$), except in the AUC, where they count one half, as
    in every AUC. Coverage counts only the depth that a perfect ranking would not need. Perfect
    scores give exactly 1.0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np

from viewgap.metrics._inputs import Bools, Floats, Ints
from viewgap.metrics._ranks import PositiveRanks
from viewgap.metrics.prediction import Prediction
from viewgap.metrics.registry import register_metric

_Sums = TypeVar("_Sums", bound="Callable[[Prediction], RowSums]")


class RowSums(NamedTuple):
    """What a metric adds up over rows: it is total / number, or 1 - total / number.

    NaN where nothing counts. Sums of several groups of rows give the metric of all of them.
    """

    total: float
    number: float
    is_loss: bool = False

    def __add__(self, other: Any) -> RowSums:
        """The sums of two groups of rows."""
        return RowSums(self.total + other.total, self.number + other.number, self.is_loss)

    @property
    def value(self) -> float:
        """The metric."""
        found = float(self.total / self.number) if self.number else float("nan")
        return 1.0 - found if self.is_loss else found

    @classmethod
    def of(cls, values: Floats, is_loss: bool = False) -> RowSums:
        """Sums of one value per row."""
        return cls(float(values.sum()), values.size, is_loss)


SUMS: dict[str, Callable[[Prediction], RowSums]] = {}
"""The metrics that are sums over rows; AUC is so under `"clean"` only."""


def _metric_of_sums(name: str, title: str) -> Callable[[_Sums], _Sums]:
    """Register the metric whose sums the decorated function returns."""

    def register(sums: _Sums) -> _Sums:
        SUMS[name] = sums
        whole = register_metric(name, title, required=True, bounds=(0.0, 1.0))
        whole(lambda prediction: sums(prediction).value)
        return sums

    return register


def average_precision(Y: Any, P: Any, variant: str = "clean") -> float:
    r"""AP: how pure the ranking is above each positive, averaged over positives, then rows.

    Field: $\frac1n\sum_i\frac1{|P_i|}\sum_{j\in P_i}|\{k\in P_i: r_{ik}\le r_{ij}\}|/r_{ij}$; a row
    without positives contributes 0. Clean: ranks $w$, such rows skipped; on rows with positives
    this is scikit-learn's `label_ranking_average_precision_score`.

    Shape: Y, P (n, c) -> float.
    """
    return precision_sums(Prediction.of(Y, P, variant, warn=True)).value


@_metric_of_sums("AP", "average precision")
def precision_sums(prediction: Prediction) -> RowSums:
    """AP as sums over rows."""
    ranks, field = prediction.ranks, prediction.variant == "field"
    precision = ranks.hits / ranks.rank if field else ranks.hits_worst / ranks.worst
    per_row = ranks.row_sum(precision) / np.maximum(ranks.positives, 1)
    return RowSums.of(per_row if field else per_row[ranks.positives > 0])


def hamming_score(Y: Any, P: Any, variant: str = "clean", threshold: Any = 0.5) -> float:
    r"""1-HL: share of the entries that count for which $[P_{ij} > \text{threshold}] = Y_{ij}$.

    The same in both variants. `threshold` is one number or one per label.

    Shape: Y, P (n, c) -> float.
    """
    return hamming_sums(Prediction.of(Y, P, variant, threshold)).value


@_metric_of_sums("1-HL", "1 - Hamming loss")
def hamming_sums(prediction: Prediction) -> RowSums:
    """1-HL as sums over entries."""
    entries = prediction.rows
    right = (entries.scores > prediction.threshold) == entries.truth
    if entries.valid is None:
        return RowSums(int(np.count_nonzero(right)), right.size)
    right &= entries.valid
    return RowSums(int(np.count_nonzero(right)), int(np.count_nonzero(entries.valid)))


def ranking_score(Y: Any, P: Any, variant: str = "clean") -> float:
    r"""1-RL: one minus the share of (positive, negative) pairs in the wrong order; a tie is wrong.

    $RL = \frac1n\sum_i|\{(a,b)\in P_i\times N_i: s_{ib}\ge s_{ia}\}|/(|P_i||N_i|)$. Field: a row
    without positives or without negatives contributes no loss (scikit-learn's
    `label_ranking_loss`). Clean: such rows are skipped.

    Shape: Y, P (n, c) -> float.
    """
    return ranking_sums(Prediction.of(Y, P, variant, warn=True)).value


@_metric_of_sums("1-RL", "1 - ranking loss")
def ranking_sums(prediction: Prediction) -> RowSums:
    """1-RL as sums over rows."""
    ranks = prediction.ranks
    pairs = ranks.positives * ranks.negatives
    per_row = ranks.row_sum(ranks.worst - ranks.hits_worst) / np.maximum(pairs, 1)
    return RowSums.of(per_row if prediction.variant == "field" else per_row[pairs > 0], True)


def adapted_auc(Y: Any, P: Any, variant: str = "clean") -> float:
    r"""AUC from the order inside each sample.

    Field: for T = 1..c the T best entries of every row are declared positive and pooled over rows;
    the area under (FPR, TPR) by trapezoids from T=1 to T=c is divided by 1 - FPR(1). A row with
    fewer than T entries left gives all of them. NaN without positives, without negatives, or when
    FPR(1) = 1. Even perfect scores stay below 1 when rows differ in their number of positives.
    Clean: share of (positive, negative) pairs of the same row in the right order, pooled over
    rows, a tie counting one half.

    Shape: Y, P (n, c) -> float.
    """
    return _adapted_auc(Prediction.of(Y, P, variant, warn=True))


@register_metric("AUC", "adapted area under the ROC curve", required=True, bounds=(0.0, 1.0))
def _adapted_auc(prediction: Prediction) -> float:
    if prediction.variant == "field":
        return FieldCurve.of(prediction.ranks).area
    return pair_sums(prediction).value


def pair_sums(prediction: Prediction) -> RowSums:
    """Clean AUC as sums over pairs."""
    ranks = prediction.ranks
    pairs = np.sum(ranks.positives * ranks.negatives)
    return RowSums(float(_double_wrong_pairs(ranks).sum()), int(2 * pairs), True)


SUMS["AUC"] = pair_sums


def one_error_score(Y: Any, P: Any, variant: str = "clean") -> float:
    """1-OE: share of rows whose highest score is at a positive.

    Field: the first of equal maxima decides; a row without positives is always an error. Clean:
    every one of equal maxima must be a positive; rows without positives are skipped.

    Shape: Y, P (n, c) -> float.
    """
    return one_error_sums(Prediction.of(Y, P, variant, warn=True)).value


@_metric_of_sums("1-OE", "1 - one-error")
def one_error_sums(prediction: Prediction) -> RowSums:
    """1-OE as sums over rows."""
    ranks, entries = prediction.ranks, prediction.rows
    if prediction.variant == "clean":
        right = (ranks.best == 1) & (ranks.hits_worst == ranks.worst)
        n_right = len(np.unique(ranks.row[right]))
        return RowSums(n_right, int(np.count_nonzero(ranks.positives)))
    top = entries.scores.argmax(axis=1) if ranks.n_rows else np.zeros(0, dtype=np.intp)
    right_rows = entries.truth[np.arange(ranks.n_rows), top]
    return RowSums(int(np.count_nonzero(right_rows)), ranks.n_rows)


def coverage_score(Y: Any, P: Any, variant: str = "clean") -> float:
    r"""1-Cov: how little of the ranking must be read until all positives are found.

    Field: $Cov = \frac1n\sum_i(\max_{j\in P_i} r_{ij} - 1)/k_i$, the maximum being 0 (a credit)
    for a row without positives. Clean: $(\max_{j\in P_i} w_{ij} - |P_i|)/k_i$, rows without
    positives skipped: scikit-learn's `coverage_error` less the unavoidable depth, over c.

    Shape: Y, P (n, c) -> float.
    """
    return coverage_sums(Prediction.of(Y, P, variant, warn=True)).value


@_metric_of_sums("1-Cov", "1 - coverage")
def coverage_sums(prediction: Prediction) -> RowSums:
    """1-Cov as sums over rows."""
    ranks = prediction.ranks
    some = ranks.positives > 0
    if prediction.variant == "clean":
        depth = ranks.worst[ranks.last] - ranks.positives[some]
        return RowSums.of(depth / ranks.counts[some], True)
    deepest = np.zeros(ranks.n_rows)
    deepest[some] = ranks.rank[ranks.last]
    return RowSums.of((deepest - 1) / ranks.counts, True)


# ---------------------------------------------------------------------- areas under curves


def pair_auc_per_row(ranks: PositiveRanks) -> Floats:
    """Share of pairs in the right order (ties one half) per row, NaN without pairs: (n,)."""
    pairs = ranks.positives * ranks.negatives
    defined: Bools = pairs > 0
    result = np.full(ranks.n_rows, np.nan)
    result[defined] = 1.0 - _double_wrong_pairs(ranks)[defined] / (2.0 * pairs[defined])
    return result


def _double_wrong_pairs(ranks: PositiveRanks) -> Floats:
    """Twice the pairs in the wrong order plus once the tied ones, per row: whole numbers."""
    strictly_above = ranks.best - 1 - ranks.hits_above
    at_least_equal = ranks.worst - ranks.hits_worst
    return ranks.row_sum(strictly_above + at_least_equal)


class FieldCurve(NamedTuple):
    """What the AUC of the field needs of any number of rows.

    Shape: `ranks` and `lengths` (deepest + 1,): positives at every rank, and rows with as many
    entries that count.
    """

    positives: int
    negatives: int
    ranks: Ints
    lengths: Ints

    @classmethod
    def of(cls, ranks: PositiveRanks) -> FieldCurve:
        """Count the positives of some rows."""
        deepest = int(ranks.counts.max(initial=0))
        return cls(
            int(ranks.positives.sum()),
            int(ranks.negatives.sum()),
            np.bincount(ranks.rank, minlength=deepest + 1),
            np.bincount(ranks.counts, minlength=deepest + 1),
        )

    def __add__(self, other: Any) -> FieldCurve:
        """Those of two groups of rows."""
        both = [_added(*pair) for pair in zip(self[2:], other[2:], strict=True)]
        numbers = self.positives + other.positives, self.negatives + other.negatives
        return FieldCurve(*numbers, both[0], both[1])

    @property
    def area(self) -> float:
        """The AUC."""
        if self.positives == 0 or self.negatives == 0:
            return float("nan")
        true_positive = np.cumsum(self.ranks[1:])
        rows_at_least = np.cumsum(self.lengths[::-1])[::-1]
        false_positive = np.cumsum(rows_at_least[1:]) - true_positive
        steps = np.diff(false_positive)
        width = int(self.negatives - false_positive[0])
        if width == 0:
            return float("nan")
        area = np.sum(steps * (true_positive[1:] + true_positive[:-1])) / 2
        return float(area / (self.positives * width))


def _added(one: Ints, other: Ints) -> Ints:
    """Sum of two counts of which the shorter one is zero from its end on."""
    long, short = (one, other) if len(one) >= len(other) else (other, one)
    total = long.copy()
    total[: len(short)] += short
    return total
