"""Notes of fits: collected where a task runs, and each told once for all tasks that had it."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from viewgap.bench.run.task import Task
from viewgap.errors import ViewgapWarning

# Numbers, and what stands in brackets, are of one fit: how many samples, and the first of them.
_DETAILS = re.compile(r"\([^()]*\)|[-+]?\d[\d.,]*(?:e[-+]?\d+)?")


@contextmanager
def collected() -> Iterator[list[str]]:
    """Collect the texts of viewgap's warnings inside; all others are shown as ever."""
    texts: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("always", ViewgapWarning)
        usual = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
            if issubclass(category, ViewgapWarning):
                texts.append(str(message))
            else:
                usual(message, category, *rest, **more)

        warnings.showwarning = show
        yield texts


class Notes:
    """The notes of many tasks; those that differ in details only count as one."""

    def __init__(self) -> None:
        self._n_tasks = 0
        self._methods: set[str] = set()
        self._found: dict[str, dict[str, Task]] = {}  # by what is alike: task ids, in order
        self._texts: dict[str, list[str]] = {}

    def add(self, task: Task, texts: Iterable[str]) -> None:
        """Keep what a task had to say, nothing perhaps."""
        self._n_tasks += 1
        self._methods.add(task.method)
        for text in texts:
            kind = _DETAILS.sub("#", text)
            self._found.setdefault(kind, {})[task.id] = task
            self._texts.setdefault(kind, []).append(text)

    def tell(self) -> None:
        """Warn of each note once, with how many tasks had it, and of which methods."""
        for kind, tasks in self._found.items():
            first = self._texts[kind][0]
            others = sum(text != first for text in self._texts[kind])
            varied = f"; {others} times with other details" if others else ""
            told = f"{first} ({self._where(list(tasks.values()))}{varied})"
            warnings.warn(told, ViewgapWarning, stacklevel=5)  # whoever called `compare`

    def _where(self, tasks: list[Task]) -> str:
        if len(tasks) == 1:
            return tasks[0].title
        if len(tasks) == self._n_tasks:
            return f"in all {self._n_tasks} fits"
        names = list(dict.fromkeys(task.method for task in tasks))
        methods = "every method" if len(names) == len(self._methods) > 1 else ", ".join(names)
        return f"in {len(tasks)} of {self._n_tasks} fits, of {methods}; first: {tasks[0].title}"
