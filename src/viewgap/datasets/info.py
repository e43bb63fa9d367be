"""What has to be brought for a data set: files, names, shapes, values."""

from __future__ import annotations

from pathlib import Path

from viewgap.datasets.downloads import how_to_get
from viewgap.datasets.local_files import VARIABLE, data_folder, find_file
from viewgap.datasets.named_sets import MULAN_VIEWS, NAMED_SETS, NamedSet
from viewgap.errors import DataFileError, InputError

_FOLDS = "MaskRatios_0.5_LabelMaskRatio_0.5_TraindataRatio_0.7.mat"


def expectations(name: str) -> list[tuple[str, str]]:
    """Lines (title, text) on what is expected of a data set.

    Examples
    --------
    >>> dict(expectations("pascal07"))["label"]
    '(9963, 20) of 0 and 1, or -1 and 1; 1.465 per sample'
    """
    known = _known(name)
    key = name.lower()
    rows = [("folder", f"${VARIABLE}/{key}/")]
    rows += _mat_file(key, known) if known.table1 else _archive(key, known)
    rows.append(("to get", how_to_get(key) or "–"))
    rows.append(("then", f"viewgap datasets check {key}"))
    if known.table1:
        rows.append(("Table 2", f"viewgap bench run configs/table2.toml --dataset {key} --out ..."))
    return rows


def file_to_check(name: str) -> Path:
    """The data file of a set in the data folder, or an error that says what to do."""
    _known(name)
    advice = f"`viewgap datasets info {name}` says what is expected"
    try:
        file = find_file(name)
    except DataFileError as error:
        raise DataFileError(f"{error}; {advice}") from None
    if file is None:
        where = data_folder()
        raise DataFileError(
            f"no folder {name} in ${VARIABLE} ({where or 'which is not set'}); put the files "
            f"there, or name the data file with --file; {advice}"
        )
    return file


def _known(name: str) -> NamedSet:
    known = NAMED_SETS.get(name.lower())
    if known is None:
        raise InputError(f"nothing is known of {name!r}; known: {', '.join(NAMED_SETS)}")
    return known


def _mat_file(name: str, known: NamedSet) -> list[tuple[str, str]]:
    widths = ", ".join(f"{view} {width}" for view, width in known.views.items())
    return [
        ("data file", f"{known.file}, MATLAB v5 or v7.3"),
        ("X", f"cell with {len(known.views)} matrices ({known.n}, width), or their transposes"),
        ("widths", f"{widths}; numbers of 0 and more"),
        (
            "label",
            f"({known.n}, {known.c}) of 0 and 1, or -1 and 1; {known.cardinality:.3f} per sample",
        ),
        ("optional", "view_names, label_names: cells of text"),
        ("fold file", f"{name}_six_view_{_FOLDS}; without one, folds are drawn by the protocol"),
        (
            "its content",
            f"folds_data ({known.n}, {len(known.views)}), folds_label ({known.n}, {known.c}), "
            f"folds_sample_index (1 ... {known.n}): cells with one entry per fold",
        ),
    ]


def _archive(name: str, known: NamedSet) -> list[tuple[str, str]]:
    views = ", ".join(f"{view} ({known.n}, {width})" for view, width in known.views.items())
    rows = [("data file", "one .npz")]
    if name in MULAN_VIEWS:
        rows = [("data file", f"one .npz, or Mulan's {name}.arff with {name}.xml")]
    rows.append(("views", views))
    rows.append(
        (
            "labels",
            f"({known.n}, {known.c}) of 0 and 1; {known.cardinality:.3f} per sample"
            + (f"; {known.percent_unobserved:g} % NaN" if known.percent_unobserved else ""),
        )
    )
    if known.percent_missing:
        shape = f"view_mask ({known.n}, {len(known.views)}), True = observed"
        rows.append(("missing views", f"{known.percent_missing:g} %: {shape}, or rows of NaN"))
    return rows
