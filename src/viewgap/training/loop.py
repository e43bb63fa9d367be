"""The one training loop: epochs of named loss terms, validation, early stopping, best weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from viewgap.errors import RunError
from viewgap.training.batches import BatchSource, shuffled_batches
from viewgap.training.fit_state import FitState
from viewgap.training.network import DeepNetwork


@dataclass(frozen=True)
class LoopSettings:
    """How long and how fast to train.

    `clip`: largest norm of a gradient, 0 = no limit. `weight_average`: share that the running
    average of the weights keeps per step, 0 = no average; the averaged network is the one that is
    validated and kept.
    """

    max_epochs: int
    batch_size: int
    patience: int
    learning_rate: float
    weight_decay: float
    clip: float
    weight_average: float = 0.0


def make_optimiser(network: DeepNetwork, settings: LoopSettings) -> torch.optim.Optimizer:
    """AdamW over all parameters, norms and biases included."""
    return torch.optim.AdamW(
        network.parameters(),
        lr=settings.learning_rate,
        weight_decay=settings.weight_decay,
        fused=True,
    )


def train(
    state: FitState,
    source: BatchSource,
    settings: LoopSettings,
    score: Callable[[DeepNetwork], float] | None,
    after_epoch: Callable[[FitState], None],
) -> None:
    """Train until `max_epochs`, or until the score has not improved for `patience` epochs.

    Without a score there is nothing to stop by, and the last weights are kept.
    """
    while state.epoch < settings.max_epochs and not _out_of_patience(state, settings):
        state.epoch += 1
        facts = _run_epoch(state, source, settings)
        facts |= state.network.epoch_facts()
        network = state.evaluated()
        network.eval()
        with torch.no_grad():
            network.finish_epoch(source)
            value = math.nan if score is None else score(network)
        if not math.isnan(value):
            facts["validation_score"] = value
            state.keep_if_best(value)
        state.record(facts)
        after_epoch(state)
    state.load_best()
    state.network.eval()


def _out_of_patience(state: FitState, settings: LoopSettings) -> bool:
    return bool(state.best_weights) and state.epoch - state.best_epoch > settings.patience


def _run_epoch(state: FitState, source: BatchSource, settings: LoopSettings) -> dict[str, float]:
    """One pass over the training rows; returns the mean of every loss term.

    The terms stay on the device until the pass is over, so that it never waits for the host.
    """
    state.network.train()
    state.network.begin_epoch()
    batches = shuffled_batches(len(source), settings.batch_size, state.order)
    totals: dict[str, Tensor] = {}
    for rows in batches:
        for name, value in _step(state, source, rows, settings).items():
            totals[name] = totals[name] + value if name in totals else value
    means = torch.stack(list(totals.values())).cpu() / len(batches)
    facts = dict(zip(totals, means.tolist(), strict=True))
    _refuse_divergence(facts, state.epoch)
    return {"loss": sum(facts.values())} | facts


def _step(
    state: FitState, source: BatchSource, rows: Tensor, settings: LoopSettings
) -> dict[str, Tensor]:
    state.optimiser.zero_grad(set_to_none=True)
    terms = state.network.loss_terms(source.batch(rows))
    torch.stack(list(terms.values())).sum().backward()
    if settings.clip > 0:
        torch.nn.utils.clip_grad_norm_(state.network.parameters(), settings.clip)
    state.optimiser.step()
    state.update_average(settings.weight_average)
    return {name: value.detach() for name, value in terms.items()}


def _refuse_divergence(facts: dict[str, float], epoch: int) -> None:
    broken = [name for name, value in facts.items() if not math.isfinite(value)]
    if broken:
        raise RunError(
            f"training diverged in epoch {epoch}: the {broken[0]} loss is {facts[broken[0]]}; "
            "lower learning_rate, set clip, or check the scale of the views"
        )
