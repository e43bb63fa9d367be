"""Metrics and thresholds of predictions that are never in memory as a whole: block by block.

Ranking metrics are sums over rows, decisions are counts per label: both are exact. A ROC curve and
a threshold need all scores of a label; what is kept of these is a histogram over log-odds, and the
error that it makes is known.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viewgap.errors import InputError, SettingError
from viewgap.metrics._inputs import (
    Floats,
    Ints,
    LabelEntries,
    check_entries,
    check_scores,
    check_threshold,
    check_variant,
    count_without_positives,
    refuse_scores,
    warn_of_field_rows,
)
from viewgap.metrics.evaluation import Evaluation
from viewgap.metrics.prediction import DecisionCounts, Prediction, divide, mean_defined
from viewgap.metrics.ranking import SUMS, FieldCurve, RowSums

BINS = 256
_FARTHEST = 12.0  # log-odds of the outer edges: probabilities of 6e-6 and 1 - 6e-6
_COLUMNS = 1024  # labels whose histograms are filled at a time


def evaluate_blocks(
    blocks: Iterable[tuple[Any, Any]],
    variant: str = "clean",
    threshold: Any = 0.5,
    *,
    bins: int = BINS,
) -> Evaluation:
    """All metrics of `evaluate_all` for labels and scores that come in blocks of rows.

    Memory is needed for one block, and for the histograms: 16 bytes for every label and bin.

    Parameters
    ----------
    blocks : iterable of tuple (Y, P)
        Labels and scores of some samples each, (rows, c), as `evaluate` takes them; the columns are
        the same in all blocks (DataFrames: of the same names in the same order).
    variant, threshold
        As in `evaluate`.
    bins : int, default=256
        Bins of the histograms that macro AUC is taken from; 0: leave macro AUC out, which alone
        needs scores from 0 to 1.

    Returns
    -------
    Evaluation
        As `evaluate_all` returns it, equal up to rounding but for macro AUC, in which pairs of
        scores in one bin count one half; the attribute `macro_auc_error` bounds what that changes.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> Y, P = rng.integers(0, 2, (100, 5)), rng.random((100, 5))
    >>> found = evaluate_blocks((Y[i : i + 20], P[i : i + 20]) for i in range(0, 100, 20))
    >>> from viewgap.metrics import evaluate_all
    >>> whole = evaluate_all(Y, P)
    >>> all(abs(found[name] - whole[name]) < 1e-12 for name in whole if name != "macro AUC")
    True
    >>> abs(found["macro AUC"] - whole["macro AUC"]) <= found.macro_auc_error < 0.01
    True
    """
    stream = MetricStream(variant, threshold, bins=bins)
    for Y, P in blocks:
        stream.add(Y, P)
    return stream.result()


class MetricStream:
    """The metrics of blocks of rows, as far as they have come; see `evaluate_blocks`.

    `names` are the metrics over rows to be computed.
    """

    def __init__(
        self,
        variant: str = "clean",
        threshold: Any = 0.5,
        *,
        bins: int = BINS,
        names: tuple[str, ...] = tuple(SUMS),
    ) -> None:
        if bins < 0:
            raise SettingError(f"bins must be 0 or more, found {bins!r}")
        self.variant, self._threshold, self._bins = check_variant(variant), threshold, bins
        self._sums = {name: RowSums(0, 0) for name in names}
        self._curve = FieldCurve(0, 0, np.zeros(1, np.int64), np.zeros(1, np.int64))
        self._decisions: DecisionCounts | None = None
        self._histograms: LabelHistograms | None = None
        self._negatives: Ints = np.zeros(0, dtype=np.int64)
        self._counts = np.zeros(3, dtype=np.int64)  # rows, without positives, without labels
        self._labels = _SameLabels()

    def add(self, Y: Any, P: Any) -> None:
        """Take in the labels and scores of some more rows."""
        entries = check_entries(Y, P)
        limits = check_threshold(self._threshold, entries)
        self._labels.check(entries)
        self.add_prediction(Prediction(entries, self.variant, limits))

    def add_prediction(self, prediction: Prediction) -> None:
        """Take in a checked prediction for some more rows."""
        self.add_rows(prediction)
        entries, own = prediction.entries, prediction.decision_counts
        before = self._decisions
        self._decisions = own if before is None else before.added(own)
        observed = len(entries.truth) if entries.valid is None else entries.valid.sum(axis=0)
        negatives = observed - own.positive
        self._negatives = negatives if before is None else self._negatives + negatives
        if self._bins:
            refuse_scores(entries)
            if self._histograms is None:
                self._histograms = LabelHistograms(entries.truth.shape[1], self._bins)
            self._histograms.add(entries)

    def add_rows(self, prediction: Prediction) -> None:
        """The same for what is a sum over rows alone."""
        entries = prediction.entries
        for name in self._sums:
            if name != "AUC" or self.variant == "clean":
                self._sums[name] = SUMS[name](prediction) + self._sums[name]
            else:
                self._curve = FieldCurve.of(prediction.ranks) + self._curve
        without = count_without_positives(entries), int(np.count_nonzero(entries.counts == 0))
        self._counts += (len(entries.truth), *without)

    @property
    def rows(self) -> dict[str, float]:
        """The metrics over rows."""
        values = {name: sums.value for name, sums in self._sums.items()}
        if "AUC" in values and self.variant == "field":
            values["AUC"] = self._curve.area
        return values

    def result(self) -> Evaluation:
        """All metrics of the rows so far."""
        if self._decisions is None:
            raise InputError("there are no blocks, and so no labels to evaluate")
        decided, found = self._decisions, Evaluation(self.rows)
        if self._histograms is not None:
            auc, error = self._histograms.areas()
            found["macro AUC"] = mean_defined(auc)
            found.macro_auc_error = mean_defined(error)
        found["macro F1"] = mean_defined(decided.f1())
        found["micro F1"] = decided.micro_f1()
        found["n_undefined_labels"] = int(np.count_nonzero(decided.positive * self._negatives == 0))
        found.variant = self.variant
        counts = self._counts.tolist()
        found.n_samples, found.n_without_positives, found.n_without_labels = counts
        warn_of_field_rows(self.variant, counts[0] - counts[2], counts[1], stacklevel=3)
        return found


class _SameLabels:
    """The labels of all blocks: as many in each, and in one order where DataFrames name them."""

    def __init__(self) -> None:
        self._count: int | None = None
        self._names: tuple[str, ...] | None = None

    def check(self, entries: LabelEntries) -> None:
        """Refuse a block whose labels are not those of the blocks before."""
        count, names = entries.truth.shape[1], entries.label_names
        if count != (self._count or count):
            raise InputError(
                f"all blocks must have the same labels: found {count} columns after blocks of "
                f"{self._count}"
            )
        for column, (name, before) in enumerate(zip(names or (), self._names or (), strict=False)):
            if name != before:
                raise InputError(
                    "all blocks must have the same labels in the same order: found label "
                    f"{name!r} in column {column}, which was {before!r} in the blocks before. "
                    "Bring the columns of every block into one order, as in Y[names] and P[names]"
                )
        self._count, self._names = count, names or self._names


# ---------------------------------------------------------------------- histograms


def _edges(bins: int, highest: float = _FARTHEST) -> Floats:
    """Probabilities between the bins, (bins - 1,), evenly spaced in log-odds up to the highest."""
    odds = np.linspace(-_FARTHEST, highest, max(1, bins - 1))
    return np.asarray(1.0 / (1.0 + np.exp(-odds)))


class LabelHistograms:
    """How many positives and negatives of every label score in each bin. Shape: (c, bins)."""

    def __init__(self, n_labels: int, bins: int = BINS) -> None:
        self._edges = _edges(bins)
        shape = (n_labels, len(self._edges) + 1)
        self.positive, self.negative = np.zeros(shape, np.int64), np.zeros(shape, np.int64)

    def add(self, entries: LabelEntries) -> None:
        """Count the entries of some rows."""
        valid = np.ones_like(entries.truth) if entries.valid is None else entries.valid
        for part in _column_parts(entries.truth.shape[1]):
            place = _places(entries.scores[:, part], self._edges)
            truth = entries.truth[:, part]
            for counts, wanted in (
                (self.positive, truth & valid[:, part]),
                (self.negative, ~truth & valid[:, part]),
            ):
                own = counts[part]
                own += np.bincount(place[wanted], minlength=own.size).reshape(own.shape)

    def areas(self) -> tuple[Floats, Floats]:
        """AUC of every label with pairs in one bin as ties, and the most that this changes, (c,).

        NaN for labels without both values.
        """
        pairs = self.positive.sum(axis=1) * self.negative.sum(axis=1)
        below = np.cumsum(self.negative, axis=1) - self.negative
        tied = (self.positive * self.negative).sum(axis=1) / 2
        right = (self.positive * below).sum(axis=1) + tied
        return divide(right, pairs), divide(tied, pairs)


class ThresholdStream:
    """`expected_f1_thresholds` of probabilities that come in blocks of rows.

    Of all cuts between two bins the one with the highest expected F1 is taken, which is at least
    `lowest_share` of that of the best cut. As there, the threshold lies halfway between the bins of
    the last accepted probability and the next lower one.

    Parameters
    ----------
    n_labels : int
        Number of labels c.
    bins : int, default=256
        Bins of the histograms. All are below one half: what is more probable is always accepted.

    Attributes
    ----------
    lowest_share : float
        Probabilities above 6e-6 in one bin differ by no more than this factor; so does the expected
        F1 of a cut inside of it from that of a cut at one of its ends.
    """

    def __init__(self, n_labels: int, bins: int = BINS) -> None:
        self._edges = _edges(bins, 0.0)
        self.lowest_share = float(np.exp(-_FARTHEST / max(1, bins - 2)))
        shape = (n_labels, len(self._edges) + 1)
        self._counts, self._sums = np.zeros(shape, np.int64), np.zeros(shape)
        self._labels = _SameLabels()

    def add(self, P: Any) -> None:
        """Take in the probabilities of some more rows, (rows, c); NaN does not count."""
        entries = check_scores(P)
        self._labels.check(entries)
        refuse_scores(entries)
        for part in _column_parts(len(self._counts)):
            scores = entries.scores[:, part]
            kept = np.isfinite(scores)
            place, own = _places(scores, self._edges)[kept], self._counts[part]
            own += np.bincount(place, minlength=own.size).reshape(own.shape)
            sums = np.bincount(place, weights=scores[kept], minlength=own.size)
            self._sums[part] += sums.reshape(own.shape)

    def result(self, fallback: float = 0.5) -> Floats:
        """The thresholds, (c,)."""
        thresholds = np.full(len(self._counts), float(fallback))
        for part in _column_parts(len(self._counts)):
            self._choose(self._counts[part], self._sums[part], thresholds[part])
        return thresholds

    def _choose(self, counts: Ints, sums: Floats, thresholds: Floats) -> None:
        """Fill in the thresholds of some labels that have any probability."""
        above = np.cumsum(counts[:, ::-1], axis=1)[:, ::-1]  # accepted by each cut
        hits = np.cumsum(sums[:, ::-1], axis=1)[:, ::-1]
        expected = 2.0 * hits / np.maximum(above + hits[:, :1], 1.0)
        expected[counts == 0] = -1.0  # another cut accepts the same
        best = expected.shape[1] - 1 - expected[:, ::-1].argmax(axis=1)
        # Upper edge of the next lower bin that has any probability; 0 without one.
        filled = np.where(counts > 0, np.append(self._edges, 1.0), 0.0)
        below = np.concatenate([np.zeros((len(filled), 1)), filled[:, :-1]], axis=1)
        next_lower = np.maximum.accumulate(below, axis=1)[np.arange(len(best)), best]
        lower = np.concatenate([[np.nextafter(0.0, -1.0)], self._edges])[best]
        middle = np.where(best > 0, (next_lower + lower) / 2, lower)
        np.copyto(thresholds, middle, where=above[:, 0] > 0)


def _places(scores: Floats, edges: Floats) -> NDArray[np.intp]:
    """Bin of every score, counted through all labels: above an edge is above it."""
    place = np.searchsorted(edges, scores.ravel(), side="left").reshape(scores.shape)
    place += np.arange(scores.shape[1]) * (len(edges) + 1)
    return place


def _column_parts(n_labels: int) -> list[slice]:
    return [slice(start, start + _COLUMNS) for start in range(0, n_labels, _COLUMNS)]
