"""Callbacks that keep a fit on the disk, and that end it early when a signal asks for it."""

from __future__ import annotations

import time
from typing import Any

from viewgap.checkpoints import CheckpointFolder, epoch_step
from viewgap.errors import CheckpointError
from viewgap.interruption import deferred, stop_requested
from viewgap.training.callbacks import Callback, TrainingContext
from viewgap.training.fit_state import FitState
from viewgap.training.processes import any_process, current_processes, is_main_process

# A step is written when this many times as long as writing takes has passed since the last one: a
# tenth of the time of a fit at most. Small networks are kept after (almost) every epoch.
SPACING = 9.0


class StopOnSignal(Callback):
    """Ends training after the epoch in which Ctrl-C or SIGTERM came; see `interruption`.

    After the callbacks that stop for reasons of their own: a fit that has ended anyway was not
    interrupted.
    """

    def on_train_begin(self, context: TrainingContext) -> None:
        """From here on a signal waits for the end of an epoch."""
        context.resources.enter_context(deferred())

    def on_epoch_end(self, context: TrainingContext) -> None:
        """Look for a signal."""
        ended = context.stop_requested or context.epoch >= context.settings.max_epochs
        if any_process(stop_requested()) and not ended:
            context.state.interrupted = True
            context.request_stop()


class EpochCheckpoints(Callback):
    """Writes the state of a fit after its epochs; the last of all callbacks.

    Parameters
    ----------
    folder : CheckpointFolder
        Where the steps are kept.
    fixed : dict
        What must be the same for a fit that goes on, besides its data and parameters: known only
        when the network is there.
    """

    def __init__(self, folder: CheckpointFolder, fixed: dict[str, Any]) -> None:
        self._folder, self._fixed = folder, fixed
        self._written, self._cost = time.monotonic(), 0.0
        self._ended = False

    def restore(self, state: FitState) -> None:
        """Let the fit go on where it was, if it had begun."""
        group = current_processes()
        loaded = self._folder.load() if group is None else group.on_main(self._folder.load)
        if loaded is None:
            return
        step, saved = loaded
        path = self._folder.path / step
        for name, now in self._fixed.items():
            before = saved.metadata.get(name)
            if before != now:
                raise CheckpointError(
                    f"{path} belongs to another fit: {name} was {str(before)[:60]!r}, and is "
                    f"{now!r} now; go on where it began, or begin anew in another folder"
                )
        try:
            state.restore(saved)
            self._ended = bool(saved.metadata["ended"])
        except (RuntimeError, ValueError, KeyError, IndexError, TypeError) as error:
            raise CheckpointError(
                f"{path} does not hold the state of this fit ({str(error)[:200]}); begin anew in "
                "another folder"
            ) from error

    def on_train_begin(self, context: TrainingContext) -> None:
        """A restored fit may have ended already."""
        if self._ended:
            context.request_stop()

    def on_epoch_end(self, context: TrainingContext) -> None:
        """Write the state, unless that was done just now and there will be another epoch.

        Every process of a fit has the same state; the first one writes it.
        """
        if not is_main_process():
            return
        start = time.monotonic()
        stops = context.stop_requested or context.epoch >= context.settings.max_epochs
        if not stops and start - self._written < SPACING * self._cost:
            return
        saved = context.state.save()
        ended = context.stop_requested and not context.state.interrupted
        saved.metadata |= {"ended": ended, **self._fixed}
        self._folder.save(epoch_step(context.epoch), saved)
        self._written = time.monotonic()
        self._cost = self._written - start
