"""Named sets in a folder of the user: `$VIEWGAP_DATA/<name>/`.

A folder holds either `<name>_six_view.mat` with its fold files
(`<name>_six_view_MaskRatios_<a>_LabelMaskRatio_<b>_TraindataRatio_<c>.mat`), or one `.npz`, or
`<name>.arff` with the files that belong to it.
"""

from __future__ import annotations

import os
from pathlib import Path

from viewgap.data.formats import read_data
from viewgap.data.formats.base import dense_labels
from viewgap.data.formats.mulan import read_mulan
from viewgap.datasets.dataset import Dataset, fold_file_rates
from viewgap.datasets.named_sets import MULAN_VIEWS
from viewgap.errors import DataFileError

VARIABLE = "VIEWGAP_DATA"


def data_folder() -> Path | None:
    """Folder named by the environment variable VIEWGAP_DATA, None if it is not set."""
    text = os.environ.get(VARIABLE, "").strip()
    return Path(text).expanduser() if text else None


def data_files() -> dict[str, Path]:
    """Data file of every set in the data folder, by name; nothing is opened."""
    files = {folder.name: _data_file(folder) for folder in _folders()}
    return {name: file for name, file in files.items() if file is not None}


def find_file(name: str) -> Path | None:
    """Data file of the set of this name, in any case; None if the data folder has no such set."""
    folder = next((each for each in _folders() if each.name.lower() == name.lower()), None)
    if folder is None:
        return None
    file = _data_file(folder)
    if file is None:
        content = ", ".join(sorted(path.name for path in folder.iterdir())) or "nothing"
        raise DataFileError(
            f"{folder}: expected {folder.name}_six_view.mat, exactly one .npz file, or "
            f"{folder.name}.arff, found: {content}"
        )
    return file


def load_file(file: Path) -> Dataset:
    """Return the set in a data file, named after its folder, with the fold files beside it."""
    return read_file(file, file.parent.name)


def read_file(file: Path, name: str) -> Dataset:
    """Return the set in a data file under a name; of Mulan's, the views may be known by it."""
    known = MULAN_VIEWS.get(name.lower())
    if file.suffix.lower() == ".arff" and known and not file.with_suffix(".views.toml").exists():
        raw = read_mulan(file, split=known)
    else:
        raw = read_data(file)
    if raw.labels is None:
        raise DataFileError(
            f"{file}: a named data set needs labels; add an array 'labels' (samples, labels)"
        )
    return Dataset(
        name, raw.views, dense_labels(raw.labels), raw.label_names, fold_files(file.parent)
    )


def fold_files(folder: Path) -> tuple[Path, ...]:
    """Files with ready-made folds in a folder."""
    return tuple(path for path in sorted(folder.glob("*.mat")) if fold_file_rates(path))


def _folders() -> list[Path]:
    root = data_folder()
    if root is None or not root.is_dir():
        return []
    return [path for path in sorted(root.iterdir()) if path.is_dir()]


def _data_file(folder: Path) -> Path | None:
    mat = folder / f"{folder.name}_six_view.mat"
    if mat.is_file():
        return mat
    archives = sorted(folder.glob("*.npz"))
    if archives:
        return archives[0] if len(archives) == 1 else None
    arff = folder / f"{folder.name}.arff"
    return arff if arff.is_file() else None
