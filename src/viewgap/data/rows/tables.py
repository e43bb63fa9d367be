"""Tables of other libraries (polars, pyarrow) become pandas DataFrames, with an id column as index.

narwhals reads them all in one way; it comes with scikit-learn 1.9 and later.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np

from viewgap.data.rows.alignment import is_frame
from viewgap.errors import InputError, ViewError, ViewgapWarning, first_few

_LIBRARIES = {"polars": ("DataFrame", "LazyFrame"), "pyarrow": ("Table", "RecordBatch")}


def is_table(values: Any) -> bool:
    """Whether `values` is a table of polars or pyarrow, told without importing either."""
    for library, names in _LIBRARIES.items():
        module = sys.modules.get(library)
        kinds = tuple(kind for name in names if (kind := getattr(module, name, None)) is not None)
        if module is not None and isinstance(values, kinds):
            return True
    return False


def as_frame(
    values: Any, id_column: str | None, what: str, error: type[InputError] = ViewError
) -> Any:
    """Return a table as a pandas DataFrame, with `id_column`, if given, as its index.

    Without an `id_column`, what is no table of polars or pyarrow is returned as it is. `what` it is
    stands in the messages of `error`.
    """
    frame = _to_pandas(values, id_column, what, error) if is_table(values) else values
    if id_column is None:
        return frame
    if not is_frame(frame):
        raise error(
            f"{what}: id_column={id_column!r} needs a table with columns, found "
            f"{type(values).__name__}"
        )
    if frame.index.name == id_column:
        return frame
    if id_column not in frame.columns:
        raise error(
            f"{what}: no column is named {id_column!r} (id_column); found "
            f"{first_few(frame.columns)}"
        )
    if frame.index.name is not None:
        warnings.warn(
            f"{what}: the index ({frame.index.name!r}) is not read: {id_column!r} holds the sample "
            "ids; where it is a column, pass frame.reset_index()",
            ViewgapWarning,
            stacklevel=4,
        )
    return frame.set_index(id_column)


def _to_pandas(table: Any, id_column: str | None, what: str, error: type[InputError]) -> Any:
    import pandas as pd

    try:
        import narwhals as nw
    except ImportError as problem:
        raise error(
            f"{what}: a {type(table).__module__.partition('.')[0]} table needs the package "
            "narwhals: pip install viewgap[frames]; or pass table.to_pandas()"
        ) from problem
    if type(table).__name__ == "LazyFrame":
        raise error(f"{what}: a LazyFrame holds no values yet; pass table.collect()")
    if type(table).__name__ == "RecordBatch":
        table = sys.modules["pyarrow"].Table.from_batches([table])
    repeated = len(set(getattr(table, "column_names", ()))) < len(
        getattr(table, "column_names", ())
    )
    if repeated:
        raise error(f"{what}: several columns have the same name: {first_few(table.column_names)}")
    frame = nw.from_native(table, eager_only=True)
    columns = {name: _column(nw, frame[name], name == id_column) for name in frame.columns}
    return pd.DataFrame(columns, index=pd.RangeIndex(len(frame)))


def _column(nw: Any, series: Any, is_id: bool) -> Any:
    """Numbers with NaN where a value is null; of anything else the Python objects.

    Decimal numbers that are ids keep all of their digits.
    """
    if is_id and series.dtype.is_decimal():
        items = series.to_list()
        whole = all(one is not None and one == one.to_integral_value() for one in items)
        return list(map(int, items)) if whole else np.array([*items, None], dtype=object)[:-1]
    number = series.dtype.is_numeric() or series.dtype == nw.Boolean
    if not number:
        return np.array([*series.to_list(), None], dtype=object)[:-1]
    if series.null_count():
        return np.asarray(series.cast(nw.Float64).fill_null(float("nan")).to_numpy())
    return np.asarray((series.cast(nw.Float64) if series.dtype.is_decimal() else series).to_numpy())
