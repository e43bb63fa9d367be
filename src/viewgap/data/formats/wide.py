"""One table with the columns of all views: by `views`, or columns named `view:column`."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from viewgap.data.formats.base import RawData, check_n_views, raw_data
from viewgap.data.formats.folders import LABEL_STEMS
from viewgap.data.formats.one_table import (
    column_names,
    known_columns,
    known_views,
    load_view,
    split_labels,
    with_label_table,
)
from viewgap.data.formats.options import (
    ReadOptions,
    TableRequest,
    choose,
    columns_of_views,
    matching,
    shown_views,
)
from viewgap.data.formats.tables import refuse_answers
from viewgap.errors import DataFileError, ViewgapWarning, first_few, parameter

_SHOWN_VIEWS = 4


@dataclass(frozen=True)
class OneTable:
    """A table with all columns: the names of those besides the ids, and how to read some of them.

    `load(columns, as_text)` returns a DataFrame with the sample ids as index; `ids` is the name of
    their column.
    """

    path: Path
    ids: str
    names: Sequence[str]
    load: Callable[[tuple[str, ...], bool], Any]


def read_wide(
    path: Path,
    options: ReadOptions,
    *,
    nan: str,
    with_labels: bool = True,
    label_names: Sequence[str] = (),
    known: Mapping[str, Sequence[str]] | None = None,
) -> RawData:
    """Read one file whose columns belong to several views, and to the labels; see `read_one`."""
    request = TableRequest(id_column=options.id_column)
    ids, names = request.split_header(path, column_names(path))

    def load(columns: tuple[str, ...], as_text: bool) -> Any:
        return load_view(path, options, as_text=as_text, columns=columns)

    how: Any = {"nan": nan, "label_names": label_names, "known": known}
    return read_one(OneTable(path, ids, names, load), options, with_labels=with_labels, **how)


def read_one(
    table: OneTable,
    options: ReadOptions,
    *,
    nan: str,
    with_labels: bool = True,
    label_names: Sequence[str] = (),
    known: Mapping[str, Sequence[str]] | None = None,
) -> RawData:
    """Read one table whose columns belong to several views, and to the labels.

    Columns of `label_names` are no part of a view, as those of `options.label_columns`. Of views
    that a model knows, other views and columns are not read.
    """
    labels = _label_columns(table.path, options, table.names, with_labels)
    views = views_of(table, options, {*labels, *label_names}, known)
    raw = raw_data(table.path, views, nan=nan)
    if not labels or not with_labels:
        return raw
    return _with_labels(table, options, raw, labels, views)


def views_of(
    table: OneTable,
    options: ReadOptions,
    others: Collection[str] = (),
    known: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, Any]:
    """Return the views in one table as DataFrames; `others` are columns of no view."""
    path, names = table.path, table.names
    own_names = [name for name in names if name not in others]
    columns = columns_by_view(path, options, own_names, known)
    check_n_views(path, len(columns))
    left = set(names) - set(others) - {name for own in columns.values() for name in own.values()}
    if left:
        shown = first_few(name for name in names if name in left)
        warnings.warn(
            f"{path}: {len(left)} columns belong to no view and are not read: {shown}",
            ViewgapWarning,
            stacklevel=3,
        )
    result = _views(table, _known(path, columns, known or {}))
    if options.id_column is None:
        _refuse_column_as_ids(table, options, next(iter(result.values())).index)
    return result


def _refuse_column_as_ids(table: OneTable, options: ReadOptions, ids: Iterable[str]) -> None:
    """Refuse numbers as ids in a first column that is, by its name, one of a view or the labels."""
    own = {"the labels": options.label_columns}
    own |= {f"view {view!r}": patterns for view, patterns in options.views.items()}
    owners = [
        of
        for of, patterns in own.items()
        for pattern in patterns
        if pattern != "*" and matching(pattern, [table.ids])
    ]
    view, colon, column = (part.strip() for part in table.ids.partition(":"))
    if not options.views and colon and view and column:
        owners.append(f"view {view!r}")
    if owners and all(re.fullmatch(r"[+-]?\d+", sample) for sample in ids):
        raise DataFileError(
            f"{table.path}: the first column ({table.ids!r}) holds numbers and is, by its name, a "
            f"column of {owners[0]}: is it that, or the sample ids? Say which column holds the "
            f"ids: {parameter('id_column')}; if there is none, add one in front"
        )


def _known(
    path: Path, columns: Mapping[str, dict[str, str]], known: Mapping[str, Sequence[str]]
) -> dict[str, dict[str, str]]:
    """The views and columns that a model knows, where there are others besides them."""
    chosen = {}
    places = {name: f"view {name!r}" for name in columns}
    for view in known_views(path, places, known, lambda name: list(columns[name])):
        own = columns[view]
        wanted = known_columns(view, list(own), known.get(view, ()))
        chosen[view] = own if wanted is None else {name: own[name] for name in wanted}
    return chosen


def columns_by_view(
    path: Path | str,
    options: ReadOptions,
    names: Sequence[str],
    known: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, dict[str, str]]:
    """Columns of a table by view, and by their names there; `path` names the table in errors.

    `known` are the views of a model with their columns, for the advice of an error.
    """
    if options.views:
        chosen = columns_of_views(path, options.views, names)
        return {view: dict(zip(own, own, strict=True)) for view, own in chosen.items()}
    by_prefix: dict[str, dict[str, str]] = {}
    for name in names:
        view, colon, column = name.partition(":")
        if colon and view.strip() and column.strip():
            own = by_prefix.setdefault(view.strip(), {})
            other = own.setdefault(column.strip(), name)
            if other != name:
                raise DataFileError(
                    f"{path}: {other!r} and {name!r} name the same column of view {view.strip()!r}"
                )
    by_prefix = {view: own for view, own in by_prefix.items() if view.lower() not in LABEL_STEMS}
    if by_prefix:
        return by_prefix
    shown = shown_views(_fitting_views(names, known or {}) or _likely_views(names))
    raise DataFileError(
        f"{path}: one table with all columns: which of them make up which view? Say so with "
        f"{shown}, or name the columns 'view:column'"
    )


def _fitting_views(
    names: Sequence[str], known: Mapping[str, Sequence[str]]
) -> dict[str, str] | None:
    """Patterns by which the views of a model get just their columns; None where there are none."""
    patterns = {view: f"{_beginning(own)}*" for view, own in known.items() if own}
    fit = all(set(matching(patterns[view], names)) == set(known[view]) for view in patterns)
    return patterns if patterns and fit else None


def _beginning(names: Sequence[str]) -> str:
    """The letters with which all names begin."""
    first, last = min(names), max(names)
    pairs = enumerate(zip(first, last, strict=False))
    return first[: next((i for i, (one, other) in pairs if one != other), len(first))]


def _likely_views(names: Sequence[str]) -> dict[str, str]:
    """The most frequent beginnings of the names, to show how views are given."""
    starts = (re.match(r"[^\W_]+[_.\-]", name) for name in names)
    counts = Counter(start.group() for start in starts if start)
    frequent = [start for start, count in counts.most_common(_SHOWN_VIEWS) if count > 1]
    return {start[:-1]: f"{start}*" for start in frequent} or {"genes": "genes_*"}


def _label_columns(
    path: Path, options: ReadOptions, names: Sequence[str], needed: bool
) -> list[str]:
    if options.label_columns and not needed:  # they may be absent where nothing is to be learned
        return [name for pattern in options.label_columns for name in matching(pattern, names)]
    if options.label_columns:
        return choose(path, options.label_columns, names, parameter("label_columns"))
    if options.views:
        return []
    return [name for name in names if name.partition(":")[0].strip().lower() in LABEL_STEMS]


def _views(one: OneTable, columns: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """Views as DataFrames; each view shares the memory of the table where its columns adjoin."""
    wanted = tuple(name for own in columns.values() for name in own.values())
    table = one.load(wanted, False)
    return {
        view: table[list(own.values())].set_axis(list(own), axis=1) for view, own in columns.items()
    }


def _with_labels(
    one: OneTable, options: ReadOptions, raw: RawData, labels: Sequence[str], views: Any
) -> RawData:
    path, table = one.path, one.load(tuple(labels), True)
    if not options.label_columns:
        table = table.rename(columns=lambda name: name.partition(":")[2].strip())
    labelled = with_label_table(path, raw, split_labels(path, table, options))
    refuse_answers(path, views, labelled)
    return labelled
