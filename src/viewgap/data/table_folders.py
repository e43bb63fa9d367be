"""Folders with one table per view and a table of labels, aligned by sample id."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from viewgap.data.checks import as_labels
from viewgap.data.id_mismatch import compared_ids, likely_cause, unrelated
from viewgap.data.label_words import is_label_cell
from viewgap.data.labels import Labels
from viewgap.data.raw_data import RawData, raw_data, without_strangers
from viewgap.data.table_files import column_names, load_labels, load_view
from viewgap.data.viewset import ViewSet
from viewgap.errors import (
    DataFileError,
    InputError,
    LabelError,
    ViewError,
    ViewgapError,
    ViewgapWarning,
    parameter,
)

LABEL_STEMS = ("labels", "label")
_LABEL_WORDS = frozenset(
    (
        *("label", "labels", "target", "targets", "outcome", "outcomes", "class", "classes"),
        *("annotation", "annotations", "tag", "tags", "truth", "groundtruth", "y"),
    )
)
_MANY_CLASSES = 50

Tables = dict[str, Any]


def read_tables(
    folder: Path, files: Sequence[Path], *, nan: str, labels: Path | None = None
) -> RawData:
    """Read the tables of a folder; `labels`, if given, takes the place of a table of that name."""
    own, views = _split(folder, files)
    if labels is not None and own is not None:
        _note_not_read(folder, own, f"the labels are those of {parameter('labels', str(labels))}")
    label_file = labels or own
    for path in views:
        _refuse_labels(path, has_labels=label_file is not None)
    tables = _load_views(folder, views)
    if label_file is None:
        _refuse_unrelated(folder, tables, None)
        return raw_data(folder, tables, None, (), nan=nan)
    label = _of_known_samples(label_file, load_labels(label_file), tables)
    tables = _refuse_unrelated(folder, tables, label.index)
    raw = raw_data(folder, tables, None, (), nan=nan)
    try:
        values = as_labels(label, raw.views)
    except InputError as error:
        raise type(error)(f"{label_file}: {error}") from error
    _refuse_answers(folder, tables, values, raw.views.sample_ids)
    return RawData(raw.views, values.as_float(), values.names)


def read_view_tables(
    folder: Path, files: Sequence[Path], *, nan: str, label_names: Sequence[str] = ()
) -> ViewSet:
    """Read the views of a folder; tables of labels, by name or `label_names`, are passed over."""
    own, views = _split(folder, files)
    foreign = [path for path in views if _holds_labels(path, label_names)]
    for path in foreign:
        _note_not_read(folder, path, "its columns are labels of the model")
    label_file = own or next(iter(foreign), None)
    tables = _load_views(folder, [path for path in views if path not in foreign])
    tables = _refuse_unrelated(folder, tables, None, label_file)
    return raw_data(folder, tables, None, (), nan=nan).views


def _split(folder: Path, files: Sequence[Path]) -> tuple[Path | None, list[Path]]:
    """Return the table of labels, if there is one, and the tables of views."""
    stems = [path.stem for path in files]
    repeated = sorted({stem for stem in stems if stems.count(stem) > 1})
    if repeated:
        raise DataFileError(f"{folder}: several files for the table {repeated[0]!r}")
    labels = [path for path in files if path.stem.lower() in LABEL_STEMS]
    if len(labels) > 1:
        raise DataFileError(
            f"{folder}: several tables of labels: {', '.join(path.name for path in labels)}; keep "
            "one of them"
        )
    views = [path for path in files if path not in labels]
    if not views:
        raise DataFileError(f"{folder}: no .csv, .tsv or .parquet file with a view in this folder")
    return next(iter(labels), None), views


def _load_views(folder: Path, files: Sequence[Path]) -> Tables:
    if not files:
        raise DataFileError(f"{folder}: no .csv, .tsv or .parquet file with a view in this folder")
    tables = {}
    for path in files:
        if column_names(path)[:2] == ["sample", "no_view"]:
            raise DataFileError(
                f"{path}: this table holds predictions of viewgap; move it out of the folder"
            )
        tables[path.stem] = load_view(path)
    return tables


def _note_not_read(folder: Path, path: Path, why: str) -> None:
    warnings.warn(f"{folder}: {path.name} is not read: {why}", ViewgapWarning, stacklevel=4)


# ---------------------------------------------------------------------- is a view really one?


def _refuse_labels(path: Path, *, has_labels: bool) -> None:
    """Ask about a table that is named like labels and filled like labels."""
    words = {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", path.stem)}
    if not words & _LABEL_WORDS or words & {"view", "views"}:
        return
    if not _filled_like_labels(load_labels(path)):
        return
    also = "also " if has_labels else ""
    raise LabelError(
        f"{path}: is this table {also}one of labels? Its name and its values (0, 1 and blanks, "
        "words like yes and no, or classes) look like it, and as a view it would give the answers "
        f"away. If it holds the labels, say so: {parameter('labels', str(path))}, or name it "
        f"labels{path.suffix}; if it is a view, name it {path.stem}_view{path.suffix}; if it is "
        "neither, move it out of the folder"
    )


def _filled_like_labels(table: Any) -> bool:
    """Whether all cells are 0, 1, words or blank, or there is one column of a few classes."""
    cells = {"" if cell is None else str(cell) for cell in table.to_numpy(dtype=object).ravel()}
    if all(map(is_label_cell, cells)):
        return True
    decimals = any(re.fullmatch(r"[-+]?\d*\.\d*[1-9]\d*(e[-+]?\d+)?", cell) for cell in cells)
    few = len(cells) <= min(_MANY_CLASSES, len(table) // 2)
    return table.shape[1] == 1 and few and not decimals


def _refuse_answers(folder: Path, tables: Tables, labels: Labels, ids: Any) -> None:
    """Refuse a view with a column that has the name and the values of a label."""
    truth = labels.as_float()
    for name, table in tables.items():
        for column in set(map(str, table.columns)) & set(labels.names):
            values = table[column].reindex(ids).to_numpy(dtype=np.float64, na_value=np.nan)
            answers = truth[:, labels.names.index(column)]
            both = ~np.isnan(values) & ~np.isnan(answers)
            if np.array_equal(values[both], answers[both]) and len(set(answers[both])) > 1:
                raise LabelError(
                    f"{folder}: column {column!r} of view {name!r} holds the label of that name, "
                    "and gives the answers away; remove it from the view, or move the table out of "
                    "the folder if it is a copy of the labels"
                )


def _holds_labels(path: Path, label_names: Sequence[str]) -> bool:
    if not label_names:
        return False
    columns = column_names(path)[1:]
    return bool(columns) and set(columns) <= set(label_names)


# ---------------------------------------------------------------------- ids


def _of_known_samples(label_file: Path, label: Any, tables: Tables) -> Any:
    """The labels of samples that occur in a view; the others describe nothing, and are named."""
    known = set().union(*(table.index for table in tables.values()))
    if not any(sample in known for sample in label.index):
        ids = {f"view {name!r}": table.index for name, table in tables.items()}
        name, index = next(iter(ids.items()))
        cause = likely_cause(label.index, ids, label.columns) or _view_cause(tables, label.index)
        raise LabelError(
            f"{label_file}: the labels have no id in common with the views: "
            f"{compared_ids('the labels', label.index, name, index)}"
            + (f"; likely cause: {cause}" if cause else "")
            + "; the first column of every table must hold the sample ids"
        )
    return without_strangers(label_file, label, known)


def _view_cause(tables: Tables, ids: Any) -> str | None:
    for name, table in tables.items():
        cause = likely_cause(table.index, {"the labels": ids}, table.columns)
        if cause:
            return f"view {name!r}: {cause}"
    return None


def _refuse_unrelated(
    folder: Path, tables: Tables, label_ids: Any, label_file: Path | None = None
) -> Tables:
    """Refuse a view that shares no id with any other, unless the labels hold ids of all views.

    Then every sample is meant to have one view only, and the first view gets a row of missing
    values for each of them.
    """
    problem = unrelated({name: (table.index, table.columns) for name, table in tables.items()})
    if problem is None:
        return tables
    if label_ids is None and label_file is not None:
        label_ids = _ids_of(label_file)
    if label_ids is not None and all(
        t.index.isin(label_ids).mean() >= 0.5 for t in tables.values()
    ):
        return _with_all_samples(tables)
    raise ViewError(
        f"{folder}: {problem}. The first column of every table must hold the sample ids. If every "
        "sample really has one view only, say so: give the samples of all views in the table of "
        "labels, or add them to one view as lines of blank cells"
    )


def _ids_of(label_file: Path) -> Any:
    try:
        return load_labels(label_file).index
    except ViewgapError:  # whoever asks for views only does not need labels to be right
        return None


def _with_all_samples(tables: Tables) -> Tables:
    first, *others = tables
    union = tables[first].index
    for name in others:
        union = union.append(tables[name].index).unique()
    return tables | {first: tables[first].reindex(union)}
