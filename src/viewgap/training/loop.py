"""The one training loop: epochs of named loss terms, validation, early stopping, best weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch

from viewgap.errors import RunError, parameter
from viewgap.training.batches import BatchSource, batches_of_epoch
from viewgap.training.fit_state import FitState
from viewgap.training.replay import Replay
from viewgap.training.steps import LoopSettings, Steps, make_steps

# What torch's cross-entropy says to a NaN; a sigmoid gives nothing else that it could refuse.
_REFUSED_BY_TORCH = "should be between 0 and 1"


def train(
    state: FitState,
    source: BatchSource,
    settings: LoopSettings,
    score: Callable[[], float] | None,
    after_epoch: Callable[[FitState], None],
) -> None:
    """Train until `max_epochs`, or until the score has not improved for `patience` epochs.

    Scores of the first `min_epochs` do not count: a few held-out rows can make a network look good
    that has hardly begun. Without a score there is nothing to stop by, and the last weights are
    kept.
    """
    steps = make_steps(state, source, settings)
    network = state.evaluated()
    finish = Replay(lambda: network.finish_epoch(source), source.replay_device)
    while state.epoch < settings.max_epochs and not _out_of_patience(state, settings):
        state.epoch += 1
        facts = _run_epoch(state, len(source), steps, settings)
        facts |= state.network.epoch_facts()
        network.eval()
        with torch.no_grad():
            if network.finishes_epochs:
                finish()
            value = math.nan if score is None else score()
        if not math.isnan(value):
            facts["validation_score"] = value
            if state.epoch >= settings.min_epochs:
                state.keep_if_best(value)
        state.record(facts)
        after_epoch(state)
    steps.close()
    state.load_best()
    if not _is_finite(state):
        raise divergence(state.epoch, "some weights are not finite")
    state.release()
    state.network.end_training()
    state.network.eval()


def _out_of_patience(state: FitState, settings: LoopSettings) -> bool:
    since = state.best_epoch if settings.ties_renew_patience else state.improved_epoch
    return bool(state.best_weights) and state.epoch - since > settings.patience


def _run_epoch(
    state: FitState, n_rows: int, steps: Steps, settings: LoopSettings
) -> dict[str, float]:
    """One pass over the training rows; returns the mean of every loss term."""
    state.network.train()
    state.network.begin_epoch()
    order = state.order if settings.shuffle else None
    batches = batches_of_epoch(n_rows, settings.batch_size, order)
    try:
        totals = steps.run(batches)
    except RuntimeError as error:
        if _REFUSED_BY_TORCH not in str(error):
            raise
        raise divergence(state.epoch, "some probabilities are not finite") from error
    means = torch.stack(list(totals.values())).cpu() / len(batches)
    facts = dict(zip(totals, means.tolist(), strict=True))
    _refuse_divergence(facts, state.epoch)
    return {"loss": sum(facts.values())} | facts


def _refuse_divergence(facts: Mapping[str, float], epoch: int) -> None:
    broken = [name for name, value in facts.items() if not math.isfinite(value)]
    if broken:
        raise divergence(epoch, f"the {broken[0]} loss is {facts[broken[0]]}")


def divergence(epoch: int, what: str) -> RunError:
    """The error of a fit whose numbers have left the range of floating point."""
    return RunError(
        f"training diverged in epoch {epoch}: {what}; lower {parameter('learning_rate')}, set "
        f"{parameter('max_grad_norm')}, or check the scale of the views"
    )


def _is_finite(state: FitState) -> bool:
    return all(bool(p.isfinite().all()) for p in state.network.parameters())
