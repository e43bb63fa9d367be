"""Cases of `test_attention_kernels.py`: kernels beside plain code in float64."""

import pytest
import torch
from torch import Tensor

from viewgap.nn import attention, attention_kernels, dropout_kernels
from viewgap.nn.attention import LayerNorm, SharedTokenLayer, TransformerLayer

KERNELS = {"attention_kernels": attention_kernels, "dropout_kernels": dropout_kernels}


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def assert_near(found: Tensor, expected: Tensor, tolerance: float = 1e-5) -> None:
    size = float(expected.abs().max())
    torch.testing.assert_close(found.double(), expected, rtol=tolerance, atol=tolerance * size)


def leaves(*tensors: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """The same numbers twice, to differentiate in float32 and in float64."""
    single = [t.clone().requires_grad_() for t in tensors]
    return single, [t.detach().double().requires_grad_() for t in tensors]


@pytest.mark.parametrize("rows", [1, 7, 40])
@pytest.mark.parametrize("features", [1, 2, 12, 32])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_standardise(
    rows: int, features: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention_kernels, "_PROGRAMS", 3)  # some programs have several rows
    near = 1e-5 if dtype == torch.float32 else 1e-2
    tensors = (2 + draw(rows, features), draw(features, seed=1), draw(features, seed=2))
    single, double = leaves(*tensors)
    upstream = draw(rows, features, seed=3).to(dtype)
    found, same = attention_kernels.Standardise.apply(*single, 1e-6, dtype)
    norm = LayerNorm(features).double()
    norm.weight, norm.bias = map(torch.nn.Parameter, (t.detach() for t in double[1:]))
    expected = norm(double[0])
    assert found.dtype == dtype
    assert_near(found.detach(), expected.detach(), near)
    around = draw(rows, features, seed=4)
    ((found * upstream).sum() + (same * around).sum()).backward()
    ((expected * upstream.double()).sum() + (double[0] * around).sum()).backward()
    if features > 2:  # one or two numbers are always the same afterwards, up to ε
        assert_near(single[0].grad, double[0].grad, 1e-4)
    assert_near(single[1].grad, norm.weight.grad, 1e-4)
    assert_near(single[2].grad, norm.bias.grad, 1e-4)


def test_standardise_equal_numbers() -> None:
    x = torch.zeros(3, 8, requires_grad=True)
    found, _ = attention_kernels.Standardise.apply(x, torch.ones(8), torch.ones(8), 1e-6, x.dtype)
    assert (found == 1).all()
    found.sum().mul(0.0).backward()
    assert (x.grad == 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_add_branch(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention_kernels, "_PROGRAMS", 4)
    near = 1e-5 if dtype == torch.float32 else 1e-2
    product = draw(3, 5, 12, seed=1).to(dtype)
    single, double = leaves(draw(3, 5, 12), product, draw(12, seed=2))
    kept, upstream = (draw(3, 5, 12, seed=3) > 0).byte(), draw(3, 5, 12, seed=4)
    found = attention_kernels.AddBranch.apply(*single, kept, 1.5)
    x, branch, bias = double
    expected = x + 1.5 * kept * (branch + bias)
    assert_near(found.detach(), expected.detach())
    (found * upstream).sum().backward()
    (expected * upstream.double()).sum().backward()
    assert single[1].grad.dtype == dtype
    for a, b in zip(single, double, strict=True):
        assert_near(a.grad, b.grad, near)


@pytest.mark.parametrize("tokens", [1, 5, 37])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_mix(tokens: int, dtype: torch.dtype) -> None:
    heads, samples, size = 2, 3, 4
    near = 1e-5 if dtype == torch.float32 else 2e-2
    among = draw(heads, samples, tokens, size, seed=1).to(dtype)
    gate = draw(heads, samples, tokens, seed=2).sigmoid()
    value = draw(heads, samples, size, seed=4)
    tensors = (draw(samples, heads * size), among, gate, 1.4 * gate, value)
    single, double = leaves(*tensors)
    upstream = draw(samples, 1 + tokens, heads * size, seed=5).to(dtype)
    found = attention_kernels.Mix.apply(*single)
    own, mixed, share, passed, values = double
    shared = (1 - share.unsqueeze(-1)) * mixed + passed.unsqueeze(-1) * values.unsqueeze(2)
    shared = shared.permute(1, 2, 0, 3).flatten(2)
    expected = torch.cat([own.unsqueeze(1), shared], dim=1)
    assert found.dtype == dtype
    assert_near(found.detach(), expected.detach(), near)
    (found * upstream).sum().backward()
    (expected * upstream.double()).sum().backward()
    for a, b in zip(single, double, strict=True):
        assert_near(a.grad, b.grad, near)


def test_which_heads_can_be_mixed() -> None:
    assert attention_kernels.can_mix(torch.empty(4, 2, 3, 128))
    assert not attention_kernels.can_mix(torch.empty(3, 2, 3, 128))
    assert not attention_kernels.can_mix(torch.empty(4, 2, 3, 12))
    assert not attention_kernels.can_mix(torch.empty(4, 2, 3, 2048))


def test_drop() -> None:
    x, seed = draw(50, 47), torch.tensor([12345])
    found = dropout_kernels.drop(x, seed, 0.7)
    kept = found != 0
    assert float(kept.float().mean()) == pytest.approx(0.7, abs=0.04)
    torch.testing.assert_close(found[kept], x[kept] / 0.7)
    assert torch.equal(found, dropout_kernels.drop(x, seed, 0.7))
    assert not torch.equal(found, dropout_kernels.drop(x, seed + 1, 0.7))
    for lag in (1, 256, 512):  # neighbours are independent of each other
        both = kept.flatten()[lag:] & kept.flatten()[:-lag]
        assert float(both.float().mean()) == pytest.approx(0.49, abs=0.05)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("rows", "features"), [(1, 8), (70, 130)])
def test_hidden_back(rows: int, features: int, dtype: torch.dtype) -> None:
    y, gradient = draw(rows, features).relu().to(dtype), draw(rows, features, seed=1).to(dtype)
    slope, of_bias = dropout_kernels.hidden_back(gradient, y, 1.5)
    expected = 1.5 * gradient.double() * (y > 0)
    assert slope.dtype == dtype
    assert_near(slope, expected, 1e-5 if dtype == torch.float32 else 1e-2)
    assert_near(of_bias, expected.sum(dim=0))


@pytest.mark.parametrize("count", [1, 5, 8, 37])
def test_drop_weights(count: int) -> None:
    heads, samples = 2, 19
    weights = (0.5 + draw(heads, count, count).sigmoid()).requires_grad_()
    seed = torch.tensor([7])
    found = dropout_kernels.DropWeights.apply(weights, seed, samples, 0.7)
    assert found.shape == (heads, samples, count, -(-count // 8) * 8)
    assert (found[..., count:] == 0).all()
    kept = found[..., :count] != 0
    assert float(kept.float().mean()) == pytest.approx(0.7, abs=0.2 if count < 8 else 0.03)
    torch.testing.assert_close(found[..., :count], kept * weights.unsqueeze(1))
    upstream = draw(*found.shape, seed=1)
    (found * upstream).sum().backward()
    assert_near(weights.grad, (kept * upstream[..., :count].double()).sum(dim=1))


def run_layer(
    kind: type[TransformerLayer], operands: torch.dtype | None, rate: float, shift: float = 0.0
) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    """A layer's result, the tensors it depends on, all moved by `shift`, and their gradients."""
    shapes = [(5, 8), (6, 8)] if kind is SharedTokenLayer else [(5, 3, 8)]
    layer = kind(8, 2, 16, rate, torch.Generator().manual_seed(0)).train()
    layer.dropout.generator = layer.dropout_twice.generator = torch.Generator().manual_seed(1)
    for module in (layer.project, layer.output, layer.widen, layer.narrow):
        module.operands = operands
    # Whether a number near 0 passes the ReLU is up to rounding.
    torch.nn.init.constant_(layer.widen.bias, 8.0)
    inputs = [draw(*shape, seed=7 + n).requires_grad_() for n, shape in enumerate(shapes)]
    known = [*inputs, *layer.parameters()]
    with torch.no_grad():
        for number, tensor in enumerate(known):
            tensor += shift * draw(*tensor.shape, seed=50 + number)
    found = layer(*inputs)
    assert found.dtype == torch.float32
    (found * draw(*found.shape, seed=9)).sum().backward()
    return found.detach(), known, [tensor.grad for tensor in known]


@pytest.mark.parametrize("kind", [TransformerLayer, SharedTokenLayer])
@pytest.mark.parametrize("operands", [None, torch.bfloat16])
def test_whole_layers(
    kind: type[TransformerLayer], operands: torch.dtype | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the kernels as they are called on a GPU, and without, in the same number formats."""
    results = []
    for kernels in ({}, KERNELS):
        monkeypatch.setattr(attention, "kernels_for", lambda x, name, of=kernels: of.get(name))
        found, _, gradients = run_layer(kind, operands, 0.0)
        results.append([found, *gradients])
    near = 1e-4 if operands is None else 5e-2
    for plain, fused in zip(*results, strict=True):
        assert_near(fused, plain.double(), near)


@pytest.mark.parametrize("kind", [TransformerLayer, SharedTokenLayer])
def test_gradient_with_dropout(
    kind: type[TransformerLayer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The backward kernels draw what the forward ones drew: the slope is that of differences."""
    monkeypatch.setattr(attention, "kernels_for", lambda x, name: KERNELS[name])
    found, known, gradients = run_layer(kind, None, 0.3)
    moved = [run_layer(kind, None, 0.3, shift)[0] for shift in (1e-3, -1e-3)]
    slope = ((moved[0] - moved[1]).double() * draw(*found.shape, seed=9)).sum() / 2e-3
    ways = [draw(*tensor.shape, seed=50 + number) for number, tensor in enumerate(known)]
    expected = sum((g * way).sum() for g, way in zip(gradients, ways, strict=True))
    assert float(slope) == pytest.approx(float(expected), rel=0.02)
