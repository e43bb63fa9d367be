"""Ctrl-C and SIGTERM: a fit that can keep what it has learned ends at its next good moment.

Only the command line listens to signals (`stop_on_signals`); in Python, Ctrl-C raises
KeyboardInterrupt at once, as everywhere. A fit says with `deferred` where it looks at
`stop_requested` by itself; everywhere else, and with the second signal, work ends at once.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType

_NOTICE = b"viewgap: stopping at the end of this epoch or member; once more stops at once\n"
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(KeyboardInterrupt):
    """Work was ended by a signal; `at_once`: nothing may be done any more."""

    def __init__(self, number: int = signal.SIGINT, at_once: bool = True) -> None:
        super().__init__(signal.Signals(number).name)
        self.signal, self.at_once = number, at_once

    @property
    def exit_code(self) -> int:
        """What a shell expects of a process that a signal ended: 130 or 143."""
        return 128 + self.signal


class OutOfTimeError(Exception):
    """A fit was given up at the deadline that its caller had set."""


class _Listener:
    """What the signals of this process have asked for."""

    def __init__(self) -> None:
        self.requested: int | None = None
        self.deferring = 0
        self.notice = True

    def handle(self, number: int, frame: FrameType | None) -> None:
        if not self.deferring or self.requested is not None:
            raise Interrupted(number)
        self.requested = number
        if self.notice:
            say_stopping()


_listener = _Listener()


def say_stopping() -> None:
    """Say on stderr what the first signal does."""
    with contextlib.suppress(OSError):
        os.write(2, _NOTICE)  # printing is not safe here: it may be what was interrupted


@contextlib.contextmanager
def without_notice() -> Iterator[None]:
    """A signal inside is told of by another process."""
    _listener.notice = False
    try:
        yield
    finally:
        _listener.notice = True


def stop_requested() -> bool:
    """Whether a signal has asked to stop at the next good moment."""
    return _listener.requested is not None


def requested_signal() -> int | None:
    """The number of that signal."""
    return _listener.requested


def raise_if_requested() -> None:
    """Raise `Interrupted` where a signal has asked to stop."""
    if _listener.requested is not None:
        raise Interrupted(_listener.requested, at_once=False)


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """Work inside looks at `stop_requested`: the first signal only sets it."""
    _listener.deferring += 1
    try:
        yield
    finally:
        _listener.deferring -= 1


@contextlib.contextmanager
def termination_as_interrupt() -> Iterator[list[Interrupted]]:
    """SIGTERM inside raises `Interrupted` as Ctrl-C raises KeyboardInterrupt: work is cleaned up.

    What was raised is in the list that is given: others may take it for any KeyboardInterrupt. A
    process that was told to do something else with the signal, or ignores it, goes on doing so.
    """
    raised: list[Interrupted] = []

    def terminate(number: int, frame: FrameType | None) -> None:
        raised.append(Interrupted(number))
        raise raised[-1]

    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield raised
        return
    signal.signal(signal.SIGTERM, terminate)
    try:
        yield raised
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextlib.contextmanager
def stop_on_signals() -> Iterator[None]:
    """Listen to Ctrl-C and SIGTERM inside; afterwards all is as before.

    A signal that the process was told to ignore (nohup) stays ignored. In any thread but the main
    one, where Python does not let anyone listen, nothing happens.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _listener.requested = None
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    heard = [number for number in _SIGNALS if before[number] is not signal.SIG_IGN]
    for number in heard:
        signal.signal(number, _listener.handle)
    try:
        yield
    finally:
        for number in heard:
            signal.signal(number, before[number])
        _listener.requested = None
