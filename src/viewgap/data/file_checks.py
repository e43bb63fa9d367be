"""What is checked before a data file is read: that it is there, and how large it would become."""

from __future__ import annotations

import os
from pathlib import Path

from viewgap.errors import DataFileError, SettingError

LIMIT_VARIABLE = "VIEWGAP_MAX_FILE_BYTES"
DEFAULT_LIMIT = 8 * 2**30
MAX_VIEWS = 1000


def size_limit() -> int:
    """Most bytes that a data file may expand to; 8 GiB, or what VIEWGAP_MAX_FILE_BYTES says."""
    text = os.environ.get(LIMIT_VARIABLE)
    if text is None:
        return DEFAULT_LIMIT
    try:
        limit = int(text)
    except ValueError:
        limit = 0
    if limit < 1:
        raise SettingError(f"{LIMIT_VARIABLE} must be a positive whole number, found {text!r}")
    return limit


def check_size(path: Path, n_bytes: int) -> None:
    """Refuse a file whose contents would take more memory than the limit."""
    limit = size_limit()
    if n_bytes > limit:
        raise DataFileError(
            f"{path}: its contents would take {n_bytes:,} bytes, more than the limit of {limit:,}; "
            f"if you trust the file, set the environment variable {LIMIT_VARIABLE}"
        )


def check_n_views(path: Path, count: int) -> None:
    """Refuse a file that claims more views than any data has, before they are looked at."""
    if count > MAX_VIEWS:
        raise DataFileError(f"{path}: {count:,} views, more than the {MAX_VIEWS:,} that are read")


def existing_file(path: str | os.PathLike[str]) -> Path:
    """Return the path of a file that can be opened."""
    place = Path(path)
    if not place.is_file():
        what = "is a folder" if place.is_dir() else "does not exist"
        raise DataFileError(f"{place}: expected a data file, but it {what}")
    try:
        with place.open("rb"):
            return place
    except OSError as error:
        raise DataFileError(f"{place}: cannot be opened: {error.strerror}") from error


def damaged(path: Path, reason: object) -> DataFileError:
    """Error for a file whose contents cannot be read."""
    return DataFileError(
        f"{path}: the file is damaged or not what its name says ({reason}); "
        "get a fresh copy of it and compare the checksums"
    )
