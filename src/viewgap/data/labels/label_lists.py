"""A column of lists of labels ("A;B") becomes one column of 0 and 1 per label."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from viewgap.data.labels.label_tables import SparseLabelTable
from viewgap.data.labels.labels import UNKNOWN
from viewgap.data.labels.sparse_labels import SparseLabels, is_too_large
from viewgap.data.rows.ids import shown_pair
from viewgap.errors import LabelError, first_few, parameter

NO_LABEL = "[]"
"""How a list without labels is written: a blank one is unknown."""

_UNCLEAR = frozenset(("none", "-", "0"))


def split_label_lists(table: Any, separator: str) -> Any:
    """Return one column per label of a table with one column of lists.

    A label that stands in the list of a sample is 1, any other 0. A blank list is unknown: NaN in
    all columns. `[]` is a list without labels.

    Parameters
    ----------
    table : DataFrame of one column
        Lists as text; the index holds the sample ids.
    separator : str
        What stands between two labels.

    Returns
    -------
    DataFrame or SparseLabelTable
        0, 1 and NaN; the labels in alphabetical order. Where a DataFrame of so many samples and
        labels would be too large, the same in sparse form, which `fit` takes, too.

    Examples
    --------
    >>> import pandas as pd
    >>> tags = pd.DataFrame({"tags": ["sea;sky", "sky", None]}, index=["a", "b", "c"])
    >>> split_label_lists(tags, ";")
       sea  sky
    a  1.0  1.0
    b  0.0  1.0
    c  NaN  NaN
    """
    import pandas as pd

    if table.shape[1] != 1:
        raise LabelError(
            f"expected one column of lists, found {table.shape[1]}: {first_few(table.columns)}; "
            f"choose it with {parameter('label_columns')}"
        )
    lists = [_items(value, separator) for value in table.iloc[:, 0]]
    for sample, items in zip(table.index, lists, strict=True):
        unclear = [item for item in items or () if item.lower() in _UNCLEAR]
        if unclear:
            raise LabelError(
                f"sample {sample!r}: {unclear[0]!r} in a list of labels could mean no label or "
                f"unknown; write {NO_LABEL} for no label, and leave unknown lists blank"
            )
    names = sorted({item for items in lists for item in items or ()})
    _check_names(names, separator, is_used=any(len(items or ()) > 1 for items in lists))
    labels = _labels_of(lists, names)
    if is_too_large(labels.shape):
        return SparseLabelTable(labels, table.index)
    return pd.DataFrame(labels.as_float(), index=table.index, columns=names)


def _labels_of(lists: Sequence[set[str] | None], names: Sequence[str]) -> SparseLabels:
    place = {name: j for j, name in enumerate(names)}
    columns = [sorted(place[item] for item in items or ()) for items in lists]
    ends = np.cumsum([0, *map(len, columns)])
    indices = np.array([j for own in columns for j in own], dtype=np.int32)
    shape = (len(lists), len(names))
    ones = np.ones(len(indices), dtype=np.uint8)
    known = np.array([items is not None for items in lists], dtype=np.bool_)
    nothing = sparse.csr_array(shape, dtype=np.uint8)
    return SparseLabels(sparse.csr_array((ones, indices, ends), shape=shape), known, nothing, names)


def _items(value: Any, separator: str) -> set[str] | None:
    """Return the labels of one list; None if it is unknown."""
    if value is None or value != value:  # NaN and pandas' NaT
        return None
    text = str(value).strip()
    if text == NO_LABEL:
        return set()
    if text.lower() in UNKNOWN:
        return None
    return {item.strip() for item in text.split(separator)} - {""}


def _check_names(names: list[str], separator: str, is_used: bool) -> None:
    if not names:
        raise LabelError("the column of lists holds no label")
    seen: dict[str, str] = {}
    for name in names:
        form = " ".join(unicodedata.normalize("NFKC", name).casefold().split())
        other = seen.setdefault(form, name)
        if other != name:
            here, there = shown_pair(other, name)
            raise LabelError(
                f"the labels {here} and {there} differ in upper and lower case, spaces or the form "
                "of their letters only; write them in one way"
            )
    holds = {sign: [sign in name for name in names] for sign in ";|," if sign != separator}
    # A comma may be part of the name of a class; the other two hardly are.
    others = [
        s for s, found in holds.items() if all(found) or (any(found) and s != "," and not is_used)
    ]
    if others and len(names) > 1:
        first = next(name for name in names if others[0] in name)
        found = "every label holds"
        if not all(holds[others[0]]):
            found = f"no list holds {separator!r}, but some hold"
        raise LabelError(
            f"{found} {others[0]!r}, as in {first!r}; is that the separator? Then say "
            f"{parameter('label_separator', others[0])}"
        )
