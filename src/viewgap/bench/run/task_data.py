"""Where the data of a task come from: a named data set, files of the user's own, or memory."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from viewgap.data.formats import format_of
from viewgap.data.formats.options import ReadOptions
from viewgap.data.rows.values import row_chunks
from viewgap.datasets import Dataset, load_dataset
from viewgap.datasets.own_files import fingerprint, path_name, read_own
from viewgap.errors import DataFileError, SettingError

MEMORY = "memory"
_FILES = ("labels", "groups")
_READING = ("views", "label_columns", "label_separator", "id_column", "decimal")
_OPTIONS = (*_FILES, "missing", *_READING)
_in_memory: dict[str, Dataset] = {}


def looks_like_path(name: str) -> bool:
    """Whether a text in an experiment file names data at a path rather than a named data set."""
    return "/" in name or os.sep in name or format_of(Path(name)) is not None


def own_files(path: str, options: Mapping[str, Any], folder: Path | None = None) -> dict[str, Any]:
    """The fields of a task on data at a path: name, where its files lie, and their fingerprint.

    `options` are `labels` and `groups` (paths), `missing`, and how to read the files, see
    `read_own`. Relative paths begin at `folder`.
    """
    unknown = sorted(set(options) - set(_OPTIONS))
    if unknown:
        raise SettingError(
            f"data at a path ({path}) have no option {unknown[0]!r}; their options are: "
            f"{', '.join(_OPTIONS)}"
        )
    given = {"path": path, **{key: str(options[key]) for key in _FILES if key in options}}
    files = {key: _joined(folder, text) for key, text in given.items()}
    if not Path(files["path"]).exists():
        raise DataFileError(f"{files['path']}: no such file or folder")
    content: dict[str, Any] = {"sha256": fingerprint(**files), **_reading(path, options)}
    if options.get("missing", "mean") != "mean":
        content["missing"] = options["missing"]
    return {"dataset": path_name(files["path"]), "files": files, "dataset_options": content}


def _reading(path: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that say how files are read, checked, as JSON keeps them; defaults left out."""
    given = {key: options[key] for key in _READING if key in options}
    for key in ("label_separator", "id_column", "decimal"):
        if not isinstance(given.get(key, ""), str | None):
            raise SettingError(f"{path}: {key} must be text, found {given[key]!r}")
    chosen = ReadOptions.of(**given)
    found = {key: getattr(chosen, key) for key in chosen.given()}
    if "views" in found:
        found["views"] = {name: list(own) for name, own in chosen.views.items()}
    if "label_columns" in found:
        found["label_columns"] = list(chosen.label_columns)
    return found


def _joined(folder: Path | None, text: str) -> str:
    return text if folder is None else os.path.normpath(folder / text)


def keep_in_memory(dataset: Dataset) -> dict[str, Any]:
    """Let tasks of this process, and of its workers, use a data set; the fields of such a task.

    `forget` lets it go.
    """
    mark = _content_mark(dataset)
    _in_memory[mark] = dataset
    return {
        "dataset": dataset.name,
        "files": {"path": MEMORY},
        "dataset_options": {"sha256": mark},
    }


def forget(fields: Mapping[str, Any]) -> None:
    """Let go of a data set that `keep_in_memory` kept; `fields` is what it returned."""
    _in_memory.pop(fields["dataset_options"]["sha256"], None)


def in_memory() -> dict[str, Dataset]:
    """The data sets that this process keeps, for its workers."""
    return dict(_in_memory)


def take_over(datasets: Mapping[str, Dataset]) -> None:
    """In a worker: keep what the process that started it keeps."""
    _in_memory.update(datasets)


def open_data(name: str, files: Mapping[str, str], options: Mapping[str, Any]) -> Dataset:
    """The data set of a task."""
    if not files:
        return load_dataset(name, **options)
    if files["path"] != MEMORY:
        return read_own(**files, **options)
    if options["sha256"] not in _in_memory:
        raise DataFileError(f"the data {name!r} are in the memory of another process")
    return _in_memory[options["sha256"]]


def _content_mark(dataset: Dataset) -> str:
    """Sixteen hexadecimal digits over all values, gaps, labels, names and groups."""
    views = dataset.views
    names = (views.names, views.dims, dataset.label_names, sorted(views.feature_names.items()))
    state = hashlib.sha256(repr(names).encode())
    arrays = [dataset.labels, views.observed]
    arrays += [] if dataset.groups is None else [np.unique(dataset.groups, return_inverse=True)[1]]
    for array in arrays:
        state.update(np.ascontiguousarray(array).tobytes())
    for name in views.names:
        width = max(1, views.dims[views.names.index(name)])
        for part in row_chunks(len(views), 8 * width):
            state.update(views.rows(name, part, dtype=np.float64).tobytes())
    return state.hexdigest()[:16]
