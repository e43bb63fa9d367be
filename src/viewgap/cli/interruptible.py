"""Ctrl-C and SIGTERM during `viewgap fit`: what was kept, and the command that goes on."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import typer

from viewgap.cli.output import say
from viewgap.errors import printable
from viewgap.interruption import Interrupted, requested_signal, stop_on_signals


class Interruptible:
    """A fit that signals end, with the exit codes that a shell expects.

    `words` are those of the command line; `overwrite`: it already replaces a model.
    """

    def __init__(
        self, words: Sequence[str], out: Path, checkpoint: Path | None, overwrite: bool
    ) -> None:
        self._words = words
        self._out, self._checkpoint, self._overwrite = out, checkpoint, overwrite
        self._stack = ExitStack()
        self._signal: int | None = None

    def __enter__(self) -> Self:
        self._stack.enter_context(stop_on_signals())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._signal = requested_signal()
        self._stack.close()
        if isinstance(error, Interrupted):
            if self._checkpoint is None:
                say("nothing was saved")
            else:
                self._say_how_to_go_on(self._overwrite)
            raise typer.Exit(error.exit_code) from error

    def saved_early(self) -> int:
        """Tell of the model that was saved before its training had ended; the exit code."""
        say(f"{self._out}: saved as it was when the signal came; training had not ended")
        if self._checkpoint is None:
            say("with --checkpoint DIR, a fit can go on after it was interrupted")
        else:
            self._say_how_to_go_on(overwrite=True)
        return Interrupted(self._signal or 2).exit_code

    def resume_words(self, overwrite: bool) -> list[str] | None:
        """The command line that goes on, without the program; None without a checkpoint."""
        if self._checkpoint is None:
            return None
        more = ["--resume"] * ("--resume" not in self._words)
        more += ["--overwrite"] * (overwrite and not self._overwrite)
        return [*self._words, *more]

    def command_that_goes_on(self, overwrite: bool = False) -> str | None:
        """The same as a line for a shell."""
        words = self.resume_words(overwrite)
        return None if words is None else shlex.join(["viewgap", *words])

    def _say_how_to_go_on(self, overwrite: bool) -> None:
        command = self.command_that_goes_on(overwrite)
        print(printable(f"to go on: {command}"), file=sys.stderr)  # with its spaces as they are
