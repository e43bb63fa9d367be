"""Callbacks: what happens before and after training and every epoch, besides the training itself.

The loop's own early stopping and history are callbacks, and so is the progress bar. Own ones are
passed as `callbacks=` of a method: checkpoints, logging, another way to stop.
"""

from __future__ import annotations

import math
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, ClassVar

from viewgap.constraints import Constraint
from viewgap.training.fit_state import FitState
from viewgap.training.settings import TrainingSettings


@dataclass
class TrainingContext:
    """What a callback is given.

    Attributes
    ----------
    state : FitState
        Network, optimiser, random generators, best weights and history; `state.save()` has all that
        is needed to go on later.
    settings : TrainingSettings
        How the network is trained.
    metrics : dict of str to float
        Loss terms of the last epoch and what else was measured in it.
    score : float or None
        Validation score of the last epoch; None if there are no rows that could have one.
    resources : ExitStack
        Closed when training ends, also by an error: for files and displays that a callback opens.
    """

    state: FitState
    settings: TrainingSettings
    metrics: dict[str, float] = field(default_factory=dict)
    score: float | None = None
    resources: ExitStack = field(default_factory=ExitStack)
    stop_requested: bool = False

    @property
    def epoch(self) -> int:
        """Number of the epoch, from 1."""
        return self.state.epoch

    @property
    def history(self) -> dict[str, list[float]]:
        """The metrics of all epochs so far."""
        return self.state.history

    def request_stop(self) -> None:
        """End training before the next epoch."""
        self.stop_requested = True


class Callback:
    """Base of the callbacks; every method does nothing.

    Where several processes train one model, each of them calls its callbacks, so that one that
    changes the training changes it everywhere. `only_main`: called by the first process alone, for
    one that writes or shows something.

    Examples
    --------
    >>> import numpy as np, viewgap
    >>> from viewgap.training.callbacks import Callback
    >>> class StopWhenGood(Callback):
    ...     def on_epoch_end(self, context):
    ...         if context.metrics["loss"] < 100.0:
    ...             context.request_stop()
    >>> X = {"a": np.random.default_rng(0).normal(size=(40, 6))}
    >>> Y = (X["a"][:, :2] > 0).astype(float)
    >>> viewgap.DICNet(callbacks=[StopWhenGood()], random_state=0).fit(X, Y).n_epochs_
    1
    """

    only_main: ClassVar[bool] = False

    def on_train_begin(self, context: TrainingContext) -> None:
        """Before the first epoch."""

    def on_epoch_begin(self, context: TrainingContext) -> None:
        """Before a pass over the training rows."""

    def on_epoch_end(self, context: TrainingContext) -> None:
        """After the pass and its validation; `context.history` holds this epoch."""

    def on_train_end(self, context: TrainingContext) -> None:
        """After the last epoch, with the weights that are kept."""


class Callbacks(Constraint):
    """A list or tuple of callbacks."""

    @property
    def text(self) -> str:
        """See `Constraint`."""
        return "a list of viewgap.training.callbacks.Callback objects"

    def accepts(self, value: Any) -> bool:
        """See `Constraint`."""
        return isinstance(value, list | tuple) and all(isinstance(c, Callback) for c in value)


class EarlyStopping(Callback):
    """Keeps the weights of the best epoch, and stops when none has been better for a while.

    Without a score there is nothing to stop by, and the last weights are kept.
    """

    def on_train_begin(self, context: TrainingContext) -> None:
        """A restored fit may have ended already."""
        self._check_patience(context)

    def on_epoch_end(self, context: TrainingContext) -> None:
        """Compare this epoch with the best one."""
        if context.score is not None and context.epoch >= context.settings.min_epochs:
            context.state.keep_if_best(context.score)
        self._check_patience(context)

    def on_train_end(self, context: TrainingContext) -> None:
        """Put the best weights back."""
        context.state.load_best()

    def _check_patience(self, context: TrainingContext) -> None:
        state, settings = context.state, context.settings
        since = state.best_epoch if settings.ties_renew_patience else state.improved_epoch
        if state.best_weights and state.epoch - since > settings.patience:
            context.request_stop()


class History(Callback):
    """Keeps the metrics of every epoch."""

    def on_epoch_end(self, context: TrainingContext) -> None:
        """Append this epoch's metrics."""
        context.state.record(context.metrics)


def progress(title: str) -> Callback:
    """A bar where stderr is a terminal, else lines."""
    return Progress(title) if sys.stderr.isatty() else ProgressLines(title)


class ProgressLines(Callback):
    """Prints the first epoch, one about every `seconds`, and the end of training on stderr."""

    only_main = True

    def __init__(self, title: str, seconds: float = 10.0) -> None:
        self.title, self.seconds = title, seconds

    def on_train_begin(self, context: TrainingContext) -> None:
        """Begin to measure."""
        self._first_epoch, self._started = context.epoch, time.monotonic()
        self._last = -math.inf

    def on_epoch_end(self, context: TrainingContext) -> None:
        """Print a line if it is time for one."""
        now = time.monotonic()
        if now - self._last < self.seconds:
            return
        self._last = now
        rate = (now - self._started) / (context.epoch - self._first_epoch)
        left = rate * (context.settings.max_epochs - context.epoch)
        self._say(
            f"epoch {context.epoch}, {summary_line(context.state)}, at most {left:.0f} s left"
        )

    def on_train_end(self, context: TrainingContext) -> None:
        """Print how it ended."""
        best = context.state.best_epoch or context.epoch
        seconds = time.monotonic() - self._started
        self._say(f"ended after {context.epoch} epochs, {seconds:.0f} s; kept epoch {best}")

    def _say(self, text: str) -> None:
        print(f"{self.title}: {text}", file=sys.stderr, flush=True)


class Progress(Callback):
    """Shows a bar, the time left and the last epoch's metrics on the terminal (stderr).

    The time is what all `max_epochs` would take: training may end before.
    """

    only_main = True

    def __init__(self, title: str) -> None:
        self.title = title

    def on_train_begin(self, context: TrainingContext) -> None:
        """Show an empty bar."""
        from rich.console import Console, Group
        from rich.live import Live
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )
        from rich.progress import Progress as Bars
        from rich.text import Text

        # The metrics get a line of their own: beside the bar, a narrow terminal would cut them off.
        self._bars: Any = Bars(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("epochs"),
            TimeElapsedColumn(),
            TextColumn("at most"),
            TimeRemainingColumn(),
            TextColumn("left"),
        )
        self._task = self._bars.add_task(self.title, total=context.settings.max_epochs)
        self._metrics: Any = Text("starting", style="dim")
        shown = Group(self._bars, self._metrics)
        context.resources.enter_context(
            Live(shown, console=Console(stderr=True), refresh_per_second=8)
        )

    def on_epoch_end(self, context: TrainingContext) -> None:
        """Move the bar."""
        self._bars.update(self._task, completed=context.epoch)
        self._metrics.plain = summary_line(context.state)


def summary_line(state: FitState) -> str:
    """Validation score, loss terms and further metrics of the last epoch."""
    last = {name: values[-1] for name, values in state.history.items()}
    score = last.pop("validation_score", None)
    parts = [f"{name.replace('_', ' ')} {value:.3f}" for name, value in last.items()]
    if score is not None:
        # In the first `min_epochs` no score counts, and there is no best one yet.
        best = f"best {state.best_score:.4f}, epoch {state.best_epoch}"
        parts.insert(0, f"validation {score:.4f} ({best if state.best_epoch else 'best –'})")
    return " · ".join(parts)
