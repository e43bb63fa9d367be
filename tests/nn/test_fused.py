"""Rows picked with their way back, work side by side, and kernels that a CPU never asks for."""

import subprocess
import sys
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from viewgap.nn.fused import kernels_for, pick_rows, side_by_side


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


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
def test_picked_rows_and_their_gradient(n: int, shape: tuple[int, ...], seed: int) -> None:
    x = draw(n, 3, seed=seed).requires_grad_()
    rows, back = some_rows(n, shape, seed)
    found, upstream = pick_rows(x, rows, back), draw(*shape, 3, seed=seed + 1)
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
def test_gradcheck_of_picked_rows(shape: tuple[int, ...]) -> None:
    rows, back = some_rows(6, shape, 3)
    x = draw(6, 3).requires_grad_()
    assert torch.autograd.gradcheck(lambda t: pick_rows(t, rows, back), (x,))


def test_rows_picked_in_another_format() -> None:
    """The picked rows are rounded; the gradient comes back in the format of x."""
    rows, back = some_rows(6, (8,), 3)
    x = draw(6, 3).float().requires_grad_()
    found = pick_rows(x, rows, back, torch.bfloat16)
    assert found.dtype == torch.bfloat16
    assert torch.equal(found, pick_rows(x, rows, back).bfloat16())
    found.backward(torch.ones_like(found))
    assert x.grad.dtype == torch.float32
    assert torch.equal(x.grad, (back < 8).float().unsqueeze(1).expand(6, 3))


def test_side_by_side_keeps_the_order() -> None:
    x, done = draw(3), []

    def piece(number: int) -> Tensor:
        done.append(number)
        return x * number

    found = side_by_side([partial(piece, k) for k in range(4)], [[x]] * 4)
    assert done == [0, 1, 2, 3]
    for number, value in enumerate(found):
        assert torch.equal(value, x * number)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("name", ["mlp_kernels", "codebook_kernels", "fusion_kernels"])
def test_cpu_tensors_have_no_kernels(name: str, dtype: torch.dtype) -> None:
    assert kernels_for(torch.zeros(1, dtype=dtype), name) is None


@pytest.mark.slow
def test_a_fit_on_the_cpu_never_imports_the_kernels() -> None:
    """Whether Triton is installed or not, a CPU runs the same code."""
    code = """
import sys, numpy as np, viewgap
rng = np.random.default_rng(0)
X, Y = {"a": rng.normal(size=(40, 6))}, rng.integers(0, 2, size=(40, 3))
for profile in ("default", "paper"):
    viewgap.SCSD(profile=profile, max_epochs=1, device="cpu").fit(X, Y).predict_proba(X)
print([name for name in sys.modules if name.startswith("viewgap") and "kernels" in name])
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.strip() == "[]"
