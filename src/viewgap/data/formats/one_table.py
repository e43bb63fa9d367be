"""One table: the names of its columns, its values or texts by sample id, and labels in it."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from viewgap.data.formats.base import RawData, check_ids, existing_file, labelled_data, reading
from viewgap.data.formats.delimited import are_decimals
from viewgap.data.formats.options import ReadOptions, TableRequest, choose, is_unnamed
from viewgap.data.formats.registry import format_of, listed
from viewgap.data.labels import split_label_lists
from viewgap.data.renamed_views import find_renamed
from viewgap.data.rows.ids import same_form, shown_pair
from viewgap.data.validation import as_labels
from viewgap.errors import (
    DataFileError,
    InputError,
    ViewError,
    ViewgapWarning,
    first_few,
    parameter,
)

_DEFAULT = ReadOptions()


def load_labels(path: Path, options: ReadOptions = _DEFAULT) -> Any:
    """Return a table of labels as a DataFrame; of a CSV file as text, as it stands there."""
    file_format = format_of(path)
    if file_format is None or file_format.read_table is None:
        raise DataFileError(f"{path}: labels must be a {listed('read_table')} table")
    columns = None
    if options.label_columns:
        header = column_names(path)
        request = TableRequest(id_column=options.id_column)
        names = request.split_header(path, header)[1]
        columns = tuple(choose(path, options.label_columns, names, parameter("label_columns")))
    frame = load_view(path, options, as_text=True, columns=columns)
    return split_labels(path, frame, options)


def with_label_table(path: Path, raw: RawData, table: Any) -> RawData:
    """Return `raw` with the labels of a table, aligned by its index; errors name `path`."""
    try:
        values = as_labels(table, raw.views)
    except InputError as error:
        raise type(error)(f"{path}: {error}") from error
    return labelled_data(raw.views, values)


def split_labels(path: Path, frame: Any, options: ReadOptions) -> Any:
    """Return the labels of a column of lists, where `options` say so, else the table itself."""
    if options.label_separator is None:
        return frame
    try:
        return split_label_lists(frame, options.label_separator)
    except InputError as error:
        raise type(error)(f"{path}: {error}") from error


def column_names(path: Path) -> list[str]:
    """Return the names of all columns; of the rows nothing is read."""
    table_format: Any = format_of(path)
    with reading(existing_file(path)):
        columns: list[str] = table_format.read_columns(path)
    return columns


def load_view(
    path: Path,
    options: ReadOptions = _DEFAULT,
    *,
    as_text: bool = False,
    columns: tuple[str, ...] | None = None,
) -> Any:
    """Return a table of numbers as a DataFrame with the sample ids, as text, as index."""
    table_format: Any = format_of(path)
    request = TableRequest(as_text, options.id_column, options.decimal, columns)
    with reading(existing_file(path)):
        frame = table_format.read_table(path, request)
    if not frame.shape[1]:
        name = str(frame.index.name or "")
        more = (
            "; between fields stand commas, semicolons or tabs" if re.search(r"[|\s]", name) else ""
        )
        raise DataFileError(
            f"{path}: expected sample ids and at least one column, found ids only ({name!r}){more}"
        )
    if not len(frame):
        raise DataFileError(
            f"{path}: expected one line per sample, found none; if no sample has this table, move "
            "the file out of the folder"
        )
    column = "the first column" if options.id_column is None else "the id column"
    column += "" if frame.index.name is None else f" ({str(frame.index.name)!r})"
    check_id_column(path, column, frame.index.tolist())
    if options.id_column is not None and not (as_text and columns):
        note_unnamed_column(path, column_names(path)[0], options)
    return frame


def note_unnamed_column(table: Path | str, first: str, options: ReadOptions) -> None:
    """Say that names of rows, as pandas and R write them, are not read beside an id column."""
    if options.id_column not in (None, first) and is_unnamed(first):
        warnings.warn(
            f"{table}: the first column ({first!r}) has no name of its own and is not read: "
            f"{options.id_column!r} holds the sample ids",
            ViewgapWarning,
            stacklevel=4,
        )


def known_columns(view: str, names: Sequence[str], wanted: Sequence[str]) -> tuple[str, ...] | None:
    """Return the columns that a model knows, where there are others besides; None is all."""
    expected = set(wanted)
    extra = [name for name in names if name not in expected]
    if not wanted or not extra or len(names) - len(extra) < len(expected):
        return None  # absent ones are named by whoever knows what they are needed for
    warnings.warn(
        f"view {view!r}: {len(extra)} columns that the model was not fitted on are left out: "
        f"{first_few(extra)}",
        ViewgapWarning,
        stacklevel=6,
    )
    return tuple(wanted)


def known_views(
    source: Path,
    views: Mapping[str, str],
    known: Mapping[str, Sequence[str]],
    columns: Callable[[str], Sequence[str]],
) -> list[str]:
    """Return the views that a model knows, if there is one of them; else all.

    `views` are the names, with how a message calls where each of them lies; `known` are those of
    the model with their columns, `columns(name)` those here. One that could be a view of the model
    under another name is refused.
    """
    names = set(known)
    wanted = [name for name in views if name in names]
    pairs = same_form([name for name in views if name not in names], names - set(wanted))
    if pairs:
        here, there = shown_pair(*pairs[0])
        raise ViewError(
            f"{source}: {views[pairs[0][0]]} would be view {here}, and the model knows {there}: "
            "are they the same? Then name it as the model does; else move it away"
        )
    if wanted and names - set(wanted):
        unknown = {name: columns(name) for name in views if name not in names}
        absent = {name: own for name, own in known.items() if own and name not in wanted}
        renamed = find_renamed(unknown, absent)
        if renamed is not None:
            question = renamed.question(views[renamed.given])
            raise ViewError(f"{source}: {question}; {renamed.remedy}")
    for name, place in views.items() if wanted else ():
        if name not in names:
            why = "the model has no view of this name"
            warnings.warn(f"{source}: {place} is not read: {why}", ViewgapWarning, stacklevel=5)
    return wanted or list(views)


def refuse_counted_rows(tables: Mapping[str, Any]) -> None:
    """Refuse tables whose rows would meet by nothing but their numbers.

    The first column of these tables has no name and numbers the rows, as pandas and R write it.
    That is no id where the tables have rows of different number, or a column that could hold ids.
    `tables` are DataFrames by how a message calls them.
    """
    numbered = {name: table for name, table in tables.items() if _has_row_numbers(table.index)}
    if len(numbered) < 2:
        return
    first = next(iter(numbered))
    common = set.intersection(*(set(table.columns) for table in tables.values()))
    columns = [name for name in tables[first].columns if name in common]
    held = next((n for n in columns if all(_like_ids(t[n]) for t in tables.values())), None)
    sizes = {len(table) for table in numbered.values() if _are_counted(table.index)}
    if len(sizes) < 2 and held is None:
        return
    found = sorted({len(table) for table in numbered.values()})
    advice = f"say which column holds the sample ids: {parameter('id_column', held or 'NAME')}"
    raise ViewError(
        f"{', '.join(numbered)}: the first column has no name and only counts the rows "
        f"({' and '.join(f'{size:,}' for size in found)} of them); {advice}; or, if the same "
        "number is the same sample in all tables, give the first column a name, such as id"
    )


def _like_ids(column: Any) -> bool:
    """Whether the values of a column are texts or whole numbers, each of them once."""
    whole = column.dtype == object or bool((column % 1 == 0).all())
    return bool(column.is_unique) and whole


def _has_row_numbers(index: Any) -> bool:
    """Whether an index without a name holds whole numbers only."""
    if not is_unnamed(index.name or ""):
        return False
    return all(item.isdecimal() and item == str(int(item)) for item in index)


def _are_counted(index: Any) -> bool:
    """Whether an index holds 0, 1, 2, ... or 1, 2, 3, ..., in any order."""
    numbers = {int(item) for item in index}
    return min(numbers) in (0, 1) and max(numbers) - min(numbers) + 1 == len(numbers) == len(index)


def check_id_column(where: Path | str, column: str, ids: Sequence[str]) -> None:
    """Refuse a column of ids that are absent, there twice, cut, or no ids at all."""
    rule = f"{column} must hold the sample ids, each of them once"
    check_ids(f"{where}: {rule}", ids, " after the header")
    if len(set(ids)) < len(ids):
        (first, count), *_ = Counter(ids).most_common(1)
        raise DataFileError(f"{where}: {rule}; found {first!r} {count} times")
    if are_decimals(ids):
        shown = ", ".join(repr(sample) for sample in ids[:3])
        raise DataFileError(
            f"{where}: {rule}; found decimal numbers ({shown}). Add a column of ids in front; if "
            "these are the ids, put a letter before them"
        )
