"""The time of a fit: the order of the members, which are left out, and when a network stops.

The estimates are rough. What keeps a fit within its time is that methods look at the clock
themselves: trees and ridge regression between their pieces, networks after every epoch.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise

from viewgap.data.labels import Labels, SparseLabels
from viewgap.data.viewset import ViewSet
from viewgap.interruption import OutOfTimeError
from viewgap.methods.base import MultiViewClassifier, Validation
from viewgap.methods.deep import DeepClassifier
from viewgap.methods.fitting.held_out import FEWEST_ROWS_TO_HOLD_OUT
from viewgap.methods.fitting.processes import device_here
from viewgap.methods.profiled import DataSize
from viewgap.training.callbacks import Callback, TrainingContext
from viewgap.training.processes import any_process, current_processes
from viewgap.training.runtime import choose_runtime
from viewgap.training.settings import DeepSettings

Method = MultiViewClassifier
N_PARTS = 5  # of the generic cross-fit

_MOST_SECONDS = 600.0  # by estimate; a member of the default that takes longer is left out
_USABLE = 0.85  # of the time budget; stacking and whatever was not foreseen take the rest
_FIXED = 0.2  # seconds that even the smallest fit takes after its members
_MARGIN = 3.0  # how many times its estimate a member may take without anybody having to wonder
_ENTRIES_A_SECOND = 2e6  # label entries that are pooled (for every view) or stacked, about
_RATE = 2e10  # multiplications a second in the products of a network, about
_STEP = 4e-3  # seconds that a step takes for two views, however small the network is
_FEWEST_EPOCHS = 10  # a network that would have fewer is not begun
_PATIENCES = 4  # epochs until early stopping, in units of its patience, about


class Schedule:
    """Decides about members by the time that is left.

    `time_budget` is in seconds from `started` on, which is `time.monotonic()` at the beginning of
    the fit.
    """

    def __init__(
        self, views: ViewSet, labels: Labels, time_budget: float | None, started: float
    ) -> None:
        self._views, self._labels = views, labels
        self.deadline = None
        if time_budget is not None:
            stacking = float(labels.n_observed) / _ENTRIES_A_SECOND
            self.deadline = started + _USABLE * time_budget - stacking - _FIXED

    def order(self, models: Mapping[str, MultiViewClassifier]) -> list[str]:
        """Names in the order of fitting: as given, or by time, networks last, if it is limited.

        Networks take the time that is left; everything else takes what it takes.
        """
        if self.deadline is None:
            return list(models)
        return sorted(
            models,
            key=lambda name: (
                isinstance(models[name], DeepClassifier),
                self._seconds(models[name]),
            ),
        )

    def reason_to_leave_out(self, model: Method, waiting: Sequence[Method], must: bool) -> str:
        """Why a member is not even begun, or nothing. `must`: only for lack of time."""
        expected = self._seconds(model)
        if self.deadline is None:
            late = expected > _MOST_SECONDS and not must
            return f"left out: about {expected:,.0f} s" if late else ""
        room = self._room(self.deadline, waiting)
        looks = isinstance(model, DeepClassifier) or hasattr(model, "estimated_seconds")
        if (1.0 if looks else _MARGIN) * expected <= room:
            return ""
        return f"left out: needs about {expected:,.1f} s, there were {max(room, 0.0):,.1f} s for it"

    def deadline_of(self, model: Method, waiting: Sequence[Method]) -> float | None:
        """When a member must have ended, with time for those that wait."""
        if self.deadline is None:
            return None
        room = max(self._room(self.deadline, waiting), _MARGIN * self._seconds(model))
        return min(self.deadline, time.monotonic() + room)

    def expected_seconds(self, model: Method) -> float:
        """About how long a fit takes, of a network until it stops; from sizes, not the clock."""
        seconds = self._seconds(model)
        if not isinstance(model, DeepClassifier):
            return seconds
        settings = _settings_of(model, self._views, self._labels)
        epochs = settings.min_epochs + _PATIENCES * settings.patience
        return seconds * max(1.0, min(settings.max_epochs, epochs) / _FEWEST_EPOCHS)

    def committee(self, model: Method, validation: Validation | None) -> tuple[int, int]:
        """Networks that processes could train one each, and steps of an epoch; 1 and 1 if none.

        Of a committee that is cross-fitted, on a CPU. On GPUs only if the group asks for it: two
        would save a tenth (`benchmarks/recorded_processes.json`), and one leaves the CPU to the
        other members.
        """
        few = len(self._labels) < FEWEST_ROWS_TO_HOLD_OUT
        if not isinstance(model, DeepClassifier) or isinstance(self._labels, SparseLabels) or few:
            return 1, 1
        settings = _settings_of(model, self._views, self._labels)
        group = current_processes()
        on_gpu = choose_runtime(device_here(model.device)).device.type == "cuda"
        if on_gpu and not (group is not None and group.committee == "deal"):
            return 1, 1
        if not model._cross_fits(settings, validation):
            return 1, 1
        return settings.n_networks, math.ceil(len(self._views) / settings.batch_size)

    def _room(self, deadline: float, waiting: Sequence[Method]) -> float:
        """Seconds for a member: half of what is left, if there would be time for another."""
        left = deadline - time.monotonic()
        return left / 2 if any(self._seconds(other) <= left for other in waiting) else left

    def _seconds(self, model: MultiViewClassifier) -> float:
        return estimated_seconds(model, self._views, self._labels)


class StopInTime(Callback):
    """Ends the training of a network while there is time for what comes after it.

    That is, predicting the rows that were left out and pooling the views (`after` seconds).
    """

    def __init__(self, deadline: float, after: float) -> None:
        self._deadline, self._after = deadline, after
        self._last, self._longest = 0.0, 0.0

    def on_train_begin(self, context: TrainingContext) -> None:
        """Begin to measure; a restored fit may have had its time."""
        self._last = time.monotonic()
        late = bool(context.epoch) and self._deadline - self._last < self._after
        if any_process(late):
            context.request_stop()

    def on_epoch_end(self, context: TrainingContext) -> None:
        """Stop if another epoch could end too late; give up if this one did."""
        now = time.monotonic()
        self._longest, self._last = max(self._longest, now - self._last), now
        left = self._deadline - now
        if any_process(left < 0):
            raise OutOfTimeError
        if left < 2.0 * self._longest + self._after:
            context.request_stop()


def pooling_seconds(views: ViewSet, labels: Labels) -> float:
    """About how long it takes to pool the views of these rows."""
    return float(views.observed.sum()) * labels.n_labels / _ENTRIES_A_SECOND


def estimated_seconds(model: MultiViewClassifier, views: ViewSet, labels: Labels) -> float:
    """About how long a fit takes on one processor, of a network `_FEWEST_EPOCHS` epochs."""
    own = getattr(model, "estimated_seconds", None)
    if isinstance(model, DeepClassifier):
        epochs = _FEWEST_EPOCHS * _epoch_seconds(model, views, labels)
        return epochs + pooling_seconds(views, labels)
    # Methods without an out-of-fold answer of their own are fitted once more for every part.
    fits = 1 if model.predicts_out_of_fold else N_PARTS + 1
    if own is not None:
        return fits * float(own(views, labels))
    values = float((views.observed * views.dims).sum())
    smaller = min(len(views), max(views.dims))
    return fits * values * (smaller + labels.n_labels) * 50 / _RATE


def _epoch_seconds(model: DeepClassifier, views: ViewSet, labels: Labels) -> float:
    settings = _settings_of(model, views, labels)
    layers = [int(units) for units in getattr(settings, "hidden", (512,))]
    weights = sum(d * layers[0] for d in views.dims)
    weights += views.n_views * sum(a * b for a, b in pairwise(layers))
    steps = math.ceil(len(views) / int(settings.batch_size))
    arithmetic = 6.0 * weights / views.n_views * float(views.observed.sum()) / _RATE
    return int(settings.n_networks) * (arithmetic + steps * _STEP * views.n_views / 2)


def _settings_of(model: DeepClassifier, views: ViewSet, labels: Labels) -> DeepSettings:
    settings: DeepSettings = model._resolve(
        labels.n_labels, DataSize(len(views), labels.n_observed)
    )
    return settings
