"""Folders with one table per view: CSV or Parquet, the first column is the sample id."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from viewgap.data.file_checks import check_size, damaged, existing_file
from viewgap.errors import DataFileError

SUFFIXES = (".csv", ".parquet")


def load_tables(folder: Path) -> dict[str, Any]:
    """Return `{name: DataFrame}` for the tables of a folder, by name; ids are text, as index."""
    files = table_files(folder)
    names = [place.stem for place in files]
    repeated = {name for name in names if names.count(name) > 1}
    if repeated:
        raise DataFileError(f"{folder}: several files for the table {sorted(repeated)[0]!r}")
    return {place.stem: load_table(place) for place in files}


def table_files(folder: Path) -> list[Path]:
    """Return the tables of a folder, by name; hidden files are none of ours."""
    files = sorted(place for place in folder.iterdir() if place.suffix.lower() in SUFFIXES)
    return [place for place in files if not place.name.startswith(".")]


def load_table(path: Path) -> Any:
    """One CSV or Parquet file as a DataFrame with the sample ids as index."""
    existing_file(path)
    try:
        frame = _read_csv(path) if path.suffix.lower() == ".csv" else _read_parquet(path)
    except (DataFileError, ImportError):
        raise
    except Exception as error:  # pandas and pyarrow raise many kinds for damaged files
        raise damaged(path, error) from error
    if not frame.shape[1]:
        raise DataFileError(f"{path}: expected sample ids and at least one column, found ids only")
    return frame


def _read_csv(path: Path) -> Any:
    import pandas as pd

    check_size(path, path.stat().st_size)
    ids = str(pd.read_csv(path, nrows=0).columns[0])
    # As text in every file: otherwise ids like 007 would differ between files.
    return pd.read_csv(path, dtype={ids: str}, index_col=False).set_index(ids)


def _read_parquet(path: Path) -> Any:
    try:
        from pyarrow import parquet  # type: ignore[import-untyped,unused-ignore]
    except ImportError as error:
        raise DataFileError(
            f"{path}: a Parquet file needs the package pyarrow: pip install viewgap[files]"
        ) from error
    import pandas as pd

    with parquet.ParquetFile(path) as file:
        check_size(path, 8 * file.metadata.num_rows * file.metadata.num_columns)
    frame = pd.read_parquet(path, engine="pyarrow")
    if isinstance(frame.index, pd.RangeIndex):
        frame = frame.set_index(frame.columns[0])
    frame.index = frame.index.map(str)
    return frame
