"""What data sets there are: where each lies, its size beside Table 1, its folds, how to get it."""

from __future__ import annotations

import inspect
import warnings
from pathlib import Path
from typing import Any

from viewgap.data.formats import format_of
from viewgap.datasets.dataset import fold_file_rates
from viewgap.datasets.downloads import how_to_get
from viewgap.datasets.local_files import data_files, fold_files, load_file
from viewgap.datasets.multidigits import make_multidigits
from viewgap.datasets.sources import PUBLISHED, SOURCES, Checksum, Published
from viewgap.datasets.synthetic import USUAL
from viewgap.errors import ViewgapError, ViewgapWarning

VERIFIED_BYTES = 64 * 2**20
"""Largest file that `describe(verify=True)` reads."""


def describe(verify: bool = False) -> list[dict[str, Any]]:
    """One row per known data set: whether it is here, where, its size, and how to get it.

    Keys: name; present; path (or how it is made); n, c, cardinality (of the file, or the default
    size of a generator; None where not cheap to know); views ({name: width}, or None); published
    (n, c and cardinality in Table 1 of the SCSD paper, or None); differences (from Table 1; empty
    = agrees, None = nothing to compare); fold_files (name, view_rate, label_rate, train_share of
    each); files ({name: whether it is the published file}, for sets whose checksums are known);
    problem (why a file cannot be read, or None); how (to get it, None if it is here).

    Views are not read. With `verify`, files up to 64 MB are: to check them, for the widths of the
    views and for the checksums.
    """
    n_digits = inspect.signature(make_multidigits).parameters["n_samples"].default
    origin = "made from the digits inside scikit-learn"
    rows = [_row("multidigits", present=True, path=origin, n=n_digits, c=10)]
    rows.append(
        _row(
            "synthetic",
            present=True,
            path="made by a generator",
            n=USUAL.n_samples,
            c=USUAL.n_labels,
            cardinality=USUAL.cardinality,
            views={f"view{v}": dim for v, dim in enumerate(USUAL.view_dims)},
        )
    )
    files = data_files()
    rows += [describe_file(file, verify) for file in files.values()]
    here = {name.lower() for name in files}
    rows += [_row(name, how=how_to_get(name)) for name in SOURCES if name not in here]
    return rows


def describe_file(file: Path, verify: bool = False) -> dict[str, Any]:
    """Row of `describe` for the data file of a set, which is named after its folder."""
    name = file.parent.name
    try:
        summary = _statistics(file, whole=verify and _is_small(file))
    except (ViewgapError, OSError) as error:
        summary = {"problem": str(error)}
    published = PUBLISHED.get(name.lower())
    if published is not None and summary.get("n") is not None:
        summary["differences"] = _differences(summary, published)
    keys = ("view_rate", "label_rate", "train_share")
    folds = [
        {"name": path.name, **dict(zip(keys, fold_file_rates(path) or (), strict=True))}
        for path in fold_files(file.parent)
    ]
    source = SOURCES.get(name.lower())
    files = {
        own.name: _state(file.parent / own.name, own.checksum if verify else None)
        for own in (source.files if source else ())
    }
    return _row(name, present=True, path=str(file), fold_files=folds, files=files, **summary)


def _statistics(file: Path, whole: bool) -> dict[str, Any]:
    """Return n, c and cardinality, and the widths of the views; `whole` reads and checks the file.

    Otherwise views are not read, and their widths are told where that is possible.
    """
    file_format = format_of(file)
    if not whole and file_format is not None and file_format.describe is not None:
        summary = file_format.describe(file)
        if summary:  # empty: no labels, which `load_file` refuses
            return summary
    with warnings.catch_warnings():  # notes on one of them do not belong in a list
        warnings.simplefilter("ignore", ViewgapWarning)
        size = load_file(file).statistics()
    return {key: size[key] for key in ("n", "c", "cardinality")} | {"views": size["dims"]}


def _differences(summary: dict[str, Any], published: Published) -> list[str]:
    """What is not as in Table 1, which prints three decimals of the labels per sample."""
    differences = []
    for key, what in (("n", "samples"), ("c", "labels")):
        if summary[key] != getattr(published, key):
            differences.append(f"{summary[key]:,} {what}, published {getattr(published, key):,}")
    if abs(summary["cardinality"] - published.cardinality) >= 0.001:
        differences.append(
            f"{summary['cardinality']:.3f} per sample, published {published.cardinality:.3f}"
        )
    return differences


def _state(path: Path, checksum: Checksum | None) -> str:
    if not path.is_file():
        return "not here"
    if checksum is None:
        return "not verified"
    if not _is_small(path):
        return "not verified: larger than 64 MB"
    try:
        return "published" if checksum.matches(path) else "not the published file"
    except OSError as error:
        return f"cannot be read: {error.strerror}"


def _is_small(path: Path) -> bool:
    return path.stat().st_size <= VERIFIED_BYTES


def _row(name: str, **known: Any) -> dict[str, Any]:
    published = PUBLISHED.get(name.lower())
    empty: dict[str, Any] = {
        "name": name,
        "present": False,
        "path": None,
        "n": None,
        "c": None,
        "cardinality": None,
        "views": None,
        "published": vars(published) if published else None,
        "differences": None,
        "fold_files": [],
        "files": {},
        "problem": None,
        "how": None,
    }
    return empty | known
