"""Excel workbooks (.xlsx), one sheet per view and one named `labels`, read through openpyxl."""

from __future__ import annotations

import re
import warnings
import zipfile
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import date, time, timedelta
from pathlib import Path
from typing import Any

from viewgap.data.formats.base import (
    MISSING_WORDS,
    Format,
    PathLike,
    RawData,
    check_n_views,
    check_size,
    existing_file,
    raw_data,
    reading,
)
from viewgap.data.formats.folders import LABEL_STEMS
from viewgap.data.formats.number_advice import (
    STORED_AS_TEXT,
    TIME,
    header_advice,
    id_advice,
    number_advice,
)
from viewgap.data.formats.one_table import (
    check_id_column,
    known_columns,
    known_views,
    note_unnamed_column,
    refuse_counted_rows,
    split_labels,
    with_label_table,
)
from viewgap.data.formats.options import (
    ReadOptions,
    TableRequest,
    choose,
    refuse_unused,
    shown_views,
)
from viewgap.data.formats.tables import (
    labelled_first,
    matching_rows,
    refuse_answers,
    refuse_unrelated,
)
from viewgap.data.formats.wide import OneTable, read_one, views_of
from viewgap.errors import DataFileError, ViewError, ViewgapWarning, first_few, parameter

_DEFAULT = ReadOptions()
_CELL_BYTES = 64  # what a number takes as a Python object, in its tuple
_MOST_ROWS = 2**20
_BLOCK = 2**20
_LONGEST_TAG = 1024
_LAYOUT = re.compile(rb"<(?:\w+:)?(row|col|mergeCell)\b([^>]*)>")
_ATTRIBUTE = re.compile(rb"\b(\w+)\s*=\s*[\"']([^\"']*)[\"']")
_LONGEST_NUMBER = 10**15  # Excel keeps 15 digits


@dataclass
class _Layout:
    """What a sheet says of its rows and columns: which are hidden, and which cells are one."""

    rows: set[int] = field(default_factory=set)
    columns: list[tuple[int, int]] = field(default_factory=list)
    merged: str = ""

    def add(self, tag: bytes, attributes: Mapping[bytes, bytes]) -> None:
        is_hidden = attributes.get(b"hidden", b"0") in (b"1", b"true")
        if tag == b"row" and is_hidden:
            self.rows.add(int(attributes.get(b"r", b"0")))
        elif tag == b"col" and is_hidden:
            self.columns.append((int(attributes[b"min"]), int(attributes[b"max"])))
        elif tag == b"mergeCell":
            self.merged = self.merged or attributes.get(b"ref", b"?").decode()

    def problem(self, rows: Sequence[tuple[Any, ...]]) -> str:
        """Return why it is not clear what the filled cells of the sheet mean; blank if it is."""
        width = max(map(len, rows), default=0)
        hidden = [
            f"row {number}" for number, row in enumerate(rows, 1) if row and number in self.rows
        ]
        hidden += [f"column {first}" for first, _ in sorted(self.columns) if first <= width]
        if hidden or 0 in self.rows:
            return (
                f"hidden, by hand or by a filter: {first_few(hidden) or 'some rows'}; whether they "
                "count is not clear: show them (clear the filter), or delete them"
            )
        if self.merged:
            return (
                f"the cells {self.merged} are merged, and only the first of them holds the value; "
                "unmerge them, and fill every cell"
            )
        return ""


@dataclass(frozen=True)
class _Sheet:
    """The rows of a sheet that hold something; `problem` is why it cannot be read, if so."""

    rows: list[tuple[Any, ...]]
    problem: str


def read_excel(
    path: PathLike,
    *,
    nan: str = "mean",
    with_labels: bool = True,
    options: ReadOptions = _DEFAULT,
    known: Mapping[str, Sequence[str]] | None = None,
) -> RawData:
    """Read a workbook: every sheet is a view, one named `labels` holds the labels.

    Sheets are tables as CSV files are: names of columns in the first row, sample ids in the first
    column or in `options.id_column`. Formulas count by the values that were saved with them. A
    sheet with the columns of all views is read as such a CSV file. Hidden sheets are not read, and
    of `known` views of a model, no other sheets and columns.
    """
    source, known = existing_file(path), known or {}
    sheets = _sheets(source)
    labels = [name for name in sheets if name.lower() in LABEL_STEMS]
    own = [name for name in sheets if name not in labels]
    if not own or len(labels) > 1:
        raise DataFileError(
            f"{source}: expected one sheet per view and at most one of labels, found: "
            f"{', '.join(sheets) or 'none that is filled'}"
        )
    check_n_views(source, len(own))
    places = {name: f"sheet {name!r}" for name in own}
    own = known_views(source, places, known, lambda name: _header(sheets[name]))
    tables = {name: _Table(source, name, sheets[name]) for name in own}
    in_columns = with_labels and not labels and bool(options.label_columns)
    is_wide = _is_wide(tables, options, known, in_columns=in_columns)
    one = tables[own[0]].with_all_views(options) if is_wide else None
    _refuse_unused(source, options, one, in_columns=in_columns)
    if one is not None and not labels:
        return read_one(one, options, nan=nan, with_labels=with_labels, known=known)
    if one is not None:
        views = views_of(one, replace(options, label_columns=()), known=known)
    else:
        views = {
            name: table.numbers(options, known.get(name, ())) for name, table in tables.items()
        }
    if not (labels and with_labels):
        refuse_counted_rows({f"view {name!r}": table for name, table in views.items()})
        return raw_data(source, refuse_unrelated(source, views, None), nan=nan)
    label = _Table(source, labels[0], sheets[labels[0]]).texts(options)
    return _labelled(source, options, views, label, nan)


def _labelled(source: Path, options: ReadOptions, views: Any, label: Any, nan: str) -> RawData:
    """Views and the sheet of labels, whose rows come first."""
    by_view = {f"view {name!r}": table for name, table in views.items()}
    refuse_counted_rows(by_view | {"the labels": label})
    views = refuse_unrelated(source, views, label.index)
    ids = {name: table.index for name, table in by_view.items()}
    label = matching_rows(source, split_labels(source, label, options), ids, views)
    order = labelled_first(label.index, [table.index for table in views.values()])
    raw = raw_data(source, views, nan=nan, sample_ids=order)
    labelled = with_label_table(source, raw, label)
    refuse_answers(source, views, labelled)
    return labelled


def _is_wide(
    tables: Mapping[str, _Table],
    options: ReadOptions,
    known: Mapping[str, Sequence[str]],
    *,
    in_columns: bool,
) -> bool:
    """Whether the only sheet of views holds the columns of all of them, named `view:column`.

    `in_columns`: the labels must be among its columns.
    """
    (name, table), *more = tables.items()
    if more or (name in known and not options.views):
        return False
    starts = Counter(column.partition(":")[0].strip() for column in table.header if ":" in column)
    if (
        options.views
        or in_columns
        or any(start.lower() in LABEL_STEMS or start in known for start in starts)
    ):
        return True
    if len(starts) > 1 and min(starts.values()) > 1 and starts.total() >= len(table.header) - 1:
        shown = {start: f"{start}:*" for start in list(starts)[:4]}
        raise DataFileError(
            f"{table.where}: is this one view, or does it hold the columns of several? Say so with "
            f"{shown_views(shown)}, or {shown_views({name: '*'})}"
        )
    return False


def _refuse_unused(
    source: Path, options: ReadOptions, one: OneTable | None, *, in_columns: bool
) -> None:
    """Refuse patterns of columns that this workbook has no use for."""
    if one is None and options.views:
        why = "in this workbook every sheet is a view"
        refuse_unused(source, replace(_DEFAULT, views=options.views), (), why)
    if one is None and in_columns:
        raise DataFileError(
            f"{source}: {parameter('label_columns')}: no sheet is named labels; name the sheet of "
            "the labels so, or, where one sheet holds everything, say which columns are views: "
            f"{shown_views({'genes': 'genes_*'})}"
        )


FORMAT = Format(
    "excel",
    "an Excel workbook",
    (".xlsx",),
    read=read_excel,
    options=("views", "label_columns", "label_separator", "id_column"),
    takes_known=True,
)


def _sheets(path: Path) -> dict[str, _Sheet]:
    """Return the sheets that hold something, by name."""
    try:
        from openpyxl import load_workbook
    except ImportError as error:
        raise DataFileError(
            f"{path}: an Excel workbook needs the package openpyxl: pip install viewgap[excel]; or "
            "save every sheet as 'CSV UTF-8' into a folder"
        ) from error
    how = {"read_only": True, "keep_links": False}
    with reading(path):
        has_formulas, layouts = _check_archive(path)
        with closing(load_workbook(path, data_only=True, **how)) as book:
            visible = _visible(path, book)
            sheets = [(sheet.title, _rows(path, sheet)) for sheet in visible]
            own = [layouts.get(sheet._worksheet_path, _Layout()) for sheet in visible]
        if has_formulas:
            with closing(load_workbook(path, **how)) as book:
                for sheet, (_, values) in zip(_visible(None, book), sheets, strict=True):
                    _refuse_formulas(path, sheet, values)
    result: dict[str, _Sheet] = {}
    for (title, rows), layout in zip(sheets, own, strict=True):
        if any(rows) and title.strip() in result:
            raise DataFileError(f"{path}: several sheets are named {title.strip()!r}")
        if any(rows):
            filled = [row for row in rows if row]
            result[title.strip()] = _Sheet(filled, layout.problem(rows))
    return result


def _visible(path: Path | None, book: Any) -> list[Any]:
    """The sheets that a user sees; a note names the others, if there is a path to name."""
    hidden = [sheet.title for sheet in book.worksheets if sheet.sheet_state != "visible"]
    if hidden and path is not None:
        warnings.warn(
            f"{path}: hidden sheets are not read: {first_few(hidden)}; to read one, unhide it",
            ViewgapWarning,
            stacklevel=5,
        )
    return [sheet for sheet in book.worksheets if sheet.title not in hidden]


def _check_archive(path: Path) -> tuple[bool, dict[str, _Layout]]:
    """Check sizes before anything is unpacked; return whether a cell holds a formula, and layouts.

    A workbook never has a DOCTYPE, whose entities could grow without end.
    """
    has_formulas, layouts = False, dict[str, _Layout]()
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        check_size(path, sum(member.file_size for member in members))
        for member in members:
            end, layout = b"", layouts.setdefault(member.filename, _Layout())
            with archive.open(member) as stream:
                while block := stream.read(_BLOCK):
                    text = end + block
                    if b"<!DOCTYPE" in text or b"<\0!\0" in text or b"\0<\0!" in text:
                        raise DataFileError(f"{path}: {member.filename} has a DOCTYPE; refused")
                    has_formulas |= b"<f>" in text or b"<f " in text
                    for found in _LAYOUT.finditer(text):
                        layout.add(found[1], dict(_ATTRIBUTE.findall(found[2])))
                    end = block[-_LONGEST_TAG:]
    return has_formulas, layouts


def _rows(path: Path, sheet: Any) -> list[tuple[Any, ...]]:
    """The rows of a sheet, none longer than its last filled cell."""
    sheet.reset_dimensions()  # what a sheet says of its size need not be true
    rows: list[tuple[Any, ...]] = []
    n_cells = 0
    for row in sheet.iter_rows(values_only=True):
        width = max((j + 1 for j, value in enumerate(row) if value not in (None, "")), default=0)
        n_cells += width
        check_size(path, n_cells * _CELL_BYTES)
        rows.append(tuple(row[:width]))
        if len(rows) > _MOST_ROWS:
            raise DataFileError(f"{path}: sheet {sheet.title!r} has more rows than Excel can hold")
    return rows


def _refuse_formulas(path: Path, sheet: Any, values: Sequence[tuple[Any, ...]]) -> None:
    """Refuse formulas without a saved value: they would look like blank cells."""
    for number, (row, saved) in enumerate(zip(_rows(path, sheet), values, strict=False), 1):
        for column, cell in enumerate(row):
            is_blank = column >= len(saved) or saved[column] is None
            if is_blank and isinstance(cell, str) and cell.startswith("="):
                raise DataFileError(
                    f"{path}: sheet {sheet.title!r}, row {number}, column {column + 1}: a formula "
                    "without a saved value; open the file in Excel and save it"
                )


def _header(sheet: _Sheet) -> list[str]:
    """The names of the columns."""
    return ["" if value is None else str(value).strip() for value in sheet.rows[0]]


class _Table:
    """One sheet as a table."""

    def __init__(self, path: Path, name: str, sheet: _Sheet) -> None:
        self.path, self.name, rows = path, name, sheet.rows
        self.where = f"{path}: sheet {name!r}"
        if sheet.problem:
            raise DataFileError(f"{self.where}: {sheet.problem}")
        self.header = _header(sheet)
        self.rows = [(*row, *(None,) * (len(self.header) - len(row))) for row in rows[1:]]
        self._check()

    def _check(self) -> None:
        repeated = [name for name, count in Counter(self.header).items() if count > 1 and name]
        if repeated:
            raise DataFileError(f"{self.where}: several columns are named {repeated[0]!r}")
        if "" in self.header[1:]:
            column = self.header[1:].index("") + 2
            raise DataFileError(f"{self.where}: column {column} has no name in the first row")
        long = [number for number, row in enumerate(self.rows, 2) if len(row) > len(self.header)]
        if long:
            raise DataFileError(
                f"{self.where}: row {long[0]} has more cells than the first row, which must hold "
                "the names of the columns; clear what stands above or beside the table"
            )
        if not self.rows or len(self.header) < 2:
            raise DataFileError(
                f"{self.where}: expected sample ids, at least one column, and one row per sample; "
                "if no sample has this table, remove the sheet"
            )

    def _ids(self, options: ReadOptions) -> tuple[str, list[str]]:
        request = TableRequest(id_column=options.id_column)
        name, _ = request.split_header(self.path, self.header)
        place = self.header.index(name)
        stored = [row[place] for row in self.rows]
        long = [value for value in stored if isinstance(value, int | float) and _is_long(value)]
        dates = [value for value in stored if isinstance(value, date | time | timedelta)]
        if long or 0 < len(dates) < len(stored):
            why = (
                f"{long[0]:.0f}, of which Excel keeps 15 digits"
                if long
                else f"the date {dates[0]} among others, which Excel may have made of a text"
            )
            raise DataFileError(
                f"{self.where}: column {name!r} must hold the sample ids; found {why}; store the "
                "column as text, and write the ids anew"
            )
        ids = list(map(_id, stored))
        check_id_column(self.where, f"column {name!r}", ids)
        return name, ids

    def _frame(self, options: ReadOptions, columns: Sequence[str], cell: Any) -> Any:
        import pandas as pd

        name, ids = self._ids(options)
        values = {}
        for column in columns:
            place = self.header.index(column)
            pairs = zip(self.rows, ids, strict=True)
            values[column] = [cell(row[place], sample, column) for row, sample in pairs]
        return pd.DataFrame(values, index=pd.Index(ids, name=name or None, dtype=object))

    def _columns(self, options: ReadOptions) -> list[str]:
        return TableRequest(id_column=options.id_column).split_header(self.path, self.header)[1]

    def numbers(self, options: ReadOptions, wanted: Sequence[str] = ()) -> Any:
        """The sheet as a view; of columns that a model knows, no others."""
        note_unnamed_column(self.where, self.header[0], options)
        columns = self._columns(options)
        return self._frame(
            options, known_columns(self.name, columns, wanted) or columns, self._number
        )

    def with_all_views(self, options: ReadOptions) -> OneTable:
        """The sheet as a table with the columns of several views."""
        note_unnamed_column(self.where, self.header[0], options)

        def load(columns: tuple[str, ...], as_text: bool) -> Any:
            return self._frame(options, columns, _as_it_is if as_text else self._number)

        ids, names = TableRequest(id_column=options.id_column).split_header(self.path, self.header)
        return OneTable(self.path, ids, names, load)

    def texts(self, options: ReadOptions) -> Any:
        """The sheet as labels: the cells as they are."""
        note_unnamed_column(self.where, self.header[0], options)
        columns = self._columns(options)
        if options.label_columns:
            columns = choose(self.path, options.label_columns, columns, parameter("label_columns"))
        return self._frame(options, columns, _as_it_is)

    def _table_advice(self, value: Any) -> str:
        """What to do about a sheet without numbers, or about a first row without any."""
        cells = self.rows[0]
        numbers = (isinstance(cell, int | float) for row in self.rows for cell in row[1:])
        if not any(numbers):
            return "if this sheet is no view, hide it or remove it; else "
        if not any(cell is value for cell in cells):
            return ""
        return header_advice(1, ["" if cell is None else str(cell) for cell in cells[1:]])

    def _number(self, value: Any, sample: str, column: str) -> float:
        if value is None or (isinstance(value, str) and value.strip().lower() in MISSING_WORDS):
            return float("nan")
        if isinstance(value, bool | int | float):
            return float(value)
        advice = number_advice(str(value), comma=True)
        if isinstance(value, date | time | timedelta):
            advice = TIME
        elif isinstance(value, str) and _is_number(value):
            advice = f"{STORED_AS_TEXT} (in Excel: Convert to Number)"
        own = self.header[1:].index(column) if column in self.header[1:] else 0
        advice = self._table_advice(value) + id_advice(own, column, self.header[0]) + advice
        raise ViewError(
            f"{self.where}: column {column!r}, sample {sample!r}: expected a number, found "
            f"{str(value)[:40]!r}; {advice}"
        )


def _as_it_is(value: Any, *_: str) -> Any:
    return value


def _id(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return "" if value is None else str(value).strip()


def _is_long(value: float) -> bool:
    return abs(value) >= _LONGEST_NUMBER


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", "."))
    except ValueError:
        return False
    return True
