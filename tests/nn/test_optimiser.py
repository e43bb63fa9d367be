"""The optimisers take the steps of torch's own, to the bit, and go on where they were saved."""

import pytest
import torch
from torch import nn

from viewgap.nn.optimiser import SGD, AdamW, Optimiser

SHAPES = ((13, 5), (7,), (1,))


def make_weights(dtype: torch.dtype) -> list[nn.Parameter]:
    generator = torch.Generator().manual_seed(0)
    return [nn.Parameter(torch.randn(s, generator=generator).to(dtype)) for s in SHAPES]


def set_gradients(weights: list[nn.Parameter], seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    for weight in weights:
        weight.grad = torch.randn(weight.shape, generator=generator).to(weight.dtype)


def make(kind: str, weights: list[nn.Parameter]) -> Optimiser:
    return AdamW(weights, 1e-2, 0.1) if kind == "adamw" else SGD(weights, 1e-2, 0.1, 0.9)


def make_theirs(kind: str, weights: list[nn.Parameter]) -> torch.optim.Optimizer:
    if kind == "adamw":
        return torch.optim.AdamW(weights, lr=1e-2, weight_decay=0.1, fused=True)
    return torch.optim.SGD(weights, lr=1e-2, weight_decay=0.1, momentum=0.9, fused=True)


@pytest.mark.parametrize("scale", [None, 3.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("kind", ["adamw", "sgd"])
def test_steps_are_those_of_torch(kind: str, dtype: torch.dtype, scale: float | None) -> None:
    ours, theirs = make_weights(dtype), make_weights(dtype)
    optimiser, expected = make(kind, ours), make_theirs(kind, theirs)
    for step in range(4):
        for weights in (ours, theirs):
            set_gradients(weights, step)
        ours[1].grad = theirs[1].grad = None  # one without a gradient stays as it is
        if scale is not None:
            optimiser.grad_scale = torch.tensor(scale)
            expected.grad_scale = torch.tensor(scale)
        optimiser.step()
        expected.step()
    for a, b in zip(ours, theirs, strict=True):
        assert torch.equal(a, b)
    assert ours[1] not in optimiser.state
    for name, value in expected.state[theirs[0]].items():
        assert torch.equal(optimiser.state[ours[0]][name], value), name


@pytest.mark.parametrize("kind", ["adamw", "sgd"])
def test_goes_on_where_it_was_saved(kind: str) -> None:
    ours, others = make_weights(torch.float32), make_weights(torch.float32)
    optimiser, continued = make(kind, ours), make(kind, others)
    for step in range(4):
        set_gradients(ours, step)
        if step == 2:
            for a, b in zip(ours, others, strict=True):
                b.data.copy_(a)
            continued.load_state_dict(optimiser.state_dict())
        optimiser.step()
        if step >= 2:
            set_gradients(others, step)
            continued.step()
    for a, b in zip(ours, others, strict=True):
        assert torch.equal(a, b)


def test_gradients_are_forgotten_or_set_to_zero() -> None:
    weights = make_weights(torch.float32)
    optimiser = make("adamw", weights)
    set_gradients(weights, 0)
    weights[1].grad = None
    optimiser.zero_grad(set_to_none=False)
    assert not weights[0].grad.any()
    optimiser.zero_grad()
    assert all(weight.grad is None for weight in weights)
