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

from viewgap.bench.analyse.statistics import Block, by_title, find_reference, split_by_heading
from viewgap.bench.analyse.summary import DIRECTION, HOLE, Row, summarise
from viewgap.bench.results.details import LabelFigures, labels_of
from viewgap.bench.results.record import Record
from viewgap.bench.show.sheets import Cell, Line, Sheet
from viewgap.bench.show.table_formats import csv_lines, csv_number, row_words
from viewgap.bench.show.tables import reconstruction_note
from viewgap.errors import InputError

RARE = 10
Floats = NDArray[np.float64]


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
    """A gain with its sign, a true minus among them; nothing is a hole."""
    if value is None:
        return HOLE
    return f"{value:+.3f}".replace("-0.000", "+0.000").replace("-", "−")


def label_gains(records: Sequence[Record], reference: str | None = None) -> list[LabelGains]:
    """The gains of every row over the reference, under every heading where both have details.

    `reference` is a title, as in `statistics.gaps_to`.
    """
    groups = by_title(records)
    if reference is not None:
        reference = find_reference(groups, reference)
    known: dict[str, dict[str, dict[Block, LabelFigures]]] = {}
    for heading, own in split_by_heading(groups).items():
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
    figures = {block: labels_of(record) for block, record in group.items()}
    return {block: labels for block, labels in figures.items() if labels is not None}


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


def gains_sheet(gains: Sequence[LabelGains]) -> Sheet:
    """One line per row: on how many labels it is better, and its mean gain on rare and frequent."""
    columns = ("better on", "worse on", "mean gain", "rare labels", "frequent labels", "folds")
    reference = " or ".join(dict.fromkeys(own.reference for own in gains)) or HOLE
    notes = [
        f"gain: AP of a label minus that of {reference}, mean over folds with the same test rows",
        f"rare: fewer than {RARE} positives among the test rows; in brackets how many labels",
        *reconstruction_note([own.row for own in gains]),
    ]
    return Sheet(columns, [_line(own) for own in gains], notes)


def _line(own: LabelGains) -> Line:
    better, worse, total = own.counts()
    means = [Cell(f"{better} of {total}"), Cell(str(worse)), Cell(gain_text(own.mean()[0]))]
    for rare in (True, False):
        mean, count = own.mean(rare)
        means.append(Cell(f"{gain_text(mean)} ({count})" if count else HOLE))
    return Line(own.row.heading, own.row.title, tuple(means), (str(own.common_folds),))


def gains_csv(gains: Sequence[LabelGains]) -> str:
    """The numbers behind the figure: one line per row and label."""
    columns = ("direction", "reference", "label", "positives", "AP", "reference_AP", "gain")
    lines = []
    for own in gains:
        words = [*row_words(own.row), DIRECTION, own.reference]
        for label, folds in enumerate(own.folds):
            values = (own.positives, own.ap, own.reference_ap, own.gains)
            numbers = [float(column[label]) for column in values]
            shown = [csv_number(None if np.isnan(number) else number) for number in numbers]
            lines.append([*words, str(label), *shown, str(folds)])
    return csv_lines((*columns, "folds"), lines)
