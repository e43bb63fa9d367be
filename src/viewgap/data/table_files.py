"""One table, CSV, TSV or Parquet, as a DataFrame: the first column holds the sample ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from viewgap.data.csv_files import TextTable, read_header, read_numbers, read_text
from viewgap.data.file_checks import check_size, damaged, existing_file
from viewgap.errors import DataFileError, ViewgapError

SUFFIXES = (".csv", ".tsv", ".parquet")


def load_view(path: Path) -> Any:
    """Return a table of numbers as a DataFrame with the sample ids, as text, as index."""
    return _load(path, labels=False)


def load_labels(path: Path) -> Any:
    """Return a table of labels as a DataFrame; the cells of a CSV are text, as they stand there."""
    if path.suffix.lower() not in SUFFIXES:
        raise DataFileError(f"{path}: labels must be a .csv, .tsv or .parquet table")
    return _load(path, labels=True)


def column_names(path: Path) -> list[str]:
    """Return the names of all columns; of the cells nothing is read."""
    existing_file(path)
    try:
        if path.suffix.lower() != ".parquet":
            return read_header(path)
        with _parquet(path).ParquetFile(path) as file:
            return [str(name) for name in file.schema_arrow.names]
    except (ViewgapError, ImportError):
        raise
    except Exception as error:  # pyarrow raises many kinds for damaged files
        raise damaged(path, error) from error


def _load(path: Path, *, labels: bool) -> Any:
    existing_file(path)
    try:
        if path.suffix.lower() == ".parquet":
            frame = _read_parquet(path)
        else:
            frame = _as_frame(read_text(path) if labels else read_numbers(path))
    except (ViewgapError, ImportError):
        raise
    except Exception as error:  # pandas and pyarrow raise many kinds for damaged files
        raise damaged(path, error) from error
    if not frame.shape[1]:
        raise DataFileError(f"{path}: expected sample ids and at least one column, found ids only")
    if not len(frame):
        raise DataFileError(f"{path}: expected one line per sample, found none")
    _check_ids(path, frame.index.name, frame.index.tolist())
    return frame


def _as_frame(table: TextTable) -> Any:
    import pandas as pd

    index = pd.Index(table.ids, name=table.id_name or None, dtype=object)
    dtype = object if isinstance(table.cells, list) else None
    return pd.DataFrame(table.cells, index=index, columns=table.columns, dtype=dtype, copy=False)


def _check_ids(path: Path, name: Any, ids: Sequence[str]) -> None:
    column = "the first column" if name is None else f"the first column ({str(name)!r})"
    rule = f"{column} must hold the sample ids, each of them once"
    if "" in ids:
        raise DataFileError(f"{path}: {rule}; row {ids.index('') + 1} after the header has none")
    if len(set(ids)) < len(ids):
        (first, count), *_ = Counter(ids).most_common(1)
        raise DataFileError(f"{path}: {rule}; found {first!r} {count} times")
    if _are_measurements(ids):
        shown = ", ".join(repr(sample) for sample in ids[:3])
        raise DataFileError(
            f"{path}: {rule}; found decimal numbers ({shown}). Add a column of ids in front; if "
            "these are the ids, put a letter before them"
        )


def _are_measurements(ids: Sequence[str]) -> bool:
    try:
        return any(not float(sample).is_integer() for sample in ids)
    except (ValueError, OverflowError):
        return False


# ---------------------------------------------------------------------- Parquet


def _parquet(path: Path) -> Any:
    try:
        from pyarrow import parquet  # type: ignore[import-untyped,unused-ignore]
    except ImportError as error:
        raise DataFileError(
            f"{path}: a Parquet file needs the package pyarrow: pip install viewgap[files]"
        ) from error
    return parquet


def _read_parquet(path: Path) -> Any:
    import pandas as pd

    parquet = _parquet(path)
    with parquet.ParquetFile(path) as file:
        texts = _check_parquet(path, file)
    # As dictionaries, equal texts are stored once: a few bytes cannot become gigabytes.
    with parquet.ParquetFile(path, read_dictionary=texts) as file:
        table = file.read(use_threads=False)
    check_size(path, table.nbytes + sum(_text_bytes(table[name]) for name in texts))
    frame = table.to_pandas(use_threads=False)
    if frame.index.nlevels > 1:
        raise DataFileError(f"{path}: the index has {frame.index.nlevels} levels; expected one id")
    if isinstance(frame.index, pd.RangeIndex) and frame.shape[1]:
        frame = frame.set_index(frame.columns[0])
    absent = frame.index.isna()
    ids = ["" if gone else _id_text(i) for i, gone in zip(frame.index, absent, strict=True)]
    frame.index = pd.Index(ids, name=frame.index.name, dtype=object)
    return frame


def _check_parquet(path: Path, file: Any) -> list[str]:
    """Check types and sizes before values are read; return the names of the columns of text."""
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
        kind = field.type.value_type if types.is_dictionary(field.type) else field.type
        if types.is_string(kind) or types.is_large_string(kind):
            texts.append(str(field.name))
        elif types.is_nested(kind) or types.is_binary(kind) or types.is_fixed_size_binary(kind):
            raise DataFileError(
                f"{path}: column {field.name!r} holds {field.type}; expected numbers or text"
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
    if isinstance(sample, float) and sample.is_integer():
        return str(int(sample))
    return str(sample).strip()
