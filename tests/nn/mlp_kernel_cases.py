"""Cases of `test_kernels.py`: kernels in float32 and bfloat16 beside plain code in float64."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from viewgap.nn import codebook, losses, mlp
from viewgap.nn.kernels import codebook as codebook_kernels
from viewgap.nn.kernels import gather, norm_gelu
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


def plain_norm_gelu(
    x: Tensor, bias: Tensor, weight: Tensor | None, norm: RowNorm, upstream: Tensor
) -> tuple[Tensor, list[Tensor]]:
    """Value and gradients by the plain code in float64; `norm` keeps the running statistics."""
    norm.double()
    leaves = [x.double().requires_grad_(), bias.double().requires_grad_()]
    counted = None if weight is None else weight.double()
    value = F.gelu(norm(leaves[0] + leaves[1], counted))
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


@pytest.mark.parametrize("shift", [0.0, 30.0])
@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_norm_gelu(shape: tuple[int, ...], kind: str, shift: float) -> None:
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
    found = norm_gelu.NormGelu.apply(
        leaves[0], leaves[1], weight, gamma, beta, *running, norm.momentum, norm.eps
    )
    found.backward(upstream)
    value, (dx, dbias, dgamma, dbeta) = plain_norm_gelu(x, bias, weight, norm, upstream)
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


@pytest.mark.parametrize("shape", [(37, 21), (3, 33, 40)], ids=str)
def test_norm_gelu_of_bfloat16(shape: tuple[int, ...]) -> None:
    """Only x and the result are rounded; all that is added up in between is float32."""
    features, norm = shape[-1], start_norm(shape[-1])
    x, upstream = draw(*shape).bfloat16(), draw(*shape, seed=2).bfloat16()
    bias, weight = draw(features, seed=1), weights_of("some", shape[:-1])
    gamma, beta = (p.detach().clone().requires_grad_() for p in (norm.weight, norm.bias))
    running = norm.running_mean.clone(), norm.running_var.clone()
    leaf = x.clone().requires_grad_()
    found = norm_gelu.NormGelu.apply(leaf, bias, weight, gamma, beta, *running, 0.1, 1e-5)
    assert found.dtype == torch.bfloat16
    found.backward(upstream)
    value, (dx, _, dgamma, dbeta) = plain_norm_gelu(x, bias, weight, norm, upstream)
    assert_near(found.detach(), value, 2**-8)
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


# ---------------------------------------------------------------------- a decoder that uses them


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
    monkeypatch.setattr(mlp, "kernels_for", lambda x, name: norm_gelu)
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
