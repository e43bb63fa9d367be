"""Data of the user's own, at a path: a data set with labels, perhaps groups, and a fingerprint."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viewgap.data.formats import format_of, read_data
from viewgap.data.formats.base import dense_labels
from viewgap.data.formats.folders import is_folder_format
from viewgap.data.formats.one_table import load_labels
from viewgap.data.formats.options import ReadOptions
from viewgap.data.viewset import ViewSet
from viewgap.datasets.dataset import Dataset
from viewgap.errors import DataFileError, LabelError, first_few, parameter, printable

_DIGITS = 16
_BLOCK = 2**20


def path_name(path: str) -> str:
    """What tables call the data at a path: the last part of it."""
    return printable(Path(path).resolve().name)


def read_own(
    path: str,
    *,
    labels: str | None = None,
    groups: str | None = None,
    missing: str = "mean",
    sha256: str | None = None,
    **reading: Any,
) -> Dataset:
    """Read a file or folder as a data set.

    `groups` is a table with the group of each sample, `FILE` or `FILE:COLUMN`; `sha256` the
    fingerprint that the files must have (see `fingerprint`). All else is as for `read_data`, whose
    `nan` is called `missing` here.
    """
    if sha256 is not None and fingerprint(path, labels, groups) != sha256:
        raise DataFileError(
            f"{path}: the files have changed since the run began; begin it again: what was done "
            "on the old files is not used for the new ones"
        )
    raw = read_data(path, nan=missing, labels=labels, **reading)
    if raw.labels is None:
        raise LabelError(f"{path} holds no labels; give them with {parameter('labels', 'FILE')}")
    id_column = reading.get("id_column")
    own = None if groups is None else read_groups(groups, raw.views, Path(path), id_column)
    return Dataset(
        path_name(path), raw.views, dense_labels(raw.labels), raw.label_names, groups=own
    )


def fingerprint(path: str, labels: str | None = None, groups: str | None = None) -> str:
    """Sixteen hexadecimal digits over names and contents of all files that make up the data."""
    column = None if groups is None else _group_column(groups)[1]
    state = hashlib.sha256(repr((labels is not None, groups is not None, column)).encode())
    for file in _files(path, labels, groups):
        state.update(f"{file.name}\0{file.stat().st_size}\0".encode())
        with file.open("rb") as stream:
            while block := stream.read(_BLOCK):
                state.update(block)
    return state.hexdigest()[:_DIGITS]


def _files(path: str, labels: str | None, groups: str | None) -> Iterator[Path]:
    source = Path(path)
    if source.is_dir() and is_folder_format(source):
        yield from (file for file in sorted(source.rglob("*")) if file.is_file())
    elif source.is_dir():
        yield from (file for file in sorted(source.iterdir()) if _counts(file))
    else:
        own = format_of(source)
        beside = [source.with_suffix(end) for end in (own.beside if own else ())]
        yield from _existing([source])
        yield from (file for file in beside if file.is_file())
    given = [Path(labels)] if labels is not None else []
    given += [_group_column(groups)[0]] if groups is not None else []
    yield from _existing(given)


def _counts(file: Path) -> bool:
    return file.is_file() and not file.name.startswith((".", "~$"))


def _existing(files: list[Path]) -> Iterator[Path]:
    for file in files:
        if not file.is_file():
            raise DataFileError(f"{file}: no such file or folder")
        yield file


# ---------------------------------------------------------------------- groups


def read_groups(
    spec: str, views: ViewSet, data: Path, id_column: str | None = None
) -> NDArray[Any]:
    """The group of every sample of `views`, matched by id."""
    path, column = _group_column(spec)
    if data.is_dir() and path.resolve().parent == data.resolve():
        raise DataFileError(
            f"{path}: the table of groups lies among the views, and would be read as one; move it "
            "out of the folder"
        )
    table = load_labels(path, ReadOptions(id_column=id_column))
    if column is None and table.shape[1] > 1:
        raise DataFileError(
            f"{path} has several columns ({first_few(table.columns)}); say which of them holds the "
            f"groups: {parameter('groups', f'{path}:{table.columns[0]}')}"
        )
    if column is not None and column not in table.columns:
        raise DataFileError(
            f"{path} has no column {column!r}; it has: {first_few(table.columns, 20)}"
        )
    values = table[table.columns[0] if column is None else column]
    ids = [str(sample) for sample in views.sample_ids.tolist()]
    absent = [sample for sample in ids if sample not in values.index]
    if absent:
        raise DataFileError(
            f"{path}: {len(absent)} of the {len(ids)} samples have no line ({first_few(absent)}); "
            "every sample needs a group"
        )
    found = values.reindex(ids)
    blank = found.isna() | (found.astype(str).str.strip() == "")
    if blank.any():
        raise DataFileError(
            f"{path}: {int(blank.sum())} samples have a blank group "
            f"({first_few(found.index[blank])}); give each of them one"
        )
    return np.asarray(found.astype(str).str.strip(), dtype=str)


def _group_column(spec: str) -> tuple[Path, str | None]:
    """File and column of `FILE` or `FILE:COLUMN`."""
    file, sign, column = spec.rpartition(":")
    if Path(spec).exists() or not sign or not file:
        return Path(spec), None
    return Path(file), column
