"""Named data sets: embedded, made by a generator, or read from the folder `$VIEWGAP_DATA`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from viewgap.datasets.dataset import Dataset
from viewgap.datasets.field_files import (
    PUBLISHED,
    VARIABLE,
    data_files,
    data_folder,
    find_file,
    fold_files,
    load_file,
    statistics_of_file,
)
from viewgap.datasets.multidigits import make_multidigits
from viewgap.datasets.synthetic import make_synthetic
from viewgap.errors import InputError, SettingError, ViewgapError

__all__ = ["Dataset", "describe", "load_dataset"]

_GENERATORS: dict[str, Callable[..., Dataset]] = {
    "multidigits": make_multidigits,
    "synthetic": make_synthetic,
}
_SOURCES = {
    "multidigits": "made at load time from the digits inside scikit-learn",
    "synthetic": "made by a generator",
}


def load_dataset(name: str, **options: Any) -> Dataset:
    """Load a data set by name.

    `"multidigits"` (options `n_samples`, `seed`) and `"synthetic"` (options of `make_synthetic`)
    are always there. Any other name is looked for in the folder that the environment variable
    VIEWGAP_DATA names: `<name>/<name>_six_view.mat`, with fold files beside it, or one `.npz` in
    `<name>/`. Those take no options.

    Examples:
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
    return load_file(file)


def describe() -> list[dict[str, Any]]:
    """One row per known data set: whether it is here, where, and its size.

    Keys: name, present, path (or how it is made), n, c, cardinality (of the file, or the default
    size of a generator; None where not cheap to know), published (n, c and cardinality as
    published, or None), fold_files (how many), problem (why a file cannot be read, or None).
    Large files are not read.
    """
    rows = [_generator_row(name) for name in _GENERATORS]
    files = data_files()
    rows += [_file_row(name, file) for name, file in files.items()]
    here = {name.lower() for name in files}
    rows += [_row(name, present=False) for name in PUBLISHED if name not in here]
    return rows


def _generator_row(name: str) -> dict[str, Any]:
    defaults = inspect.signature(_GENERATORS[name]).parameters
    sizes = {"n": defaults["n_samples"].default, "c": 10}
    if "n_labels" in defaults:
        sizes["c"] = defaults["n_labels"].default
    return _row(name, present=True, path=_SOURCES[name], **sizes)


def _file_row(name: str, file: Path) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    try:
        facts = statistics_of_file(file) or {}
    except (ViewgapError, OSError) as error:
        facts = {"problem": str(error)}
    return _row(
        name, present=True, path=str(file), fold_files=len(fold_files(file.parent)), **facts
    )


def _row(name: str, **facts: Any) -> dict[str, Any]:
    published = PUBLISHED.get(name.lower())
    empty: dict[str, Any] = {
        "name": name,
        "present": False,
        "path": None,
        "n": None,
        "c": None,
        "cardinality": None,
        "published": vars(published) if published else None,
        "fold_files": 0,
        "problem": None,
    }
    return empty | facts


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
    return (
        f"no dataset named {name!r}; available: {available}. Other sets are read from the folder "
        f"that {VARIABLE} names, as <folder>/{name}/{name}_six_view.mat or one .npz in "
        f"<folder>/{name}/; {where}"
    )
