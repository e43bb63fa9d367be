"""Checkpoints of a fit: complete steps in a folder, and a pointer to the last one.

    run1/fit.json               what is fitted, how, and from which seed
    run1/latest.json            the pointer: names of the last step and the one before
    run1/epoch-000012/          a step: the three files of `model_folder`, with checksums
    run1/members/scsd/          of an ensemble: the same for every member

A step is written beside its place and moved there, then the pointer is replaced, then older steps
are removed: a process killed at any moment leaves a step that can be read. Two steps are kept, so
that damage to one costs an epoch and not the fit.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import viewgap.model_folder as model_folder
import viewgap.strict_json as strict_json
from viewgap.errors import CheckpointError, ModelFileError, RunError, ViewgapWarning, parameter
from viewgap.fsio import TEMPORARY, check_folder_writable, lock_file, make_folder, write_file
from viewgap.state import State

FIT, LATEST, LOCK, MEMBERS = "fit.json", "latest.json", "lock", "members"
FINISHED, LEFT_OUT = "finished", "left-out"
FORMAT = 1

_STEP = re.compile(r"epoch-(\d{6,12})|finished|left-out")
_MAX_JSON_BYTES = 2**24


def epoch_step(epoch: int) -> str:
    """The name of the step after an epoch."""
    return f"epoch-{epoch:06d}"


class CheckpointFolder:
    """The steps of one fit, or of one member of an ensemble.

    `seconds` is how long the fit has taken so far, in all processes that worked on it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._spent, self._begun = 0.0, time.monotonic()
        self._last: str | None = None

    @property
    def seconds(self) -> float:
        """See the class."""
        return self._spent + time.monotonic() - self._begun

    def child(self, *names: str) -> CheckpointFolder:
        """The steps of a part of this fit."""
        return CheckpointFolder(self.path.joinpath(*names))

    # ------------------------------------------------------------------ writing

    def save(self, step: str, state: State, seconds: float | None = None) -> None:
        """Write a step, point to it, and remove all but the one before.

        `seconds` that the fit has taken, if its caller knows better.
        """
        make_folder(self.path)
        seconds = self.seconds if seconds is None else seconds
        metadata = strict_json.encode(state.metadata, f"the state after {step}")
        description = {"seconds": seconds, "metadata": metadata}
        model_folder.write(
            self.path / step, description, state.arrays, overwrite=True, finite=False
        )
        previous = self._last if self._last != step else None
        pointer = {"format": FORMAT, "step": step, "previous": previous, "seconds": seconds}
        write_file(self.path / LATEST, strict_json.dumps(pointer))
        self._last = step
        for name in self._steps():
            if name not in (step, previous):
                shutil.rmtree(self.path / name, ignore_errors=True)

    # ------------------------------------------------------------------ reading

    def load(self) -> tuple[str, State] | None:
        """Name and state of the last step that can be read; None where there is no step at all.

        Where that is not the last one, a warning says so.
        """
        self._remove_temporaries()
        problems: list[str] = []
        for step in self._candidates(problems):
            try:
                state = self._read(step)
            except (ModelFileError, ValueError, KeyError, TypeError) as error:
                problems.append(str(error))
                continue
            if problems:
                self._warn(f"{problems[0]}; going on from {step}")
            self._last = step
            return step, state
        if problems:
            raise CheckpointError(
                f"{self.path}: no step can be read ({problems[0]}); delete the folder, or begin "
                f"anew in another one without {parameter('resume')}"
            )
        return None

    def peek(self) -> tuple[str | None, float]:
        """Name of the last step and seconds until then, by the pointer alone; None and 0."""
        try:
            pointer = self._pointer()
        except (CheckpointError, ValueError, KeyError):
            pointer = None  # `load` tells
        return (None, 0.0) if pointer is None else (pointer["step"], float(pointer["seconds"]))

    def has_ended(self) -> bool:
        """Whether there is nothing more to do."""
        return self.peek()[0] in (FINISHED, LEFT_OUT)

    def _read(self, step: str) -> State:
        description, arrays = model_folder.read(self.path / step, finite=False)
        seconds, metadata = description["seconds"], strict_json.decode(description["metadata"])
        if not _is_duration(seconds) or not isinstance(metadata, dict):
            raise ValueError(f"{self.path / step} does not describe a step of a fit")
        self._spent = float(seconds)
        return State(arrays, metadata)

    def _candidates(self, problems: list[str]) -> list[str]:
        """The steps that the pointer names; without one that can be read, all there are."""
        try:
            pointer = self._pointer()
        except (CheckpointError, ValueError, KeyError) as error:
            problems.append(str(error))
            pointer = None
        if pointer is None:
            return self._steps()
        return [name for name in (pointer["step"], pointer["previous"]) if name is not None]

    def _pointer(self) -> dict[str, Any] | None:
        path = self.path / LATEST
        if not path.exists():
            return None
        pointer = read_json(path)
        names_steps = _are_steps([pointer["step"], pointer["previous"]])
        seconds = pointer["seconds"]
        if pointer.get("format") != FORMAT or not names_steps or not _is_duration(seconds):
            raise ValueError(f"{path} names no step")
        return pointer

    def _steps(self) -> list[str]:
        """Names of the steps that are there, the last first."""
        names = [name for name in _listed(self.path) if _STEP.fullmatch(name)]
        return sorted(names, key=_position, reverse=True)

    def _remove_temporaries(self) -> None:
        """Remove what a killed writer left."""
        for name in _listed(self.path):
            if name.startswith(TEMPORARY):
                shutil.rmtree(self.path / name, ignore_errors=True)
                with contextlib.suppress(OSError):
                    os.unlink(self.path / name)

    def _warn(self, text: str) -> None:
        warnings.warn(f"checkpoint: {text}", ViewgapWarning, stacklevel=2)


# ---------------------------------------------------------------------- the folder of a fit


def check_destination(path: Path, resume: bool) -> None:
    """Refuse a folder that holds something else, or a checkpoint that is not to be continued."""
    check_folder_writable(path)
    entries = [name for name in _listed(path) if name != LOCK and not name.startswith(TEMPORARY)]
    if FIT in entries and not resume:
        go_on = parameter("resume", True)
        raise CheckpointError(
            f"{path} already holds a checkpoint; {go_on} goes on from it, and to begin anew choose "
            "another folder or delete this one"
        )
    if entries and FIT not in entries:
        raise CheckpointError(
            f"{path} holds {entries[0]!r}, which is not part of a checkpoint; it is left as it is: "
            "choose another folder"
        )


def begin_or_go_on(path: Path, fit: dict[str, Any]) -> dict[str, Any]:
    """Keep what is fitted and how; of a fit that has begun, return what was kept then."""
    stored = path / FIT
    if not stored.exists():
        write_file(stored, strict_json.dumps({"format": FORMAT} | fit))
        return fit
    kept = read_json(stored)
    if kept.pop("format", None) != FORMAT or set(kept) != set(fit):
        raise CheckpointError(
            f"{stored} was written by another version of viewgap; delete {path}, or begin anew in "
            "another folder"
        )
    return kept


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Make the folder of a fit, and keep other processes out of it."""
    make_folder(path)
    try:
        file = (path / LOCK).open("ab")
    except OSError as error:
        raise RunError(f"cannot write {path / LOCK}: {error.strerror}") from error
    with file:
        try:
            lock_file(file, wait=False)
        except BlockingIOError:
            raise CheckpointError(
                f"another process is fitting with the checkpoint {path}; wait for it, or choose "
                "another folder"
            ) from None
        yield


def read_json(path: Path) -> dict[str, Any]:
    """A small JSON file of a checkpoint."""
    try:
        if not path.is_file() or path.stat().st_size > _MAX_JSON_BYTES:
            raise ValueError("not a small regular file")
        found = strict_json.loads(path.read_bytes())
        if not isinstance(found, dict):
            raise ValueError("not an object")
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise CheckpointError(
            f"{path} is damaged ({error}); delete {path.parent}, or begin anew in another folder"
        ) from error
    return found


def _listed(path: Path) -> list[str]:
    try:
        return sorted(os.listdir(path))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise CheckpointError(f"cannot look into {path}: {error.strerror}") from error


def _is_duration(value: Any) -> bool:
    return type(value) in (int, float) and value >= 0


def _are_steps(names: list[Any]) -> bool:
    last, previous = names
    known = [name for name in (last, previous) if name is not None]
    return last is not None and all(isinstance(n, str) and _STEP.fullmatch(n) for n in known)


def _position(step: str) -> tuple[bool, int]:
    """For sorting: what ends a fit is after all epochs."""
    found = _STEP.fullmatch(step)
    number = found.group(1) if found else None
    return number is None, int(number or 0)
