"""The three files of a saved model, as bytes that are verified before they are used.

- `model.json`: format version, method, parameters, names;
- `weights.safetensors`: all arrays;
- `checksums.json`: size and SHA-256 of the other two.

Only these three names are ever opened, whatever the files say. What is read is checked in this
order: kind of file, size, checksum, format version, and finiteness of every number.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

import viewgap.strict_json as strict_json
from viewgap.errors import ModelFileError, parameter
from viewgap.fsio import check_writable, moved_aside, write_folder

FORMAT = 3
OLDEST_FORMAT = 1  # without feature_names; 2 calls the metadata facts
MODEL, WEIGHTS, CHECKSUMS = "model.json", "weights.safetensors", "checksums.json"

Arrays = dict[str, NDArray[Any]]

_NAMES = (CHECKSUMS, MODEL, WEIGHTS)
_MAX_CHECKSUMS_BYTES = 2**16
_MAX_JSON_BYTES = 64 * 2**20
_MAX_JSON_VALUES = 4_000_000  # Python needs up to a hundred bytes for each
_MAX_ARRAYS = 100_000
_LARGE_FILE_BYTES = 2**28
_MOST_TRIES, _PAUSE_SECONDS = 50, 0.005
_FOLDERS_CAN_BE_HELD = os.open in os.supports_dir_fd and hasattr(os, "O_DIRECTORY")
_READING = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_DTYPES = "?bhilqBHILQefd"
_PICKLE = re.compile(rb"\x80[\x02-\x05]|[ldt(]p\d+\n|\([ldti(]p?\d*\n|c[A-Za-z_][\w.]*\n\w+\n")


def write(
    folder: Path,
    description: dict[str, Any],
    arrays: Arrays,
    *,
    overwrite: bool,
    finite: bool = True,
) -> None:
    """Write a model folder; the old model stays complete until the new one is.

    `finite`: whether a number that is not finite is an error.
    """
    checked = {name: _checked_for_saving(name, array, finite) for name, array in arrays.items()}
    contents = {
        MODEL: _as_json({"format": FORMAT} | description),
        WEIGHTS: safetensors.numpy.save(checked),
    }
    checksums = {name: _fingerprint(data) for name, data in contents.items()}
    contents[CHECKSUMS] = strict_json.dumps(checksums)
    write_folder(folder, contents, overwrite=overwrite)


def read(folder: Path, *, finite: bool = True) -> tuple[dict[str, Any], Arrays]:
    """Return the description and the arrays of a model folder, verified.

    A folder that is replaced meanwhile is read again: the answer is the old model or the new one.
    """
    for _ in range(_MOST_TRIES):
        before = _identity(folder)
        try:
            return _read_once(folder, finite)
        except ModelFileError as error:
            if not isinstance(error, _ReplacedError) and _identity(folder) == before:
                raise
        time.sleep(_PAUSE_SECONDS)
    return _read_once(folder, finite)


def _read_once(folder: Path, finite: bool) -> tuple[dict[str, Any], Arrays]:
    with contextlib.ExitStack() as stack:
        files = _open_together(folder, stack)
        checksums = _parse(files[CHECKSUMS].read(_MAX_CHECKSUMS_BYTES), files[CHECKSUMS].path)
        if set(checksums) != {MODEL, WEIGHTS}:
            path = files[CHECKSUMS].path
            raise ModelFileError(f"{path} must list exactly {MODEL} and {WEIGHTS}: damaged file")
        description_bytes = _read_checked(files[MODEL], checksums[MODEL], _MAX_JSON_BYTES)
        _check_large_file(files[WEIGHTS])
        weights = [_read_checked(files[WEIGHTS], checksums[WEIGHTS], None)]
    description = _parse(description_bytes, folder / MODEL)
    _check_format(description, folder)
    # Popped, so that the bytes are free once there are arrays: never more than twice the file.
    return description, _read_arrays(weights.pop(), folder / WEIGHTS, finite)


def digest(folder: Path) -> str:
    """SHA-256 of what the checksums of a model say: the same for all copies, another for others."""
    with contextlib.ExitStack() as stack:
        file = _open(folder / CHECKSUMS, CHECKSUMS, None, stack)
        checksums = _parse(file.read(_MAX_CHECKSUMS_BYTES), file.path)
    return hashlib.sha256(strict_json.dumps(checksums)).hexdigest()


def check_destination(folder: Path, overwrite: bool) -> None:
    """Refuse what could not be written, and to replace anything but a model, or it unasked."""
    check_writable(folder)
    if os.path.exists(folder) and not os.path.isdir(folder):
        raise ModelFileError(
            f"{folder} is a file; a model is saved as a folder: choose another path"
        )
    try:
        entries = sorted(os.listdir(folder))
    except FileNotFoundError:
        return
    except OSError as error:
        raise ModelFileError(f"cannot look into {folder}: {error.strerror}") from error
    others = [entry for entry in entries if entry not in (MODEL, WEIGHTS, CHECKSUMS)]
    if others:
        raise ModelFileError(
            f"{folder} holds {others[0]!r}, which is not part of a model; it is left as it is: "
            "choose another path"
        )
    if entries and not overwrite:
        remedy = parameter("overwrite", True)
        raise ModelFileError(f"{folder} already holds a model; {remedy} replaces it")


def _as_json(description: dict[str, Any]) -> bytes:
    try:
        return strict_json.dumps(description)
    except UnicodeEncodeError as error:
        near = error.object[max(0, error.start - 20) : error.end + 20]
        raise ModelFileError(
            f"a name or setting of this model is no valid text and cannot be saved: {near!r}; "
            "rename it and fit again"
        ) from error


def _checked_for_saving(name: str, array: NDArray[Any], finite: bool) -> NDArray[Any]:
    array = np.asarray(array, order="C")
    if array.dtype.char not in _DTYPES:
        raise TypeError(
            f"the array {name!r} has type {array.dtype}, which a model file cannot hold"
        )
    if finite and not np.isfinite(array).all():
        raise ModelFileError(f"the array {name!r} holds NaN or infinity: this model is not usable")
    return array


# ------------------------------------------------------------------ opening


class _ReplacedError(ModelFileError):
    """Another process is putting a new folder in the place of the one being read."""


@dataclass(frozen=True)
class _OpenFile:
    """One of the three files, open: it can be read to its end whatever happens to its folder."""

    path: Path
    handle: int

    def size(self) -> int:
        return os.fstat(self.handle).st_size

    def read(self, limit: int | None) -> bytes:
        size = self.size()
        if limit is not None and size > limit:
            raise ModelFileError(f"{self.path} has {size:,} bytes, more than {limit:,}")
        try:
            with open(self.handle, "rb", closefd=False) as file:
                return file.read()
        except OSError as error:
            raise ModelFileError(f"cannot read {self.path}: {error.strerror}") from error


def _open_together(folder: Path, stack: contextlib.ExitStack) -> dict[str, _OpenFile]:
    """Open the three files, all of one folder."""
    _check_is_folder(folder)
    if not _FOLDERS_CAN_BE_HELD:
        return {name: _open(folder / name, name, None, stack) for name in _NAMES}
    try:
        held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise ModelFileError(f"cannot read {folder}: {error.strerror}") from error
    stack.callback(os.close, held)
    return {name: _open(folder / name, name, held, stack) for name in _NAMES}


def _open(path: Path, name: str, held: int | None, stack: contextlib.ExitStack) -> _OpenFile:
    target: Any = path if held is None else name
    try:
        kind = os.stat(target, dir_fd=held).st_mode
        if not stat.S_ISREG(kind):  # a pipe would wait forever
            raise ModelFileError(f"{path} is not a regular file")
        handle = os.open(target, _READING, dir_fd=held)
    except FileNotFoundError:
        raise ModelFileError(f"{path} is missing: not a model folder, or not complete") from None
    except OSError as error:
        raise ModelFileError(f"cannot read {path}: {error.strerror}") from error
    stack.callback(os.close, handle)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        raise ModelFileError(f"{path} is not a regular file")
    return _OpenFile(path, handle)


def _identity(folder: Path) -> tuple[int, int, int] | None:
    """What differs for a new folder under the same path."""
    try:
        status = os.stat(folder)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_ctime_ns


def _check_is_folder(folder: Path) -> None:
    if folder.is_dir():
        return
    if folder.is_file():
        with folder.open("rb") as file:
            kind = _kind_of(file.read(64)) or "a file"
        raise ModelFileError(f"{folder} is {kind}, not a model folder; it was not opened further")
    aside = moved_aside(folder)
    if aside is None:
        raise ModelFileError(f"there is no model folder {folder}")
    # It may be a writer between its two steps, or what a killed one left: the last try tells.
    raise _ReplacedError(
        f"there is no model folder {folder}; an interrupted save left the old model in {aside}: "
        "rename it"
    )


# ------------------------------------------------------------------ verifying


def _kind_of(head: bytes) -> str | None:
    """Name the formats that are offered as models by mistake or in bad faith."""
    if head[8:9] == b"{":
        return None  # a safetensors header, whose length may look like the start of a pickle
    if head.startswith(b"PK"):
        return "a zip archive (as torch.save and numpy.savez write)"
    if _PICKLE.match(head):
        return "a pickle (which could run any code)"
    return None


def _check_large_file(file: _OpenFile) -> None:
    """Refuse a large file that is no tensor file before memory is taken for all of it."""
    if file.size() < _LARGE_FILE_BYTES:
        return
    head = os.read(file.handle, 9)
    os.lseek(file.handle, 0, os.SEEK_SET)
    if not 2 <= int.from_bytes(head[:8], "little") <= file.size() - 8 or head[8:] != b"{":
        raise ModelFileError(f"{file.path} is not a valid tensor file")


def _read_checked(file: _OpenFile, expected: Any, limit: int | None) -> bytes:
    path = file.path
    if not isinstance(expected, dict) or set(expected) != {"bytes", "sha256"}:
        raise ModelFileError(f"the checksum of {path} is not readable: damaged file")
    size = file.size()
    if size != expected["bytes"]:  # before reading: what is larger than promised stays on the disk
        raise _damaged(path, f"{str(expected['bytes'])[:20]} bytes", f"{size} bytes")
    data = file.read(limit)
    found = _fingerprint(data)
    if found != expected:
        raise _damaged(
            path,
            f"SHA-256 {str(expected['sha256'])[:12]}...",
            f"{found['sha256'][:12]}... ({found['bytes']} bytes)",
        )
    kind = _kind_of(data[:64])
    if kind:
        raise ModelFileError(f"{path} is {kind}; it was not opened further")
    return data


def _damaged(path: Path, expected: str, found: str) -> ModelFileError:
    return ModelFileError(
        f"{path} is damaged: expected {expected}, found {found}; copy or save the model again"
    )


def _fingerprint(data: bytes) -> dict[str, Any]:
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def _parse(data: bytes, path: Path) -> dict[str, Any]:
    if sum(map(data.count, (b",", b"[", b"{"))) > _MAX_JSON_VALUES:
        raise ModelFileError(f"{path} holds more than {_MAX_JSON_VALUES:,} values")
    try:
        value = strict_json.loads(data)
    except ValueError as error:
        raise ModelFileError(f"{path} is not valid: {_kind_of(data[:64]) or error}") from error
    if not isinstance(value, dict):
        raise ModelFileError(f"{path} must hold an object, found {type(value).__name__}")
    return value


def _check_format(description: dict[str, Any], folder: Path) -> None:
    found = description.pop("format", None)
    if type(found) is int and found > FORMAT:
        raise ModelFileError(
            f"{folder} was written by a newer viewgap ({str(description.get('viewgap'))[:20]}, "
            f"format {found}; this one reads up to {FORMAT}): update viewgap"
        )
    if type(found) is not int or found < OLDEST_FORMAT:
        raise ModelFileError(f"{folder / MODEL}: format {str(found)[:20]!r} does not exist")


def _read_arrays(data: bytes, path: Path, finite: bool) -> dict[str, NDArray[Any]]:
    header = data[8 : 8 + int.from_bytes(data[:8], "little")]
    if header.count(b"data_offsets") > _MAX_ARRAYS:
        raise ModelFileError(f"{path} holds more than {_MAX_ARRAYS:,} arrays")
    try:
        stored = safetensors.numpy.load(data)
    except (safetensors.SafetensorError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise ModelFileError(f"{path} is not a valid tensor file: {error}") from error
    del data
    for name in list(stored):
        array = stored[name]
        if array.dtype.char not in _DTYPES:
            raise ModelFileError(f"{path}: {name!r} has the unexpected type {array.dtype}")
        if finite and not np.isfinite(array).all():
            raise ModelFileError(f"{path}: {name!r} holds NaN or infinity; save the model again")
        stored[name] = array.copy()  # writable and aligned, one at a time to bound the memory
        del array
    return dict(stored)
