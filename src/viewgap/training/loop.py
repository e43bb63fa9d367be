"""The one training loop: epochs of named loss terms, validation and callbacks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from viewgap.training.batches.source import BatchSource
from viewgap.training.callbacks import Callback, EarlyStopping, History, TrainingContext
from viewgap.training.committee import networks_of
from viewgap.training.divergence import REFUSED_BY_TORCH, broken_term, divergence
from viewgap.training.fit_state import FitState
from viewgap.training.processes import agreed, any_process, current_processes, is_main_process
from viewgap.training.settings import TrainingSettings
from viewgap.training.steps.dealt import DealtSteps
from viewgap.training.steps.epoch import Steps, make_steps
from viewgap.training.steps.replay import Replay


def train(
    state: FitState,
    source: BatchSource,
    settings: TrainingSettings,
    score: Callable[[], float] | None = None,
    callbacks: Sequence[Callback] = (),
    workers: int = 1,
) -> None:
    """Train until `max_epochs`, or until a callback asks to stop, and keep the best weights.

    Parameters
    ----------
    state : FitState
        The network and all else that changes; a restored one goes on where it was.
    source : BatchSource
        The training rows.
    settings : TrainingSettings
        How to train.
    score : callable, optional
        Returns the validation score of the network as it is now, NaN if it has none.
    callbacks : sequence of Callback
        Called after the loop's own, early stopping and history.
    workers : int
        Threads that the networks of a committee are dealt out to on a CPU.
    """
    context = TrainingContext(state, settings)
    own = [c for c in callbacks if is_main_process() or not c.only_main]
    everyone = [EarlyStopping(), History(), *own]
    steps = _make_steps(state, source, settings, workers)
    network = state.evaluated()
    finish = Replay(lambda: network.finish_epoch(source), source.replay_device)
    with context.resources:
        for callback in everyone:
            callback.on_train_begin(context)
        while state.epoch < settings.max_epochs and not context.stop_requested:
            state.epoch += 1
            for callback in everyone:
                callback.on_epoch_begin(context)
            metrics = _run_epoch(state, source, steps, settings)
            # Before the callbacks: a checkpoint of such weights could never be gone on from.
            if not _is_finite(state):
                raise divergence(state.epoch, "some weights are not finite")
            context.metrics = metrics | state.network.epoch_metrics()
            network.eval()
            with torch.no_grad():
                if network.finishes_epochs:
                    finish()
                value = math.nan if score is None else agreed(score)
            context.score = None if math.isnan(value) else value
            if context.score is not None:
                context.metrics["validation_score"] = context.score
            for callback in everyone:
                callback.on_epoch_end(context)
            context.stop_requested = any_process(context.stop_requested)
        steps.close()
        for callback in everyone:
            callback.on_train_end(context)
    state.release()
    state.network.end_training()
    state.network.eval()


def _make_steps(
    state: FitState, source: BatchSource, settings: TrainingSettings, workers: int
) -> Steps:
    """Of a process alone, of one that has a part of every batch, or of one that has networks."""
    group = current_processes()
    if group is not None and group.deals_out(len(networks_of(state.network))):
        return DealtSteps(state, source, settings, group)
    return make_steps(state, source, settings, workers)


def _run_epoch(
    state: FitState, source: BatchSource, steps: Steps, settings: TrainingSettings
) -> dict[str, float]:
    """One pass over the training rows; returns the mean of every loss term."""
    state.network.train()
    state.network.begin_epoch()
    order = state.order if settings.shuffle else None
    batches = source.batches_of_epoch(settings.batch_size, order)
    try:
        totals = steps.run(batches)
    except RuntimeError as error:
        if REFUSED_BY_TORCH not in str(error):
            raise
        raise divergence(state.epoch, "some probabilities are not finite") from error
    means = torch.stack(list(totals.values())).sum(dim=1).cpu() / len(batches[0])
    metrics = dict(zip(totals, means.tolist(), strict=True))
    broken = broken_term(metrics)
    if broken is not None:
        raise divergence(state.epoch, broken)
    return {"loss": sum(metrics.values())} | metrics


def _is_finite(state: FitState) -> bool:
    return bool(torch.stack([p.isfinite().all() for p in state.network.parameters()]).all())
