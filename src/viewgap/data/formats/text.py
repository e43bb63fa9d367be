"""Text files opened for reading: UTF-8 or UTF-16, plain or compressed, within the size limit."""

from __future__ import annotations

import codecs
import gzip
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from viewgap.data.formats.base import check_size, size_limit
from viewgap.errors import DataFileError, damaged_file

_GZIP = b"\x1f\x8b"
_UTF32 = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@contextmanager
def open_text(path: Path) -> Iterator[TextIO]:
    """Open a text; UTF-16 is told by its byte order mark, anything else must be UTF-8.

    Errors that name the encoding are raised while it is read, too.
    """
    with path.open("rb") as file:
        is_gzip = file.read(2) == _GZIP
    compressed = path.suffix.lower() == ".gz"
    if is_gzip and not compressed:
        raise DataFileError(
            f"{path}: the file is compressed (gzip); name it {path.name}.gz, or unpack it"
        )
    if compressed and not is_gzip:
        raise DataFileError(f"{path}: the file is not compressed; name it {path.stem}")
    try:
        with path.open("rb") as file:
            raw: Any = io.BufferedReader(_Unpacked(path, file)) if compressed else file
            encoding = _encoding(path, raw.peek(4096)[:4096])
            with io.TextIOWrapper(raw, encoding=encoding, newline="") as text:
                yield text
    except UnicodeDecodeError as error:
        raise _not_utf8(path, error) from error
    except (gzip.BadGzipFile, EOFError) as error:
        raise damaged_file(path, error) from error


class _Unpacked(io.RawIOBase):
    """What a gzip file unpacks to, up to the size limit: a few bytes can become terabytes."""

    def __init__(self, path: Path, file: Any) -> None:
        self._path, self._file = path, gzip.GzipFile(fileobj=file)
        self._total, self._limit = 0, size_limit()

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read the next bytes."""
        data = self._file.read(len(buffer))
        self._total += len(data)
        if self._total > self._limit:
            check_size(self._path, self._total)
        buffer[: len(data)] = data
        return len(data)


def _encoding(path: Path, start: bytes) -> str:
    if start.startswith(_UTF32):
        raise _other_encoding(path, "UTF-32")
    if start.startswith(_UTF16):
        return "utf-16"
    if b"\0" in start:
        raise _other_encoding(path, "UTF-16 without a byte order mark, or no text")
    return "utf-8-sig"


def _other_encoding(path: Path, found: str) -> DataFileError:
    return DataFileError(
        f"{path}: the text looks like {found}; save it as UTF-8 (in a spreadsheet: 'CSV UTF-8')"
    )


def _not_utf8(path: Path, error: UnicodeDecodeError) -> DataFileError:
    """Name what the text may be: Windows-1252, of which Latin-1 is the visible part, or neither."""
    bytes_, start = error.object, error.start
    found = f"byte 0x{bytes_[start]:02x}"
    if error.encoding.startswith("utf-16"):
        return damaged_file(path, f"UTF-16 text that ends within a letter, {found}")
    before, after = bytes_[max(0, start - 12) : start], bytes_[start : start + 12]
    line = (before.rpartition(b"\n")[2] + after.partition(b"\n")[0]).decode("cp1252", "replace")
    return DataFileError(
        f"{path}: the text is not UTF-8 ({found}); it may be Windows-1252 (Latin-1), in which this "
        f"reads {line!r}; save it as UTF-8 (in a spreadsheet: 'CSV UTF-8'; elsewhere: iconv -f "
        "WINDOWS-1252 -t UTF-8)"
    )
