"""MuData files (.h5mu), read through h5py: every modality is a view, absent samples are missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from viewgap.data.formats.annotated import (
    OPTIONS,
    label_places,
    matrix_at,
    one_place,
    read_open,
    with_labels_at,
)
from viewgap.data.formats.base import Format, PathLike, RawData, check_n_views, raw_data
from viewgap.data.formats.elements import Elements
from viewgap.data.formats.hdf5_texts import attribute
from viewgap.data.formats.options import ReadOptions
from viewgap.errors import DataFileError, first_few

_DEFAULT = ReadOptions()


def read_h5mu(
    path: PathLike,
    *,
    nan: str = "mean",
    with_labels: bool = True,
    options: ReadOptions = _DEFAULT,
) -> RawData:
    """Read a MuData file whose modalities share samples (`axis` 0).

    Without `options.views` every modality is a view, its X. A sample whose `obsmap` is 0 has the
    modality missing. Labels are the columns of `obs` and `mod/<name>/obs`, and the matrices of
    `obsm` that `options.label_columns` names, else `obsm/labels`.
    """
    source = Path(path)

    def read(elements: Elements) -> RawData:
        modalities = _modalities(elements)
        ids = elements.index("obs")
        for name in modalities:
            _check_map(elements, name, ids)
        views = {
            name: _matrix(elements, place, modalities)
            for name, place in _places(source, options, modalities).items()
        }
        check_n_views(source, len(views))
        raw = raw_data(source, views, nan=nan, sample_ids=ids)
        parts = ("", *(f"mod/{name}/" for name in modalities))
        labels = label_places(elements, options, parts) if with_labels else []
        return with_labels_at(elements, raw, labels, options, wanted=with_labels)

    result: RawData = read_open(source, read)
    return result


FORMAT = Format("h5mu", "a MuData file", (".h5mu",), read=read_h5mu, options=OPTIONS)


def _modalities(elements: Elements) -> list[str]:
    axis = attribute(elements.path, elements.root, "axis", 0)
    if np.ndim(axis) or int(axis) != 0:
        raise DataFileError(
            f"{elements.path}: its modalities share variables, not samples (axis {axis}); expected "
            "axis 0, MuData(..., axis=0)"
        )
    stored = elements.members("mod")
    if not stored:
        raise DataFileError(f"{elements.path}: expected modalities below 'mod', found none")
    check_n_views(elements.path, len(stored))
    given = attribute(elements.path, elements.find("mod"), "mod-order", ())
    order = [name.decode() if isinstance(name, bytes) else str(name) for name in np.ravel(given)]
    nested = [name for name in stored if "mod" in elements.find(f"mod/{name}")]
    if nested:
        raise DataFileError(f"{elements.path}: modality {nested[0]!r} holds modalities itself")
    return order if sorted(order) == sorted(stored) else stored


def _places(path: Path, options: ReadOptions, modalities: list[str]) -> dict[str, str]:
    if not options.views:
        return {name: f"mod/{name}/X" for name in modalities}
    return {name: one_place(path, name, patterns) for name, patterns in options.views.items()}


def _matrix(elements: Elements, place: str, modalities: list[str]) -> Any:
    """Return the matrix at a place of a modality (mod/rna/X), or of the whole (obsm/...)."""
    start, _, rest = place.partition("/")
    if start != "mod":
        return matrix_at(elements, place)
    name, _, inner = rest.partition("/")
    if name not in modalities:
        raise DataFileError(
            f"{elements.path}: {name!r} is no modality; there are: {first_few(modalities)}"
        )
    return matrix_at(elements.group(f"mod/{name}"), inner or "X")


def _check_map(elements: Elements, name: str, ids: Any) -> None:
    """Compare `obsmap` (1 = the first row, 0 = absent) with the ids; rows are matched by these."""
    own = elements.index(f"mod/{name}/obs")
    if own.has_duplicates:
        first = own[own.duplicated()][0]
        raise DataFileError(
            f"{elements.path}: mod/{name}/obs: sample ids must be unique, found {first!r} several "
            "times"
        )
    if name not in elements.members("obsmap"):
        return
    stored = elements.column("obsmap", name)
    expected = own.get_indexer(ids) + 1
    if stored.shape != expected.shape or not np.array_equal(stored, expected):
        same = stored.shape == expected.shape
        where = f", first for {ids[int(np.argmax(stored != expected))]!r}" if same else ""
        raise DataFileError(
            f"{elements.path}: obsmap/{name} does not agree with the sample ids of mod/{name}/obs"
            f"{where}; call update() of the MuData and write it again"
        )
