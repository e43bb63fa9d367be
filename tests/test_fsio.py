"""Atomic writing, when nothing goes wrong. When it does: tests/faults/test_disk_errors.py."""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

import viewgap.fsio as fsio
from viewgap.errors import RunError


@pytest.fixture(params=["exchange", "two renames"])
def swap(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a test with the system's exchange of folders, and without."""
    if request.param == "two renames":
        monkeypatch.setattr(fsio, "_exchange", lambda first, second: False)


def content(folder: Path) -> dict[str, bytes]:
    return {entry.name: entry.read_bytes() for entry in folder.iterdir()}


def test_write_file_new_and_again(tmp_path: Path) -> None:
    place = tmp_path / "some file.json"
    fsio.write_file(place, b"old")
    fsio.write_file(str(place), b"")
    assert place.read_bytes() == b""
    fsio.write_file(place, b"new" * 1000)
    assert content(tmp_path) == {"some file.json": b"new" * 1000}


def test_written_file_has_ordinary_permissions(tmp_path: Path) -> None:
    plain, atomic = tmp_path / "plain", tmp_path / "atomic"
    plain.write_bytes(b"x")
    fsio.write_file(atomic, b"x")
    assert stat.S_IMODE(plain.stat().st_mode) == stat.S_IMODE(atomic.stat().st_mode)


@pytest.mark.usefixtures("swap")
def test_write_folder_new_and_again(tmp_path: Path) -> None:
    place = tmp_path / "modèle 1"
    fsio.write_folder(place, {"a": b"1", "b": b"2"})
    assert content(place) == {"a": b"1", "b": b"2"}
    fsio.write_folder(place, {"b": b"3", "c": b"4"}, overwrite=True)
    assert content(place) == {"b": b"3", "c": b"4"}
    assert os.listdir(tmp_path) == ["modèle 1"]


def test_write_folder_refuses_to_replace_unless_asked(tmp_path: Path) -> None:
    place = tmp_path / "model"
    fsio.write_folder(place, {"a": b"1"})
    with pytest.raises(RunError, match="already exists"):
        fsio.write_folder(place, {"a": b"2"})
    assert content(place) == {"a": b"1"}
    assert os.listdir(tmp_path) == ["model"]


@pytest.mark.usefixtures("swap")
def test_link_keeps_pointing_to_the_replaced_folder(tmp_path: Path) -> None:
    fsio.write_folder(tmp_path / "real", {"a": b"1"})
    (tmp_path / "link").symlink_to("real")
    fsio.write_folder(tmp_path / "link", {"a": b"2"}, overwrite=True)
    assert (tmp_path / "link").is_symlink()
    assert content(tmp_path / "real") == {"a": b"2"}


def test_longest_names_are_possible(tmp_path: Path) -> None:
    fsio.write_file(tmp_path / ("n" * 255), b"x")
    with pytest.raises(RunError, match="too long"):
        fsio.write_file(tmp_path / ("n" * 256), b"x")


def test_missing_parent_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="parent folder does not exist"):
        fsio.write_file(tmp_path / "absent" / "file", b"x")
    with pytest.raises(RunError, match="parent folder does not exist"):
        fsio.write_folder(tmp_path / "absent" / "folder", {})


def test_a_folder_never_replaces_a_file(tmp_path: Path) -> None:
    place = tmp_path / "taken"
    place.write_bytes(b"precious")
    with pytest.raises(RunError, match="in the way"):
        fsio.write_folder(place, {"a": b"1"}, overwrite=True)
    assert content(tmp_path) == {"taken": b"precious"}


def test_leftovers_of_dead_writers_are_removed_and_of_living_ones_kept(tmp_path: Path) -> None:
    place = tmp_path / "file"
    prefix = fsio._prefix(place)
    dead, alive = 2**22 + 1, os.getpid()  # above the largest process id of Linux
    (tmp_path / f"{prefix}new-{dead}-00").write_bytes(b"half")
    (tmp_path / f"{prefix}new-{dead}-01").mkdir()
    (tmp_path / f"{prefix}new-{alive}-02").write_bytes(b"busy")
    (tmp_path / "unrelated").write_bytes(b"")
    fsio.write_file(place, b"x")
    assert set(os.listdir(tmp_path)) == {"file", "unrelated", f"{prefix}new-{alive}-02"}


def test_folder_moved_aside_is_kept_until_there_is_a_new_one(tmp_path: Path) -> None:
    place = tmp_path / "model"
    aside = tmp_path / f"{fsio._prefix(place)}old-{2**22 + 1}-00"
    aside.mkdir()
    assert fsio.moved_aside(place) == aside
    fsio.remove_leftovers(place)
    assert aside.exists()
    fsio.write_folder(place, {"a": b"1"})
    fsio.remove_leftovers(place)
    assert not aside.exists()
    assert fsio.moved_aside(place) is None


def test_processes_that_cannot_be_asked_about_count_as_living(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(process: int, signal: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "kill", refuse)
    assert fsio._is_alive(1)
    monkeypatch.setattr(os, "name", "nt")
    assert fsio._is_alive(2**22 + 1)


class OldKernel:
    """A C library whose kernel does not know how to exchange two folders."""

    @staticmethod
    def renameat2(*arguments: object) -> int:
        ctypes.set_errno(errno.EINVAL)
        return -1


@pytest.mark.parametrize("system", ["no renameat2", "an old kernel", "another system"])
def test_exchange_says_where_it_cannot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str
) -> None:
    if system == "another system":
        monkeypatch.setattr(sys, "platform", "win32")
    else:
        library = OldKernel if system == "an old kernel" else object()
        monkeypatch.setattr(ctypes, "CDLL", lambda name, use_errno: library)
    assert not fsio._exchange(tmp_path, tmp_path)


def test_folders_are_not_synced_where_that_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "name", "nt")
    fsio.sync_folder(tmp_path / "absent")


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (errno.EROFS, "read-only"),
        (errno.EACCES, "no permission"),
        (errno.ENOSPC, "no space left"),
    ],
)
@pytest.mark.parametrize(
    "check",
    [
        fsio.check_writable,
        fsio.check_file_writable,
        fsio.check_folder_writable,
        fsio.make_folder,
    ],
)
def test_a_place_that_takes_no_file_is_told_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, check: Any, code: int, advice: str
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(RunError, match=f"cannot write .*place: .*{advice}"):
        check(tmp_path / "place")


def test_checking_leaves_nothing_behind(tmp_path: Path) -> None:
    fsio.check_writable(tmp_path / "new")
    fsio.check_file_writable(tmp_path / "new")
    fsio.check_folder_writable(tmp_path / "new" / "deeper")
    assert content(tmp_path) == {}
    fsio.make_folder(tmp_path / "new" / "deeper")
    assert os.listdir(tmp_path / "new" / "deeper") == []


def test_a_folder_is_no_file_and_a_file_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"precious")
    with pytest.raises(RunError, match="it is a folder"):
        fsio.check_file_writable(tmp_path)
    for check in (fsio.make_folder, fsio.check_folder_writable):
        for place in ("file", "file/below"):
            with pytest.raises(RunError, match="in the way"):
                check(tmp_path / place)
    assert content(tmp_path) == {"file": b"precious"}


def test_two_writers_of_a_new_folder_both_succeed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, real = tmp_path / "model", os.rename

    def overtaken(old: Path, new: Path) -> None:
        monkeypatch.setattr(os, "rename", real)
        fsio.write_folder(place, {"a": b"other"})
        real(old, new)

    monkeypatch.setattr(os, "rename", overtaken)
    fsio.write_folder(place, {"a": b"mine"}, overwrite=True)
    assert content(place) == {"a": b"mine"}
    assert os.listdir(tmp_path) == ["model"]
