"""AnnData files (.h5ad), read through h5py: the views are X, or the matrices that were named."""

from __future__ import annotations

import warnings
from pathlib import Path

from viewgap.data.formats.annotated import (
    LABELS,
    OPTIONS,
    label_places,
    matrix_at,
    one_place,
    read_open,
    with_labels_at,
)
from viewgap.data.formats.base import Format, PathLike, RawData, check_n_views, raw_data
from viewgap.data.formats.elements import Elements
from viewgap.data.formats.options import ReadOptions, shown_views
from viewgap.errors import DataFileError, ViewgapWarning, first_few

_DEFAULT = ReadOptions()


def read_h5ad(
    path: PathLike,
    *,
    nan: str = "mean",
    with_labels: bool = True,
    options: ReadOptions = _DEFAULT,
) -> RawData:
    """Read an AnnData file.

    Without `options.views` the only view is X. Dense matrices stay in the file. Labels are the
    columns of `obs` and matrices of `obsm` that `options.label_columns` names, else `obsm/labels`.
    """
    source = Path(path)

    def read(elements: Elements) -> RawData:
        places = {
            name: one_place(source, name, patterns) for name, patterns in options.views.items()
        }
        labels = label_places(elements, options, ("",)) if with_labels else []
        views = {
            name: matrix_at(elements, place)
            for name, place in (places or _default(elements, labels)).items()
        }
        check_n_views(source, len(views))
        ids = elements.index("obs")
        raw = raw_data(source, views, nan=nan, sample_ids=ids)
        return with_labels_at(elements, raw, labels, options, wanted=with_labels)

    result: RawData = read_open(source, read)
    return result


FORMAT = Format("h5ad", "an AnnData file", (".h5ad",), read=read_h5ad, options=OPTIONS)


def _default(elements: Elements, labels: list[str]) -> dict[str, str]:
    others = [f"obsm/{name}" for name in elements.members("obsm")]
    others = [place for place in others if place not in labels and place != LABELS]
    named = {others[0].rpartition("/")[2]: others[0]} if others else {}
    if "X" not in elements.root:
        raise DataFileError(
            f"{elements.path}: there is no X"
            + (f"; name the matrices that are views, as in {shown_views(named)}" if others else "")
        )
    if others:
        warnings.warn(
            f"{elements.path}: the only view is X; {first_few(others)} could be others: "
            f"{shown_views({'X': 'X', **named})}",
            ViewgapWarning,
            stacklevel=5,
        )
    return {"X": "X"}
