"""HDF5 files with one dataset per view, whose values stay in the file until rows are needed."""

from __future__ import annotations

import math
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viewgap.data.formats.base import (
    Format,
    PathLike,
    RawData,
    check_n_rows,
    check_n_views,
    check_size,
    existing_file,
    from_arrays,
    label_summary,
    name_members,
    reading,
    size_limit,
    stored_ids,
    text_of,
)
from viewgap.data.formats.hdf5_texts import check_texts
from viewgap.errors import DataFileError

_TEXTS = ("label_names", "sample_ids")
_NAMES = ("views", "labels", *_TEXTS)
_LEAST_BLOCK, _LARGEST_BLOCK = 256, 65536  # of texts
_LARGEST_EXPANSION = 1032  # no byte compressed by deflate becomes more


def read_hdf5(path: PathLike, *, nan: str = "mean", with_labels: bool = True) -> RawData:
    """Read an HDF5 file with a group `views` of 2-D datasets.

    Optional: `labels` (n, c), `label_names` and `sample_ids`. Anything else beside them is named in
    a warning. The file stays open as long as the views are used.
    """
    source = Path(path)
    views, label, names = load_hdf5(source, with_labels)
    check_n_rows(source, views)
    ids = names.get("sample_ids")
    return from_arrays(source, views, label, names.get("label_names"), nan=nan, sample_ids=ids)


def describe(path: PathLike) -> dict[str, Any]:
    """Return n, c, cardinality and the widths of the views; only the labels are read."""
    views, label, _ = load_hdf5(Path(path))
    widths = {name: view.shape[1] for name, view in views.items() if len(view.shape or ()) == 2}
    return {} if label is None or label.ndim != 2 else label_summary(label) | {"views": widths}


FORMAT = Format("hdf5", "an HDF5 file", (".h5", ".hdf5"), read=read_hdf5, describe=describe)


def open_hdf5(path: Path) -> Any:
    """Return an open h5py.File, for reading."""
    try:
        import h5py
    except ImportError as error:
        raise DataFileError(
            f"{path}: an HDF5 file (MATLAB v7.3 is one) needs the package h5py: "
            "pip install viewgap[files]"
        ) from error
    return h5py.File(path, "r")


def inside(group: Any, name: str) -> Any:
    """Return a member of a group; links that lead out of the file are refused."""
    import h5py

    if not isinstance(group.get(name, getlink=True), h5py.HardLink):
        raise ValueError(f"{name!r} is a link that leads elsewhere")
    return group[name]


def refuse_elsewhere(dataset: Any) -> None:
    """Refuse a dataset that is a window to other files."""
    if dataset.external or dataset.is_virtual:
        raise ValueError(f"the values of {dataset.name!r} lie in another file")


def check_storage(path: Path, dataset: Any) -> None:
    """Refuse a dataset that expands to far more than the file holds.

    A chunk is always expanded as a whole, and of chunks that were never written a few bytes claim
    any size.
    """
    itemsize = dataset.dtype.itemsize
    if dataset.chunks:
        check_size(path, math.prod(dataset.chunks) * itemsize)
    if (dataset.size or 0) * itemsize > _LARGEST_EXPANSION * dataset.id.get_storage_size():
        check_size(path, dataset.size * itemsize)


def load_hdf5(path: Path, with_labels: bool = True) -> tuple[dict[str, Any], Any, dict[str, Any]]:
    """Return `({name: dataset}, labels, names)` of a file with a group `views`.

    Labels may be None; `names` has the sample ids and the names of labels, where the file has
    them. The file stays open as long as one of the datasets is in use.
    """
    source = existing_file(path)
    with reading(source), ExitStack() as stack:
        file = stack.enter_context(open_hdf5(source))
        views = _datasets(source, file)
        name_members(source, file, _NAMES)
        labels = _labels(source, file) if with_labels and "labels" in file else None
        names = {name: _names(source, file, name) for name in _TEXTS if name in file}
        stack.pop_all()  # it is closed only if something was wrong with it
    return views, labels, names


def _labels(path: Path, file: Any) -> Any:
    dataset = checked_dataset(path, file, "labels")
    check_size(path, 8 * (dataset.size or 0))
    if dataset.dtype.kind not in "buif":
        raise DataFileError(f"{path}: labels must be numbers, found dtype {dataset.dtype}")
    return dataset[()]


def _datasets(path: Path, file: Any) -> dict[str, Any]:
    group = inside(file, "views") if "views" in file else None
    if group is None or not hasattr(group, "keys"):
        members = ", ".join(file) or "nothing"
        raise DataFileError(
            f"{path}: expected a group 'views' with one dataset per view, found: {members}"
        )
    check_n_views(path, len(group))
    return {name: checked_dataset(path, group, name) for name in group}


def _names(path: Path, file: Any, name: str) -> Any:
    values = column_of(path, file, name)
    return stored_ids(path, name, values) if name == "sample_ids" else text_of(path, name, values)


def column_of(path: Path, group: Any, name: str) -> NDArray[Any]:
    """Return a 1-D dataset of numbers or text."""
    dataset = inside(group, name)
    if hasattr(dataset, "keys") or len(dataset.shape or ()) != 1:
        raise DataFileError(f"{path}: expected one value per row in {dataset.name!r}")
    refuse_elsewhere(dataset)
    check_storage(path, dataset)
    check_size(path, dataset.size * max(8, dataset.dtype.itemsize))
    if dataset.dtype.kind != "O":
        return np.asarray(dataset[()])
    return _texts(path, dataset)


def _texts(path: Path, dataset: Any) -> NDArray[Any]:
    """Text of any length, in blocks: many entries may share one long text in the file."""
    check_texts(path, dataset)
    whole = max(1, path.stat().st_size)
    step = min(max(size_limit() // whole, _LEAST_BLOCK), _LARGEST_BLOCK)
    parts, total = [], 0
    for start in range(0, len(dataset), step):
        part = dataset.asstr()[start : start + step]
        total += sum(map(len, part))
        check_size(path, total)
        parts.append(part)
    return np.concatenate(parts) if parts else np.empty(0, dtype=object)


def checked_dataset(path: Path, group: Any, name: str) -> Any:
    """Return a dataset that lies in the file, and whose rows fit into memory."""
    dataset = inside(group, name)
    if hasattr(dataset, "keys"):
        raise DataFileError(f"{path}: expected a dataset of numbers, found a group: {name!r}")
    refuse_elsewhere(dataset)
    if dataset.shape:
        check_size(path, dataset.shape[-1] * dataset.dtype.itemsize)  # one row is read at least
    check_storage(path, dataset)
    return dataset
