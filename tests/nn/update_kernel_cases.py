"""Cases of `test_kernels.py`: the fused update beside torch's AdamW and SGD in float64."""

import math

import pytest
import torch
from torch import Tensor, nn

from viewgap.nn.kernels.update import FusedUpdate

# One weight longer than the piece of one program, some shorter than a block, one of one number.
SHAPES = ((130, 150), (7,), (33,), (1,))
LR, DECAY, BETAS, SHARE = 1e-2, 0.1, (0.9, 0.999), 0.3


def make_weights(dtype: torch.dtype) -> list[nn.Parameter]:
    generator = torch.Generator().manual_seed(0)
    return [nn.Parameter(torch.randn(s, generator=generator).to(dtype)) for s in SHAPES]


def set_gradients(weights: list[nn.Parameter], seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    for weight in weights:
        gradient = torch.randn(weight.shape, generator=generator).to(weight.dtype)
        if weight.grad is None:
            weight.grad = gradient
        else:
            weight.grad.copy_(gradient)


def numbers(t: int) -> Tensor:
    return torch.tensor([LR / (1 - BETAS[0] ** t), math.sqrt(1 - BETAS[1] ** t), SHARE])


def near(found: list[Tensor], expected: list[Tensor]) -> None:
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a.detach().double(), b.detach(), rtol=1e-5, atol=1e-6)


OPTIMISERS = {
    "adamw": (torch.optim.AdamW, {"lr": LR, "weight_decay": DECAY, "betas": BETAS}),
    "sgd": (torch.optim.SGD, {"lr": LR, "weight_decay": DECAY, "momentum": 0.9}),
}


@pytest.mark.parametrize("kind", OPTIMISERS)
@pytest.mark.parametrize("averaged", [True, False])
@pytest.mark.parametrize(("clip", "processes"), [(0.0, 1), (0.5, 1), (1e6, 1), (0.5, 4)])
def test_goes_on_where_torch_stopped(
    clip: float, processes: int, averaged: bool, kind: str
) -> None:
    """Two steps by torch, then three by the kernels: as five by torch.

    Of several processes, all of which have such gradients, the common norm is clipped.
    """
    together = None if processes == 1 else lambda squares: processes * squares
    own_clip = clip / math.sqrt(processes)
    ours, theirs = make_weights(torch.float32), make_weights(torch.float64)
    averages = [[w.detach().clone() for w in weights] for weights in (ours, theirs)]
    make, options = OPTIMISERS[kind]
    optimisers = [make(weights, **options) for weights in (ours, theirs)]
    update = None
    for t in range(1, 6):
        for weights in (ours, theirs):
            set_gradients(weights, t)
        if clip:
            nn.utils.clip_grad_norm_(theirs, own_clip)
        optimisers[1].step()
        torch._foreach_lerp_(averages[1], [w.detach() for w in theirs], SHARE)
        if t < 3:
            if clip:
                nn.utils.clip_grad_norm_(ours, own_clip)
            optimisers[0].step()
            torch._foreach_lerp_(averages[0], [w.detach() for w in ours], SHARE)
            continue
        # The gradients stay where they are, so one table of addresses serves all steps.
        kept = averages[0] if averaged else None
        update = update or FusedUpdate(optimisers[0], kept, {}, clip, together)
        update(numbers(t) if kind == "adamw" else torch.tensor([LR, 0.0, SHARE]))
    near(ours, theirs)
    if averaged:
        near(*averages)
    for a, b in zip(ours, theirs, strict=True):
        found, expected = optimisers[0].state[a], optimisers[1].state[b]
        for name in found.keys() - {"step"}:
            near([found[name]], [expected[name]])


def test_low_precision_copies_are_the_rounded_weights() -> None:
    weights = make_weights(torch.float32)
    optimiser = torch.optim.AdamW(weights, lr=LR)
    set_gradients(weights, 1)
    optimiser.step()
    copies = {w: torch.full_like(w, 7.0, dtype=torch.bfloat16) for w in (weights[0], weights[2])}
    FusedUpdate(optimiser, None, copies, 0.0)(numbers(2))
    for weight, copy in copies.items():
        # The interpreter cuts digits off where a GPU rounds: one unit in the last place.
        torch.testing.assert_close(copy.float(), weight.detach(), rtol=2**-7, atol=0.0)


def test_a_weight_without_gradient_is_left_alone() -> None:
    weights = make_weights(torch.float32)
    optimiser = torch.optim.AdamW(weights, lr=LR)
    set_gradients(weights[1:], 1)
    optimiser.step()
    before = [w.detach().clone() for w in weights]
    FusedUpdate(optimiser, None, {}, 1.0)(numbers(2))
    assert torch.equal(weights[0].detach(), before[0])
    assert not torch.equal(weights[1].detach(), before[1])


def test_weights_that_do_not_lie_in_one_piece_are_refused() -> None:
    weight = nn.Parameter(torch.ones(4, 6).T)
    optimiser = torch.optim.AdamW([weight], lr=LR)
    weight.grad = torch.ones(6, 4)
    optimiser.step()
    with pytest.raises(ValueError, match="one piece"):
        FusedUpdate(optimiser, None, {}, 0.0)
