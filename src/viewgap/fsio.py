"""Files that are either the old one or the new one, never half of each.

Everything is written beside its destination, pushed to the disk, and moved into place in one step.
A failure raises `RunError` with the path and the reason, leaves the old content as it was and
removes what had been written; what a killed process left is removed by the next writer.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import hashlib
import os
import platform
import secrets
import shutil
import stat
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, BinaryIO

from viewgap.errors import RunError

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]

TEMPORARY = ".viewgap-"
"""What the names of files and folders begin with while they are written."""

_ADVICE = {
    errno.ENOSPC: "no space left on the device; free some space or choose another folder",
    errno.EDQUOT: "the disk quota is used up; free some space or choose another folder",
    errno.EACCES: "no permission to write there; choose a folder you may write to",
    errno.EPERM: "the system does not permit it; choose a folder you may write to",
    errno.EROFS: "the file system is read-only; choose another folder",
    errno.EIO: "the device reported an input/output error; check the disk",
    errno.ENOENT: "its parent folder does not exist; create it first",
    errno.ENOTDIR: "something that is not a folder is in the way; choose another path",
    errno.ENAMETOOLONG: "the name is too long for this file system; choose a shorter one",
    errno.ENOTEMPTY: "something already exists there; choose another path or ask to overwrite",
    errno.EEXIST: "something already exists there; choose another path or ask to overwrite",
}


def write_file(path: str | os.PathLike[str], data: bytes) -> None:
    """Write one file. Whoever reads `path`, at any moment, finds the old file or the new one."""
    with _written_beside(path, len(data)) as (fresh, target):
        _write_synced(fresh, data)
        os.replace(fresh, target)


@contextlib.contextmanager
def replaced_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Give a file to write in pieces, which takes the place of `path` when all of it is there."""
    with _written_beside(path, None) as (fresh, target):
        with fresh.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, target)


def write_folder(
    path: str | os.PathLike[str], files: Mapping[str, bytes], *, overwrite: bool = False
) -> None:
    """Write a folder holding exactly `files`; with `overwrite` it takes the place of an old one.

    On Linux the old and the new folder change places in one step. Where the system cannot do that,
    the old folder is moved aside first; a process killed in that instant leaves it beside `path`
    under a name that `moved_aside` finds.
    """
    with _written_beside(path, sum(map(len, files.values()))) as (fresh, target):
        os.mkdir(fresh)
        for name, data in files.items():
            _write_synced(fresh / name, data)
        sync_folder(fresh)
        _put_in_place(fresh, target, overwrite)


@contextlib.contextmanager
def _written_beside(path: str | os.PathLike[str], size: int | None) -> Iterator[tuple[Path, Path]]:
    """Yield a new path beside the destination, and the destination; a failure removes the new."""
    target = _resolved(path)
    with _typed_errors(target, size):
        remove_leftovers(target)
        fresh = _beside(target, "new")
        try:
            yield fresh, target
        except BaseException:
            _discard(fresh)
            raise
        sync_folder(target.parent)


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise the `RunError` now that writing `path` would end in, before hours of work.

    It is tried, not computed: an empty file is written beside `path` and removed. Parent folders
    are not created, because a mistyped path would become a folder.
    """
    target = _resolved(path)
    with _typed_errors(target):
        _try_name(target)
        _try_file_beside(target)


def check_file_writable(path: str | os.PathLike[str]) -> None:
    """As `check_writable`, for a path that is to become a file."""
    check_writable(path)
    if os.path.isdir(path):
        raise RunError(f"cannot write {os.fspath(path)}: it is a folder; name a file")


def check_folder_writable(path: str | os.PathLike[str]) -> None:
    """As `check_writable`, for a folder that `make_folder` is to create."""
    target = _resolved(path)
    with _typed_errors(target):
        _try_name(target)
        nearest = next(each for each in (target, *target.parents) if os.path.lexists(each))
        _try_file_beside(nearest / "results")


def make_folder(path: str | os.PathLike[str]) -> None:
    """Create a folder for several files, with its parents, and check that it takes files."""
    target = _resolved(path)
    with _typed_errors(target):
        if os.path.exists(target) and not os.path.isdir(target):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        os.makedirs(target, exist_ok=True)
        _try_file_beside(target / "results")


def _try_name(target: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.lstat(target)


def _try_file_beside(target: Path) -> None:
    probe = _beside(target, "new")
    try:
        os.close(os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
    finally:
        _discard(probe)


def remove_leftovers(path: str | os.PathLike[str]) -> None:
    """Remove what killed writers of `path` left beside it; living writers are not disturbed."""
    target = _resolved(path)
    for kind, process, leftover in _temporaries(target):
        worthless = kind == "new" or os.path.lexists(target)
        if worthless and not _is_alive(process):
            _discard(leftover)


def moved_aside(path: str | os.PathLike[str]) -> Path | None:
    """Return the old folder that a killed `write_folder` moved aside from `path`, if any."""
    leftovers = (leftover for kind, _, leftover in _temporaries(_resolved(path)) if kind == "old")
    return next(leftovers, None)


# ------------------------------------------------------------------ writing and moving


def _write_synced(path: Path, data: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(handle, rest) :]
        os.fsync(handle)
    finally:
        os.close(handle)


def _put_in_place(fresh: Path, target: Path, overwrite: bool) -> None:
    if not (overwrite and target.is_dir()):
        try:
            os.rename(fresh, target)  # refused by the system when a folder with content is there
            return
        except OSError as error:
            if not overwrite or error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise  # else: another writer has just made it
    if _exchange(fresh, target):
        _discard(fresh)  # this is now the old folder
        return
    aside = _beside(target, "old")
    os.rename(target, aside)
    try:
        os.rename(fresh, target)
    except BaseException:
        os.rename(aside, target)
        raise
    _discard(aside)


def _exchange(first: Path, second: Path) -> bool:
    """Let two folders change places in one step; False where the system cannot do it."""
    if sys.platform != "linux":
        return False
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    here, exchange_flag = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of the kernel's fcntl.h
    if rename(here, os.fsencode(first), here, os.fsencode(second), exchange_flag) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.EINVAL, errno.ENOSYS):
        return False
    raise OSError(code, os.strerror(code), str(second))


def lock_file(file: IO[bytes] | int, *, exclusive: bool = True, wait: bool = True) -> bool:
    """Lock an open file; False where the system or the file system has no locks.

    The lock is the system's (flock): it ends with the file, or its process, however that dies.
    BlockingIOError where another process has it and `wait` is False.
    """
    if fcntl is None:
        return False
    try:
        kind = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
        fcntl.flock(file, kind if wait else kind | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        return False
    return True


def sync_folder(folder: Path) -> None:
    """Make sure that a new or renamed name in `folder` survives a power cut."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _discard(path: Path) -> None:
    try:
        if stat.S_ISDIR(os.lstat(path).st_mode):
            shutil.rmtree(path, ignore_errors=True)
        else:
            os.unlink(path)
    except OSError:
        pass  # never hide the first error; the next writer tries again


# ------------------------------------------------------------------ names of temporaries


def _resolved(path: str | os.PathLike[str]) -> Path:
    # a link keeps pointing where it points: what it leads to is replaced
    return Path(os.path.realpath(path))


def _prefix(target: Path) -> str:
    # hashed, so that a long name does not become too long by the additions
    name = hashlib.sha256(os.fsencode(target.name)).hexdigest()[:12]
    host = hashlib.sha256(platform.node().encode()).hexdigest()[:8]
    return f"{TEMPORARY}{name}-{host}-"


def _beside(target: Path, kind: str) -> Path:
    return target.parent / f"{_prefix(target)}{kind}-{os.getpid()}-{secrets.token_hex(4)}"


def _temporaries(target: Path) -> Iterator[tuple[str, int, Path]]:
    prefix = _prefix(target)
    try:
        names = sorted(os.listdir(target.parent))
    except OSError:
        return
    for name in names:
        kind, _, rest = name.removeprefix(prefix).partition("-")
        process = rest.partition("-")[0]
        if name.startswith(prefix) and kind in ("new", "old") and process.isdecimal():
            yield kind, int(process), target.parent / name


def _is_alive(process: int) -> bool:
    if os.name != "posix":
        return True  # asking is not harmless elsewhere
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


@contextlib.contextmanager
def _typed_errors(target: Path, size: int | None = None) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = _ADVICE.get(error.errno or 0, error.strerror or str(error))
        amount = "" if size is None else f" ({size:,} bytes)"
        raise RunError(f"cannot write {target}{amount}: {reason}") from error
