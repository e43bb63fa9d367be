"""Linear layers that multiply in bfloat16, and the copies and gradients they keep."""

import copy

import pytest
import torch
from torch import nn

from small_batches import normal, seeded
from viewgap.nn.linear import GradientBuffers, LowPrecisionWeights, make_linear, set_matmul_dtype


def both_formats(x: torch.Tensor) -> list[tuple[torch.Tensor, ...]]:
    """Value and gradients of a layer that multiplies in float32, and in bfloat16."""
    found = []
    for matmul_dtype in (None, torch.bfloat16):
        layer = make_linear(6, 3, seeded())
        set_matmul_dtype(layer, matmul_dtype)
        leaf = x.clone().requires_grad_()
        value = layer(leaf)
        value.square().sum().backward()
        found.append((value.detach(), leaf.grad, layer.weight.grad, layer.bias.grad))
    return found


@pytest.mark.parametrize("shape", [(9, 6), (2, 5, 6)])
def test_products_in_bfloat16_are_near_and_all_else_is_float32(shape: tuple[int, ...]) -> None:
    plain, rounded = both_formats(normal(*shape).float())
    for one, other in zip(plain, rounded, strict=True):
        assert other.dtype == torch.float32
        size = float(one.abs().max())
        torch.testing.assert_close(one, other, rtol=0.02, atol=0.02 * size)
    assert not torch.equal(plain[0], rounded[0])


@pytest.mark.parametrize("shape", [(0, 6), (3, 0, 6)])
def test_no_rows_in_bfloat16(shape: tuple[int, ...]) -> None:
    """A view that no sample of the batch has."""
    layer = make_linear(6, 3, seeded())
    set_matmul_dtype(layer, torch.bfloat16)
    found = layer(torch.zeros(shape))
    found.sum().backward()
    assert found.shape == (*shape[:-1], 3)
    assert (layer.weight.grad == 0).all()


def test_a_kept_copy_of_the_weights_is_what_is_multiplied() -> None:
    layer, x = make_linear(6, 3, seeded()), normal(4, 6).float()
    set_matmul_dtype(layer, torch.bfloat16)
    expected = layer(x)
    copies = LowPrecisionWeights(layer)
    assert torch.equal(layer(x), expected)
    copies.copies[layer.weight].zero_()
    torch.testing.assert_close(layer(x), layer.bias.expand(4, 3))
    copies.refresh()
    assert torch.equal(layer(x), expected)
    copies.copies[layer.weight].zero_()
    copies.release()
    assert torch.equal(layer(x), expected)
    set_matmul_dtype(layer, None)
    assert torch.equal(layer(x), nn.functional.linear(x, layer.weight, layer.bias))


@pytest.mark.parametrize("matmul_dtype", [None, torch.bfloat16])
def test_kept_memory_gives_the_gradients_of_autograd(matmul_dtype: torch.dtype | None) -> None:
    """Also when a layer is used twice in a step, and step after step in the same memory."""
    plain = nn.Sequential(make_linear(5, 7, seeded()), nn.Tanh(), make_linear(7, 7, seeded()))
    kept = copy.deepcopy(plain)
    for network in (plain, kept):
        set_matmul_dtype(network, matmul_dtype)
    memory = GradientBuffers(kept)
    places: list[set[int]] = []
    for step in range(3):
        x = torch.randn(9, 5, generator=torch.Generator().manual_seed(step))
        for network in (plain, kept):
            network.zero_grad(set_to_none=True)
            network[2](network(x)).square().sum().backward()
        for a, b in zip(plain.parameters(), kept.parameters(), strict=True):
            torch.testing.assert_close(
                a.grad, b.grad, rtol=2**-7 if matmul_dtype else 1e-6, atol=1e-6
            )
        places.append({layer.weight.grad.data_ptr() for layer in (kept[0], kept[2])})
    assert places[0] == places[1] == places[2]
    memory.release()
    kept.zero_grad(set_to_none=True)
    kept(x).sum().backward()
    assert kept[0].weight.grad.data_ptr() not in places[0]


@pytest.mark.parametrize("rows", [1, 15, 16, 17])
def test_bfloat16_products_of_any_length(rows: int) -> None:
    """Rows that fill a product up are not seen outside, and leave no trace in gradients."""
    layer = make_linear(6, 4, seeded())
    x = torch.randn(rows, 6, generator=seeded()).requires_grad_()
    layer.set_matmul_dtype(torch.bfloat16)
    found = layer(x)
    slope = torch.randn(rows, 4, generator=seeded())
    found.backward(slope)
    x16, w16 = x.detach().bfloat16().double(), layer.weight.detach().bfloat16().double()
    expected = x16 @ w16.T + layer.bias.detach().double()
    torch.testing.assert_close(found.detach().double(), expected, rtol=2**-7, atol=2**-8)
    s16 = slope.bfloat16().double()
    torch.testing.assert_close(x.grad.double(), s16 @ w16, rtol=2**-6, atol=2**-6)
    torch.testing.assert_close(layer.weight.grad.double(), s16.T @ x16, rtol=2**-6, atol=2**-5)
    assert found.dtype == x.grad.dtype == layer.weight.grad.dtype == torch.float32
