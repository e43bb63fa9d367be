"""Where a method gains: its AP minus that of a reference, label by label.

Two predictions are compared on the folds that both have with the same test rows, and a label
counts where both define its AP. Rare labels are shown apart from frequent ones: a mean over all
hides them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from viewgap.bench.analyse.statistics import Block, find_reference, split_by_heading
from viewgap.bench.analyse.summary import MISSING, Row, summarise
from viewgap.bench.results.record import Record, label_column
from viewgap.errors import InputError

RARE = 10
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class LabelFigures:
    """One number per label of a prediction: positives among the test rows, and AP or NaN."""

    positives: Floats
    ap: Floats


@dataclass(frozen=True)
class LabelGains:
    """One method against the reference under one heading; arrays have one entry per label.

    `positives` are those among the test rows, averaged over the common folds; `folds` counts the
    folds on which both define an AP, and where there is none, `ap` and `reference_ap` are NaN.
    """

    row: Row
    reference: str
    positives: Floats
    ap: Floats
    reference_ap: Floats
    folds: NDArray[np.intp]
    common_folds: int

    @property
    def gains(self) -> Floats:
        """AP of the method minus that of the reference; NaN where a label is not defined."""
        return self.ap - self.reference_ap

    def counts(self) -> tuple[int, int, int]:
        """Labels on which the method is better, worse, and all on which they are compared."""
        known = self.gains[self.folds > 0]
        return int((known > 0).sum()), int((known < 0).sum()), len(known)

    def mean(self, rare: bool | None = None) -> tuple[float | None, int]:
        """Mean gain over all labels, the rare or the frequent ones, and how many these are."""
        wanted = self.folds > 0
        if rare is not None:
            wanted &= (self.positives < RARE) == rare
        values = self.gains[wanted]
        return (float(values.mean()) if len(values) else None), len(values)

    def words(self) -> str:
        """The gains in one line."""
        better, _, total = self.counts()
        parts = [f"better on {better} of {total}"]
        for name, rare in (("rare", True), ("frequent", False)):
            mean, count = self.mean(rare)
            parts += [f"{name} {gain_text(mean)}"] if count else []
        return "; ".join(parts)


def gain_text(value: float | None) -> str:
    """A gain with its sign, a true minus among them; nothing is a dash."""
    if value is None:
        return MISSING
    return f"{value:+.3f}".replace("-0.000", "+0.000").replace("-", "−")


def label_gains(records: Sequence[Record], reference: str | None = None) -> list[LabelGains]:
    """The gains of every row over the reference, where both have figures per label.

    `reference` is a title, as in `statistics.gaps_to`.
    """
    headings, reference = split_by_heading(records, reference)
    known: dict[str, dict[str, dict[Block, LabelFigures]]] = {}
    for heading, own in headings.items():
        figures = {title: _with_labels(group) for title, group in own.items()}
        known[heading] = {title: labels for title, labels in figures.items() if labels}
    found = []
    for row in summarise(records):
        titles = known[row.heading]
        if row.title in titles and (reference is None or reference in titles):
            found += _row_gains(row, titles, find_reference(titles, reference))
    return found


def _row_gains(
    row: Row, known: Mapping[str, Mapping[Block, LabelFigures]], reference: str
) -> list[LabelGains]:
    own, theirs = known[row.title], known[reference]
    pairs = [(own[block], theirs[block]) for block in sorted(own.keys() & theirs.keys())]
    pairs = [pair for pair in pairs if _same_rows(*pair)]
    return [_gains(row, reference, pairs)] if row.title != reference and pairs else []


def required_gains(records: Sequence[Record], reference: str | None = None) -> list[LabelGains]:
    """`label_gains`, where an empty answer is an error."""
    gains = label_gains(records, reference)
    if not gains:
        raise InputError("no method with figures per label shares test rows with the reference")
    return gains


def _with_labels(group: dict[Block, Record]) -> dict[Block, LabelFigures]:
    found = {}
    for block, record in group.items():
        positives, ap = label_column(record, "positives"), label_column(record, "AP")
        if positives is not None and ap is not None:
            found[block] = LabelFigures(positives, ap)
    return found


def _same_rows(own: LabelFigures, theirs: LabelFigures) -> bool:
    """Whether both were tested on the same rows, by the positives of the labels both answer.

    Another rate of missing views may go with another draw of the test rows.
    """
    if own.ap.shape != theirs.ap.shape:
        return False
    defined = ~np.isnan(own.ap) & ~np.isnan(theirs.ap)
    return bool((own.positives == theirs.positives)[defined].all())


def _gains(
    row: Row, reference: str, pairs: Sequence[tuple[LabelFigures, LabelFigures]]
) -> LabelGains:
    own, theirs = (np.array([pair[side].ap for pair in pairs]) for side in (0, 1))
    counts = [np.array([pair[side].positives for pair in pairs]) for side in (0, 1)]
    defined = ~np.isnan(own) & ~np.isnan(theirs)
    folds = defined.sum(axis=0)
    shared = np.where(folds > 0, folds, np.nan)  # NaN: nothing to average
    return LabelGains(
        row=row,
        reference=reference,
        positives=np.maximum(*counts).mean(axis=0),
        ap=np.where(defined, own, 0.0).sum(axis=0) / shared,
        reference_ap=np.where(defined, theirs, 0.0).sum(axis=0) / shared,
        folds=folds,
        common_folds=len(pairs),
    )
