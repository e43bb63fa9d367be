r"""Losses of decided rows whose expectation is that over complete labels, or above it.

Let S_i be the labels observed of row i and n_j the number of rows of which label j was observed,
among n rows of which any was. Labels are missing at random: which were observed does not depend on
values and labels of the rows. All of the following is conditional on S_1, ..., S_n. An observed
entry of label j counts n / n_j times. For any fixed sample,

.. math:: \frac 1 n \sum_i \sum_{j \in S_i} \frac n {n_j} a_j = \sum_j a_j

exactly, so that a loss that is a sum over labels is estimated without bias, with the counts that
were found instead of unknown rates. A maximum over observed labels is at least each of its terms:

.. math:: \frac 1 n \sum_i \max_{j \in S_i \cap B} \frac n {n_j} \ge 1

for every set B of labels that is not empty, which bounds a loss of 1 for any mistake. Losses then
lie in [0, largest n / n_j]; with complete labels all of it is the plain loss.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

_ALIKE = 1.1
"""The test of losses of 0 and 1 is so much sharper that weights up to a tenth larger cost less."""

_RAREST = 0.1
"""An entry that stands for many others makes the test of all labels together that much weaker."""


@dataclass(frozen=True, eq=False)
class Design:
    """What was observed of the rows, and which labels may be decided at all.

    Attributes
    ----------
    observed : boolean array of shape (n, c)
    decided : boolean array of shape (c,)
        The other labels are always possible, and take part in no loss.
    weights : array of shape (c,)
        How many entries an observed entry stands for: n / n_j; 0 for labels that are not decided.
    """

    observed: Bools
    decided: Bools
    weights: Floats

    @classmethod
    def of(cls, observed: Bools) -> Design:
        """Decide the labels that were observed, but for those observed ten times more seldom.

        The choice may depend on what was observed, and on nothing else, for the promise to hold.
        """
        counts = observed.sum(axis=0)
        decided = (counts > 0) & (counts >= _RAREST * counts.max(initial=0))
        observed = observed & decided
        n_rows = int(observed.any(axis=1).sum())
        weights = np.where(decided, n_rows / np.maximum(counts, 1), 0.0)
        return cls(observed, decided, weights)

    @property
    def largest(self) -> float:
        """The largest weight; 1 without any label."""
        return float(self.weights.max(initial=0.0)) or 1.0

    @property
    def alike(self) -> bool:
        """Whether all weights are so close to each other that the largest may stand for all."""
        own = self.weights[self.decided]
        return not len(own) or float(own.max()) <= _ALIKE * float(own.min())

    @property
    def rows(self) -> Bools:
        """Rows of which any label that is decided was observed."""
        return np.asarray(self.observed.any(axis=1))


def row_losses(
    risk: str, ruled_out: Bools, certain: Bools, truth: Bools, design: Design
) -> tuple[Floats, float]:
    """Losses of the rows that count, and the largest value that they could have.

    All arrays are boolean, (n, c); `truth` is read where a label was observed. The risks:

    - `"missed positives"`: share of the observed positives that are ruled out, in the rows that
      have one;
    - `"false alarms"`: weighted number of the observed negatives called certain, divided by the
      number of labels called certain, observed or not; 0 where none is;
    - `"coverage"`: the largest weight of an observed label that is decided wrongly, else 0; where
      the weights are alike, the largest of all of them.
    """
    ruled_out, certain = ruled_out & design.decided, certain & design.decided
    positive, negative = design.observed & truth, design.observed & ~truth
    if risk == "missed positives":
        rows = positive.any(axis=1)
        missed = (positive & ruled_out)[rows].sum(axis=1)
        return np.asarray(missed / positive[rows].sum(axis=1)), 1.0
    rows = design.rows
    if risk == "false alarms":
        wrong = (certain & negative)[rows] @ design.weights
        return np.asarray(wrong / np.maximum(certain[rows].sum(axis=1), 1)), design.largest
    broken = (positive & ruled_out) | (negative & certain)
    if design.alike:
        return np.where(broken[rows].any(axis=1), design.largest, 0.0), design.largest
    return (broken[rows] * design.weights).max(axis=1, initial=0.0), design.largest
