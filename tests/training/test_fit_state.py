"""A fit is one object: continued from a saved state it ends in the same bits."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from viewgap.data.labels import Labels
from viewgap.data.viewset import ViewSet
from viewgap.methods.scsd.network import SCSDNetwork
from viewgap.methods.scsd.settings import PROFILES, SCSDSettings
from viewgap.training.batches.source import BatchSource
from viewgap.training.callbacks import Callback, TrainingContext
from viewgap.training.fit_state import FitState
from viewgap.training.loop import train
from viewgap.training.runtime import choose_runtime
from viewgap.training.steps.epoch import make_optimiser

CPU = choose_runtime("cpu")
SETTINGS = SCSDSettings(
    hidden=(8,),
    embedding=8,
    codebook_size=9,
    dropout=0.3,
    batch_size=8,
    max_epochs=6,
    input_dropout=0.1,
    view_dropout=0.4,
    ema_decay=0.9,
)


def start(seed: int = 0) -> tuple[FitState, BatchSource]:
    rng = np.random.default_rng(0)
    Y = (rng.random((30, 3)) < 0.5).astype(np.uint8)
    views = ViewSet({"a": rng.normal(size=(30, 5)), "b": rng.normal(size=(30, 4))})
    labels = Labels(Y, np.ones(Y.shape, dtype=bool), ("x", "y", "z"))
    noise = torch.Generator().manual_seed(seed + 1)
    order = torch.Generator().manual_seed(seed + 2)
    network = SCSDNetwork((5, 4), 3, SETTINGS, torch.Generator().manual_seed(seed))
    network.prepare(labels)
    network.use_noise(noise)
    optimiser = make_optimiser(network, SETTINGS)
    state = FitState(network, optimiser, order, noise, average=True)
    return state, BatchSource(views, labels, None, CPU)


class Save(Callback):
    """Saves the state after every epoch."""

    def __init__(self, saved: list) -> None:
        self.saved = saved

    def on_epoch_end(self, context: TrainingContext) -> None:
        self.saved.append(copy.deepcopy(context.state.save()))


def scores() -> "iter[float]":
    return iter([0.1, 0.5, 0.4, 0.5, 0.2, 0.3])


def run(state: FitState, source: BatchSource, values, saved: list) -> None:
    train(state, source, SETTINGS, lambda: next(values), [Save(saved)])


@pytest.mark.parametrize("stopped_after", [1, 3, 5])
def test_continued_fit_equals_unbroken_fit(stopped_after: int) -> None:
    whole, source = start()
    saved: list = []
    run(whole, source, scores(), saved)
    continued, source = start(seed=77)  # other weights and generators: all must be replaced
    continued.restore(saved[stopped_after - 1])
    rest = scores()
    for _ in range(stopped_after):
        next(rest)
    run(continued, source, rest, [])
    assert continued.history == whole.history
    assert continued.best_epoch == whole.best_epoch == 4  # a tie goes to the later epoch
    for (name, a), b in zip(
        whole.network.state_dict().items(), continued.network.state_dict().values(), strict=True
    ):
        assert torch.equal(a, b), name


def test_best_weights_come_back_and_patience_ends_the_fit() -> None:
    state, source = start()
    saved: list = []
    patient = SCSDSettings(**{**SETTINGS.__dict__, "patience": 1, "max_epochs": 50})
    values = iter([0.3, 0.2, 0.1, 0.9])
    train(state, source, patient, lambda: next(values), [Save(saved)])
    assert state.epoch == 3
    assert state.best_epoch == 1
    for name, value in state.network.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), saved[0].arrays[f"averaged/{name}"])


@pytest.mark.parametrize(("ties_renew", "stopped", "kept"), [(False, 6, 6), (True, 11, 7)])
def test_a_tie_renews_the_patience_only_as_released(
    ties_renew: bool, stopped: int, kept: int
) -> None:
    """Of equal scores the later weights are kept; without a better one the fit ends."""
    state, source = start()
    settings = replace(
        SETTINGS, patience=3, max_epochs=50, ema_decay=0.0, ties_renew_patience=ties_renew
    )
    values = iter([0.1, 0.9, 0.9, 0.5, 0.9, 0.9, 0.9, 0.5, 0.5, 0.5, 0.5, 0.5])
    train(state, source, settings, lambda: next(values))
    assert state.epoch == stopped
    assert state.best_epoch == kept
    assert state.improved_epoch == 2


def test_only_the_released_scsd_renews_its_patience_on_ties() -> None:
    assert PROFILES["paper"](5).ties_renew_patience
    assert not PROFILES["default"](5).ties_renew_patience


def test_without_score_the_last_weights_stay() -> None:
    state, source = start()
    saved: list = []
    train(state, source, SETTINGS, None, [Save(saved)])
    assert state.epoch == 6
    assert not state.best_weights
    assert "validation_score" not in state.history
    for name, value in state.network.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), saved[-1].arrays[f"averaged/{name}"])
    assert any(not np.array_equal(v, saved[0].arrays[k]) for k, v in saved[-1].arrays.items())


def test_after_the_fit_the_network_stands_alone() -> None:
    """Nothing of what training needed stays in memory, or comes along when it is pickled."""
    state, source = start()
    train(state, source, SETTINGS)
    for name, tensor in state.network.state_dict().items():
        assert tensor.untyped_storage().nbytes() == tensor.nbytes, name
    assert all(parameter.grad is None for parameter in state.network.parameters())
    assert not state.optimiser.state
    assert not state.network.training
