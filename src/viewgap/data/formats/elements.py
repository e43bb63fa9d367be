"""What AnnData and MuData store in HDF5: tables, columns and matrices, as their pages say.

Nothing is executed, links out of the file are refused, sizes are checked before memory is taken.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viewgap.data.formats.base import check_size, stored_ids, text_of
from viewgap.data.formats.hdf5 import checked_dataset, column_of, inside
from viewgap.data.formats.hdf5_texts import attribute
from viewgap.data.formats.sparse_parts import sparse_of_parts
from viewgap.data.rows.alignment import NamedMatrix
from viewgap.data.rows.values import LazyRows
from viewgap.errors import DataFileError, first_few

_SPARSE = {"csr_matrix": "csr", "csc_matrix": "csc", "csr": "csr", "csc": "csc"}


class Elements:
    """The elements of one open file; `root` may be a group in it, as `mod/rna`."""

    def __init__(self, path: Path, root: Any) -> None:
        self.path, self.root = path, root

    def group(self, place: str) -> Elements:
        """Return the elements below a place."""
        return Elements(self.path, self.find(place))

    def find(self, place: str) -> Any:
        """Return what lies at a place such as `mod/rna/obs`."""
        found = self.root
        for name in place.split("/"):
            if not hasattr(found, "keys") or name not in found:
                there = list(found) if hasattr(found, "keys") else []
                raise DataFileError(
                    f"{self.path}: nothing is stored at {place!r}; {name!r} is not among "
                    f"{first_few(there) or 'its parts'}"
                )
            found = inside(found, name)
        return found

    def members(self, place: str) -> list[str]:
        """Return the names below a place; none where it does not exist."""
        if place not in self.root:
            return []
        found = self.find(place)
        return list(found) if hasattr(found, "keys") else []

    # ------------------------------------------------------------------ tables

    def index(self, place: str) -> Any:
        """Return the index of a table (`obs`, `var`) as text."""
        import pandas as pd

        frame = self._frame(place)
        name = _text(attribute(self.path, frame, "_index", "_index"))
        values = self._column(frame, name)
        if values is None or (values.dtype.kind == "O" and any(one is None for one in values)):
            raise DataFileError(f"{self.path}: {place!r} has no index, or rows without an id")
        what = f"the ids of {place!r}"
        if place.rpartition("/")[2] == "obs":
            values = stored_ids(self.path, what, values)
        return pd.Index(text_of(self.path, what, values), dtype=object)

    def columns(self, place: str) -> list[str]:
        """Return the names of the columns of a table, without its index."""
        if place not in self.root:
            return []
        frame = self._frame(place)
        index = _text(attribute(self.path, frame, "_index", "_index"))
        order = [_text(name) for name in attribute(self.path, frame, "column-order", ())]
        absent = [name for name in order if _parent_of(frame, name) is None]
        if absent:
            raise DataFileError(
                f"{self.path}: the columns of {place!r} are not all there; absent: "
                f"{first_few(absent)}. Write the file again"
            )
        return order or [name for name in frame if name not in (index, "__categories")]

    def column(self, place: str, name: str) -> NDArray[Any]:
        """Return a column: numbers, booleans, text or categories; None or NaN = unknown."""
        values = self._column(self._frame(place), name)
        if values is None:
            raise DataFileError(f"{self.path}: {place!r} has no column {name!r}")
        return values

    def _frame(self, place: str) -> Any:
        frame = self.find(place)
        if not hasattr(frame, "keys"):
            raise DataFileError(
                f"{self.path}: {place!r} is stored as before anndata 0.7; read the file with a "
                "newer anndata, and write it again"
            )
        return frame

    def _column(self, frame: Any, name: str) -> NDArray[Any] | None:
        parent = _parent_of(frame, name)
        if parent is None:
            return None
        name = name.rpartition("/")[2]
        stored = inside(parent, name)
        if hasattr(stored, "keys"):
            return self._encoded(stored)
        values = column_of(self.path, parent, name)
        older = inside(frame, "__categories") if "__categories" in frame else {}
        if name in older:  # before anndata 0.8
            return _of_codes(self.path, values, column_of(self.path, older, name))
        return values

    def _encoded(self, group: Any) -> NDArray[Any]:
        """Return a categorical or nullable column."""
        if "codes" in group:
            categories = self._column(group, "categories")
            return _of_codes(self.path, column_of(self.path, group, "codes"), categories)
        if "values" in group and "mask" in group:
            values = column_of(self.path, group, "values")
            mask = column_of(self.path, group, "mask").astype(np.bool_)
            if mask.shape != values.shape:
                raise ValueError(f"{group.name!r}: mask {mask.shape}, values {values.shape}")
            is_text = values.dtype.kind == "O"
            values = values.astype(object if is_text else np.float64)
            values[mask] = None if is_text else np.nan
            return values
        kind = _text(attribute(self.path, group, "encoding-type", "unknown"))
        raise DataFileError(f"{self.path}: {group.name!r} is a column of an unknown kind ({kind})")

    # ------------------------------------------------------------------ matrices

    def matrix(self, place: str, ids: Any, columns: Any) -> Any:
        """Return a matrix with row ids and column names; of a table in `obsm` as a DataFrame.

        Dense values stay in the file until rows are needed; sparse ones are read.
        """
        stored = self.find(place)
        if not hasattr(stored, "keys"):
            parent, _, name = place.rpartition("/")
            group = self.find(parent) if parent else self.root
            dataset = checked_dataset(self.path, group, name)
            return NamedMatrix(LazyRows(dataset), ids, columns)
        older = attribute(self.path, stored, "h5sparse_format", "")
        kind = _text(attribute(self.path, stored, "encoding-type", older))
        if kind in _SPARSE:
            return NamedMatrix(self._sparse(stored, place, _SPARSE[kind]), ids, columns)
        if kind == "dataframe":
            return self.table(place, ids)
        raise DataFileError(
            f"{self.path}: {place!r} is no matrix but {kind or 'a group'}; expected dense values, "
            "a CSR or CSC matrix, or a table of numbers"
        )

    def table(self, place: str, ids: Any) -> Any:
        """Return a table as a DataFrame with these ids."""
        import pandas as pd

        names = self.columns(place)
        check_size(self.path, 8 * len(ids) * len(names))
        if not self.index(place).equals(ids):
            raise DataFileError(f"{self.path}: the rows of {place!r} are other samples than obs")
        values = {name: self.column(place, name) for name in names}
        wrong = [name for name, own in values.items() if len(own) != len(ids)]
        if wrong:
            raise DataFileError(f"{self.path}: {place}/{wrong[0]} has not one value per sample")
        return pd.DataFrame(values, index=ids)

    def _sparse(self, group: Any, place: str, kind: str) -> Any:
        older = attribute(self.path, group, "h5sparse_shape")
        shape = attribute(self.path, group, "shape", older)
        if shape is None or len(shape) != 2:
            raise ValueError(f"{place!r}: a sparse matrix without a shape")
        sizes = [inside(group, part).size or 0 for part in ("data", "indices", "indptr")]
        check_size(self.path, 8 * sum(sizes))
        parts = [column_of(self.path, group, part) for part in ("data", "indices", "indptr")]
        if any(part.dtype.kind not in "ui" for part in parts[1:]):
            raise ValueError(f"{place!r}: indices must be whole numbers")
        data, indices, indptr = parts
        return sparse_of_parts(self.path, place, kind, data, indices, indptr, shape)


def _parent_of(frame: Any, name: str) -> Any:
    """The group that holds a column, None if it is not there: `a/b` is stored as b in a group a."""
    *groups, last = name.split("/")
    found = frame
    for part in groups:
        if not part or part not in found:
            return None
        found = inside(found, part)
        if not hasattr(found, "keys"):
            return None
    return found if last and last in found else None


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _of_codes(path: Path, codes: NDArray[Any], categories: Any) -> NDArray[Any]:
    """Return the categories that codes stand for; None for -1."""
    if categories is None or codes.dtype.kind not in "ui":
        raise DataFileError(f"{path}: a column of categories without codes or categories")
    if len(codes) and (codes.max() >= len(categories) or codes.min() < -1):
        raise ValueError("codes of categories that do not exist")
    values = np.array([*categories, None], dtype=object)
    return values[codes.astype(np.intp)]
