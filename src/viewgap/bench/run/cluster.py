"""Tasks on an existing Dask cluster; the submitting process claims them and keeps the records.

They are submitted one by one, not through joblib's "dask" backend: that one batches and
prefetches tasks as it likes, while a task has to be claimed the moment it starts, and a task it
loses with a worker too often ends the whole run instead of one task. The scheduler itself runs
the tasks of a lost worker again on another.
"""

from __future__ import annotations

import contextlib
import importlib
import queue
import secrets
import time
import traceback
from typing import Any, Self

from viewgap.bench.run.task import Task
from viewgap.bench.run.workers import Outcome, Workers, attempt
from viewgap.errors import RunError, SettingError

CONNECT_SECONDS = 20.0
RESULT_SECONDS = 30.0
# How long a cluster may be without any worker before the run gives up.
PATIENCE_SECONDS = 120.0


class Cluster(Workers):
    """The workers behind a Dask scheduler. They need viewgap, and the data where it reads it."""

    def __init__(self, address: str, patience: float = PATIENCE_SECONDS) -> None:
        self.address = address
        self._patience = patience
        self._client: Any = None
        self._running: dict[str, tuple[Any, Task]] = {}
        self._ended: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._last_seen = time.monotonic()

    def __enter__(self) -> Self:
        """Connect."""
        distributed = _distributed()
        try:
            self._client = distributed.Client(
                self.address, timeout=CONNECT_SECONDS, set_as_default=False
            )
        except (OSError, ValueError) as error:
            raise RunError(f"no Dask scheduler answers at {self.address}: {error}") from error
        self._last_seen = time.monotonic()
        return self

    def __exit__(self, *details: object) -> None:
        """Take back what still waits, and leave the cluster as it was."""
        with contextlib.suppress(Exception):  # the cluster may be gone
            self._client.cancel([future for future, _ in self._running.values()], force=True)
        with contextlib.suppress(Exception):
            self._client.close(timeout=CONNECT_SECONDS)

    def slots(self) -> int:
        """One task per worker process, whatever its number of threads."""
        return max(1, len(self._workers()))

    def submit(self, task: Task) -> None:
        """Send the task; a new name each time, so that no earlier answer is given again."""
        name = f"viewgap-{task.id}-{secrets.token_hex(4)}"
        future = self._client.submit(attempt, task, key=name, pure=False)
        self._running[name] = (future, task)
        self._follow(name, future)

    def wait(self, seconds: float) -> list[Outcome]:
        """Tasks that ended."""
        try:
            name = self._ended.get(timeout=seconds)
        except queue.Empty:
            self._check_workers()
            return []
        future, task = self._running[name]
        outcome = self._outcome(future, task)
        if outcome is None:
            self._follow(name, future)
            return []
        del self._running[name]
        return [outcome]

    def _follow(self, name: str, future: Any) -> None:
        future.add_done_callback(lambda _: self._ended.put(name))

    def _outcome(self, future: Any, task: Task) -> Outcome | None:
        """None where the answer was lost with its worker: the scheduler runs the task again."""
        if future.status in ("cancelled", "lost"):
            return Outcome(task, error="the scheduler lost it", lost=True)
        try:
            outcome: Outcome = future.result(timeout=RESULT_SECONDS)
        except TimeoutError:
            return None
        except _distributed().KilledWorker as error:
            return Outcome(task, error=f"its worker died: {error}", lost=True)
        except Exception as error:  # viewgap is not there, or of another version
            text = f"{type(error).__name__}: {error}"
            return Outcome(task, error=text, traceback=traceback.format_exc())
        return outcome

    def _workers(self) -> dict[str, int]:
        try:
            found: dict[str, int] = self._client.nthreads()
        except Exception as error:
            raise RunError(
                f"the Dask scheduler at {self.address} does not answer any more ({error}); what "
                "is finished is recorded, run again to go on"
            ) from error
        return found

    def _check_workers(self) -> None:
        if self._workers():
            self._last_seen = time.monotonic()
        elif time.monotonic() - self._last_seen > self._patience:
            raise RunError(
                f"the cluster at {self.address} has had no worker for {self._patience:g} s; what "
                "is finished is recorded, run again to go on"
            )


def _distributed() -> Any:
    try:
        return importlib.import_module("distributed")
    except ImportError as error:
        raise SettingError(
            "a Dask scheduler needs the package distributed: pip install 'viewgap[cluster]'"
        ) from error
