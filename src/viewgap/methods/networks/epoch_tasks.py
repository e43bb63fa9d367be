"""The epochs of a network as tasks of scikit-learn's callbacks."""

from __future__ import annotations

from typing import Any

from viewgap.training.callbacks import Callback, TrainingContext


class EpochTasks(Callback):
    """Tells scikit-learn's callbacks of every epoch; one that asks to stop ends the training."""

    def __init__(self, estimator: Any, fit_task: Any) -> None:
        self._estimator = estimator
        self._fit_task = fit_task

    def on_epoch_begin(self, context: TrainingContext) -> None:
        """A task begins."""
        self._epoch = self._fit_task.subcontext(task_name="epoch")
        self._epoch.call_on_fit_task_begin(estimator=self._estimator)

    def on_epoch_end(self, context: TrainingContext) -> None:
        """The task ends."""
        if self._epoch.call_on_fit_task_end(estimator=self._estimator):
            context.request_stop()


def epoch_tasks(estimator: Any) -> list[Callback]:
    """The callback that tells scikit-learn's of the epochs, if the estimator has any."""
    fit_task = vars(estimator).get("_callback_fit_ctx")
    return [] if fit_task is None else [EpochTasks(estimator, fit_task)]
