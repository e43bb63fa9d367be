"""Comma, semicolon or tab separated text, read strictly: every line as the header says, or refused.

Nothing is guessed: a line with more or fewer fields than the header, a name or an id that occurs
twice, and an entry that is no number are errors that name the line, the sample and the column.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from viewgap.data.formats.base import (
    MISSING_WORDS,
    Format,
    check_size,
    existing_file,
    size_limit,
    stem_of,
)
from viewgap.data.formats.number_advice import header_advice, id_advice, number_advice
from viewgap.data.formats.options import TableRequest
from viewgap.data.formats.text import open_text
from viewgap.data.formats.thousands import ambiguous_number, question, suspected_columns
from viewgap.data.rows.on_disk import RowBuffer
from viewgap.errors import DataFileError, ViewError, damaged_file

_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}
_ID_BYTES = 64  # what a short id takes as a Python object
_BOOLEANS = {"true": 1.0, "false": 0.0}


def read_table(path: Path, request: TableRequest) -> Any:
    """Return a table as a DataFrame with the sample ids as index: of text, or else of numbers.

    Text has no spaces around it; among numbers, blank entries are NaN.
    """
    import pandas as pd

    with _lines(path) as lines:
        id_name, columns = request.split_header(path, lines.header)
        place_of = {
            name: place for place, name in enumerate(lines.header)
        }  # checked: no name twice
        order = [place_of[name] for name in (id_name, *columns)]
        ids: list[str] = []
        numbers, texts = RowBuffer(len(columns)), list[list[str]]()
        row_of = _RowOfNumbers(path, columns, request.decimal, id_name)
        for fields in lines.in_order(order):
            lines.check_room(len(ids) + 1, len(order))
            ids.append(fields[0])
            if request.as_text:
                texts.append([_text(field, request.decimal) for field in fields[1:]])
            else:
                numbers.append(row_of(fields))
    index = pd.Index(ids, name=id_name or None, dtype=object)
    if request.as_text:
        return pd.DataFrame(texts, index=index, columns=columns, dtype=object)
    values = numbers.to_array() if columns else np.empty((len(ids), 0))
    if request.decimal == ".":
        _refuse_thousands(path, columns, values)
    return pd.DataFrame(values, index=index, columns=columns, copy=False)


def _refuse_thousands(path: Path, columns: Sequence[str], values: NDArray[np.float64]) -> None:
    """Refuse columns in which a point may separate thousands, as their text tells."""
    suspected = [columns[place] for place in suspected_columns(values)]
    if not suspected:
        return
    with _lines(path) as lines:
        places = [lines.header.index(name) for name in suspected]
        texts = list(zip(*([fields[place] for place in places] for fields in lines), strict=True))
    for name, own in zip(suspected, texts, strict=True):
        found = ambiguous_number(own)
        if found is not None:
            raise ViewError(f"{path}: view {stem_of(path)!r}: {question(name, found)}")


def _text(field: str, decimal: str) -> str:
    """An entry as text; programs that write decimal commas write labels as 0,0 and 1,0."""
    text = field.strip()
    return f"{text[0]}.0" if decimal == "," and re.fullmatch("[01],0+", text) else text


def read_columns(path: Path) -> list[str]:
    """Return the names in the first line."""
    with _lines(path) as lines:
        return lines.header


FORMAT = Format(
    "delimited",
    "tables",
    (".csv", ".tsv", ".csv.gz", ".tsv.gz"),
    read_table=read_table,
    read_columns=read_columns,
)


# ---------------------------------------------------------------------- lines


class _Lines:
    """The lines of an open file, cut into fields; every line has as many as the header."""

    def __init__(self, path: Path, file: TextIO) -> None:
        self._path = path
        first = next((line for line in file if line.strip()), "")
        if not first:
            raise DataFileError(f"{path}: the file is empty; expected a header and one line each")
        self.separator = _separator(path, first)
        self._reader = csv.reader(chain([first], file), delimiter=self.separator, strict=True)
        self.header = [name.strip() for name in next(self._reader)]
        _check_header(path, self.header)
        self._limit = size_limit()

    def __iter__(self) -> Iterator[list[str]]:
        width = len(self.header)
        for fields in self._reader:
            if not any(map(str.strip, fields)):  # spreadsheets end tables with lines of commas
                continue
            if len(fields) != width:
                self._refuse(fields)
            yield fields

    def in_order(self, order: Sequence[int]) -> Iterator[list[str]]:
        """Yield some fields of each line, the id first; `order` are their places in the header."""
        whole = list(order) == list(range(len(self.header)))
        for fields in self:
            chosen = fields if whole else [fields[place] for place in order]
            chosen[0] = chosen[0].strip()
            yield chosen

    def check_room(self, n_rows: int, n_fields: int) -> None:
        """Refuse a table whose entries would take more memory than the limit."""
        n_bytes = n_rows * (8 * n_fields + _ID_BYTES)
        if n_bytes > self._limit:
            check_size(self._path, n_bytes)

    def _refuse(self, fields: Sequence[str]) -> None:
        if len(fields) < len(self.header):
            advice = "a line was cut short, or a separator is missing"
        elif len(self.header) == 1 and len(fields) > 2:
            advice = (
                "the first line must hold the names of the columns: remove what stands above it"
            )
        elif len(fields) == len(self.header) + 1:
            points, name = (
                "write decimal points, not decimal commas (1.5, not 1,5)",
                "if the header lacks the name of the id column, add it (in R: col.names=NA)",
            )
            written = self.separator != "," or any("." in field for field in fields[1:])
            advice = f"{name}; else {points}" if written else f"{points}; {name}"
        else:
            advice = "write decimal points, not decimal commas (1.5, not 1,5)"
        raise DataFileError(
            f"{self._path}: line {self._reader.line_num} (sample {fields[0].strip()!r}) has "
            f"{len(fields)} fields, the header has {len(self.header)} (separated by "
            f"{_SEPARATORS[self.separator]}); {advice}"
        )


@contextmanager
def _lines(path: Path) -> Iterator[_Lines]:
    existing_file(path)
    check_size(path, path.stat().st_size)
    try:
        with open_text(path) as file:
            yield _Lines(path, file)
    except csv.Error as error:
        raise damaged_file(path, error) from error


def _separator(path: Path, header: str) -> str:
    """Return what separates the names of the header: the usual of its kind, or the only one."""
    bare = re.sub(r'"[^"]*"', "", header)
    present = [separator for separator in _SEPARATORS if separator in bare]
    usual = "\t" if path.name.lower().endswith((".tsv", ".tsv.gz")) else ","
    if usual in present or not present:
        return usual
    if len(present) == 1:
        return present[0]
    raise DataFileError(
        f"{path}: the first line holds {' and '.join(_SEPARATORS[s] for s in present)}, so the "
        f"separator is not clear; separate the fields by {_SEPARATORS[usual]}"
    )


def _check_header(path: Path, header: Sequence[str]) -> None:
    names = header[1:]
    if header[0].lower().startswith("sep="):
        raise DataFileError(
            f"{path}: the first line must hold the names of the columns, found {header[0]!r}, by "
            "which spreadsheets are told the separator; remove this line"
        )
    if len(set(header)) < len(header):
        seen: set[str] = set()
        repeated = next(name for name in header if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        if repeated:
            raise DataFileError(
                f"{path}: several columns are named {repeated!r}; give every column a name of its "
                "own (the first line must hold the names of the columns)"
            )
    if "" in names:
        raise DataFileError(
            f"{path}: column {names.index('') + 2} has no name in the first line; name it, or "
            "remove the separators at the ends of the lines"
        )
    if names and are_decimals(names):
        raise DataFileError(
            f"{path}: the first line must hold the names of the columns, found numbers "
            f"({names[0]!r}, ...); add a header"
        )


def are_decimals(texts: Sequence[str]) -> bool:
    """Whether all are numbers, and some of them are not whole."""
    try:
        numbers = list(map(float, texts))
    except ValueError:
        return False
    return any(math.isfinite(number) and not number.is_integer() for number in numbers)


# ---------------------------------------------------------------------- numbers


class _RowOfNumbers:
    """Makes numbers of the fields of a line; the first field is the sample id."""

    def __init__(self, path: Path, columns: Sequence[str], decimal: str, id_name: str) -> None:
        self._path, self._columns, self._id_name = path, columns, id_name
        self._comma = decimal == ","
        self._n_rows = 0

    def __call__(self, fields: list[str]) -> list[float]:
        sample, *texts = fields
        self._n_rows += 1
        if not self._comma and "_" not in "".join(texts):  # Python reads 1_000 as a number
            with suppress(ValueError):
                return list(map(float, texts))
        pairs = zip(self._columns, texts, strict=True)
        return [self._number(sample, column, text, texts) for column, text in pairs]

    def _number(self, sample: str, column: str, text: str, texts: Sequence[str]) -> float:
        word = text.strip().lower()
        if word in MISSING_WORDS:
            return float("nan")
        if word in _BOOLEANS:
            return _BOOLEANS[word]
        plain = word.replace(",", ".") if self._comma and "." not in word else word
        if "_" not in word and not (self._comma and "." in word):
            with suppress(ValueError):
                return float(plain)
        shown = text if len(text) <= 40 else text[:37] + "..."
        advice = header_advice(self._n_rows, texts, self._columns)
        advice += id_advice(self._columns.index(column), column, self._id_name)
        raise ViewError(
            f"{self._path}: view {stem_of(self._path)!r}: column {column!r}, sample {sample!r}: "
            f"expected a number, found {shown!r}; {advice}{number_advice(text, comma=self._comma)}"
        )
