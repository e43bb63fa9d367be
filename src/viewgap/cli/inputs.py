"""DATA of a command line: a named data set, or whatever lies at a path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viewgap.data.checks import as_labels
from viewgap.data.labels import Labels
from viewgap.data.readers import read_data
from viewgap.data.table_files import SUFFIXES, load_table
from viewgap.data.viewset import ViewSet
from viewgap.datasets import load_dataset
from viewgap.errors import DataFileError, LabelError


@dataclass(frozen=True)
class Given:
    """What a command line hands over; `source` names it in messages."""

    source: str
    views: ViewSet
    labels: Labels | None


def open_data(data: str, label_file: Path | None, nan: str) -> Given:
    """Read DATA: a path that exists, else a named data set. A label file replaces its labels."""
    found: Any = read_data(data, nan=nan) if _is_path(data) else load_dataset(data)
    labels = None
    if label_file is not None:
        labels = as_labels(_label_table(label_file), found.views)
    elif found.labels is not None:
        labels = as_labels(found.labels, found.views, names=found.label_names)
    return Given(data, found.views, labels)


def training_labels(given: Given) -> Labels:
    """The labels of DATA, or an error that says how to give them."""
    if given.labels is None:
        raise LabelError(f"{given.source} holds no labels; give them with --labels FILE")
    return given.labels


def matching_labels(given: Given, names: Sequence[str]) -> NDArray[np.float64]:
    """The labels of DATA in the order of the model, (n, c) with NaN = not observed."""
    labels = training_labels(given)
    if set(labels.names) != set(names):
        extra = sorted(set(labels.names) - set(names))[:3]
        absent = sorted(set(names) - set(labels.names))[:3]
        raise LabelError(
            f"{given.source} has other labels than the model: not in the model {extra}, "
            f"not in the data {absent}"
        )
    return labels.as_float()[:, [labels.names.index(name) for name in names]]


def _is_path(data: str) -> bool:
    place = Path(data)
    known = (".mat", ".npz", ".h5", ".hdf5")
    return place.exists() or len(place.parts) > 1 or place.suffix.lower() in known


def _label_table(path: Path) -> Any:
    if path.suffix.lower() not in SUFFIXES:
        raise DataFileError(f"{path}: labels must be a .csv or .parquet table")
    return load_table(path)
