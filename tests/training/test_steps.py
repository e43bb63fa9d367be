"""Steps of one fixed shape, as a GPU replays them, train the same network as steps one by one."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from viewgap.data.labels import Labels
from viewgap.data.viewset import ViewSet
from viewgap.methods.scsd.network import SCSDNetwork
from viewgap.methods.scsd.settings import PROFILES, SCSDSettings
from viewgap.nn.pooling import LogOddsPooling
from viewgap.training.batches.source import BatchSource, batches_of_epoch
from viewgap.training.committee import Committee
from viewgap.training.fit_state import FitState
from viewgap.training.runtime import choose_runtime
from viewgap.training.steps.epoch import (
    PlainSteps,
    ReplayedSteps,
    Steps,
    clip_in_optimiser,
    make_optimiser,
    make_steps,
)

N, DIMS = 41, (5, 3, 6)
SMALL = {"hidden": (8, 6), "embedding": 8, "codebook_size": 11, "batch_size": 8}
VARIANTS = {
    "default": SCSDSettings(**SMALL, view_dropout=0.4, ema_decay=0.9),
    "own view only": SCSDSettings(**SMALL, cross_view=False),
    "no codebook": SCSDSettings(**SMALL, quantise=False),
    "mean fusion": SCSDSettings(**SMALL, fusion="mean"),
    "committee": SCSDSettings(
        **SMALL, fusion="mean", pooling="log_odds", n_networks=2, ema_decay=0.9
    ),
    "paper": replace(PROFILES["paper"](4), **SMALL),
    "paper, own view only": replace(PROFILES["paper"](4), **SMALL, cross_view=False),
}


def make_state(settings: SCSDSettings) -> tuple[FitState, BatchSource]:
    rng = np.random.default_rng(0)
    observed = rng.random((N, 3)) < 0.5
    observed[:, 0] |= ~observed.any(axis=1)
    observed[:9, 2] = False
    arrays = {f"v{d}": rng.normal(size=(N, d)) for d in DIMS}
    Y = (rng.random((N, 4)) < 0.5).astype(np.uint8)
    labels = Labels(Y, rng.random(Y.shape) < 0.7, ("a", "b", "c", "d"))
    runtime = choose_runtime("cpu", "float64")
    generator = torch.Generator().manual_seed(0)
    networks = [SCSDNetwork(DIMS, 4, settings, generator) for _ in range(settings.n_networks)]
    network = Committee(networks, LogOddsPooling(3, 4)) if len(networks) > 1 else networks[0]
    network.prepare(labels)
    optimiser = make_optimiser(network.double().train(), settings)
    order = torch.Generator().manual_seed(1)
    state = FitState(network, optimiser, order, torch.Generator(), settings.ema_decay > 0)
    return state, BatchSource(ViewSet(arrays, observed), labels, None, runtime)


@pytest.mark.parametrize("name", VARIANTS)
def test_fixed_shapes_train_the_same_network(name: str) -> None:
    settings = VARIANTS[name]
    results = []
    for kind in (PlainSteps, ReplayedSteps):
        state, source = make_state(settings)
        steps: Steps = kind(state, source, settings)
        epochs = [
            {k: float(v.sum()) for k, v in steps.run([batches_of_epoch(N, 8, state.order)]).items()}
            for _ in range(3)
        ]
        results.append((state, epochs))
    (plain, expected), (fixed, found) = results
    for a, b in zip(expected, found, strict=True):
        assert b == pytest.approx(a, rel=1e-10)
    for (key, a), b in zip(
        plain.evaluated().state_dict().items(), fixed.evaluated().state_dict().values(), strict=True
    ):
        # The bias before a normalisation has no gradient but rounding, which AdamW makes a step.
        if ".linears." in key and key.endswith("bias"):
            continue
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-8, msg=key)


def set_gradients(state: FitState, size: float, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    for parameter in state.network.parameters():
        parameter.grad = size * torch.randn(parameter.shape, generator=generator).double()


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_clipping_in_the_optimiser_equals_clipping_before_it(size: float) -> None:
    """Above the limit, below it, and from step to step with other norms."""
    settings = VARIANTS["default"]
    states = [make_state(settings)[0] for _ in range(2)]
    for step in range(3):
        for state in states:
            set_gradients(state, size * (1 + step), step)
        clip_in_optimiser(states[0].optimiser, states[0].network, 0.5)
        states[0].optimiser.step()
        torch.nn.utils.clip_grad_norm_(states[1].network.parameters(), 0.5)
        states[1].optimiser.step()
    for a, b in zip(states[0].network.parameters(), states[1].network.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-9)


def test_the_norm_is_that_of_all_gradients_there_are() -> None:
    state, _ = make_state(VARIANTS["default"])
    set_gradients(state, 1.0, 0)
    first = next(state.network.parameters())
    first.grad = None
    before = first.detach().clone()
    gradients = [p.grad for p in state.network.parameters() if p.grad is not None]
    norm = torch.cat([g.flatten() for g in gradients]).norm()
    clip_in_optimiser(state.optimiser, state.network, 0.5)
    assert float(state.optimiser.grad_scale) == pytest.approx(float(norm) / 0.5, rel=1e-5)
    state.optimiser.step()
    assert torch.equal(first, before)


def test_steps_are_replayed_only_where_there_is_a_gpu() -> None:
    state, source = make_state(VARIANTS["default"])
    assert isinstance(make_steps(state, source, VARIANTS["default"]), PlainSteps)
