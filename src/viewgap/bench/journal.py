"""A journal that survives a kill: JSON lines, only ever appended to.

A line counts once its newline is on the disk. A last line without newline is what a kill
leaves behind; it is ignored with a notice, and cut off before the next line is written.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from viewgap import strict_json
from viewgap.errors import DataFileError, RunError, ViewgapWarning
from viewgap.fsio import sync_folder


def append_line(path: Path, entry: Mapping[str, Any]) -> None:
    """Add one entry and return only when it is on the disk."""
    line = json.dumps(entry, allow_nan=False, ensure_ascii=False).encode() + b"\n"
    try:
        is_new = not path.exists()
        with path.open("ab") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        if is_new:
            sync_folder(path.parent)
    except OSError as error:
        raise RunError(f"cannot write {path} ({len(line)} bytes): {error.strerror}") from error


def read_lines(path: Path) -> list[dict[str, Any]]:
    """All complete entries of a journal; an absent file is an empty journal."""
    if not path.exists():
        return []
    *complete, torn = path.read_bytes().split(b"\n")
    if torn:
        warnings.warn(
            f"{path}: the last line is incomplete (a run was killed while writing it); "
            "it is ignored and its cell will run again",
            ViewgapWarning,
            stacklevel=2,
        )
    return [_parse(line, f"{path}, line {i}") for i, line in enumerate(complete, 1)]


def cut_torn_line(path: Path) -> None:
    """Remove what a kill left after the last newline, so that the next line starts clean."""
    if not path.exists():
        return
    content = path.read_bytes()
    end = content.rfind(b"\n") + 1
    if end < len(content):
        with path.open("r+b") as file:
            file.truncate(end)
            os.fsync(file.fileno())


def _parse(line: bytes, where: str) -> dict[str, Any]:
    try:
        entry = strict_json.loads(line)
    except ValueError as error:
        raise DataFileError(
            f"{where} is damaged ({error}); remove the line to run its cell again"
        ) from error
    if not isinstance(entry, dict):
        raise DataFileError(f"{where}: expected an object, found {type(entry).__name__}")
    return entry
