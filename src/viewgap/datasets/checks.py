"""Is this the data set that its name says? Sizes, widths, gaps, values and folds, one by one."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from viewgap.data.formats import read_fold_file
from viewgap.data.preprocessing import ColumnRanges
from viewgap.datasets.dataset import Dataset
from viewgap.datasets.local_files import read_file
from viewgap.datasets.named_sets import NAMED_SETS, NamedSet
from viewgap.errors import DataFileError, InputError, ViewgapError, ViewgapWarning

# Table 1 prints three decimals of the labels per sample, some of them cut.
_CARDINALITY = 0.001
_PERCENT = 0.05


@dataclass(frozen=True)
class Finding:
    """One thing that was compared: what is expected of it, and what was found."""

    what: str
    expected: str
    found: str
    agrees: bool


def check_dataset(name: str, file: Path) -> list[Finding]:
    """Compare a file with what is known of the data set of this name; everything is read.

    A file that cannot be read raises `DataFileError`.
    """
    known = NAMED_SETS.get(name.lower())
    if known is None:
        raise InputError(
            f"nothing is known of a data set {name!r} to compare it with; known: "
            f"{', '.join(NAMED_SETS)}"
        )
    dataset = read_file(file, name.lower())
    return [
        *_sizes(dataset, known),
        *_gaps(dataset, known),
        *_values(dataset, known),
        *_folds(dataset),
    ]


def refuse_other_sizes(dataset: Dataset, file: Path) -> None:
    """Refuse a file under the name of a benchmark set that has other sizes than in Table 1.

    Its results would stand beside published ones. Of other sets there are versions in use: a
    warning says what differs.
    """
    known = NAMED_SETS.get(dataset.name.lower())
    wrong = [] if known is None else [one for one in _sizes(dataset, known) if not one.agrees]
    if known is None or not wrong:
        return
    reasons = "; ".join(f"{one.what} {one.found}, expected {one.expected}" for one in wrong)
    advice = f"`viewgap datasets info {dataset.name}` says what is expected"
    if known.table1:
        raise DataFileError(
            f"{file}: this is not {dataset.name}: {reasons}. Other data belongs under another "
            f"name: rename its folder; {advice}"
        )
    warnings.warn(
        f"{file}: another {dataset.name} than the one known by this name: {reasons}; {advice}",
        ViewgapWarning,
        stacklevel=3,
    )


def _sizes(dataset: Dataset, known: NamedSet) -> Iterator[Finding]:
    size = dataset.statistics()
    for key, what in (("n", "samples"), ("c", "labels")):
        yield _equal(what, getattr(known, key), size[key])
    off = abs(size["cardinality"] - known.cardinality)
    yield Finding(
        "labels per sample",
        f"{known.cardinality:.3f}",
        f"{size['cardinality']:.3f}",
        off < _CARDINALITY,
    )
    expected, found = sorted(known.views.values()), sorted(dataset.views.dims)
    yield Finding(
        "widths of the views",
        " ".join(map(str, known.views.values())),
        " ".join(map(str, dataset.views.dims)),
        expected == found,  # in any order: files of the field differ in it
    )


def _equal(what: str, expected: int, found: int) -> Finding:
    return Finding(what, f"{expected:,}", f"{found:,}", expected == found)


def _gaps(dataset: Dataset, known: NamedSet) -> Iterator[Finding]:
    unobserved = 100 * float(np.isnan(dataset.labels).mean())
    for what, expected, found in (
        ("views missing", known.percent_missing, dataset.statistics()["percent_missing"]),
        ("labels not observed", known.percent_unobserved, unobserved),
    ):
        agrees = abs(expected - found) <= _PERCENT
        yield Finding(what, f"{expected:.2f} %", f"{found:.2f} %", agrees)


def _values(dataset: Dataset, known: NamedSet) -> Iterator[Finding]:
    """Ranges of values, view by view; without names, a view is known by its width."""
    views = dataset.views
    fitted = ColumnRanges.fit(views).views
    for name, width, columns in zip(views.names, views.dims, fitted, strict=True):
        alike = [own for own, size in known.views.items() if size == width]
        kind = name if name in known.views else (alike or [""])[0]
        low, high = known.ranges.get(kind, (-np.inf, np.inf))
        smallest, largest = float(columns.low.min()), float(columns.high.max())
        agrees = low <= smallest < largest <= high
        found = "all the same" if smallest == largest else f"{smallest:g} to {largest:g}"
        yield Finding(f"values of {name}", _range(low, high), found, agrees)


def _range(low: float, high: float) -> str:
    if np.isinf(low):
        return "any numbers"
    return "0 and more" if np.isinf(high) else f"{low:g} to {high:g}"


def _folds(dataset: Dataset) -> Iterator[Finding]:
    for path in dataset.fold_files:
        try:
            folds = read_fold_file(path, dataset.labels)
        except ViewgapError as error:
            yield Finding(path.name, "folds of these samples", str(error), agrees=False)
            continue
        widths = {fold.view_mask.shape[1] for fold in folds}
        fits = widths == {dataset.views.n_views}
        found = f"{len(folds)} folds of {'/'.join(map(str, sorted(widths)))} views"
        yield Finding(path.name, f"folds of {dataset.views.n_views} views", found, fits)
