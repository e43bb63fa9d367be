"""Parquet tables, read through pyarrow after types and sizes were checked."""

from __future__ import annotations

import warnings
from collections import Counter
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from viewgap.data.formats.base import Format, check_size, stem_of
from viewgap.data.formats.number_advice import ENCODE, STORED_AS_TEXT, TIME, number_advice
from viewgap.data.formats.options import TableRequest, is_unnamed
from viewgap.data.rows import on_disk
from viewgap.data.rows.ids import unusable_ids
from viewgap.errors import DataFileError, ViewError, ViewgapWarning, parameter

_BLOCK_ROWS = 16_384


def _parquet(path: Path) -> Any:
    try:
        from pyarrow import parquet  # type: ignore[import-untyped,unused-ignore]
    except ImportError as error:
        raise DataFileError(
            f"{path}: a Parquet file needs the package pyarrow: pip install viewgap[files]"
        ) from error
    return parquet


def read_table(path: Path, request: TableRequest) -> Any:
    """Return a table whose index is the sample ids as text; values keep their type."""
    parquet = _parquet(path)
    with parquet.ParquetFile(path) as file:
        columns = None if request.columns is None else _with_ids(path, file, request)
        texts = _check_parquet(path, file, columns)
        ids = _id_columns(path, file, request)
        _note_other_index(path, file, request)
        if 8 * file.metadata.num_rows * file.metadata.num_columns > on_disk.IN_MEMORY_BYTES:
            frame = _read_in_blocks(path, file, request, columns, ids)
            if frame is not None:
                return frame
    # As dictionaries, equal texts are stored once: a few bytes cannot become gigabytes.
    with parquet.ParquetFile(path, read_dictionary=texts) as file:
        table = file.read(columns, use_threads=False)
    check_size(path, table.nbytes + sum(_text_bytes(table[name]) for name in texts))
    frame = _wanted(path, _as_floats(table, ids).to_pandas(use_threads=False), request)
    if not request.as_text:
        _refuse_columns(path, frame)
    return frame


def _read_in_blocks(
    path: Path, file: Any, request: TableRequest, columns: list[str] | None, id_columns: list[str]
) -> Any:
    """A large table of numbers, whose values are kept in a temporary file; None if it has text."""
    import pandas as pd
    import pyarrow

    ids: list[str] = []
    buffer, first = None, None
    for batch in file.iter_batches(_BLOCK_ROWS, columns=columns, use_threads=False):
        table = _as_floats(pyarrow.Table.from_batches([batch]), id_columns)
        part = _wanted(path, table.to_pandas(use_threads=False), request)
        if not all(pd.api.types.is_numeric_dtype(dtype) for dtype in part.dtypes.unique()):
            return None
        if buffer is None:
            buffer, first = on_disk.RowBuffer(part.shape[1]), part
        ids.extend(part.index)
        buffer.extend(part.to_numpy(dtype=np.float64, na_value=np.nan))
    if buffer is None or first is None:
        return None
    index = pd.Index(ids, name=first.index.name, dtype=object)
    return pd.DataFrame(buffer.to_array(), index=index, columns=first.columns, copy=False)


def _as_floats(table: Any, ids: list[str]) -> Any:
    """The table with decimal numbers, and columns of which every entry is null, as floats.

    Ids stay as they are: a float does not keep all digits of a long number.
    """
    import pyarrow

    types = pyarrow.types
    for place, field in enumerate(table.schema):
        if field.name not in ids and (types.is_decimal(field.type) or types.is_null(field.type)):
            values = table.column(place).cast(pyarrow.float64())
            table = table.set_column(place, field.name, values)
    return table


def _refuse_columns(path: Path, frame: Any) -> None:
    """Refuse the first column of a view that holds no numbers, with its first value."""
    from pandas.api.types import is_numeric_dtype

    for place, dtype in enumerate(frame.dtypes):
        kind = getattr(getattr(dtype, "categories", None), "dtype", dtype)
        if is_numeric_dtype(kind):
            continue
        column = frame.iloc[:, place].dropna()
        if not len(column) or all(isinstance(v, str) and not v.strip() for v in column):
            found, where, advice = str(dtype), "", ENCODE
        else:
            value = next(v for v in column if not isinstance(v, str) or v.strip())
            sample = column.index[list(column).index(value)]
            found, where = repr(str(value)[:40]), f", sample {sample!r}"
            advice = _advice(value)
        raise ViewError(
            f"{path}: view {stem_of(path)!r}: column {frame.columns[place]!r}{where}: expected a "
            f"number, found {found}; {advice}"
        )


def _advice(value: Any) -> str:
    if not isinstance(value, str):
        return TIME
    with suppress(ValueError):
        float(value)
        return STORED_AS_TEXT
    return number_advice(value)


def _wanted(path: Path, frame: Any, request: TableRequest) -> Any:
    """Return the columns that were asked for, with the ids as index."""
    indexed = _with_index(path, frame, request)
    return indexed if request.columns is None else indexed[list(request.columns)]


def _with_ids(path: Path, file: Any, request: TableRequest) -> list[str]:
    """Return the columns to read, and those of the ids."""
    ids = _id_columns(path, file, request)
    return [*ids, *(name for name in request.columns or () if name not in ids)]


def _id_columns(path: Path, file: Any, request: TableRequest) -> list[str]:
    """Return the column of the ids, or the columns that make up the index."""
    names = list(map(str, file.schema_arrow.names))
    if request.id_column is not None:
        return [request.split_header(path, names)[0]]
    return _index_columns(file) or names[:1]


def _note_other_index(path: Path, file: Any, request: TableRequest) -> None:
    """Say that an index with a name is not read where another column holds the ids."""
    wanted = {request.id_column, *(request.columns or ())}
    others = [name for name in _index_columns(file) if name not in wanted and not is_unnamed(name)]
    if request.id_column is not None and request.columns is None and others:
        warnings.warn(
            f"{path}: the index {others[0]!r} is not read: {request.id_column!r} holds the sample "
            "ids; to have it read as a column, write the table with reset_index()",
            ViewgapWarning,
            stacklevel=5,
        )


def _index_columns(file: Any) -> list[str]:
    """Return the columns that pandas stored as the index."""
    described = (file.schema_arrow.pandas_metadata or {}).get("index_columns", [])
    return [name for name in described if isinstance(name, str)]


def _with_index(path: Path, frame: Any, request: TableRequest) -> Any:
    """Return the table with the ids, as text, as its index."""
    import pandas as pd

    if frame.index.nlevels > 1:
        raise DataFileError(f"{path}: the index has {frame.index.nlevels} levels; expected one id")
    if request.id_column is not None and frame.index.name != request.id_column:
        if frame.index.name in (request.columns or ()):
            frame = frame.reset_index()
        frame = frame.set_index(request.split_header(path, list(frame.columns))[0])
    elif isinstance(frame.index, pd.RangeIndex) and frame.shape[1]:
        frame = frame.set_index(frame.columns[0])
    absent = frame.index.isna()
    problem = None if absent.any() else unusable_ids(frame.index)
    if problem and frame.index.dtype.kind == "f":
        raise DataFileError(f"{path}: {problem}")
    ids = ["" if gone else _id_text(i) for i, gone in zip(frame.index, absent, strict=True)]
    frame.index = pd.Index(ids, name=frame.index.name, dtype=object)
    return frame


def _check_parquet(path: Path, file: Any, columns: list[str] | None) -> list[str]:
    """Check types and sizes before values are read; return the names of the columns of text.

    `columns` are those to be read; None is all.
    """
    from pyarrow import types

    metadata = file.metadata
    check_size(path, 8 * metadata.num_rows * metadata.num_columns)
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    check_size(path, sum(max(0, group.total_byte_size) for group in groups))
    names = list(map(str, file.schema_arrow.names))
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise DataFileError(f"{path}: several columns are named {repeated[0]!r}")
    texts = []
    for field in file.schema_arrow:
        if columns is not None and field.name not in columns:
            continue
        kind = field.type.value_type if types.is_dictionary(field.type) else field.type
        if types.is_string(kind) or types.is_large_string(kind):
            texts.append(str(field.name))
        elif types.is_nested(kind) or types.is_binary(kind) or types.is_fixed_size_binary(kind):
            advice = ""
            if types.is_list(kind) or types.is_large_list(kind):
                option = parameter("label_separator", ";")
                advice = f"; lists of labels are read as text (A;B) with {option}"
            raise DataFileError(
                f"{path}: column {field.name!r} holds {field.type}; expected numbers or text"
                f"{advice}"
            )
    return texts


def _text_bytes(column: Any) -> int:
    """Bytes of a column of text when every row holds its own."""
    from pyarrow import compute

    total = 0
    for chunk in column.chunks:
        if hasattr(chunk, "dictionary"):
            lengths = compute.binary_length(chunk.dictionary).take(chunk.indices)
        else:
            lengths = compute.binary_length(chunk)
        total += compute.sum(lengths).as_py() or 0
    return total


def _id_text(sample: Any) -> str:
    """An id as text; whole numbers that became floats on the way (1.0) are whole again."""
    if isinstance(sample, float | Decimal) and sample == int(sample):
        return str(int(sample))
    return str(sample).strip()


def read_columns(path: Path) -> list[str]:
    """Return the names of all columns, that of the ids first; of the rows nothing is read."""
    with _parquet(path).ParquetFile(path) as file:
        ids = _index_columns(file)
        names = [str(name) for name in file.schema_arrow.names]
        return [*ids, *(name for name in names if name not in ids)]


FORMAT = Format(
    "parquet",
    "tables",
    (".parquet",),
    read_table=read_table,
    read_columns=read_columns,
)
