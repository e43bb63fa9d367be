"""Files of the most probable labels of every sample: a few lines each, for thousands of labels.

Ids and label names are made harmless as in `prediction.writers`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from viewgap.prediction.blocks import Answers
from viewgap.prediction.writers import (
    AnswerWriter,
    CsvWriter,
    JsonLinesWriter,
    JsonWriter,
    ParquetWriter,
    kind_for,
    plain_id,
    pyarrow,
)


def top_labels(probabilities: NDArray[np.float64], top: int) -> NDArray[np.intp]:
    """Return the columns of the highest probabilities, the highest first, (n, top).

    Of equal ones the first columns. NaN comes last; the result has at most as many columns.
    """
    scores = np.where(np.isnan(probabilities), -np.inf, probabilities)
    n, c = scores.shape
    if top >= c:
        return np.argsort(-scores, axis=1, kind="stable")
    last = np.partition(scores, c - top, axis=1)[:, c - top, np.newaxis]
    above, ties = scores > last, scores == last
    left = top - above.sum(axis=1, keepdims=True)
    chosen = above | (ties & (np.cumsum(ties, axis=1) <= left))
    columns = np.nonzero(chosen)[1].reshape(n, top)
    order = np.argsort(-np.take_along_axis(scores, columns, axis=1), axis=1, kind="stable")
    return np.take_along_axis(columns, order, axis=1)


class TopWriter(AnswerWriter):
    """Base of the writers of top labels: the `top` most probable ones of every sample, best first.

    A label that was never observed in training has no probability, and is left out.
    """

    def __init__(self, file: BinaryIO, names: Sequence[str], what: str, top: int) -> None:
        super().__init__(file, names, what)
        self.top = top

    def lines(self, answers: Answers) -> Iterable[tuple[int, int, int]]:
        """Row, rank from 1 on, and column of every label that is written."""
        columns = top_labels(answers.probabilities, self.top)
        known = ~np.isnan(np.take_along_axis(answers.probabilities, columns, axis=1))
        for row, place in np.argwhere(known).tolist():
            yield row, place + 1, int(columns[row, place])

    @property
    def header(self) -> list[str]:
        """Columns of a table."""
        values = ["probability"] * self.probabilities + ["decision"] * self.decisions
        return ["sample", "no_view", "rank", "label", *values]

    def values(self, answers: Answers, row: int, column: int) -> list[Any]:
        """What is written of a label beside its name."""
        values: list[Any] = []
        if self.probabilities:
            values.append(float(answers.probabilities[row, column]))
        if self.decisions:
            values.append(answers.decisions[row, column].item())
        return values


class TopCsvWriter(TopWriter, CsvWriter):
    """CSV: one line per sample and label: sample, no_view, rank, label, and what was asked for."""

    def begin(self) -> None:
        """See `AnswerWriter`."""
        self._n_changed, self._first = 0, ""
        self._write_rows([self.header])

    def write(self, answers: Answers) -> None:
        """See `AnswerWriter`."""
        ids = [self._cell(str(sample)) for sample in answers.ids]
        no_view = answers.no_view.astype(int).tolist()
        self._write_rows(
            [ids[row], no_view[row], rank, self._cell(self.names[column]), *cells]
            for row, rank, column in self.lines(answers)
            for cells in [self._cells(answers, row, column)]
        )

    def _cells(self, answers: Answers, row: int, column: int) -> list[str]:
        shown = self.values(answers, row, column)
        return [f"{v:.6g}" if isinstance(v, float) else self._cell(str(v)) for v in shown]


class TopParquetWriter(TopWriter, ParquetWriter):
    """Parquet: the columns of the CSV."""

    def _table(self, answers: Answers) -> Any:
        arrow, lines = pyarrow(), list(self.lines(answers))
        rows = np.array([row for row, _, _ in lines], dtype=np.intp)
        whole = answers.ids.dtype.kind in "iu"
        ids = answers.ids[rows] if whole else [str(sample) for sample in answers.ids[rows]]
        names = [self.names[column] for _, _, column in lines]
        ranks = np.array([rank for _, rank, _ in lines], dtype=np.int32)
        columns = [arrow.array(ids), arrow.array(answers.no_view[rows]), arrow.array(ranks)]
        columns.append(arrow.array(names, type=arrow.string()))
        found = np.array([column for _, _, column in lines], dtype=np.intp)
        if self.probabilities:
            columns.append(arrow.array(answers.probabilities[rows, found]))
        if self.decisions:
            columns.append(arrow.array(answers.decisions[rows, found]))
        return arrow.Table.from_arrays(columns, names=self.header)


class TopJsonWriter(TopWriter, JsonWriter):
    """JSON: a list of {sample, no_view, labels}; a label is {label, probability, decision}."""

    def _records(self, answers: Answers) -> Iterable[dict[str, Any]]:
        labels: list[list[dict[str, Any]]] = [[] for _ in answers.ids]
        keys = self.header[4:]
        for row, _, column in self.lines(answers):
            values = dict(zip(keys, self.values(answers, row, column), strict=True))
            labels[row].append({"label": self.names[column], **values})
        for sample, no_view, own in zip(answers.ids, answers.no_view, labels, strict=True):
            yield {"sample": plain_id(sample), "no_view": bool(no_view), "labels": own}


class TopJsonLinesWriter(TopJsonWriter, JsonLinesWriter):
    """JSON lines: one such object per line."""


_TOP: dict[type[AnswerWriter], Callable[..., TopWriter]] = {
    CsvWriter: TopCsvWriter,
    ParquetWriter: TopParquetWriter,
    JsonWriter: TopJsonWriter,
    JsonLinesWriter: TopJsonLinesWriter,
}


def top_writer_for(path: Path | None, as_json: bool, top: int) -> Callable[..., AnswerWriter]:
    """The kind of writer that the suffix of a path asks for, of so many labels per sample."""
    return partial(_TOP[kind_for(path, as_json)], top=top)
