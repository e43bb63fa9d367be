"""What lies in a data folder: every file is read, refused, or named in a note."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from viewgap.data.formats.base import Format, existing_file, stem_of
from viewgap.data.formats.registry import format_of, listed, suffixes
from viewgap.errors import DataFileError, ViewgapWarning

_FOLDS = re.compile(r"_MaskRatios_.*\.mat$", flags=re.IGNORECASE)

LABEL_STEMS = ("labels", "label")

_AS_TABLE = "save it as .csv or .parquet"
_UNPACK = "unpack it"
_NOT_READ = dict.fromkeys(
    (".xls", ".xlsm", ".ods"), "save it as .xlsx, or every sheet as 'CSV UTF-8'"
)
_NOT_READ |= dict.fromkeys((".gz", ".bz2", ".xz", ".zst", ".zip", ".7z", ".tar", ".tgz"), _UNPACK)
_NOT_READ |= dict.fromkeys((".rds", ".rda", ".rdata"), "write it in R with write.csv")
_NOT_READ |= dict.fromkeys(
    (
        *(".json", ".jsonl", ".ndjson", ".feather", ".arrow", ".orc", ".avro"),
        *(".dat", ".data", ".tab", ".psv", ".sav", ".dta", ".sas7bdat", ".xpt", ".libsvm", ".svm"),
        *(".sqlite", ".duckdb", ".loom", ".mtx", ".gct", ".maf"),
    ),
    _AS_TABLE,
)
_NOT_READ |= dict.fromkeys(
    (".pkl", ".pickle", ".joblib", ".pt", ".pth"),
    "it is never opened, as it could run code; save the values as .npz, .csv or .parquet",
)


@dataclass(frozen=True)
class FolderFiles:
    """The data files of a folder, all of one kind.

    `kind` is `"tables"` or `"arrays"` (one view per file), else the name of the format. `labels` is
    a table of labels beside arrays.
    """

    kind: str
    paths: tuple[Path, ...]
    labels: Path | None = None


def data_files(folder: Path, labels: Path | None = None) -> FolderFiles:
    """Return the data files of a folder by name; `labels`, a table given beside it, is none.

    Files that look like data but cannot be read, and a mixture of kinds, are refused. Anything
    else is named in a warning; hidden files are passed over.
    """
    if not folder.is_dir():
        raise DataFileError(f"{folder}: expected a folder with one file per view")
    others: list[str] = []
    by_kind: dict[str, list[Path]] = {}
    found = sorted(folder.iterdir())
    beside = {path.with_suffix(end) for path in found for end in _read_with(path)}
    for path in found:
        if path.name.startswith((".", "~$")) or (labels is not None and _is_same(path, labels)):
            continue
        if path in beside:
            continue
        file_format = format_of(path)
        if path.is_dir() and not is_folder_format(path):
            others.append(f"{path.name}/")
        elif file_format is None:
            _refuse_unreadable(folder, path)
            others.append(path.name)
        elif not _FOLDS.search(path.name):
            by_kind.setdefault(_kind(file_format, path), []).append(path)
    result = _one_kind(folder, by_kind)
    if others:
        shown = ", ".join(others[:5]) + (f" and {len(others) - 5} more" if len(others) > 5 else "")
        warnings.warn(f"{folder}: not read: {shown}", ViewgapWarning, stacklevel=3)
    return result


def is_folder_format(path: Path) -> bool:
    """Whether a folder is, by its name, the "file" of one format, and no folder of data files."""
    file_format = format_of(path)
    return file_format is not None and file_format.is_folder


def _read_with(path: Path) -> tuple[str, ...]:
    """Endings of files that are read with this one."""
    file_format = format_of(path)
    return () if file_format is None else file_format.beside


def _is_same(path: Path, other: Path) -> bool:
    """Whether two paths lead to the same file."""
    try:
        return path.samefile(other)
    except OSError:
        return False


def _kind(file_format: Format, path: Path) -> str:
    if file_format.read_table:
        return "tables"
    is_array = file_format.read_array is not None
    if file_format.is_array is not None:
        is_array = file_format.is_array(path)
    return "arrays" if is_array else file_format.name


def _one_kind(folder: Path, by_kind: dict[str, list[Path]]) -> FolderFiles:
    if not by_kind:
        per_view = listed("read_table", "read_array")
        raise DataFileError(
            f"{folder}: no data in this folder; expected one {per_view} file per view, or one "
            f"{listed('read')} file"
        )
    labels = by_kind.get("tables", [])
    if set(by_kind) == {"arrays", "tables"} and [is_label_file(p) for p in labels] == [True]:
        both = [path.name for path in by_kind["arrays"] if is_label_file(path)]
        if both:
            raise DataFileError(f"{folder}: several files of labels: {both[0]}, {labels[0].name}")
        return FolderFiles("arrays", tuple(by_kind["arrays"]), labels[0])
    if len(by_kind) > 1:
        first, second = (
            f"{_title(paths[0])} ({paths[0].name})" for paths in list(by_kind.values())[:2]
        )
        raise DataFileError(
            f"{folder}: {first} beside {second}; keep one kind of data in a folder, or give the "
            "path of the file to read"
        )
    ((kind, paths),) = by_kind.items()
    if kind not in ("tables", "arrays") and len(paths) > 1:
        names = ", ".join(path.name for path in paths[:3])
        raise DataFileError(
            f"{folder}: several files that hold all views each ({names}); give the path of the one "
            "to read"
        )
    return FolderFiles(kind, tuple(paths))


def is_label_file(path: Path) -> bool:
    """Whether a file is named as one of labels."""
    return stem_of(path).lower() in LABEL_STEMS


def _title(path: Path) -> str:
    file_format = format_of(path)
    if file_format is None or not file_format.read_table:
        return "" if file_format is None else file_format.title
    return f"tables ({', '.join(suffixes('read_table'))})"


def _refuse_unreadable(folder: Path, path: Path) -> None:
    advice = _NOT_READ.get(path.suffix.lower())
    if path.suffix.lower() == ".txt" and _is_table(path):
        advice = "if it is a table, name it .tsv or .csv"
    if advice is not None:
        raise DataFileError(
            f"{folder}: {path.name} looks like data, but a file of this kind is not read; "
            f"{advice}, or move it out of the folder"
        )


def _is_table(path: Path) -> bool:
    """Whether the first lines of a text have the same number of separators, and hold numbers."""
    with existing_file(path).open("rb") as file:
        start = file.read(2**16).decode("utf-8", "replace")
    lines = [line for line in start.splitlines() if line.strip()][:3]
    return len(lines) > 1 and any(_same_fields(lines, separator) for separator in "\t,;")


def _same_fields(lines: Sequence[str], separator: str) -> bool:
    counts = {line.count(separator) for line in lines}
    number = re.compile(r"\s*[-+]?\d*[.,]?\d+\s*")
    fields = lines[1].split(separator)[1:]
    return len(counts) == 1 and counts != {0} and any(map(number.fullmatch, fields))
