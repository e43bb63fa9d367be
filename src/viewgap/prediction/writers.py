"""Files of answers, written block by block: CSV, Parquet, JSON and JSON lines.

Ids and label names come from data files, and a CSV is opened by spreadsheets and printed by
terminals. Two rules make it harmless, and both can be taken back:

- text that a spreadsheet would take for a formula gets an apostrophe before it: `=A1` is written
  `'=A1`. To take it back: where a cell begins with an apostrophe, and `=`, `+`, `-`, `@` or a tab
  follows (after blanks or more apostrophes), remove the first apostrophe. Numbers stay as they are;
- control characters are written as `\\x1b`, and a backslash in such text as two.

JSON has its own rules for both, Parquet needs none: they keep every text as it is.
"""

from __future__ import annotations

import csv
import io
import math
import re
import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import numpy as np
from numpy.typing import NDArray

from viewgap.errors import DataFileError, SettingError, ViewgapWarning, is_control, printable
from viewgap.prediction.blocks import Answers
from viewgap.strict_json import printed

WHAT = ("probabilities", "decisions", "both")

_FORMULA = re.compile(r"['\s]*[=+\-@＝＋－＠]|'*\t")  # Excel takes the wide signs, too
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", flags=re.ASCII | re.IGNORECASE)
_LOOKS_ESCAPED = re.compile(r"\\(\\|x[0-9a-f]{2}|u[0-9a-f]{4})")


def writer_for(
    path: Path | None, as_json: bool, names: Sequence[str], what: str
) -> type[AnswerWriter]:
    """The kind of writer that the suffix of a path asks for, if it can write these labels."""
    kind = kind_for(path, as_json)
    kind.check(names, what)
    return kind


def kind_for(path: Path | None, as_json: bool) -> type[AnswerWriter]:
    """The kind of writer that the suffix of a path asks for; without a suffix CSV or JSON."""
    suffix = "" if path is None else path.suffix.lower()
    default: type[AnswerWriter] = JsonWriter if as_json else CsvWriter
    kind = WRITERS.get(suffix, default)
    if suffix and suffix not in WRITERS:
        raise SettingError(
            f"{path}: predictions are written as {', '.join(WRITERS)}; found the ending {suffix!r}"
        )
    if as_json and not issubclass(kind, JsonWriter):
        raise SettingError(f"{path}: --json beside the ending {suffix!r}; leave one of them out")
    return kind


class AnswerWriter(ABC):
    """Writes answers to an open file; `begin` comes first and `end` last.

    `names` are those of the labels; `what` is one of `WHAT`.
    """

    def __init__(self, file: BinaryIO, names: Sequence[str], what: str) -> None:
        self.file, self.names = file, list(names)
        self.probabilities, self.decisions = what != "decisions", what != "probabilities"

    @classmethod  # noqa: B027
    def check(cls, names: Sequence[str], what: str) -> None:
        """Refuse names of labels that cannot be told apart in such a file."""

    def begin(self) -> None:  # noqa: B027  (most kinds need nothing)
        """Write what comes before the first sample."""

    @abstractmethod
    def write(self, answers: Answers) -> None:
        """Write the answers for some samples."""

    def end(self) -> None:  # noqa: B027
        """Write what comes after the last sample."""


def write_answers(
    kind: Callable[[BinaryIO, Sequence[str], str], AnswerWriter],
    file: BinaryIO,
    names: Sequence[str],
    what: str,
    blocks: Iterable[Answers],
) -> int:
    """Write all blocks; return the number of samples."""
    writer, n_samples = kind(file, names, what), 0
    writer.begin()
    for answers in blocks:
        writer.write(answers)
        n_samples += len(answers)
    writer.end()
    return n_samples


# ---------------------------------------------------------------------- tables


def label_columns(names: Sequence[str], what: str) -> list[str]:
    """Columns of the labels; decisions beside probabilities are marked."""
    decisions = [f"decision:{name}" for name in names]
    return {
        "probabilities": list(names),
        "decisions": list(names),
        "both": [*names, *decisions],
    }[what]


class TableWriter(AnswerWriter):
    """Base of the tables: columns sample, no_view, and one per label (two for `both`)."""

    @classmethod
    def check(cls, names: Sequence[str], what: str) -> None:
        """See `AnswerWriter`."""
        columns = ["sample", "no_view", *label_columns(names, what)]
        repeated = [name for name, count in Counter(columns).items() if count > 1]
        if repeated:
            raise SettingError(
                f"two columns would be named {repeated[0]!r}, because a label has this name; "
                "write JSON (.json, or --json on stdout)"
            )

    @property
    def columns(self) -> list[str]:
        """Columns of the labels."""
        both = self.probabilities and self.decisions
        return label_columns(self.names, "both" if both else "decisions")


class CsvWriter(TableWriter):
    """CSV: sample, no_view (1 = answered by label frequencies), then the labels."""

    def begin(self) -> None:
        """See `AnswerWriter`."""
        self._n_changed, self._first = 0, ""
        cells = [self._cell(name) for name in self.names]
        marked = [f"decision:{cell}" for cell in cells]
        both = self.probabilities and self.decisions
        self._write_rows([["sample", "no_view", *cells, *(marked if both else [])]])

    def write(self, answers: Answers) -> None:
        """See `AnswerWriter`."""
        parts = []
        if self.probabilities:
            parts.append(_probability_cells(answers.probabilities))
        if self.decisions:
            parts.append(_decision_cells(answers))
        lines = zip(answers.ids, answers.no_view.tolist(), *parts, strict=True)
        self._write_rows(
            [self._cell(str(sample)), int(lost), *(cell for part in own for cell in part)]
            for sample, lost, *own in lines
        )

    def end(self) -> None:
        """See `AnswerWriter`."""
        if self._n_changed:
            warnings.warn(
                f"{self._n_changed} ids and label names begin like a formula or hold control "
                f"characters (first: {self._first[:60]!r}); the CSV has "
                f"{csv_cell(self._first)[:60]} instead: see viewgap predict --help, or use --json",
                ViewgapWarning,
                stacklevel=3,
            )

    def _cell(self, text: str) -> str:
        cell = csv_cell(text)
        if cell != text:
            self._first = self._first or text
            self._n_changed += 1
        return cell

    def _write_rows(self, rows: Iterable[Sequence[Any]]) -> None:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(rows)
        self.file.write(text.getvalue().encode())


def csv_cell(text: str) -> str:
    """Text for a CSV that neither a spreadsheet nor a terminal obeys; see the top of this file."""
    if any(map(is_control, text)) or _LOOKS_ESCAPED.search(text):
        text = printable(text.replace("\\", "\\\\"))
    is_formula = _FORMULA.match(text) and not _NUMBER.fullmatch(text)
    return f"'{text}" if is_formula else text


def _probability_cells(probabilities: NDArray[np.float64]) -> list[list[str]]:
    rows = probabilities.tolist()
    return [["" if math.isnan(p) else f"{p:.6g}" for p in row] for row in rows]


def _decision_cells(answers: Answers) -> list[list[str]]:
    unknown, rows = np.isnan(answers.probabilities).tolist(), answers.decisions.tolist()
    return [
        ["" if gone else csv_cell(str(value)) for value, gone in zip(row, flags, strict=True)]
        for row, flags in zip(rows, unknown, strict=True)
    ]


class ParquetWriter(TableWriter):
    """Parquet: the columns of the CSV, as numbers; null where a label was never observed."""

    _writer: Any = None

    def write(self, answers: Answers) -> None:
        """See `AnswerWriter`."""
        table = self._table(answers)
        if self._writer is None:
            self._writer = pyarrow("parquet").ParquetWriter(self.file, table.schema)
        self._writer.write_table(table)

    def end(self) -> None:
        """See `AnswerWriter`."""
        if self._writer is not None:
            self._writer.close()

    @classmethod
    def check(cls, names: Sequence[str], what: str) -> None:
        """See `AnswerWriter`."""
        super().check(names, what)
        pyarrow("parquet")

    def _table(self, answers: Answers) -> Any:
        columns = ["sample", "no_view", *self.columns]
        return arrow_table(answers, columns, self.probabilities, self.decisions)


def arrow_table(
    answers: Answers, columns: Sequence[str], probabilities: bool, decisions: bool
) -> Any:
    """Answers as a table of Arrow.

    `columns` are the names: those of the ids and of `no_view`, then those of the labels, twice if
    both probabilities and decisions are wanted.
    """
    arrow = pyarrow()
    unknown = np.isnan(answers.probabilities)
    whole = answers.ids.dtype.kind in "iu"
    ids = answers.ids if whole else [str(sample) for sample in answers.ids]
    parts = [answers.probabilities] * probabilities + [answers.decisions] * decisions
    arrays = [
        arrow.array(values[:, j], mask=unknown[:, j])
        for values in parts
        for j in range(unknown.shape[1])
    ]
    arrays = [arrow.array(ids), arrow.array(answers.no_view), *arrays]
    return arrow.Table.from_arrays(arrays, names=list(columns))


def pyarrow(module: str | None = None) -> Any:
    """Return pyarrow, or one of its modules; an error that says what to install."""
    from importlib import import_module

    try:
        return import_module("pyarrow" if module is None else f"pyarrow.{module}")
    except ImportError as error:
        raise DataFileError(
            "a Parquet file needs the package pyarrow: pip install viewgap[files]"
        ) from error


# ---------------------------------------------------------------------- JSON


class JsonWriter(AnswerWriter):
    """JSON: a list of {sample, no_view, probabilities, decisions}; null = never observed."""

    start: ClassVar[str] = "[\n"
    between: ClassVar[str] = ",\n"
    close: ClassVar[str] = "\n]\n"
    _is_first = True

    def begin(self) -> None:
        """See `AnswerWriter`."""
        self.file.write(self.start.encode())

    def write(self, answers: Answers) -> None:
        """See `AnswerWriter`."""
        texts = [printed(record) for record in self._records(answers)]
        if texts:
            lead = "" if self._is_first else self.between
            self.file.write((lead + self.between.join(texts)).encode())
            self._is_first = False

    def end(self) -> None:
        """See `AnswerWriter`."""
        self.file.write(self.close.encode())

    def _records(self, answers: Answers) -> Iterable[dict[str, Any]]:
        unknown = np.isnan(answers.probabilities).tolist()
        probabilities, decisions = answers.probabilities.tolist(), answers.decisions.tolist()
        for i, sample in enumerate(answers.ids):
            record: dict[str, Any] = {
                "sample": plain_id(sample),
                "no_view": bool(answers.no_view[i]),
            }
            if self.probabilities:
                record["probabilities"] = self._by_name(probabilities[i], unknown[i])
            if self.decisions:
                record["decisions"] = self._by_name(decisions[i], unknown[i])
            yield record

    def _by_name(self, values: list[Any], unknown: list[bool]) -> dict[str, Any]:
        known = zip(self.names, values, unknown, strict=True)
        return {name: None if gone else value for name, value, gone in known}


class JsonLinesWriter(JsonWriter):
    """JSON lines: one such object per line."""

    start, between, close = "", "\n", "\n"


def plain_id(sample: Any) -> int | str:
    """Return an id as JSON holds it: a whole number, or text."""
    value = sample.item() if isinstance(sample, np.generic) else sample
    return value if isinstance(value, int) else str(value)


WRITERS: dict[str, type[AnswerWriter]] = {
    ".csv": CsvWriter,
    ".parquet": ParquetWriter,
    ".json": JsonWriter,
    ".jsonl": JsonLinesWriter,
    ".ndjson": JsonLinesWriter,
}
"""Kind of file by suffix."""
