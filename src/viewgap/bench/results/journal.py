"""A journal that survives a kill: JSON lines, only ever appended to, by any number of processes.

A line counts once its newline is on the disk. A last line without newline is what a kill
leaves behind; it is ignored with a notice, and cut off before the next line is written.
"""

from __future__ import annotations

import contextlib
import json
import os
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from viewgap import strict_json
from viewgap.errors import DataFileError, RunError, ViewgapWarning
from viewgap.fsio import lock_file, sync_folder


@contextlib.contextmanager
def locked(path: Path) -> Iterator[IO[bytes]]:
    """The file, made if it is not there, while no other process holds it.

    A file system without locks still appends whole lines, and claims are exclusive.
    """
    is_new = not path.exists()
    try:
        opened = path.open("a+b")
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror}") from error
    with opened as file:
        lock_file(file)
        if is_new:
            sync_folder(path.parent)
        yield file


def append_line(path: Path, entry: Mapping[str, Any]) -> None:
    """Add one entry and return only when it is on the disk."""
    line = json.dumps(entry, allow_nan=False, ensure_ascii=False).encode() + b"\n"
    try:
        with locked(path) as file:
            cut(file)
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise RunError(f"cannot write {path} ({len(line)} bytes): {error.strerror}") from error


def read_lines(path: Path, types: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """All complete entries of a journal; an absent file is an empty journal.

    `types`: what every entry must have, by name; one without is an error.
    """
    if not path.exists():
        return []
    with path.open("rb") as file:
        lock_file(file, exclusive=False)  # a line that is just being written is not torn
        *complete, torn = file.read().split(b"\n")
    if torn:
        warnings.warn(
            f"{path}: the last line is incomplete (a run was killed while writing it); "
            "it is ignored and its task will run again",
            ViewgapWarning,
            stacklevel=2,
        )
    entries = [_parse(line, f"{path}, line {i}") for i, line in enumerate(complete, 1)]
    for number, entry in enumerate(entries, 1):
        wrong = [n for n, kind in (types or {}).items() if not isinstance(entry.get(n), kind)]
        if wrong:
            raise DataFileError(
                f"{path}, line {number}: {wrong[0]} is missing or of the wrong type; remove it"
            )
    return entries


def cut_torn_line(path: Path) -> None:
    """Remove what a kill left after the last newline, so that the next line starts clean."""
    if path.exists():
        with locked(path) as file:
            cut(file)


class Follower:
    """Entries that are added to a journal from now on, by whomever."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = path.read_bytes().rfind(b"\n") + 1 if path.exists() else 0

    def new(self) -> list[dict[str, Any]]:
        """The complete entries since the last call."""
        if not self.path.exists():
            return []
        with self.path.open("rb") as file:
            file.seek(self._offset)
            content = file.read()
        end = content.rfind(b"\n") + 1  # a line that is just being written comes next time
        self._offset += end
        lines = content[:end].splitlines()
        return [_parse(line, f"{self.path}, a new line") for line in lines]


def cut(file: IO[bytes]) -> None:
    """Under the lock nobody is writing: what follows the last newline was left by a kill."""
    size = file.seek(0, os.SEEK_END)
    if size == 0:
        return
    file.seek(size - 1)
    if file.read(1) == b"\n":
        return
    file.seek(0)
    file.truncate(file.read().rfind(b"\n") + 1)
    os.fsync(file.fileno())


def _parse(line: bytes, where: str) -> dict[str, Any]:
    try:
        entry = strict_json.loads(line)
    except ValueError as error:
        raise DataFileError(
            f"{where} is damaged ({error}); remove the line to run its task again"
        ) from error
    if not isinstance(entry, dict):
        raise DataFileError(f"{where}: expected an object, found {type(entry).__name__}")
    return entry
