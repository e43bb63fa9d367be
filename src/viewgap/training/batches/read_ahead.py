"""Batches that a thread reads and prepares while the step before them computes."""

from __future__ import annotations

import contextvars
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Generic, TypeVar

Item = TypeVar("Item")


class _Reader(Generic[Item]):
    """One thread that makes items in order, at most `depth` of them ahead."""

    def __init__(self, make: Callable[[int], Item], count: int, depth: int) -> None:
        self._make, self._count, self._depth = make, count, depth
        self._made: deque[Item] = deque()
        self._error: BaseException | None = None
        self._stopped = False
        self._changed = threading.Condition()
        run = partial(contextvars.copy_context().run, self._run)  # messages in the same words
        self._thread = threading.Thread(target=run, name="viewgap-read-ahead", daemon=True)

    def start(self) -> None:
        """Begin with the first item."""
        self._thread.start()

    def _run(self) -> None:
        try:
            for number in range(self._count):
                item = self._make(number)
                with self._changed:
                    self._changed.wait_for(self._has_room)
                    if self._stopped:
                        return
                    self._made.append(item)
                    self._changed.notify_all()
        except BaseException as error:  # whatever it is, it belongs to who asked for the items
            with self._changed:
                self._error = error
                self._changed.notify_all()

    def _has_room(self) -> bool:
        return self._stopped or len(self._made) < self._depth

    def __iter__(self) -> Iterator[Item]:
        for _ in range(self._count):
            with self._changed:
                self._changed.wait_for(lambda: self._made or self._error is not None)
                if not self._made and self._error is not None:
                    raise self._error
                item = self._made.popleft()
                self._changed.notify_all()
            yield item

    def close(self) -> None:
        """Stop after the item in work, and wait for that."""
        with self._changed:
            self._stopped = True
            self._made.clear()
            self._changed.notify_all()
        if self._thread.ident is not None:
            self._thread.join()


@contextmanager
def read_ahead(make: Callable[[int], Item], count: int, depth: int) -> Iterator[Iterator[Item]]:
    """Iterate over `make(0)`, ..., `make(count - 1)`, made by a thread that is `depth` ahead.

    Without a thread where `depth` is 0. An error of `make` is raised where its item would have
    come. The thread ends with the context, however that is left.

    Examples
    --------
    >>> with read_ahead(lambda number: number**2, 4, depth=2) as squares:
    ...     list(squares)
    [0, 1, 4, 9]
    """
    if depth < 1 or count < 2:
        yield map(make, range(count))
        return
    reader = _Reader(make, count, depth)
    try:
        reader.start()  # in here: an interrupt may come as soon as the thread runs
        yield iter(reader)
    finally:
        reader.close()
