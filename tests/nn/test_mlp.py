"""RowNorm against torch's BatchNorm1d, and the promises about seeds and empty views."""

import copy

import pytest
import torch
from torch import nn

from viewgap.nn.dropout import Dropout
from viewgap.nn.linear import (
    GradientBuffers,
    Linear,
    LowPrecisionWeights,
    make_linear,
    set_matmul_dtype,
)
from viewgap.nn.losses import squared_error
from viewgap.nn.mlp import MLP, Trunk
from viewgap.nn.norm import RowNorm, SetNorm
from viewgap.nn.reduce import LOCAL, Reducer


def reference_norm(features: int) -> nn.BatchNorm1d:
    return nn.BatchNorm1d(features, dtype=torch.float64)


def make_norm(features: int) -> RowNorm:
    return RowNorm(features).double()


def rows(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def assert_same_running(ours: RowNorm, theirs: nn.BatchNorm1d) -> None:
    torch.testing.assert_close(ours.running_mean, theirs.running_mean)
    torch.testing.assert_close(ours.running_var, theirs.running_var)


def test_all_rows_equal_torch_batchnorm() -> None:
    ours, theirs, x = make_norm(5), reference_norm(5), rows(9, 5)
    for _ in range(3):
        torch.testing.assert_close(ours(x), theirs(x))
    assert_same_running(ours, theirs)


def test_weighted_rows_equal_batchnorm_of_those_rows() -> None:
    ours, theirs, x = make_norm(5), reference_norm(5), rows(9, 5)
    counted = torch.tensor([1, 0, 1, 1, 0, 1, 0, 1, 1], dtype=torch.float64)
    found = ours(x, counted)[counted > 0]
    torch.testing.assert_close(found, theirs(x[counted > 0]))
    assert_same_running(ours, theirs)


def test_groups_equal_one_call_per_group_in_order() -> None:
    ours, theirs, x = make_norm(4), reference_norm(4), rows(3, 7, 4)
    expected = torch.stack([theirs(group) for group in x])
    torch.testing.assert_close(ours(x), expected)
    assert_same_running(ours, theirs)


@pytest.mark.parametrize("shape", [(9, 5), (3, 9, 5)])
def test_a_row_of_weight_k_counts_as_k_rows(shape: tuple[int, ...]) -> None:
    """Rows that are all alike may be folded into one: result, gradient, running statistics."""
    x = rows(*shape).requires_grad_()
    weight = torch.ones(shape[:-1], dtype=torch.float64)
    weight[..., -1] = 4.0
    written_out = torch.cat([x, *[x[..., -1:, :]] * 3], dim=-2)
    ours, theirs = make_norm(5), make_norm(5)
    found, expected = ours(x, weight), theirs(written_out)
    torch.testing.assert_close(found, expected[..., : shape[-2], :])
    upstream = rows(*shape, seed=1)
    (got,) = torch.autograd.grad((found * upstream).sum(), x, retain_graph=True)
    (want,) = torch.autograd.grad((expected[..., : shape[-2], :] * upstream).sum(), x)
    torch.testing.assert_close(got, want)
    torch.testing.assert_close(ours.running_mean, theirs.running_mean)
    torch.testing.assert_close(ours.running_var, theirs.running_var)


def test_weighted_groups_equal_one_call_per_group_in_order() -> None:
    ours, one_by_one, x = make_norm(4), make_norm(4), rows(3, 7, 4)
    weight = (rows(3, 7, seed=1) > -0.5).double()
    weight[1] = 0.0  # a group in which nobody counts moves nothing
    expected = [one_by_one(group, w) for group, w in zip(x, weight, strict=True)]
    found = ours(x, weight)
    torch.testing.assert_close(found[0], expected[0])
    torch.testing.assert_close(found[2], expected[2])
    assert torch.isfinite(found).all()
    torch.testing.assert_close(ours.running_mean, one_by_one.running_mean)
    torch.testing.assert_close(ours.running_var, one_by_one.running_var)


def test_fused_kernel_equals_general_path() -> None:
    class Other(Reducer):
        """Not LOCAL, so that the general path is taken."""

    plain, general, x = make_norm(6), make_norm(6), rows(8, 6)
    general.reducer = Other()
    assert plain._is_plain(x, None)
    assert not general._is_plain(x, None)
    torch.testing.assert_close(plain(x), general(x))
    torch.testing.assert_close(plain.running_var, general.running_var)


@pytest.mark.parametrize("count", [0, 1])
def test_too_few_rows_leave_running_statistics_and_stay_finite(count: int) -> None:
    norm, x = make_norm(3), rows(4, 3).requires_grad_()
    weight = torch.zeros(4, dtype=torch.float64)
    weight[:count] = 1
    before = norm.running_mean.clone(), norm.running_var.clone()
    out = norm(x, weight)
    out.sum().backward()
    assert torch.isfinite(out).all()
    assert torch.isfinite(x.grad).all()
    assert torch.equal(norm.running_mean, before[0])
    assert torch.equal(norm.running_var, before[1])


def test_gradient_of_weighted_norm() -> None:
    norm = make_norm(3)
    weight = torch.tensor([1.0, 0.0, 1.0, 1.0, 1.0], dtype=torch.float64)
    x = rows(5, 3).requires_grad_()
    assert torch.autograd.gradcheck(lambda t: norm(t, weight) * weight[:, None], (x,))


def test_two_halves_with_a_global_reducer_equal_the_whole_batch() -> None:
    """Simulate a second process: its half of every sum is added by the reducer."""
    x, whole = rows(10, 3), make_norm(3)
    expected = whole(x)
    half = make_norm(3)
    half.reducer = _OtherHalf(x[5:])
    torch.testing.assert_close(half(x[:5]), expected[:5])
    torch.testing.assert_close(half.running_var, whole.running_var)


class _OtherHalf(Reducer):
    """Adds what the other process would have sent: count, then sum, then squared deviations."""

    def __init__(self, rows: torch.Tensor) -> None:
        self.rows = rows
        self.calls = 0
        self.total = torch.zeros(())

    def sum(self, value: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        if self.calls == 1:
            self.count = value + len(self.rows)
            return self.count
        if self.calls == 2:
            self.total = value + self.rows.sum(0)
            return self.total
        return value + (self.rows - self.total / self.count).square().sum(0)


def test_dropout_follows_its_generator_and_spares_the_global_one() -> None:
    layer, x = Dropout(0.5), torch.ones(1000)
    before = torch.get_rng_state()
    outs = []
    for _ in range(2):
        layer.generator = torch.Generator().manual_seed(3)
        outs.append(layer(x))
    assert torch.equal(outs[0], outs[1])
    assert torch.equal(torch.get_rng_state(), before)
    assert set(outs[0].unique().tolist()) == {0.0, 2.0}
    assert torch.equal(layer.eval()(x), x)


def test_mlp_is_fixed_by_its_generator() -> None:
    made = [MLP(4, [8, 6], 3, 0.0, torch.Generator().manual_seed(1)) for _ in range(2)]
    for a, b in zip(made[0].parameters(), made[1].parameters(), strict=True):
        assert torch.equal(a, b)
    assert made[0](torch.zeros(5, 4)).shape == (5, 3)
    assert made[0].norms[0].reducer is LOCAL


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


def both_formats(x: torch.Tensor) -> list[tuple[torch.Tensor, ...]]:
    """Value and gradients of a layer that multiplies in float32, and in bfloat16."""
    found = []
    for matmul_dtype in (None, torch.bfloat16):
        layer = make_linear(6, 3, torch.Generator().manual_seed(0))
        set_matmul_dtype(layer, matmul_dtype)
        leaf = x.clone().requires_grad_()
        value = layer(leaf)
        value.square().sum().backward()
        found.append((value.detach(), leaf.grad, layer.weight.grad, layer.bias.grad))
    return found


@pytest.mark.parametrize("shape", [(9, 6), (2, 5, 6)])
def test_products_in_bfloat16_are_near_and_all_else_is_float32(shape: tuple[int, ...]) -> None:
    plain, rounded = both_formats(rows(*shape).float())
    for one, other in zip(plain, rounded, strict=True):
        assert other.dtype == torch.float32
        size = float(one.abs().max())
        torch.testing.assert_close(one, other, rtol=0.02, atol=0.02 * size)
    assert not torch.equal(plain[0], rounded[0])


@pytest.mark.parametrize("shape", [(0, 6), (3, 0, 6)])
def test_no_rows_in_bfloat16(shape: tuple[int, ...]) -> None:
    """A view that no sample of the batch has."""
    layer = make_linear(6, 3, torch.Generator().manual_seed(0))
    set_matmul_dtype(layer, torch.bfloat16)
    found = layer(torch.zeros(shape))
    found.sum().backward()
    assert found.shape == (*shape[:-1], 3)
    assert (layer.weight.grad == 0).all()


def test_a_kept_copy_of_the_weights_is_what_is_multiplied() -> None:
    layer, x = make_linear(6, 3, torch.Generator().manual_seed(0)), rows(4, 6).float()
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


def test_an_mlp_is_its_hidden_part_and_its_last_layer() -> None:
    mlp = MLP(4, [8, 6], 3, 0.0, torch.Generator().manual_seed(1)).double().eval()
    x = rows(5, 4)
    assert isinstance(mlp.output, Linear)
    assert torch.equal(mlp(x), mlp.output(mlp.hidden(x)))


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


def test_a_layer_may_be_called_with_many_rows_and_then_with_one() -> None:
    """Both ways of computing within one step: the first one's gradient is still there."""
    norm, many, one = make_norm(3), rows(5, 3).requires_grad_(), rows(1, 3, seed=1)
    (norm(many).square().sum() + norm(one).sum()).backward()
    assert torch.isfinite(many.grad).all()


@pytest.mark.parametrize("count", [1, 5])
def test_set_norm_is_the_same_in_evaluation(count: int) -> None:
    norm, x = SetNorm(3).double(), rows(count, 3)
    expected = norm(x)
    before = [buffer.clone() for buffer in norm.buffers()]
    torch.testing.assert_close(norm.eval()(x), expected)
    for old, buffer in zip(before, norm.buffers(), strict=True):
        assert torch.equal(old, buffer)


def test_trunk_is_the_hidden_part_of_a_perceptron() -> None:
    trunk, mlp, x = Trunk(4, (6, 5), 0.0, seeded()), MLP(4, (6, 5), 3, 0.0, seeded()), rows(7, 4)
    torch.testing.assert_close(trunk.double()(x), mlp.double().hidden(x))
    assert set(trunk.state_dict()) == {k for k in mlp.state_dict() if not k.startswith("output")}
