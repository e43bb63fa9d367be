"""A prediction beside its labels: checked once, ranked once, and read by every metric."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from viewgap.metrics._inputs import (
    Bools,
    Floats,
    Ints,
    LabelEntries,
    Variant,
    check_entries,
    check_field_rows,
    check_threshold,
    check_variant,
)
from viewgap.metrics._ranks import PositiveRanks, rank_positives


@dataclass(frozen=True, eq=False)
class Prediction:
    """Labels and scores of the same samples, as a metric reads them.

    Make one with `Prediction.of`. What several metrics need is computed on first use.

    Attributes
    ----------
    entries : LabelEntries
        Checked labels and scores.
    variant : {"clean", "field"}
    threshold : array of shape () or (c,)
    decisions : bool array of shape (n, c) or None
        Decisions of the method itself, where it makes its own.
    """

    entries: LabelEntries
    variant: Variant
    threshold: Floats
    decisions: Bools | None = None

    @classmethod
    def of(
        cls,
        Y: Any,
        P: Any,
        variant: str = "clean",
        threshold: Any = 0.5,
        decisions: Any = None,
        *,
        warn: bool = False,
    ) -> Prediction:
        """Check labels Y and scores P, both (n, c).

        With `warn`, variant "field" warns of samples without positive labels: in the name of the
        line that called the caller.
        """
        checked = check_variant(variant)
        entries = check_entries(Y, P)
        limits = check_threshold(threshold, entries)
        made = None if decisions is None else np.asarray(decisions).astype(np.bool_)
        prediction = cls(entries, checked, limits, made)
        if warn:
            check_field_rows(prediction.rows, checked, stacklevel=4)
        return prediction

    @property
    def Y(self) -> Floats:  # noqa: N802 (the name that every function of this package gives it)
        """Labels (n, c); NaN where an entry does not count."""
        truth = self.entries.truth.astype(np.float64)
        return truth if self.entries.valid is None else np.where(self.entries.valid, truth, np.nan)

    @property
    def P(self) -> Floats:  # noqa: N802
        """Scores (n, c); NaN where an entry does not count."""
        scores = self.entries.scores
        valid = self.entries.valid
        return scores if valid is None else np.where(valid, scores, np.nan)

    @cached_property
    def rows(self) -> LabelEntries:
        """The samples with at least one entry that counts."""
        return self.entries.without_empty_rows()

    @cached_property
    def ranks(self) -> PositiveRanks:
        """Ranks of the positives of every sample in `rows`."""
        return rank_positives(self.rows)

    @cached_property
    def label_ranks(self) -> PositiveRanks:
        """Ranks of the positives of every label among the samples: labels are the rows."""
        return rank_positives(self.entries.transposed())

    @cached_property
    def decision_counts(self) -> DecisionCounts:
        """Per label, what was decided and what was right."""
        if self.decisions is None:  # entries that do not count score -inf
            decided = self.entries.scores > self.threshold
        else:
            valid = self.entries.valid
            decided = self.decisions if valid is None else self.decisions & valid
        return DecisionCounts.of(decided, self.entries.truth)


@dataclass(frozen=True)
class DecisionCounts:
    """Per label (c,): positives decided rightly, positives decided, positives observed."""

    hit: Ints
    predicted: Ints
    positive: Ints

    @classmethod
    def of(cls, decided: Bools, truth: Bools) -> DecisionCounts:
        """Count decisions (n, c) beside the observed positives (n, c)."""
        return cls(
            np.count_nonzero(decided & truth, axis=0).astype(np.int64),
            np.count_nonzero(decided, axis=0).astype(np.int64),
            np.count_nonzero(truth, axis=0).astype(np.int64),
        )

    def added(self, other: DecisionCounts) -> DecisionCounts:
        """The counts of two groups of rows."""
        return DecisionCounts(
            self.hit + other.hit,
            self.predicted + other.predicted,
            self.positive + other.positive,
        )

    def micro_f1(self) -> float:
        """F1 of the counts of all labels together; NaN without any positive."""
        if not self.positive.sum():
            return float("nan")
        return float(2 * self.hit.sum() / (self.predicted.sum() + self.positive.sum()))

    def f1(self) -> Floats:
        """F1 per label; NaN for a label without observed positives."""
        score = divide(2 * self.hit, self.predicted + self.positive)
        return np.where(self.positive > 0, score, np.nan)


def divide(part: Ints | Floats, whole: Ints) -> Floats:
    """`part / whole` entry by entry; NaN where `whole` is 0."""
    result = np.full(len(whole), np.nan)
    np.divide(part, whole, out=result, where=whole > 0)
    return result


def mean_defined(values: Floats) -> float:
    """Mean of the values that are not NaN; NaN if none is."""
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if defined.size else float("nan")
