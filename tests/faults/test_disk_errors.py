"""No space, no permission, read-only, broken disk, kill: the old file stays, nothing else."""

from __future__ import annotations

import ctypes
import errno
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import viewgap.fsio as fsio
from viewgap.errors import RunError

CODES = [errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EIO, errno.EDQUOT]
OLD = {"a": b"old" * 50, "b": b"old too"}
NEW = {"a": b"new" * 50, "c": b"and new"}


def content(folder: Path) -> dict[str, bytes]:
    return {entry.name: entry.read_bytes() for entry in folder.iterdir()}


def failure(action: Callable[[], None]) -> str:
    """Message of the RunError that an action raises, or nothing if it succeeds."""
    try:
        action()
    except RunError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("code", CODES)
def test_file_is_old_or_new_whatever_call_fails(
    tmp_path: Path, breaking_os: Any, code: int
) -> None:
    place = tmp_path / "file"
    for fail_at in range(1, 100):
        place.write_bytes(b"old")
        breaking_os.arm(fail_at, code)
        message = failure(lambda: fsio.write_file(place, b"new"))
        assert breaking_os.fired == bool(message)
        if not message:
            break
        assert str(place) in message
        assert "3 bytes" in message
        assert content(tmp_path) in ({"file": b"old"}, {"file": b"new"})
    assert fail_at > 5  # open, write, fsync, replace and the folder's fsync have all failed once


@pytest.mark.parametrize("code", CODES)
def test_file_in_pieces_is_old_or_new_whatever_call_fails(
    tmp_path: Path, breaking_os: Any, code: int
) -> None:
    place = tmp_path / "file"

    def write(fail_at_piece: int = 3) -> None:
        with fsio.replaced_file(place) as file:
            for piece in range(3):
                file.write(b"new")
                if piece == fail_at_piece:
                    raise OSError(code, os.strerror(code))

    for fail_at in range(1, 100):
        place.write_bytes(b"old")
        breaking_os.arm(fail_at, code)
        message = failure(write)
        assert breaking_os.fired == bool(message)
        if not message:
            break
        assert str(place) in message
        assert content(tmp_path) in ({"file": b"old"}, {"file": b"newnewnew"})
    assert fail_at > 3  # fsync, replace and the folder's fsync have all failed once
    for piece in range(3):
        place.write_bytes(b"old")
        assert str(place) in failure(lambda piece=piece: write(piece))  # type: ignore[misc]
        assert content(tmp_path) == {"file": b"old"}


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("exchange", [True, False])
def test_folder_is_old_or_new_whatever_call_fails(
    tmp_path: Path, breaking_os: Any, monkeypatch: pytest.MonkeyPatch, code: int, exchange: bool
) -> None:
    place = tmp_path / "folder"
    if not exchange:
        monkeypatch.setattr(fsio, "_exchange", lambda first, second: False)
    for fail_at in range(1, 100):
        breaking_os.arm(0, code)
        fsio.write_folder(place, OLD, overwrite=True)
        breaking_os.arm(fail_at, code)
        message = failure(lambda: fsio.write_folder(place, NEW, overwrite=True))
        assert breaking_os.fired == bool(message)
        if not message:
            break
        assert str(place) in message
        assert content(place) in (OLD, NEW)
        assert os.listdir(tmp_path) == ["folder"]
    assert fail_at > 10


def test_new_folder_leaves_nothing_when_any_call_fails(tmp_path: Path, breaking_os: Any) -> None:
    place = tmp_path / "folder"
    for fail_at in range(1, 8):  # everything up to the renaming
        breaking_os.arm(fail_at, errno.ENOSPC)
        with pytest.raises(RunError, match="no space left"):
            fsio.write_folder(place, {"a": b"new"})
        assert [name for name in os.listdir(tmp_path) if name != "folder"] == []


def test_failing_exchange_is_a_typed_error(tmp_path: Path, monkeypatch: Any) -> None:
    class Library:
        @staticmethod
        def renameat2(*arguments: object) -> int:
            ctypes.set_errno(errno.EACCES)
            return -1

    place = tmp_path / "folder"
    fsio.write_folder(place, OLD)
    monkeypatch.setattr(ctypes, "CDLL", lambda name, use_errno: Library)
    with pytest.raises(RunError, match="no permission"):
        fsio.write_folder(place, NEW, overwrite=True)
    assert content(place) == OLD
    assert os.listdir(tmp_path) == ["folder"]


def test_interrupt_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(handle: int) -> None:
        raise KeyboardInterrupt

    place = tmp_path / "file"
    place.write_bytes(b"old")
    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        fsio.write_file(place, b"new")
    with pytest.raises(KeyboardInterrupt):
        fsio.write_folder(tmp_path / "folder", {"a": b""})
    assert content(tmp_path) == {"file": b"old"}


WRITER = """
import itertools, sys
from viewgap.fsio import write_folder
print("ready", flush=True)
for turn in itertools.count():
    text = str(turn).encode() * 20_000
    write_folder(sys.argv[1], {"first": text, "second": text}, overwrite=True)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="folders change places in one step on Linux")
def test_killed_writer_leaves_a_complete_folder(tmp_path: Path) -> None:
    place = tmp_path / "folder"
    fsio.write_folder(place, {"first": b"", "second": b""})
    chance = random.Random(0)
    for _ in range(10):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(place)], stdout=subprocess.PIPE
        )
        assert writer.stdout is not None
        writer.stdout.readline()
        time.sleep(chance.uniform(0, 0.03))
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        found = content(place)
        assert set(found) == {"first", "second"}
        assert found["first"] == found["second"]
    fsio.write_folder(place, OLD, overwrite=True)
    assert os.listdir(tmp_path) == ["folder"]
