"""Claims: which tasks of a run folder are being worked on, so that several runners share them.

A claim is the file claims/<task id>, made by whoever comes first. It names host and process, and
its time of change is a heartbeat. A claim is stale, and may be taken over, when its process is
dead (on this host) or when its heartbeat is too old (on any host).
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import secrets
import threading
import time
import warnings
from pathlib import Path
from typing import Any, Self

from viewgap.bench.results.journal import locked
from viewgap.errors import RunError, ViewgapWarning

FOLDER = "claims"
BEAT_SECONDS = 15.0
# Twenty beats: hosts that share a folder may disagree about the time.
STALE_SECONDS = 300.0
# A claim without content: its maker is about to write it, or died in that instant.
EMPTY_SECONDS = 10.0


class Claims:
    """The claims of one runner on the tasks of a folder; leaving the context gives them up.

    `journal` is the file whose lock guards a takeover.
    """

    def __init__(self, out: Path, journal: Path) -> None:
        self.folder = out / FOLDER
        self._journal = journal
        self._held: dict[str, str] = {}
        self._stop = threading.Event()
        self._heart = threading.Thread(target=self._beat, daemon=True)

    def __enter__(self) -> Self:
        """Start the heartbeat."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(f"cannot create {self.folder}: {error.strerror}") from error
        self._heart.start()
        return self

    def __exit__(self, *details: object) -> None:
        """Give up what is held still."""
        self._stop.set()
        self._heart.join()
        for task in list(self._held):
            self.release(task)

    def take(self, task: str) -> bool:
        """Claim a task; False while a living runner has it."""
        if self._create(task):
            return True
        if not self._is_stale(task):
            return False
        with locked(self._journal):  # of several that see a stale claim, one removes it
            if not self._is_stale(task):
                return False
            holder = self.holder(task)
            self._path(task).unlink(missing_ok=True)
            taken = self._create(task)  # or another runner has, in this very moment
        warnings.warn(
            f"task {task} was claimed by {holder}, which is gone; its claim was removed",
            ViewgapWarning,
            stacklevel=2,
        )
        return taken

    def holds(self, task: str) -> bool:
        """Whether the claim is still ours: a runner that slept too long may have lost it."""
        return task in self._held and _read(self._path(task)).get("token") == self._held[task]

    def release(self, task: str) -> None:
        """Give a task back; a claim that somebody took over stays."""
        with locked(self._journal):
            if self.holds(task):
                self._path(task).unlink(missing_ok=True)
        self._held.pop(task, None)

    def holder(self, task: str) -> str:
        """Who has the task, for a message."""
        content = _read(self._path(task))
        return f"process {content.get('pid', '?')} on {content.get('host', 'an unknown host')}"

    def living(self) -> dict[str, str]:
        """Tasks that are being worked on, here or on other hosts, with who has them."""
        paths = list(self.folder.iterdir()) if self.folder.is_dir() else []
        return {
            path.name: self.holder(path.name)
            for path in paths
            if not self._is_stale(path.name) and _read(path)
        }

    def sweep(self, finished: set[str]) -> None:
        """Remove what runners left behind that were killed right after recording a task."""
        paths = list(self.folder.iterdir()) if self.folder.is_dir() else []
        for path in paths:
            if path.name in finished and self._is_stale(path.name):
                path.unlink(missing_ok=True)

    # ------------------------------------------------------------------ files

    def _path(self, task: str) -> Path:
        return self.folder / task

    def _create(self, task: str) -> bool:
        token = secrets.token_hex(8)
        content = {**_identity(), "start": time.time(), "token": token}
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        try:
            handle = os.open(self._path(task), flags, 0o666)
        except FileExistsError:
            return False
        except OSError as error:
            raise RunError(f"cannot write {self._path(task)}: {error.strerror}") from error
        with os.fdopen(handle, "wb") as file:
            file.write(json.dumps(content).encode())
        self._held[task] = token
        return True

    def _is_stale(self, task: str) -> bool:
        path = self._path(task)
        try:
            age = time.time() - path.stat().st_mtime
        except FileNotFoundError:
            return False  # given back in the meantime
        content = _read(path)
        if not content:
            return age > EMPTY_SECONDS
        return age > STALE_SECONDS or _is_dead(content)

    def _beat(self) -> None:
        while not self._stop.wait(BEAT_SECONDS):
            for task in list(self._held):
                with contextlib.suppress(OSError):
                    if self.holds(task):
                        os.utime(self._path(task))


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _identity() -> dict[str, Any]:
    process = os.getpid()
    return {"host": platform.node(), "space": _space(), "pid": process, "born": _born(process)}


def _is_dead(claim: dict[str, Any]) -> bool:
    """Whether the process of a claim is known to be gone; another host's never is."""
    process = claim.get("pid")
    here = claim.get("host") == platform.node() and claim.get("space") == _space()
    if not here or not isinstance(process, int) or os.name != "posix":
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return _born(process) != claim.get("born")  # the number was given to another process


def _space() -> str:
    """Where the numbers of processes have a meaning; empty where the system does not tell.

    Containers and hosts can share a name, but do not see each other's processes: the boot tells
    hosts apart, the namespace containers.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _born(process: int) -> str:
    """When a process started, in the system's ticks; empty where the system does not tell."""
    try:
        text = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    fields = text.rpartition(")")[2].split()  # the name before it may hold anything
    # The third field is the state; a zombie is as dead as can be, though its number is taken.
    return "" if fields[0] in "ZX" else fields[19]
