"""Labels and views of AnnData and MuData files by their places: `obs/IGHV`, `mod/rna/X`."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from viewgap.data.formats.base import RawData, existing_file, reading
from viewgap.data.formats.elements import Elements
from viewgap.data.formats.hdf5 import open_hdf5
from viewgap.data.formats.one_table import split_labels, with_label_table
from viewgap.data.formats.options import ReadOptions, choose
from viewgap.data.rows.alignment import is_frame
from viewgap.data.rows.values import is_sparse
from viewgap.errors import DataFileError, LabelError, ViewgapWarning, first_few, parameter

LABELS = "obsm/labels"
OPTIONS = ("views", "label_columns", "label_separator")


def read_open(path: Path, read: Callable[[Elements], Any]) -> Any:
    """Return what `read` makes of an open file, which stays open as long as its values are used."""
    source = existing_file(path)
    with reading(source), ExitStack() as stack:
        file = stack.enter_context(open_hdf5(source))
        result = read(Elements(source, file))
        stack.pop_all()
    return result


def matrix_at(elements: Elements, place: str) -> Any:
    """Return the matrix at a place of one AnnData: X, layers/..., raw/X or obsm/..."""
    ids = elements.index("obs")
    start = place.partition("/")[0]
    if start in ("X", "layers"):
        return elements.matrix(place, ids, elements.index("var"))
    if start == "raw":
        return elements.matrix(place, ids, elements.index("raw/var"))
    if start == "obsm":
        return elements.matrix(place, ids, None)
    raise DataFileError(
        f"{elements.path}: {place!r} is no place of a matrix; expected X, layers/..., raw/X or "
        "obsm/..."
    )


def one_place(path: Path, name: str, patterns: tuple[str, ...]) -> str:
    """Return the place of a view; in these files a view is one matrix."""
    if len(patterns) != 1 or "*" in patterns[0]:
        raise DataFileError(
            f"{path}: view {name!r}: expected the place of one matrix, as in obsm/protein, found "
            f"{', '.join(patterns)}"
        )
    return patterns[0].strip("/")


# ---------------------------------------------------------------------- labels


def label_places(elements: Elements, options: ReadOptions, parts: tuple[str, ...]) -> list[str]:
    """Return the places of the labels; `parts` are the AnnData of the file, `""` the file itself.

    Without `label_columns` these are `obsm/labels`, where that exists.
    """
    masks = [part.removeprefix("mod/").strip("/") for part in parts]  # MuData's own, in obsm
    places = []
    for part in parts:
        places += [f"{part}obs/{name}" for name in elements.columns(f"{part}obs")]
        stored = [name for name in elements.members(f"{part}obsm") if part or name not in masks]
        places += [f"{part}obsm/{name}" for name in stored]
    if not options.label_columns:
        return [place for place in places if place == LABELS]
    patterns = [text if "/" in text else f"obs/{text}" for text in options.label_columns]
    return choose(elements.path, patterns, places, parameter("label_columns"))


def with_labels_at(
    elements: Elements, raw: RawData, places: list[str], options: ReadOptions, *, wanted: bool
) -> RawData:
    """Return views with the labels at these places; without any, a warning says what could be."""
    if not places:
        if wanted:
            _note_no_labels(elements)
        return raw
    table = label_table(elements, places, raw.views.frame_index())
    return with_label_table(elements.path, raw, split_labels(elements.path, table, options))


def _note_no_labels(elements: Elements) -> None:
    """Say which columns could be labels, where none were named."""
    columns = elements.columns("obs")
    if columns:
        warnings.warn(
            f"{elements.path}: no labels are read; choose them by {parameter('label_columns')} "
            f"among the columns of obs: {first_few(columns, 10)}",
            ViewgapWarning,
            stacklevel=6,
        )


def label_table(elements: Elements, places: list[str], ids: Any) -> Any:
    """Return a DataFrame of the labels at these places, in the rows of `ids`."""
    import pandas as pd

    pieces = []
    for place in places:
        part, _, name = place.rpartition("/")
        rows = elements.index(f"{part.removesuffix('m')}")
        _refuse_duplicates(elements.path, part, rows)
        if part.endswith("obs"):
            piece = pd.DataFrame({name: elements.column(part, name)}, index=rows)
        else:
            piece = _matrix_table(elements.matrix(place, rows, None), name)
        pieces.append(piece.reindex(ids))
    return pd.concat(pieces, axis=1)


def _refuse_duplicates(path: Path, place: str, ids: Any) -> None:
    if ids.has_duplicates:
        first = ids[ids.duplicated()][0]
        raise LabelError(
            f"{path}: {place}: sample ids must be unique, found {first!r} several times"
        )


def _matrix_table(matrix: Any, name: str) -> Any:
    """A matrix of labels in `obsm`; its columns are named where it is a table."""
    import pandas as pd

    if is_frame(matrix):
        return matrix
    values = matrix.X.toarray() if is_sparse(matrix.X) else matrix.X[:]
    if values.ndim != 2:
        raise LabelError(f"labels in obsm must be a matrix, found shape {values.shape}")
    columns = [f"{name}{j}" for j in range(values.shape[1])]
    return pd.DataFrame(values, index=matrix.obs_names, columns=columns)
