"""The three files of a saved model, as bytes that are verified before they are used.

- `model.json`: format version, method, parameters, names;
- `weights.safetensors`: all arrays;
- `checksums.json`: size and SHA-256 of the other two.

Only these three names are ever opened, whatever the files say. What is read is checked in this
order: kind of file, size, checksum, format version, and finiteness of every number.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

import viewgap.strict_json as strict_json
from viewgap.errors import ModelFileError
from viewgap.fsio import moved_aside, write_folder

FORMAT = 1
MODEL, WEIGHTS, CHECKSUMS = "model.json", "weights.safetensors", "checksums.json"

Arrays = dict[str, NDArray[Any]]

_MAX_JSON_BYTES = 64 * 2**20
_DTYPES = "?bhilqBHILQefd"
_PICKLE = re.compile(rb"\x80[\x02-\x05]|[ldt(]p\d+\n|\([ldti(]p?\d*\n|c[A-Za-z_][\w.]*\n\w+\n")


def write(folder: Path, description: dict[str, Any], arrays: Arrays, *, overwrite: bool) -> None:
    """Write a model folder; the old model stays complete until the new one is."""
    checked = {name: _checked_for_saving(name, array) for name, array in arrays.items()}
    contents = {
        MODEL: strict_json.dumps({"format": FORMAT} | description),
        WEIGHTS: safetensors.numpy.save(checked),
    }
    checksums = {name: _fingerprint(data) for name, data in contents.items()}
    contents[CHECKSUMS] = strict_json.dumps(checksums)
    write_folder(folder, contents, overwrite=overwrite)


def read(folder: Path) -> tuple[dict[str, Any], Arrays]:
    """Return the description and the arrays of a model folder, verified."""
    _check_is_folder(folder)
    place = folder / CHECKSUMS
    checksums = _parse(_read_bytes(place, _MAX_JSON_BYTES), place)
    if set(checksums) != {MODEL, WEIGHTS}:
        raise ModelFileError(f"{place} must list exactly {MODEL} and {WEIGHTS}: damaged file")
    description_bytes = _read_checked(folder / MODEL, checksums[MODEL], _MAX_JSON_BYTES)
    weights = _read_checked(folder / WEIGHTS, checksums[WEIGHTS], None)
    description = _parse(description_bytes, folder / MODEL)
    _check_format(description, folder)
    return description, _read_arrays(weights, folder / WEIGHTS)


def check_destination(folder: Path, overwrite: bool) -> None:
    """Refuse to replace anything but a model, and a model unless `overwrite` is set."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise ModelFileError(
            f"{folder} is a file; a model is saved as a folder: choose another path"
        )
    entries = sorted(os.listdir(folder))
    strangers = [entry for entry in entries if entry not in (MODEL, WEIGHTS, CHECKSUMS)]
    if strangers:
        raise ModelFileError(
            f"{folder} holds {strangers[0]!r}, which is not part of a model; it is left as it is: "
            "choose another path"
        )
    if entries and not overwrite:
        raise ModelFileError(f"{folder} already holds a model; pass overwrite=True to replace it")


def _checked_for_saving(name: str, array: NDArray[Any]) -> NDArray[Any]:
    array = np.asarray(array, order="C")
    if array.dtype.char not in _DTYPES:
        raise TypeError(
            f"the array {name!r} has type {array.dtype}, which a model file cannot hold"
        )
    if not np.isfinite(array).all():
        raise ModelFileError(f"the array {name!r} holds NaN or infinity: this model is not usable")
    return array


# ------------------------------------------------------------------ reading and verifying


def _check_is_folder(folder: Path) -> None:
    if folder.is_dir():
        return
    if folder.is_file():
        with folder.open("rb") as file:
            kind = _kind_of(file.read(64)) or "a file"
        raise ModelFileError(f"{folder} is {kind}, not a model folder; it was not opened further")
    aside = moved_aside(folder)
    advice = f"; an interrupted save left the old model in {aside}: rename it" if aside else ""
    raise ModelFileError(f"there is no model folder {folder}{advice}")


def _kind_of(head: bytes) -> str | None:
    """Name the formats that are offered as models by mistake or in bad faith."""
    if head[8:9] == b"{":
        return None  # a safetensors header, whose length may look like the start of a pickle
    if head.startswith(b"PK"):
        return "a zip archive (as torch.save and numpy.savez write)"
    if _PICKLE.match(head):
        return "a pickle (which could run any code)"
    return None


def _read_checked(place: Path, expected: Any, limit: int | None) -> bytes:
    if not isinstance(expected, dict) or set(expected) != {"bytes", "sha256"}:
        raise ModelFileError(f"the checksum of {place} is not readable: damaged file")
    size = _size(place)
    if size != expected["bytes"]:  # before reading: what is larger than promised stays on the disk
        raise _damaged(place, f"{str(expected['bytes'])[:20]} bytes", f"{size} bytes")
    data = _read_bytes(place, limit)
    found = _fingerprint(data)
    if found != expected:
        raise _damaged(
            place,
            f"SHA-256 {str(expected['sha256'])[:12]}...",
            f"{found['sha256'][:12]}... ({found['bytes']} bytes)",
        )
    kind = _kind_of(data[:64])
    if kind:
        raise ModelFileError(f"{place} is {kind}; it was not opened further")
    return data


def _damaged(place: Path, expected: str, found: str) -> ModelFileError:
    return ModelFileError(
        f"{place} is damaged: expected {expected}, found {found}; copy or save the model again"
    )


def _read_bytes(place: Path, limit: int | None) -> bytes:
    size = _size(place)
    if limit is not None and size > limit:
        raise ModelFileError(f"{place} has {size:,} bytes, more than {limit:,}")
    try:
        return place.read_bytes()
    except OSError as error:
        raise ModelFileError(f"cannot read {place}: {error.strerror}") from error


def _size(place: Path) -> int:
    try:
        facts = place.stat()
    except FileNotFoundError:
        raise ModelFileError(f"{place} is missing: not a model folder, or not complete") from None
    except OSError as error:
        raise ModelFileError(f"cannot read {place}: {error.strerror}") from error
    if not stat.S_ISREG(facts.st_mode):  # a pipe would wait forever
        raise ModelFileError(f"{place} is not a regular file")
    return facts.st_size


def _fingerprint(data: bytes) -> dict[str, Any]:
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def _parse(data: bytes, place: Path) -> dict[str, Any]:
    try:
        value = strict_json.loads(data)
    except ValueError as error:
        raise ModelFileError(f"{place} is not valid: {_kind_of(data[:64]) or error}") from error
    if not isinstance(value, dict):
        raise ModelFileError(f"{place} must hold an object, found {type(value).__name__}")
    return value


def _check_format(description: dict[str, Any], folder: Path) -> None:
    found = description.pop("format", None)
    if type(found) is int and found > FORMAT:
        raise ModelFileError(
            f"{folder} was written by a newer viewgap ({str(description.get('viewgap'))[:20]}, "
            f"format {found}; this one reads up to {FORMAT}): update viewgap"
        )
    if type(found) is not int or found != FORMAT:
        raise ModelFileError(f"{folder / MODEL}: format {str(found)[:20]!r} does not exist")


def _read_arrays(data: bytes, place: Path) -> dict[str, NDArray[Any]]:
    try:
        stored = safetensors.numpy.load(data)
    except (safetensors.SafetensorError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise ModelFileError(f"{place} is not a valid tensor file: {error}") from error
    for name in list(stored):
        array = stored[name]
        if array.dtype.char not in _DTYPES:
            raise ModelFileError(f"{place}: {name!r} has the unexpected type {array.dtype}")
        if not np.isfinite(array).all():
            raise ModelFileError(f"{place}: {name!r} holds NaN or infinity; save the model again")
        stored[name] = array.copy()  # writable and aligned, one at a time to bound the memory
    return dict(stored)
