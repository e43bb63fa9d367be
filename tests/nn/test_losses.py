"""The squared error of a decoder against a loop."""

import pytest
import torch

from small_batches import normal as rows
from viewgap.nn.linear import make_linear
from viewgap.nn.losses import squared_error


@pytest.mark.parametrize("shape", [(9, 6), (2, 5, 6)])
def test_squared_error_equals_a_loop(shape: tuple[int, ...]) -> None:
    linear = make_linear(6, 3, torch.Generator().manual_seed(0)).double()
    x, table = rows(*shape), rows(7, 3, seed=1)
    numbers = torch.randint(7, shape[:-1], generator=torch.Generator().manual_seed(2))
    share = rows(*shape[:-1], seed=3).abs()
    share.view(-1)[0] = 0.0
    expected = 0.0
    decoded = linear(x).detach().reshape(-1, 3).tolist()
    for values, row, weight in zip(
        decoded, numbers.flatten().tolist(), share.flatten().tolist(), strict=True
    ):
        gaps = [(a - b) ** 2 for a, b in zip(values, table[row].tolist(), strict=True)]
        expected += weight * sum(gaps) / 3
    found = squared_error(linear, x, table, numbers, share)
    assert float(found.detach()) == pytest.approx(expected, rel=1e-12)
    leaf = x.clone().requires_grad_()
    assert torch.autograd.gradcheck(
        lambda t: squared_error(linear, t, table, numbers, share), (leaf,)
    )


def test_no_pairs_have_no_error() -> None:
    linear = make_linear(6, 3, torch.Generator().manual_seed(0)).double()
    nothing = torch.zeros(0, dtype=torch.long)
    error = squared_error(linear, rows(0, 6), rows(7, 3), nothing, rows(0))
    error.backward()
    assert float(error.detach()) == 0.0
    assert (linear.weight.grad == 0).all()
