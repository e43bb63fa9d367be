"""Who runs the tasks: this process, processes on this machine, or (in `cluster`) a Dask cluster."""

from __future__ import annotations

import concurrent.futures
import os
import sys
import threading
import time
import traceback
from abc import abstractmethod
from collections.abc import Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import joblib
from joblib.externals.loky import ProcessPoolExecutor

from viewgap import methods
from viewgap.bench.results.record import Record
from viewgap.bench.run.execute import load_task_data, run_task
from viewgap.bench.run.notes import collected
from viewgap.bench.run.task import Task
from viewgap.bench.run.task_data import in_memory, take_over
from viewgap.datasets import Dataset

_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
# Number formats and threads are settings of a process: two tasks in one would disturb each other.
_ONE_AT_A_TIME = threading.Lock()


@dataclass(frozen=True)
class Outcome:
    """How a task ended: with a record, with an error and its traceback, or with its worker.

    `notes` are viewgap's warnings meanwhile.
    """

    task: Task
    record: Record | None = None
    error: str = ""
    traceback: str = ""
    lost: bool = False
    notes: tuple[str, ...] = ()


class Workers(AbstractContextManager["Workers"]):
    """Something that runs tasks; used as a context."""

    def __exit__(self, *details: object) -> None:
        """Nothing to close."""

    @abstractmethod
    def slots(self) -> int:
        """How many tasks can run at the same time, now."""

    @abstractmethod
    def submit(self, task: Task) -> None:
        """Start a task."""

    @abstractmethod
    def wait(self, seconds: float) -> list[Outcome]:
        """Tasks that ended, after at most this time where that can be helped."""


def attempt(task: Task, threads: int | None = None, device: str | None = None) -> Outcome:
    """Run a task; an error is an outcome like any other."""
    with _ONE_AT_A_TIME, collected() as notes:
        try:
            if threads is not None:
                _pin_threads(task, threads)
            load_task_data(task)
            if task.files:
                notes.clear()  # the runner has read these files before, and has told them
            outcome = Outcome(task, record=run_task(task, device=device))
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            outcome = Outcome(task, error=text, traceback=traceback.format_exc())
    return replace(outcome, notes=tuple(dict.fromkeys(notes)))


def deal(number: int, devices: Sequence[str]) -> str | None:
    """The device of the task with this number: one after the other; None = the method's choice."""
    return devices[number % len(devices)] if len(devices) > 1 else None


def cuda_devices() -> list[str]:
    """Names of the GPUs; without torch (no deep method was asked for) there are none to deal."""
    torch = sys.modules.get("torch")
    count = torch.cuda.device_count() if torch is not None else 0
    return [f"cuda:{index}" for index in range(count)]


class Here(Workers):
    """Tasks run in this process, one after the other."""

    def __init__(self) -> None:
        self._tasks: list[Task] = []

    def slots(self) -> int:
        """One."""
        return 1

    def submit(self, task: Task) -> None:
        """Remember the task: it runs when it is waited for."""
        self._tasks.append(task)

    def wait(self, seconds: float) -> list[Outcome]:
        """Run what was submitted."""
        outcomes = [attempt(task) for task in self._tasks]
        self._tasks.clear()
        return outcomes


class Processes(Workers):
    """Tasks run in `jobs` processes (joblib's loky) that share the cores and the GPUs.

    Its executor is used as it is: `joblib.Parallel` takes tasks as it likes, while a task has to
    be claimed the moment it starts, and gives up altogether when one worker is killed.
    """

    def __init__(self, jobs: int, devices: Sequence[str] = ()) -> None:
        self._jobs, self._devices = jobs, list(devices)
        self._threads = max(1, joblib.cpu_count() // jobs)
        self._running: dict[concurrent.futures.Future[Outcome], Task] = {}
        self._started = 0
        self._executor: Any = None

    def __exit__(self, *details: object) -> None:
        self._stop()

    def slots(self) -> int:
        """As many as there are processes."""
        return self._jobs

    def submit(self, task: Task) -> None:
        """Hand the task to a process; the pool is made anew where one died."""
        call = (attempt, task, self._threads, deal(self._started, self._devices))
        try:
            future = self._pool().submit(*call)
        except (BrokenProcessPool, RuntimeError):
            self._stop()
            future = self._pool().submit(*call)
        self._started += 1
        self._running[future] = task

    def wait(self, seconds: float) -> list[Outcome]:
        """Tasks that ended; one whose process died is lost, as are those beside it."""
        first = concurrent.futures.FIRST_COMPLETED
        done, _ = concurrent.futures.wait(self._running, timeout=seconds, return_when=first)
        return [_outcome(future, self._running.pop(future)) for future in done]

    def _pool(self) -> Any:
        if self._executor is None:
            environment = dict.fromkeys(_THREAD_VARIABLES, str(self._threads))
            self._executor = ProcessPoolExecutor(
                self._jobs, env=environment, initializer=_begin, initargs=(os.getpid(), in_memory())
            )
        return self._executor

    def _stop(self) -> None:
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=True, kill_workers=True)


def _outcome(future: concurrent.futures.Future[Outcome], task: Task) -> Outcome:
    try:
        return future.result(timeout=0)
    except BrokenProcessPool as error:
        return Outcome(task, error=f"its process died: {error}", lost=True)
    except Exception as error:  # what came back could not be read
        return Outcome(task, error=repr(error), traceback=traceback.format_exc())


def _pin_threads(task: Task, threads: int) -> None:
    methods.get(task.method)  # imports torch, where the method needs it
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(threads)


def _begin(parent: int, datasets: dict[str, Dataset]) -> None:
    """Prepare a worker of the process `parent`, which keeps these data sets in memory."""
    take_over(datasets)
    _end_with(parent)


def _end_with(parent: int) -> None:
    """Let a worker end with the runner, even one that was killed and could not tell it to."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    if os.name == "posix":
        threading.Thread(target=watch, daemon=True).start()
