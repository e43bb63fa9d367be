"""Named data sets: embedded, made by a generator, or read from the folder `$VIEWGAP_DATA`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from viewgap.datasets.checks import refuse_other_sizes
from viewgap.datasets.dataset import Dataset
from viewgap.datasets.downloads import download_dataset, how_to_get
from viewgap.datasets.listing import describe
from viewgap.datasets.local_files import VARIABLE, data_files, data_folder, find_file, load_file
from viewgap.datasets.multidigits import make_multidigits
from viewgap.datasets.synthetic import make_synthetic
from viewgap.errors import InputError, SettingError

__all__ = ["Dataset", "describe", "download_dataset", "load_dataset"]

_GENERATORS: dict[str, Callable[..., Dataset]] = {
    "multidigits": make_multidigits,
    "synthetic": make_synthetic,
}


def load_dataset(name: str, **options: Any) -> Dataset:
    """Load a data set by name.

    `"multidigits"` and `"synthetic"` are always there. Any other name is looked for in the folder
    that the environment variable VIEWGAP_DATA names: `<name>/<name>_six_view.mat`, with fold files
    beside it, one `.npz` in `<name>/`, or Mulan's `<name>/<name>.arff`. `viewgap datasets` says
    what is there, and how to get more. A file of a benchmark set that has other sizes than in Table
    1 of the SCSD paper is refused; of another known set, a warning says what differs.

    Parameters
    ----------
    name : str
        Name of the data set, in any case.
    **options
        `n_samples` and `seed` of `"multidigits"`, parameters of `make_synthetic` for `"synthetic"`;
        other data sets have none.

    Returns
    -------
    Dataset

    Examples
    --------
    >>> load_dataset("synthetic", n_samples=50, seed=1)
    Dataset('synthetic': 50 samples, 3 views, 12 labels, 2.500 per sample)
    """
    make = _GENERATORS.get(name.lower())
    if make is not None:
        _check_options(name, options, list(inspect.signature(make).parameters))
        return make(**options)
    file = find_file(name)
    if file is None:
        raise InputError(_not_found(name))
    _check_options(name, options, [])
    dataset = load_file(file)
    refuse_other_sizes(dataset, file)
    return dataset


def _check_options(name: str, options: dict[str, Any], known: list[str]) -> None:
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise SettingError(
            f"dataset {name!r} has no option {unknown[0]!r}; its options are: "
            f"{', '.join(known) or 'none'}"
        )


def _not_found(name: str) -> str:
    root = data_folder()
    where = (
        f"the environment variable {VARIABLE} is not set"
        if root is None
        else f"{VARIABLE} is {root}" + ("" if root.is_dir() else ", which is not a folder")
    )
    available = ", ".join([*_GENERATORS, *data_files()])
    how = how_to_get(name)
    return (
        f"no dataset named {name!r}; available: {available}. Other sets are read from the folder "
        f"that {VARIABLE} names, as <folder>/{name}/{name}_six_view.mat, one .npz in "
        f"<folder>/{name}/, or {name}.arff; {where}"
    ) + (f". To get {name}: {how}" if how else "")
