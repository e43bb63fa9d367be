"""The codebook: nearest code by brute force, straight-through gradient, learning, bad starts."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from viewgap.nn.codebook import Quantised, SharedCodebook, code_sums, nearest_codes


def make(size: int = 7, learning: str = "ema", seed: int = 0) -> SharedCodebook:
    book = SharedCodebook(size, 4, torch.Generator().manual_seed(seed), learning=learning)
    return book.double()


def codes_of(rows: int, groups: int = 3, seed: int = 1) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, groups * 4, dtype=torch.float64, generator=generator)


def train_on(
    book: SharedCodebook, x: torch.Tensor, weight: torch.Tensor | None = None
) -> Quantised:
    """What a training step does with the codebook."""
    quantised: Quantised = book(x, weight)
    book.learn(quantised)
    return quantised


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 30), st.integers(2, 40), st.integers(0, 2**16))
def test_nearest_is_the_argmin_of_the_distance(n: int, k: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    points = F.normalize(torch.randn(n, 4, dtype=torch.float64, generator=generator), dim=1)
    centres = F.normalize(torch.randn(k, 4, dtype=torch.float64, generator=generator), dim=1)
    brute = [min(range(k), key=lambda j: float((p - centres[j]).square().sum())) for p in points]
    assert nearest_codes(points, centres).tolist() == brute


def test_output_is_the_code_to_the_bit_and_gradient_passes_the_normalisation() -> None:
    book, x = make().eval(), codes_of(5).requires_grad_()
    quantised = book(x)
    chosen = book.codes[quantised.indices.flatten()].reshape(5, 12)
    assert torch.equal(
        quantised.vectors, F.normalize(book.codes, dim=1)[quantised.indices].reshape(5, 12)
    )
    torch.testing.assert_close(quantised.vectors.detach(), chosen)
    upstream = codes_of(5, seed=9)
    (got,) = torch.autograd.grad((quantised.vectors * upstream).sum(), x)
    y = x.detach().clone().requires_grad_()
    unit = F.normalize(y.reshape(-1, 4), dim=1).reshape(5, 12)
    (expected,) = torch.autograd.grad((unit * upstream).sum(), y)
    torch.testing.assert_close(got, expected)


def test_loss_is_the_mean_squared_gap_of_the_rows_that_count() -> None:
    book, x = make().eval(), codes_of(4)
    weight = torch.tensor([1.0, 0.0, 1.0, 1.0], dtype=torch.float64)
    total, count = 0.0, 0
    for i in (0, 2, 3):
        for segment in x[i].reshape(3, 4):
            unit = segment / segment.norm()
            codes = F.normalize(book.codes, dim=1)
            total += min(float((unit - code).square().sum()) for code in codes)
            count += 4
    assert float(book(x, weight).loss) == pytest.approx(total / count, abs=1e-12)


def test_ema_moves_used_codes_only() -> None:
    book, x = make().train(), codes_of(6)
    book(x)  # starts by k-means
    other = codes_of(2, seed=2)  # fewer than codes, and away from them
    before = book.codes.clone()
    quantised = book(other)
    assert torch.equal(book.codes, before)  # looking up teaches nothing
    counts = book.learn(quantised)
    indices = quantised.indices.flatten()
    segments = F.normalize(other.reshape(-1, 4), dim=1)
    assert not book.used.all()
    for j in range(7):
        mine = segments[indices == j]
        assert float(counts[j]) == len(mine)
        assert bool(book.used[j]) == (len(mine) > 0)
        expected = before[j]
        if len(mine):
            expected = F.normalize(
                0.99 * before[j] + 0.01 * F.normalize(mine.mean(0), dim=0), dim=0
            )
            assert not torch.equal(book.codes[j], before[j])
        torch.testing.assert_close(book.codes[j], expected, rtol=1e-10, atol=1e-12)


def test_rows_that_do_not_count_teach_nothing() -> None:
    x = codes_of(6)
    weight = torch.tensor([1.0, 1.0, 1.0, 1.0, 0.0, 0.0], dtype=torch.float64)
    changed = x.clone()
    changed[4:] = 1e3
    books = [make().train(), make().train()]
    for book, data in zip(books, (x, changed), strict=True):
        for _ in range(3):
            train_on(book, data, weight)
    assert torch.equal(books[0].codes, books[1].codes)
    assert torch.equal(books[0].used, books[1].used)


def test_gradient_learning_pulls_codes_towards_segments(trained: Any) -> None:
    book, x = make(learning="gradient").train(), codes_of(60, seed=trained.seed)
    book(x)  # starts by k-means
    best = float(book(x).loss.detach())
    assert isinstance(book.codes, torch.nn.Parameter)
    with torch.no_grad():  # away from the optimum that k-means found
        book.codes += torch.randn(7, 4, generator=torch.Generator().manual_seed(5 + trained.seed))
    first = float(book(x).loss.detach())
    optimiser = torch.optim.SGD(book.parameters(), lr=5.0)
    for _ in range(200):
        optimiser.zero_grad()
        loss = train_on(book, x).loss
        loss.backward()
        optimiser.step()
    left = (float(loss.detach()) - best) / (first - best)
    trained.below(left, 1.0, "what is left of the way back")


@pytest.mark.parametrize("x", [torch.ones(1, 4), torch.ones(9, 8), torch.zeros(3, 4)])
def test_start_with_fewer_or_equal_points_than_codes_stays_finite(x: torch.Tensor) -> None:
    book = make(size=16).train()
    quantised = train_on(book, x.double())
    assert torch.isfinite(book.codes).all()
    assert torch.isfinite(quantised.vectors).all()


def test_usage_counts_codes_since_the_reset() -> None:
    book = make().train()
    train_on(book, codes_of(30))
    assert 0 < float(book.usage()) <= 1
    book.reset_usage()
    assert float(book.usage()) == 0


def test_sums_equal_a_loop() -> None:
    points, weight = codes_of(10, groups=1), torch.rand(10, dtype=torch.float64)
    indices = torch.arange(10) % 4
    sums, counts = code_sums(points, indices, weight, 5)
    for j in range(5):
        mine = indices == j
        torch.testing.assert_close(sums[j], (points[mine] * weight[mine, None]).sum(0))
        torch.testing.assert_close(counts[j], weight[mine].sum())
