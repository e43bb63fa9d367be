"""Folders with one table per view and a table of labels, aligned by sample id."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from viewgap.data.formats.base import PathLike, RawData, raw_data, stem_of
from viewgap.data.formats.folders import data_files, is_label_file
from viewgap.data.formats.one_table import (
    column_names,
    known_columns,
    known_views,
    load_labels,
    load_view,
    refuse_counted_rows,
    with_label_table,
)
from viewgap.data.formats.options import ReadOptions, TableRequest
from viewgap.data.formats.registry import listed
from viewgap.data.labels import Labels, SparseLabels, SparseLabelTable
from viewgap.data.labels.labels import is_label_text
from viewgap.data.rows.ids import (
    both_transposed,
    compared_ids,
    ids_in_another_form,
    likely_cause,
    transposed,
    unrelated,
)
from viewgap.data.validation import as_labels
from viewgap.data.viewset import ViewSet
from viewgap.errors import (
    DataFileError,
    InputError,
    LabelError,
    SettingError,
    ViewError,
    ViewgapError,
    ViewgapWarning,
    first_few,
    parameter,
)

_LABEL_WORDS = frozenset(
    (
        *("label", "labels", "target", "targets", "outcome", "outcomes", "class", "classes"),
        *("annotation", "annotations", "tag", "tags", "truth", "groundtruth", "y"),
    )
)
_MASK_WORDS = frozenset(("mask", "masks", "observed", "missing", "available", "present"))
_MANY_CLASSES = 50
_LOOKED_AT = 10_000
_DEFAULT = ReadOptions()

Tables = dict[str, Any]


def read_table_folder(
    path: PathLike, *, nan: str = "mean", labels: PathLike | None = None, **options: Any
) -> RawData:
    """Read a folder with one `.csv`, `.tsv` or `.parquet` file per view, and a table of labels.

    Without `id_column` the first column holds the sample ids. Views are aligned by id, and named
    after their files. A sample absent from a file has that view missing. The labels are the table
    `labels`, or one of that name (in any case) in the folder: a sample absent from it has no
    observed label, one that occurs there only is left out with a warning. `options` are those of
    `read_data`.
    """
    folder = Path(path)
    if not folder.is_dir():
        raise DataFileError(f"{folder}: expected a folder with one table per view")
    table = None if labels is None else Path(labels)
    files = data_files(folder, table)
    if files.kind != "tables":
        raise DataFileError(f"{folder}: no {listed('read_table')} file in this folder")
    return read_tables(folder, files.paths, ReadOptions.of(**options), nan=nan, labels=table)


def read_tables(
    folder: Path,
    files: Sequence[Path],
    options: ReadOptions = _DEFAULT,
    *,
    nan: str,
    labels: Path | None = None,
) -> RawData:
    """Read the tables of a folder; `labels`, if given, takes the place of a table of that name."""
    _refuse_patterns(folder, options)
    own, views = _split(folder, files)
    if labels is not None and own is not None:
        _note_not_read(folder, own, f"the labels are those of {parameter('labels', str(labels))}")
    label_file = labels or own
    for path in views:
        _refuse_labels(path, options, has_labels=label_file is not None)
    tables = _load_views(folder, views, options)
    by_view = {f"view {name!r}": table for name, table in tables.items()}
    if label_file is None:
        refuse_counted_rows(by_view)
        refuse_unrelated(folder, tables, None)
        return raw_data(folder, tables, nan=nan)
    label = load_labels(label_file, options)
    refuse_counted_rows(by_view | {"the labels": label})
    ids = {name: table.index for name, table in by_view.items()}
    label = matching_rows(label_file, label, ids, tables)
    tables = refuse_unrelated(folder, tables, label.index)
    order = labelled_first(label.index, [table.index for table in tables.values()])
    raw = raw_data(folder, tables, nan=nan, sample_ids=order)
    labelled = with_label_table(label_file, raw, label)
    refuse_answers(folder, tables, labelled)
    return labelled


def read_view_tables(
    folder: Path,
    files: Sequence[Path],
    options: ReadOptions = _DEFAULT,
    *,
    nan: str,
    label_names: Sequence[str] = (),
    known: Mapping[str, Sequence[str]] | None = None,
) -> ViewSet:
    """Read the views of a folder; tables of labels, by name or `label_names`, are passed over.

    So are tables that are not among the `known` views, if any table is, and columns that are not
    among theirs.
    """
    _refuse_patterns(folder, options)
    own, views = _split(folder, files)
    foreign = [path for path in views if _holds_labels(path, label_names, options)]
    for path in foreign:
        _note_not_read(folder, path, "its columns are labels of the model")
    label_file = own or next(iter(foreign), None)
    views = [path for path in views if path not in foreign]
    views = _known_tables(folder, views, known or {})
    tables = _load_views(folder, views, options, known)
    refuse_counted_rows({f"view {name!r}": table for name, table in tables.items()})
    tables = refuse_unrelated(folder, tables, None, label_file, options)
    return raw_data(folder, tables, nan=nan).views


def _known_tables(
    folder: Path,
    files: Sequence[Path],
    known: Mapping[str, Sequence[str]],
) -> list[Path]:
    """The tables of views that a model knows, if there is one of them; else all."""
    paths = {stem_of(path): path for path in files}

    def columns(name: str) -> list[str]:
        return column_names(paths[name])

    chosen = known_views(folder, {name: path.name for name, path in paths.items()}, known, columns)
    return [path for path in files if stem_of(path) in chosen]


def label_table_columns(
    folder: Path, files: Sequence[Path], options: ReadOptions = _DEFAULT
) -> tuple[str, ...] | None:
    """Names of the labels in the table of labels of a folder; None if there is no such table."""
    labels, _ = _split(folder, files)
    return None if labels is None else tuple(map(str, load_labels(labels, options).columns))


def _split(folder: Path, files: Sequence[Path]) -> tuple[Path | None, list[Path]]:
    """Return the table of labels, if there is one, and the tables of views."""
    stems = [stem_of(path) for path in files]
    repeated = sorted({stem for stem in stems if stems.count(stem) > 1})
    if repeated:
        raise DataFileError(f"{folder}: several files for the table {repeated[0]!r}")
    labels = [path for path in files if is_label_file(path)]
    if len(labels) > 1:
        raise DataFileError(
            f"{folder}: several tables of labels: {', '.join(path.name for path in labels)}; keep "
            "one of them"
        )
    return next(iter(labels), None), [path for path in files if path not in labels]


def _load_views(
    folder: Path,
    files: Sequence[Path],
    options: ReadOptions,
    known: Mapping[str, Sequence[str]] | None = None,
) -> Tables:
    if not files:
        suffixes = listed("read_table")
        raise DataFileError(f"{folder}: no {suffixes} file with a view in this folder")
    tables = {}
    for path in files:
        if column_names(path)[:2] == ["sample", "no_view"]:
            raise DataFileError(
                f"{path}: this table holds predictions of viewgap; move it out of the folder"
            )
        wanted = (known or {}).get(stem_of(path), ())
        tables[stem_of(path)] = load_view(path, options, columns=_columns(path, wanted, options))
    return tables


def _columns(path: Path, wanted: Sequence[str], options: ReadOptions) -> tuple[str, ...] | None:
    """The columns to read where there are others besides the wanted ones; None is all."""
    _, names = TableRequest(id_column=options.id_column).split_header(path, column_names(path))
    return known_columns(stem_of(path), names, wanted)


def _refuse_patterns(folder: Path, options: ReadOptions) -> None:
    if options.views:
        raise SettingError(
            f"{folder}: {parameter('views')} is for one table or file with all columns; in this "
            "folder every file is a view. Give the path of the table itself"
        )


def _note_not_read(folder: Path, path: Path, why: str) -> None:
    warnings.warn(f"{folder}: {path.name} is not read: {why}", ViewgapWarning, stacklevel=4)


# ---------------------------------------------------------------------- is a view really one?


def _refuse_labels(path: Path, options: ReadOptions, *, has_labels: bool) -> None:
    """Ask about a table that is named like labels and filled like labels."""
    words = _words(stem_of(path))
    if not words & _LABEL_WORDS or words & {"view", "views"}:
        return
    if not _filled_like_labels(load_view(path, options, as_text=True)):
        return
    also = "also " if has_labels else ""
    ending = path.name.removeprefix(stem_of(path))
    raise LabelError(
        f"{path}: is this table {also}one of labels? Its name and its values (0, 1 and blanks, "
        "words like yes and no, or classes) look like it, and as a view it would give the answers "
        f"away. If it holds the labels, say so: {parameter('labels', str(path))}, or name it "
        f"labels{ending}; if it is a view, name it {stem_of(path)}_view{ending}; if it is "
        "neither, move it out of the folder"
    )


def refuse_label_views(source: Path, views: ViewSet) -> None:
    """Ask about arrays and sheets that are named and filled like labels, or like a mask of views.

    Of long views the first rows are looked at.
    """
    for name in views.names:
        words = _words(name)
        like_labels, like_mask = words & _LABEL_WORDS, words & _MASK_WORDS
        like_ids = words & {"id", "ids"} and views.dims[views.names.index(name)] == 1
        if not (like_labels or like_mask or like_ids) or re.search("views?$", name, re.IGNORECASE):
            continue
        values = views.rows(name, slice(_LOOKED_AT), np.float64)
        if like_ids and len(np.unique(values)) == len(values) and (values % 1 == 0).all():
            raise ViewError(
                f"{source}: does {name!r} hold the ids of the samples? Its name and its values "
                "(whole numbers, all different) look like it; ids are no view. Write them as this "
                f"kind of file has them (see the docs), or, if it is a view, name it {name}_view"
            )
        seen = views.observed[: len(values), views.names.index(name)]
        if not (np.isin(values[seen], (0, 1, -1)) | np.isnan(values[seen])).all():
            continue
        if like_labels:
            raise LabelError(
                f"{source}: does {name!r} hold labels? Its name and its values (0 and 1) look like "
                "it, and as a view it would give the answers away. If it does, name it labels; if "
                f"it is a view, name it {name}_view; if it is neither, take it out"
            )
        if values.shape[1] == views.n_views - 1:
            advice = "name it view_mask (1: observed)"
            if name == "view_mask":
                advice = "write an .npz archive, or rows of NaN where a sample lacks the view"
            raise ViewError(
                f"{source}: does {name!r} say which views are observed? Its name, its values (0 "
                f"and 1) and its width look like it. If it does, {advice}; if it is a view, name "
                f"it {name}_view; if it is neither, take it out"
            )


def _words(name: str) -> set[str]:
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)}


def _filled_like_labels(table: Any) -> bool:
    """Whether all entries are 0, 1, words or blank, or there is one column of a few classes."""
    texts = {"" if entry is None else str(entry) for entry in table.to_numpy(dtype=object).ravel()}
    if all(map(is_label_text, texts)):
        return True
    decimals = any(re.fullmatch(r"[-+]?\d*\.\d*[1-9]\d*(e[-+]?\d+)?", text) for text in texts)
    few = len(texts) <= min(_MANY_CLASSES, len(table) // 2)
    return table.shape[1] == 1 and few and not decimals


def refuse_answers(folder: Path, tables: Tables, raw: RawData) -> None:
    """Refuse a view with a column that has the name and the values of a label."""
    truth: Any = raw.labels
    ids = raw.views.sample_ids
    for name, table in tables.items():
        for column in set(map(str, table.columns)) & set(raw.label_names):
            values = table[column].reindex(ids).to_numpy(dtype=np.float64, na_value=np.nan)
            number = raw.label_names.index(column)
            answers = (
                truth.of_columns(np.array([number])).as_float()[:, 0]
                if isinstance(truth, SparseLabels)
                else truth[:, number]
            )
            both = ~np.isnan(values) & ~np.isnan(answers)
            if np.array_equal(values[both], answers[both]) and len(set(answers[both])) > 1:
                raise LabelError(
                    f"{folder}: column {column!r} of view {name!r} holds the label of that name, "
                    "and gives the answers away; remove it from the view, or move the table out of "
                    "the folder if it is a copy of the labels"
                )


def _holds_labels(path: Path, label_names: Sequence[str], options: ReadOptions) -> bool:
    if not label_names:
        return False
    _, columns = TableRequest(id_column=options.id_column).split_header(path, column_names(path))
    return bool(columns) and set(columns) <= set(label_names)


# ---------------------------------------------------------------------- ids


def matching_rows(path: Path, labels: Any, ids: Mapping[str, Any], tables: Tables) -> Any:
    """Return the labels of samples that occur in a view; a warning names the others.

    `ids` are the ids of the samples, by how a message calls where they come from.
    """
    samples = set().union(*ids.values())
    here = [sample in samples for sample in labels.index]
    if not any(here):
        name, first = next(iter(ids.items()))
        cause = _transposed_view(tables, labels) or likely_cause(labels.index, ids, labels.columns)
        raise LabelError(
            f"{path}: the labels have no id in common with the views: "
            f"{compared_ids('the labels', labels.index, name, first)}"
            + (f"; likely cause: {cause}" if cause else "")
            + "; the first column of every table must hold the sample ids"
        )
    problem = ids_in_another_form({"the labels": labels.index} | dict(ids))
    if problem:
        warnings.warn(f"{path}: {problem}", ViewgapWarning, stacklevel=4)
    if all(here):
        return labels
    others = [sample for sample, kept in zip(labels.index, here, strict=True) if not kept]
    warnings.warn(
        f"{path}: {len(others)} {'sample has' if len(others) == 1 else 'samples have'} labels but "
        f"no view, and {'is' if len(others) == 1 else 'are'} left out "
        f"({first_few(others)})",
        ViewgapWarning,
        stacklevel=4,
    )
    return labels[here]


def labelled_first(labelled: Any, indices: Sequence[Any]) -> Any:
    """Return the ids of all samples, in the order of the table of labels; others come after.

    A fit draws rows by their place. With one order of the rows, the order of the lines in the
    files of views does not matter, and the same data in one file is the same data.
    """
    if labelled.has_duplicates:
        return None  # whoever reads the labels refuses them
    order = labelled
    for index in indices:
        order = order.append(index[~index.isin(order)])
    return order


def _transposed_view(tables: Tables, labels: Any) -> str | None:
    for name, table in tables.items():
        cause = transposed(table.columns, labels.index, "the labels")
        cause = cause or both_transposed(table.columns, labels.columns, "the labels")
        if cause:
            return f"view {name!r}: {cause}"
    return None


def refuse_unrelated(
    folder: Path,
    tables: Tables,
    label_ids: Any,
    label_file: Path | None = None,
    options: ReadOptions = _DEFAULT,
) -> Tables:
    """Refuse a view that shares no id with any other, unless the labels hold ids of all views.

    Then every sample is meant to have one view only, and the first view gets a row of missing
    values for each of them.
    """
    problem = unrelated({name: (table.index, table.columns) for name, table in tables.items()})
    if problem is None:
        return tables
    if label_ids is None and label_file is not None:
        label_ids = _ids_of(label_file, options)
    if label_ids is not None and all(
        t.index.isin(label_ids).mean() >= 0.5 for t in tables.values()
    ):
        return _with_all_samples(tables)
    raise ViewError(
        f"{folder}: {problem}. The first column of every table must hold the sample ids. If every "
        "sample really has one view only, say so: give the samples of all views in the table of "
        "labels, or add them to one view as lines with only the id"
    )


def _ids_of(label_file: Path, options: ReadOptions) -> Any:
    try:
        return load_view(label_file, options, as_text=True).index
    except ViewgapError:  # whoever asks for views only does not need labels to be right
        return None


def _with_all_samples(tables: Tables) -> Tables:
    first, *others = tables
    union = tables[first].index
    for name in others:
        union = union.append(tables[name].index).unique()
    return tables | {first: tables[first].reindex(union)}


def labels_of_table(views: ViewSet, path: Path, options: ReadOptions = _DEFAULT) -> Labels:
    """Return the labels of a table for the samples of `views`, matched by sample id."""
    import pandas as pd

    frame = load_labels(path, options)
    ids = {str(sample): sample for sample in views.sample_ids.tolist()}
    if not views.has_ids and set(frame.index) != set(ids):
        raise LabelError(
            f"{path}: the data has no sample ids, so its samples count from 0 to "
            f"{len(views) - 1}; the ids of the labels must be just these, found {len(frame)}: "
            f"{compared_ids('the labels', frame.index, 'the data', ids)}"
        )
    frame = matching_rows(path, frame, {"the views": pd.Index(ids)}, {})
    frame.index = [ids[sample] for sample in frame.index]
    try:
        # In the order of the samples, for data without ids; where there are ids, by them.
        return as_labels(frame if views.has_ids else _in_order(frame, list(ids.values())), views)
    except InputError as error:
        raise type(error)(f"{path}: {error}") from error


def _in_order(labels: Any, ids: Sequence[Any]) -> Any:
    """Rows of a table of labels in the order of their ids, all of which it has."""
    if isinstance(labels, SparseLabelTable):
        return labels[labels.index.get_indexer(ids)].labels
    return labels.loc[ids]


def in_label_order(views: ViewSet, path: Path, options: ReadOptions = _DEFAULT) -> ViewSet:
    """Return views of files that have ids of their own, with the rows of a table of labels."""
    return in_order_of(_ids_of(path, options), views)


def in_order_of(labelled: Any, views: ViewSet) -> ViewSet:
    """Return the views with their rows as `labelled_first` orders them."""
    import pandas as pd

    if labelled is None:
        return views
    index = pd.Index([str(sample) for sample in views.sample_ids.tolist()])
    order = labelled_first(labelled[labelled.isin(index)], [index])
    return views if order is None else views[index.get_indexer(order)]
