"""Rows and answers as tables: Parquet and the stream format of Arrow, through pyarrow.

A table has a column `VIEW:COLUMN` per value and, if rows have ids, a column `id`. A view is there
with all of its columns or not at all; a row in which they are all null lacks it.

A few bytes of such a file can stand for gigabytes. So sizes and types are read first, and refused
where they are too large; compression whose ratio has no small limit is not read; ids, the one
column of text, are read in small parts.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viewgap.errors import first_few
from viewgap.prediction.blocks import Answers
from viewgap.prediction.writers import arrow_table
from viewgap.serve.models import LoadedModel
from viewgap.serve.rows import (
    LONGEST_ID,
    Rows,
    as_views,
    check_columns,
    check_n_rows,
    refuse_repeated,
)
from viewgap.serve.settings import RequestError, ServiceSettings

PARQUET = "application/vnd.apache.parquet"
ARROW = "application/vnd.apache.arrow.stream"
INSTALL = "tables need the package pyarrow where the service runs: pip install 'viewgap[files]'"

_ID = "id"
_CODECS = {"UNCOMPRESSED", "SNAPPY"}
# What pyarrow and the reading of headers raise beside the errors of Arrow.
_UNREADABLE = (
    OSError,
    ValueError,
    KeyError,
    TypeError,
    IndexError,
    NotImplementedError,
    MemoryError,
    OverflowError,
    RecursionError,
    struct.error,
)
_MOST_SNAPPY = 24  # Snappy makes at most about this many bytes of one
_PART_BYTES = 64 * 2**20


def available() -> bool:
    """Whether pyarrow is installed."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError:
        return False
    return True


class _Limits:
    """Refuses a number of rows, and finds what a table of a model may hold."""

    def __init__(self, loaded: LoadedModel, settings: ServiceSettings) -> None:
        self._loaded, self._settings = loaded, settings
        self.columns = {
            f"{view}:{column}": view
            for view, columns in loaded.columns.items()
            for column in columns
        }
        if len(self.columns) < loaded.fitted.n_features_in_ or _ID in self.columns:
            raise RequestError("columns of this model cannot be told apart in a table; send JSON")

    def check_rows(self, n_rows: int) -> None:
        """Refuse no rows, and too many."""
        if n_rows < 1:
            raise RequestError("the table has no rows")
        check_n_rows(n_rows, self._loaded, self._settings, "")

    def check_schema(self, schema: Any) -> None:
        """Refuse columns that are repeated, unknown, absent, or of another type than numbers."""
        names = [str(name) for name in schema.names]
        seen: set[str] = set()
        given: dict[str, dict[str, None]] = {}
        for name in names:
            if name in seen:
                raise RequestError("the column is there twice", name)
            seen.add(name)
            if name in self.columns:
                given.setdefault(self.columns[name], {})[name] = None
            elif name != _ID:
                raise RequestError(
                    f"unknown column {name[:60]!r}; columns are named VIEW:COLUMN as in "
                    f"{first_few(self.columns, 3)}, and the ids {_ID!r}",
                    name,
                )
        for view, own in given.items():
            wanted = [f"{view}:{column}" for column in self._loaded.columns[view]]
            check_columns(own, wanted, "")
        for field in schema:
            _check_type(field)


def _check_type(field: Any) -> None:
    from pyarrow import types

    kind = field.type
    whole = types.is_integer(kind)
    if field.name == _ID:
        right, words = whole or types.is_string(kind) or types.is_large_string(kind), "text or "
    else:
        right, words = whole or types.is_floating(kind) or types.is_null(kind), ""
    if not right:
        expected = f"{words}{'whole ' if words else ''}numbers"
        raise RequestError(f"expected {expected}, found {str(kind)[:60]}", str(field.name))


# ---------------------------------------------------------------------- reading


def read_table(body: bytes, kind: str, loaded: LoadedModel, settings: ServiceSettings) -> Rows:
    """The rows of a table; `RequestError` for whatever is not one, or not of this model."""
    import pyarrow as pa

    limits = _Limits(loaded, settings)
    try:
        table = _READERS[kind](body, limits)
        values, ids = _values(table, limits, loaded), _ids(table)
    except (pa.ArrowException, *_UNREADABLE) as error:
        name = "Parquet file" if kind == PARQUET else "Arrow stream"
        words = str(error).partition("\n")[0][:200]
        raise RequestError(f"the body is not a readable {name}: {words}") from None
    refuse_repeated(ids)
    return Rows(ids, as_views(values, table.num_rows, loaded))


def _values(table: Any, limits: _Limits, loaded: LoadedModel) -> dict[str, NDArray[np.float64]]:
    present = {limits.columns[name] for name in table.column_names if name != _ID}
    return {
        view: np.column_stack([_numbers(table.column(f"{view}:{name}")) for name in columns])
        for view, columns in loaded.columns.items()
        if view in present
    }


def _numbers(column: Any) -> NDArray[np.float64]:
    import pyarrow as pa

    return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)


def _ids(table: Any) -> list[Any]:
    if _ID not in table.column_names:
        return [None] * table.num_rows
    ids = table.column(_ID).to_pylist()
    for i, own in enumerate(ids):
        if own is None:
            raise RequestError("a row without id; all rows need one, or none", f"{_ID}[{i}]")
    return list(ids)


def _check_id_lengths(column: Any) -> None:
    from pyarrow import compute, types

    if types.is_integer(column.type):
        return
    longest = compute.max(compute.binary_length(column)).as_py() or 0
    if longest > 4 * LONGEST_ID:
        raise RequestError(f"an id of more than {LONGEST_ID} letters", _ID)


def _read_parquet(body: bytes, limits: _Limits) -> Any:
    import pyarrow as pa
    from pyarrow import parquet

    with parquet.ParquetFile(pa.BufferReader(body)) as file:
        metadata, schema = file.metadata, file.schema_arrow
        limits.check_rows(metadata.num_rows)
        groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
        if sum(group.num_rows for group in groups) != metadata.num_rows:
            raise ValueError("its parts have another number of rows than all of it")
        limits.check_schema(schema)
        _check_index(schema)
        if metadata.num_columns != len(schema.names):
            raise ValueError("columns are nested")
        _check_codecs(groups)
        numbers = [name for name in schema.names if name != _ID]
        table = file.read(numbers, use_threads=False)
        if _ID in schema.names:
            table = table.append_column(_ID, _parquet_ids(file, len(body)))
    return table


def _check_index(schema: Any) -> None:
    """Refuse ids that pandas has kept as a range beside the columns: they would be lost."""
    described = schema.pandas_metadata
    index = described.get("index_columns") if isinstance(described, dict) else None
    ranges = [own for own in index if isinstance(own, dict)] if isinstance(index, list) else []
    if any(own.get("name") == _ID for own in ranges):
        raise RequestError(
            "the ids are kept as a range beside the columns; write them as a column "
            "(pandas: to_parquet(..., index=True))",
            _ID,
        )


def _check_codecs(groups: Sequence[Any]) -> None:
    for group in groups:
        for i in range(group.num_columns):
            codec = group.column(i).compression
            if codec not in _CODECS:
                raise RequestError(
                    f"compression {codec} is not read here; write the file with SNAPPY, or "
                    "without compression"
                )


def _parquet_ids(file: Any, size: int) -> Any:
    """The ids, so few at a time that they fit in memory though each may have a page's length."""
    import pyarrow as pa

    step = max(1, _PART_BYTES // (_MOST_SNAPPY * size))
    parts = []
    for batch in file.iter_batches(min(step, 1024), columns=[_ID], use_threads=False):
        _check_id_lengths(batch.column(0))
        parts.append(batch.column(0))
    return pa.chunked_array(parts)


def _read_arrow(body: bytes, limits: _Limits) -> Any:
    import pyarrow as pa

    reader = pa.ipc.MessageReader.open_stream(pa.BufferReader(body))
    messages = _messages(reader)
    first = next(messages, None)
    if first is None:  # StopIteration must not leave this function: no Future can hold it
        raise ValueError("it is empty")
    schema = pa.ipc.read_schema(first)
    limits.check_schema(schema)
    batches, n_rows = [], 0
    for message in messages:
        if message.type != "record batch":
            raise ValueError(f"a message of the kind {message.type!r}; expected record batches")
        length, compressed = _batch_header(message.metadata.to_pybytes())
        if compressed:
            raise RequestError("compressed streams are not read here; write without compression")
        n_rows += max(0, length)
        limits.check_rows(max(1, n_rows))
        batch = pa.ipc.read_record_batch(message, schema)
        batch.validate(full=True)  # offsets come from the client, and would be followed
        if _ID in schema.names:
            _check_id_lengths(batch.column(_ID))
        batches.append(batch)
    limits.check_rows(n_rows)
    return pa.Table.from_batches(batches, schema)


def _messages(reader: Any) -> Iterator[Any]:
    while True:
        try:
            yield reader.read_next_message()
        except StopIteration:
            return


def _batch_header(metadata: bytes) -> tuple[int, bool]:
    """Rows of a record batch, and whether it is compressed, which pyarrow does not tell.

    `metadata` is a flatbuffer: Message (header is field 2) with RecordBatch (length is field 0,
    compression field 3), as in Arrow's Message.fbs.
    """
    (message,) = struct.unpack_from("<I", metadata, 0)
    at = _field(metadata, message, 2)
    if at is None:
        raise ValueError("a message without header")
    batch = at + struct.unpack_from("<I", metadata, at)[0]
    length = _field(metadata, batch, 0)
    n_rows = 0 if length is None else struct.unpack_from("<q", metadata, length)[0]
    return n_rows, _field(metadata, batch, 3) is not None


def _field(metadata: bytes, table: int, number: int) -> int | None:
    """Where a field of a flatbuffer's table begins; None if it is absent."""
    vtable = table - struct.unpack_from("<i", metadata, table)[0]
    if vtable < 0:
        raise ValueError("a damaged header")
    (size,) = struct.unpack_from("<H", metadata, vtable)
    if 4 + 2 * number >= size:
        return None
    (offset,) = struct.unpack_from("<H", metadata, vtable + 4 + 2 * number)
    return table + offset if offset else None


_READERS: dict[str, Callable[[bytes, _Limits], Any]] = {
    PARQUET: _read_parquet,
    ARROW: _read_arrow,
}

# ---------------------------------------------------------------------- writing


def write_table(
    kind: str, loaded: LoadedModel, ids: Sequence[Any], found: Answers, head: dict[str, Any]
) -> bytes:
    """Answers as a table: `id`, `no_view`, a column per label, and `decision:LABEL`.

    `head` becomes the metadata `viewgap` of the schema.
    """
    import pyarrow as pa
    from pyarrow import parquet

    names = [str(name) for name in loaded.fitted.label_names_]
    columns = [_ID, "no_view", *names, *(f"decision:{name}" for name in names)]
    if len(set(columns)) < len(columns):
        raise RequestError("labels of this model cannot be told apart in a table; ask for JSON")
    own = Answers(_answer_ids(ids), found.no_view, found.probabilities, found.decisions)
    table = arrow_table(own, columns, probabilities=True, decisions=True)
    table = table.replace_schema_metadata({"viewgap": json.dumps(head)})
    sink = io.BytesIO()
    if kind == PARQUET:
        parquet.write_table(table, sink)
    else:
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
    return sink.getvalue()


def _answer_ids(ids: Sequence[Any]) -> NDArray[Any]:
    """Whole numbers or text; the numbers of the rows where none has an id."""
    if all(own is None for own in ids):
        return np.arange(len(ids))
    absent = next((i for i, own in enumerate(ids) if own is None), None)
    if absent is not None:
        raise RequestError("a table needs the id of every row, or of none", f"rows[{absent}].id")
    if all(type(own) is int and abs(own) < 2**63 for own in ids):
        return np.array(ids, dtype=np.int64)
    return np.array([str(own) for own in ids], dtype=object)
