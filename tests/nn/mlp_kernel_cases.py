"""Cases of `test_kernels.py`: kernels in float32 and bfloat16 beside plain code in float64."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from viewgap.nn import codebook, linear, losses, norm
from viewgap.nn.autoencoder import ViewDecoder, ViewEncoder
from viewgap.nn.kernels import bias_relu, gather
from viewgap.nn.kernels import codebook as codebook_kernels
from viewgap.nn.kernels import norm as norm_kernels
from viewgap.nn.kernels import squared_error as error_kernels
from viewgap.nn.linear import set_matmul_dtype
from viewgap.nn.losses import squared_error
from viewgap.nn.mlp import MLP
from viewgap.nn.norm import RowNorm


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def assert_near(
    found: Tensor, expected: Tensor, tolerance: float = 1e-5, size: float | None = None
) -> None:
    """Equal up to rounding; `size`: of the numbers that were added up, else of the largest one."""
    size = float(expected.abs().max()) if size is None else size
    torch.testing.assert_close(found.double(), expected, rtol=tolerance, atol=tolerance * size)


# ---------------------------------------------------------------------- look-up in the codebook


@pytest.mark.parametrize(("n", "k", "width"), [(1, 1, 4), (63, 31, 4), (130, 100, 8), (64, 32, 3)])
def test_nearest_codes(n: int, k: int, width: int) -> None:
    points, codes = F.normalize(draw(n, width)), F.normalize(draw(k, width, seed=1))
    found = codebook_kernels.nearest_codes(points, codes)
    assert found.dtype == torch.long
    assert torch.equal(found, codebook.nearest_codes(points.double(), codes.double()))


def test_the_first_of_equal_codes_wins() -> None:
    points = F.normalize(draw(40, 4))
    codes = F.normalize(draw(7, 4, seed=1)).repeat(11, 1)  # further apart than one pass reaches
    assert int(codebook_kernels.nearest_codes(points, codes).max()) < 7


def test_rows_that_are_not_contiguous_and_no_rows_at_all() -> None:
    points, codes = F.normalize(draw(20, 8))[:, ::2], F.normalize(draw(9, 4, seed=1))
    expected = (points.double() @ codes.double().T).argmax(dim=1)
    assert torch.equal(codebook_kernels.nearest_codes(points, codes), expected)
    assert codebook_kernels.nearest_codes(points[:0], codes).shape == (0,)


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize(
    ("rows", "groups", "k", "width"), [(1, 1, 1, 4), (70, 3, 37, 4), (9, 2, 5, 3)]
)
def test_quantise(rows: int, groups: int, k: int, width: int, weighted: bool) -> None:
    x, upstream = draw(rows, groups * width, seed=3), draw(rows, groups * width, seed=1)
    if rows > 2:
        x[2] = 0.0  # has no direction
    weight = (draw(rows, seed=2) > 0).float() if weighted else torch.ones(rows)
    book = codebook.SharedCodebook(k, width, torch.Generator().manual_seed(0)).double().eval()
    plain, leaf = x.double().requires_grad_(), x.clone().requires_grad_()
    expected = book(plain, weight.double())
    codes = F.normalize(book.codes, dim=1).float()
    vectors, segments, numbers, loss = codebook_kernels.Quantise.apply(leaf, codes, weight)
    assert torch.equal(numbers, expected.indices)
    assert torch.equal(vectors, codes[numbers].reshape(x.shape))  # the code itself, to the bit
    assert_near(segments, expected.segments)
    assert_near(loss.detach(), expected.loss.detach())
    (3 * loss + (vectors * upstream).sum()).backward()
    (3 * expected.loss + (expected.vectors * upstream.double()).sum()).backward()
    some = x.double().abs().sum(dim=1) > 0  # without a direction both divide by 1e-12
    assert_near(leaf.grad[some], plain.grad[some], 1e-5, 10.0)
    assert_near(leaf.grad[~some], plain.grad[~some], 1e-5, 1e12)
    assert not segments.requires_grad


def test_quantise_without_anybody_who_counts() -> None:
    x, codes = draw(5, 8).requires_grad_(), F.normalize(draw(7, 4, seed=1))
    _, _, _, loss = codebook_kernels.Quantise.apply(x, codes, torch.zeros(5))
    loss.backward()
    assert float(loss.detach()) == 0.0
    assert (x.grad == 0).all()


# ---------------------------------------------------------------------- gathering rows


@pytest.mark.parametrize("given", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("wanted", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("features", [1, 33, 600])
def test_gather(features: int, given: torch.dtype, wanted: torch.dtype) -> None:
    x = draw(9, features).bfloat16().to(given)  # numbers that both formats have
    rows = torch.tensor([3, 9, 0, 8, 9, 1])
    padded = torch.cat([x, x.new_zeros(1, features)])
    found = gather.gather(x, rows, wanted)
    assert found.dtype == wanted
    assert torch.equal(found, padded[rows].to(wanted))
    assert gather.gather(x, rows[:0], wanted).shape == (0, features)
    assert (gather.gather(x[:0], torch.zeros(2, dtype=torch.long), wanted) == 0).all()


# ---------------------------------------------------------------------- bias, normalisation, GELU


def weights_of(kind: str, shape: tuple[int, ...]) -> Tensor | None:
    if kind == "none":
        return None
    weight = (draw(*shape, seed=5) > 0).float()
    weight[..., -1] = 4.0  # one row that stands for several
    if kind == "a group of one row":
        weight[..., :-1] = 0.0
        weight[..., -1] = 1.0
    if kind == "nobody in a group":
        weight[0 if len(shape) > 1 else slice(None)] = 0.0
    return weight


WEIGHTS = ["none", "some", "a group of one row", "nobody in a group"]
SHAPES = [(2, 3), (37, 21), (150, 65), (1, 20, 5), (3, 33, 40)]


def plain_norm(
    x: Tensor, bias: Tensor, weight: Tensor | None, norm: RowNorm, upstream: Tensor, gelu: bool
) -> tuple[Tensor, list[Tensor]]:
    """Value and gradients by the plain code in float64; `norm` keeps the running statistics."""
    norm.double()
    leaves = [x.double().requires_grad_(), bias.double().requires_grad_()]
    counted = None if weight is None else weight.double()
    value = norm(leaves[0] + leaves[1], counted)
    value = F.gelu(value) if gelu else value
    value.backward(upstream.double())
    grads = [leaf.grad for leaf in leaves]
    return value.detach(), [*grads, norm.weight.grad, norm.bias.grad]


def start_norm(features: int) -> RowNorm:
    norm = RowNorm(features)
    with torch.no_grad():
        norm.weight.copy_(1 + 0.3 * draw(features, seed=11))
        norm.bias.copy_(draw(features, seed=12))
        norm.running_mean.copy_(draw(features, seed=13))
        norm.running_var.copy_(1 + draw(features, seed=14).abs())
    return norm


@pytest.mark.parametrize(("shift", "gelu"), [(0.0, True), (30.0, True), (0.0, False)])
@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_norm(shape: tuple[int, ...], kind: str, shift: float, gelu: bool) -> None:
    features = shape[-1]
    x, bias, upstream = draw(*shape) + shift, draw(features, seed=1), draw(*shape, seed=2)
    weight = weights_of(kind, shape[:-1])
    if kind == "nobody in a group":  # and so nobody has a gradient
        upstream = upstream * (weight.sum(dim=-1, keepdim=True) > 0).unsqueeze(-1)
    elif kind == "a group of one row":  # the others are hundreds of deviations away
        upstream = upstream * weight.unsqueeze(-1)
    norm = start_norm(features)
    gamma, beta = (p.detach().clone().requires_grad_() for p in (norm.weight, norm.bias))
    running = norm.running_mean.clone(), norm.running_var.clone()
    leaves = [x.clone().requires_grad_(), bias.clone().requires_grad_()]
    found = norm_kernels.FusedNorm.apply(
        leaves[0], leaves[1], weight, gamma, beta, *running, norm.momentum, norm.eps, gelu
    )
    found.backward(upstream)
    value, (dx, dbias, dgamma, dbeta) = plain_norm(x, bias, weight, norm, upstream, gelu)
    # Rows of a group in which nobody counts need only be finite.
    empty = torch.zeros(shape[:-1]) if weight is None else (weight > 0).sum(-1, keepdim=True) == 0
    here = ~empty.expand(shape[:-1]).bool()
    assert torch.isfinite(found).all()
    # Subtracting the mean costs digits of float32, of a large mean more; in a group of one row
    # what is left is divided by √eps instead of a deviation.
    tolerance = 1e-5 if shift == 0 else 2e-4
    steep = 300 if kind == "a group of one row" or shape[-2] == 2 else 10
    assert_near(found.detach()[here], value[here], tolerance, steep)
    assert_near(leaves[0].grad, dx, tolerance, steep)
    rows = x.numel() / features
    assert_near(leaves[1].grad, dbias, tolerance, steep * rows)  # nothing but rounding
    assert_near(gamma.grad, dgamma, tolerance, steep * rows)
    assert_near(beta.grad, dbeta, tolerance, rows)
    assert_near(running[0], norm.running_mean, tolerance)
    assert_near(running[1], norm.running_var, tolerance)


@pytest.mark.parametrize("gelu", [True, False])
@pytest.mark.parametrize("shape", [(37, 21), (3, 33, 40)], ids=str)
def test_norm_of_bfloat16(shape: tuple[int, ...], gelu: bool) -> None:
    """x is rounded, and hidden layers; codes, and all that is added up in between, are float32."""
    features, norm = shape[-1], start_norm(shape[-1])
    x, upstream = draw(*shape).bfloat16(), draw(*shape, seed=2).bfloat16()
    bias, weight = draw(features, seed=1), weights_of("some", shape[:-1])
    gamma, beta = (p.detach().clone().requires_grad_() for p in (norm.weight, norm.bias))
    running = norm.running_mean.clone(), norm.running_var.clone()
    leaf = x.clone().requires_grad_()
    found = norm_kernels.FusedNorm.apply(leaf, bias, weight, gamma, beta, *running, 0.1, 1e-5, gelu)
    assert found.dtype == (torch.bfloat16 if gelu else torch.float32)
    upstream = upstream.to(found.dtype)
    found.backward(upstream)
    value, (dx, _, dgamma, dbeta) = plain_norm(x, bias, weight, norm, upstream, gelu)
    assert_near(found.detach(), value, 2**-8 if gelu else 1e-5, 10)
    assert_near(leaf.grad, dx, 2**-8)
    assert_near(gamma.grad, dgamma)
    assert_near(beta.grad, dbeta)
    assert_near(running[0], norm.running_mean)
    assert_near(running[1], norm.running_var)


# ---------------------------------------------------------------------- squared error of a decoder


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape", [(1, 1), (50, 40), (130, 33), (7, 1100)], ids=str)
def test_squared_error(shape: tuple[int, int], dtype: torch.dtype) -> None:
    count, features = shape
    x, bias, table = draw(*shape).to(dtype), draw(features, seed=1), draw(29, features, seed=2)
    rows = torch.randint(29, (count,), generator=torch.Generator().manual_seed(3))
    share = draw(count, seed=4).clamp(min=0.0)
    results = []
    for leaves in (
        [x.clone().requires_grad_(), bias.clone().requires_grad_()],
        [x.double().requires_grad_(), bias.double().requires_grad_()],
    ):
        if leaves[0].dtype == dtype:
            error = error_kernels.SquaredError.apply(*leaves, table, rows, share)
        else:
            gap = leaves[0] + leaves[1] - table.double()[rows]
            error = (gap.square().mean(dim=-1) * share.double()).sum()
        (3 * error).backward()
        results.append((error.detach(), leaves[0].grad, leaves[1].grad))
    (error, dx, dbias), (expected, want_dx, want_dbias) = results
    assert_near(error, expected)
    assert_near(dx, want_dx, 1e-5 if dtype == torch.float32 else 2**-8)
    assert_near(dbias, want_dbias)


# ---------------------------------------------------------------------- bias and ReLU


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape", [(1, 1), (50, 40), (130, 33), (300, 65)], ids=str)
def test_bias_relu(shape: tuple[int, int], dtype: torch.dtype) -> None:
    x, bias, upstream = draw(*shape).to(dtype), draw(shape[1], seed=1), draw(*shape, seed=2)
    upstream = upstream.to(dtype)
    leaves = [x.clone().requires_grad_(), bias.clone().requires_grad_()]
    found = bias_relu.BiasRelu.apply(*leaves)
    assert found.dtype == dtype
    found.backward(upstream)
    plain = [x.float().requires_grad_(), bias.clone().requires_grad_()]
    value = torch.relu(plain[0] + plain[1])
    value.backward(upstream.float())
    # Triton's interpreter cuts bfloat16 off where a GPU rounds.
    torch.testing.assert_close(
        found.detach().float(), value.detach(), rtol=0 if dtype == torch.float32 else 2**-7, atol=0
    )
    assert torch.equal(leaves[0].grad, plain[0].grad.to(dtype))
    assert_near(leaves[1].grad, plain[1].grad.double(), 1e-5, 10.0 * shape[0] ** 0.5)


def test_bias_relu_hides_no_number_that_is_none() -> None:
    found = bias_relu.BiasRelu.apply(torch.tensor([[float("nan"), -1.0]]), torch.zeros(2))
    assert found.isnan().tolist() == [[True, False]]


# ---------------------------------------------------------------------- networks that use them


def autoencode(matmul_dtype: torch.dtype | None, dtype: torch.dtype) -> tuple[Tensor, ...]:
    """A view through encoder and decoder: the codes, the error, all gradients and statistics."""
    generator = torch.Generator().manual_seed(0)
    encoder, decoder = ViewEncoder(30, 16, 8, generator), ViewDecoder(30, 16, 8, generator)
    both = torch.nn.ModuleList([encoder, decoder]).to(dtype)
    set_matmul_dtype(both, matmul_dtype)
    table, rows = draw(40, 30, seed=1).to(dtype), torch.arange(20)
    weight = weights_of("some", (20,)).to(dtype)
    codes = encoder(table[rows], weight)
    share = (weight > 0).to(dtype)
    error = squared_error(decoder.output, decoder.hidden(codes), table, rows, share)
    (error + codes.square().mean()).backward()
    gradients = [p.grad for name, p in both.named_parameters() if name != "0.layers.3.bias"]
    return codes.detach(), error.detach(), *gradients, *both.buffers()


@pytest.mark.parametrize("matmul_dtype", [None, torch.bfloat16], ids=str)
def test_autoencoder(matmul_dtype: torch.dtype | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """As by plain code in float64; in bfloat16 codes and error are near, and all is float32."""
    expected = autoencode(None, torch.float64)
    monkeypatch.setattr(norm, "kernels_for", lambda x, name: norm_kernels)
    monkeypatch.setattr(linear, "kernels_for", lambda x, name: bias_relu)
    monkeypatch.setattr(losses, "kernels_for", lambda x, name: error_kernels)
    found = autoencode(matmul_dtype, torch.float32)
    assert all(one.dtype == torch.float32 and one.isfinite().all() for one in found)
    if matmul_dtype is None:
        for one, other in zip(found, expected, strict=True):
            assert_near(one, other, 1e-4)
    else:  # of gradients this cannot be said: rounding decides which hidden units are on
        for one, other in zip(found[:2], expected[:2], strict=True):
            assert (one - other).norm() < 0.2 * other.norm()


def decode(matmul_dtype: torch.dtype | None, dtype: torch.dtype) -> tuple[Tensor, MLP, Tensor]:
    decoder = MLP(12, [16, 10], 7, 0.0, torch.Generator().manual_seed(0)).to(dtype)
    set_matmul_dtype(decoder, matmul_dtype)
    x = draw(3, 20, 12).to(dtype).requires_grad_()
    weight = weights_of("some", (3, 20)).to(dtype)
    rows = torch.randint(29, (3, 20), generator=torch.Generator().manual_seed(3))
    share, table = (weight > 0).to(dtype), draw(29, 7, seed=2).to(dtype)
    error = squared_error(decoder.output, decoder.hidden(x, weight), table, rows, share)
    error.backward()
    return error.detach(), decoder, x.grad


@pytest.mark.parametrize("matmul_dtype", [None, torch.bfloat16], ids=str)
def test_decoder(matmul_dtype: torch.dtype | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three groups through two hidden layers; in bfloat16 near, and all results in float32."""
    expected, plain, want_dx = decode(None, torch.float64)
    monkeypatch.setattr(norm, "kernels_for", lambda x, name: norm_kernels)
    monkeypatch.setattr(losses, "kernels_for", lambda x, name: error_kernels)
    found, decoder, dx = decode(matmul_dtype, torch.float32)
    tolerance = 1e-4 if matmul_dtype is None else 0.03
    assert found.dtype == dx.dtype == torch.float32
    assert_near(found, expected, tolerance)
    assert_near(dx, want_dx, tolerance)
    for (name, a), b in zip(decoder.named_parameters(), plain.parameters(), strict=True):
        assert a.grad.dtype == torch.float32
        if not (name.startswith("linears") and name.endswith("bias")):
            assert_near(a.grad, b.grad, tolerance)
    for a, b in zip(decoder.buffers(), plain.buffers(), strict=True):
        assert_near(a, b, tolerance)
