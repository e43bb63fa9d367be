"""One thread per model: a bounded queue, and small requests answered together.

Most models answer sample by sample, to the bit whatever lies beside it (DESIGN.md, promise 2):
requests that wait together are predicted as one batch and change none of their answers. A model
whose answers depend on the batch, be it in the last bit only, gets every request by itself.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from viewgap.data.viewset import ViewSet
from viewgap.methods.base import MultiViewClassifier
from viewgap.prediction.blocks import Answers, _answer, answers_by_batch, rounds_by_batch
from viewgap.serve.metrics import ServiceMetrics
from viewgap.serve.models import LoadedModel
from viewgap.serve.settings import busy

BATCH_ROWS = 1024
"""Most rows of requests that are answered together; a larger request is a batch by itself."""


@dataclass(eq=False)
class Job:
    """Rows that wait for an answer. Without `work` they are predicted, else it is called."""

    loaded: LoadedModel
    views: ViewSet
    work: Callable[[LoadedModel, ViewSet], Any] | None = None
    future: Future[Any] = field(default_factory=Future)

    def joins(self, other: Job) -> bool:
        """Whether both can be answered together."""
        same = self.loaded is other.loaded and self.work is None and other.work is None
        fitted = self.loaded.fitted
        return same and not answers_by_batch(fitted) and not rounds_by_batch(fitted)


class ModelWorker:
    """The thread of one model and the requests that wait for it.

    More than `most_waiting` requests are refused with 503. Batches are counted in `metrics`.
    """

    def __init__(self, most_waiting: int, metrics: ServiceMetrics) -> None:
        self._most, self._metrics = most_waiting, metrics
        self._waiting: deque[Job] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._stopped = False

    def __len__(self) -> int:
        return len(self._waiting)

    def submit(self, job: Job) -> Future[Any]:
        """Put a job into the queue; `RequestError` 503 where it is full."""
        with self._changed:
            if self._stopped:
                raise busy("the service is stopping")
            if len(self._waiting) >= self._most:
                raise busy(f"{self._most} requests are waiting already; try again")
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, daemon=True)
                self._thread.start()
            self._waiting.append(job)
            self._changed.notify()
        return job.future

    def start(self) -> None:
        """Take jobs again after `stop`: an application may be started several times."""
        with self._changed:
            if self._stopped:
                self._stopped, self._thread = False, None

    def stop(self) -> None:
        """Answer what is waiting, then end the thread."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(timeout=60)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._stopped)
                if not self._waiting:
                    return
                jobs = self._next_batch()
            # A request that ran out of time is not computed any more.
            running = [job for job in jobs if job.future.set_running_or_notify_cancel()]
            if running:
                self._metrics.count_batch(len(running), sum(len(job.views) for job in running))
                _finish(running)

    def _next_batch(self) -> list[Job]:
        jobs = [self._waiting.popleft()]
        n_rows = len(jobs[0].views)
        while self._waiting and jobs[0].joins(self._waiting[0]):
            n_rows += len(self._waiting[0].views)
            if n_rows > BATCH_ROWS:
                break
            jobs.append(self._waiting.popleft())
        return jobs


def _finish(jobs: Sequence[Job]) -> None:
    """Answer the jobs together; where that fails, each by itself: it is the fault of one."""
    if len(jobs) > 1:
        with suppress(Exception):  # the one whose fault it is meets it again, and is told
            results = _predict_together(jobs)
            for job, result in zip(jobs, results, strict=True):
                job.future.set_result(result)
            return
    for job in jobs:
        try:
            result = (job.work or predict)(job.loaded, job.views)
        except Exception as error:
            job.future.set_exception(error)
        else:
            job.future.set_result(result)


def predict(loaded: LoadedModel, views: ViewSet) -> Answers:
    """Probabilities and decisions of checked rows."""
    return _answer(loaded.fitted, views)


def _predict_together(jobs: Sequence[Job]) -> list[Answers]:
    fitted: MultiViewClassifier = jobs[0].loaded.fitted
    answers = _answer(fitted, _stacked([job.views for job in jobs]))
    ends = np.cumsum([len(job.views) for job in jobs])
    parts = [slice(end - len(job.views), end) for end, job in zip(ends, jobs, strict=True)]
    return [
        Answers(
            job.views.sample_ids,
            answers.no_view[part],
            answers.probabilities[part],
            answers.decisions[part],
        )
        for job, part in zip(jobs, parts, strict=True)
    ]


def _stacked(parts: Sequence[ViewSet]) -> ViewSet:
    """All rows in one set; what `nan` says of missing values was done for each part already."""
    names = parts[0].names
    values = {name: np.concatenate([part.stored(name) for part in parts]) for name in names}
    observed = np.concatenate([part.observed for part in parts])
    return ViewSet(values, observed=observed)._replace(columns=parts[0].feature_names)
