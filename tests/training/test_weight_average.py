"""The averaged network: a running mean that forgets its start, and the one that is kept."""

import pytest
import torch
from torch import Tensor, nn

from viewgap.training.batches.batch import Batch
from viewgap.training.fit_state import FitState
from viewgap.training.network import DeepNetwork


class OneNumber(DeepNetwork):
    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.tensor(value))
        self.register_buffer("count", torch.tensor(0))

    def loss_terms(self, batch: Batch) -> dict[str, Tensor]:
        raise NotImplementedError

    def predict_batch(self, batch: Batch) -> Tensor:
        raise NotImplementedError


def make(averaged: bool = True) -> FitState:
    network = OneNumber(0.0)
    optimiser = torch.optim.SGD(network.parameters(), lr=0.1)
    state = FitState(network, optimiser, torch.Generator(), torch.Generator(), averaged)
    if state.averaged is not None:
        with torch.no_grad():
            state.averaged.value.fill_(100.0)
    return state


def test_average_follows_the_formula() -> None:
    state, expected = make(), 100.0
    for t in range(1, 30):
        with torch.no_grad():
            state.network.value.fill_(float(t))
            state.network.count.fill_(t)
        state.update_average(state.next_average_step(0.9))
        keep = min(0.9, (1 + t) / (10 + t))
        expected = keep * expected + (1 - keep) * t
    assert state.averaged.value.item() == pytest.approx(expected, rel=1e-5)
    assert int(state.averaged.count) == 29  # whole numbers are copied, not averaged
    assert state.evaluated() is state.averaged


def test_without_average_the_trained_network_is_kept() -> None:
    state = make(averaged=False)
    state.update_average(0.9)
    assert state.evaluated() is state.network
