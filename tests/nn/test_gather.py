"""Gathered rows and their gradients."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from small_batches import draw
from viewgap.nn.gather import gather_rows


def some_rows(n: int, shape: tuple[int, ...], seed: int) -> tuple[Tensor, Tensor]:
    """Row numbers below n, each at most once, n elsewhere; and where each row went."""
    picks = torch.Size(shape).numel()
    generator = torch.Generator().manual_seed(seed)
    rows = torch.full((picks,), n)
    count = int(torch.randint(min(n, picks) + 1, (), generator=generator))
    places = torch.randperm(picks, generator=generator)[:count]
    rows[places] = torch.randperm(n, generator=generator)[:count]
    back = torch.full((n,), picks)
    back[rows[places]] = places
    return rows.view(shape), back


shapes = st.one_of(st.tuples(st.integers(0, 12)), st.tuples(st.integers(1, 3), st.integers(0, 5)))


@given(st.integers(0, 9), shapes, st.integers(0, 2**16))
def test_gathered_rows_and_their_gradient(n: int, shape: tuple[int, ...], seed: int) -> None:
    x = draw(n, 3, seed=seed).requires_grad_()
    rows, back = some_rows(n, shape, seed)
    found, upstream = gather_rows(x, rows, back), draw(*shape, 3, seed=seed + 1)
    assert found.shape == (*shape, 3)
    expected = torch.zeros(n, 3, dtype=torch.float64)
    for place, row in enumerate(rows.flatten().tolist()):
        picked = found.reshape(-1, 3)[place].tolist()
        assert picked == ([0.0] * 3 if row == n else x[row].tolist())
        if row < n:
            expected[row] += upstream.reshape(-1, 3)[place]
    (found * upstream).sum().backward()
    assert torch.equal(x.grad, expected)


@pytest.mark.parametrize("shape", [(7,), (2, 4)])
def test_gradcheck_of_gathered_rows(shape: tuple[int, ...]) -> None:
    rows, back = some_rows(6, shape, 3)
    x = draw(6, 3).requires_grad_()
    assert torch.autograd.gradcheck(lambda t: gather_rows(t, rows, back), (x,))


def test_rows_gathered_in_another_format() -> None:
    """The rows are rounded; the gradient comes back in the format of x."""
    rows, back = some_rows(6, (8,), 3)
    x = draw(6, 3).float().requires_grad_()
    found = gather_rows(x, rows, back, torch.bfloat16)
    assert found.dtype == torch.bfloat16
    assert torch.equal(found, gather_rows(x, rows, back).bfloat16())
    found.backward(torch.ones_like(found))
    assert x.grad.dtype == torch.float32
    assert torch.equal(x.grad, (back < 8).float().unsqueeze(1).expand(6, 3))
