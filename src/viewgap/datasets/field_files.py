"""Named sets in a folder of the user: `$VIEWGAP_DATA/<name>/`.

A folder holds either `<name>_six_view.mat` with its fold files
(`<name>_six_view_MaskRatios_<a>_LabelMaskRatio_<b>_TraindataRatio_<c>.mat`), or one `.npz`.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from viewgap.data.formats import read_data
from viewgap.data.formats.matlab import load_mat
from viewgap.datasets.dataset import Dataset, cardinality, fold_file_rates
from viewgap.errors import DataFileError, ViewgapWarning

VARIABLE = "VIEWGAP_DATA"
SMALL_FILE_BYTES = 20 * 2**20


@dataclass(frozen=True)
class Published:
    """Size of a benchmark set as published: samples, labels, labels per sample."""

    n: int
    c: int
    cardinality: float


PUBLISHED = {
    "corel5k": Published(4999, 260, 3.396),
    "pascal07": Published(9963, 20, 1.465),
    "espgame": Published(20770, 268, 4.686),
    "iaprtc12": Published(19627, 291, 5.719),
    "mirflickr": Published(25000, 38, 4.716),
}
"""Table 1 of the SCSD paper; all five have the same six views."""

SIX_VIEWS = {
    "DenseSift": 1000,
    "DenseHue": 100,
    "Gist": 512,
    "Rgb": 4096,
    "Lab": 4096,
    "Hsv": 4096,
}
"""Width of the six views of the benchmark sets, in the order of the paper."""


def data_folder() -> Path | None:
    """Folder named by the environment variable VIEWGAP_DATA, None if it is not set."""
    text = os.environ.get(VARIABLE, "").strip()
    return Path(text).expanduser() if text else None


def data_files() -> dict[str, Path]:
    """Data file of every set in the data folder, by name; nothing is opened."""
    root = data_folder()
    if root is None or not root.is_dir():
        return {}
    found = {}
    for folder in sorted(root.iterdir()):
        file = _data_file(folder) if folder.is_dir() else None
        if file is not None:
            found[folder.name] = file
    return found


def find_file(name: str) -> Path | None:
    """Data file of the set of this name, in any case; None if the data folder has no such set."""
    root = data_folder()
    if root is None or not root.is_dir():
        return None
    folders = [folder for folder in root.iterdir() if folder.name.lower() == name.lower()]
    if not folders or not folders[0].is_dir():
        return None
    file = _data_file(folders[0])
    if file is None:
        found = ", ".join(sorted(path.name for path in folders[0].iterdir())) or "nothing"
        raise DataFileError(
            f"{folders[0]}: expected {folders[0].name}_six_view.mat or exactly one .npz file, "
            f"found: {found}"
        )
    return file


def load_file(file: Path) -> Dataset:
    """Return the set in a data file, named after its folder, with the fold files beside it."""
    raw = read_data(file)
    if raw.labels is None:
        raise DataFileError(
            f"{file}: a named data set needs labels; add an array 'labels' (samples, labels)"
        )
    name = file.parent.name
    return Dataset(name, raw.views, raw.labels, raw.label_names, fold_files(file.parent))


def statistics_of_file(path: Path, views: bool = False) -> dict[str, Any] | None:
    """n, c and labels per sample when they are cheap to know, None otherwise.

    Of a .mat only the labels are read; a large .npz is not read at all. Where everything is read,
    the widths of the views are told as well; `views` asks for that.
    """
    if views or (path.suffix != ".mat" and path.stat().st_size <= SMALL_FILE_BYTES):
        with warnings.catch_warnings():  # whoever looks at a list wants no notes on its entries
            warnings.simplefilter("ignore", ViewgapWarning)
            facts = load_file(path).statistics()
        return {key: facts[key] for key in ("n", "c", "cardinality")} | {"views": facts["dims"]}
    if path.suffix != ".mat":
        return None
    labels = load_mat(path, ("label",))["label"]
    dense = labels.toarray() if hasattr(labels, "toarray") else np.asarray(labels)
    dense = _samples_first(dense, PUBLISHED.get(path.parent.name.lower()))
    return {"n": dense.shape[0], "c": dense.shape[1], "cardinality": cardinality(dense)}


def fold_files(folder: Path) -> tuple[Path, ...]:
    """Files with ready-made folds in a folder."""
    return tuple(path for path in sorted(folder.glob("*.mat")) if fold_file_rates(path))


def _data_file(folder: Path) -> Path | None:
    mat = folder / f"{folder.name}_six_view.mat"
    if mat.is_file():
        return mat
    archives = sorted(folder.glob("*.npz"))
    return archives[0] if len(archives) == 1 else None


def _samples_first(labels: np.ndarray[Any, Any], published: Published | None) -> Any:
    """Turn labels that are stored as (labels, samples); there are more samples than labels."""
    n, c = labels.shape
    turned = n == published.c and c == published.n if published else n < c
    return labels.T if turned else labels
