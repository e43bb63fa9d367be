"""Gaussian codes against loops written from the equations, one number at a time."""

import math

import pytest
import torch
from torch import Tensor

from small_batches import draw, naive_kl, normal
from viewgap.nn.gaussian import (
    MeanOfDraws,
    MutualInformation,
    coherence_loss,
    gaussian_kl,
    kl_to_standard_normal,
    product_of_experts,
)

B, K = 9, 6


def test_product_of_experts() -> None:
    mean, variance = normal(3, B, K), draw(3, B, K, seed=1) + 0.1
    observed = draw(B, 3, seed=2) > 0.4
    observed[0] = False  # nothing but the prior
    found_mean, found_variance = product_of_experts(mean, variance, observed)
    for i in range(B):
        for d in range(K):
            experts = [
                (float(mean[v, i, d]), 1 / (float(variance[v, i, d]) + 1e-5))
                for v in range(3)
                if observed[i, v]
            ]
            total = 1 / (1 + 1e-5) + sum(t for _, t in experts) + 1e-5
            assert float(found_variance[i, d]) == pytest.approx(1 / total, rel=1e-12)
            expected = sum(m * t for m, t in experts) / total
            assert float(found_mean[i, d]) == pytest.approx(expected, rel=1e-12, abs=1e-15)


def test_divergence_and_coherence() -> None:
    mean, variance = normal(3, B, K), draw(3, B, K, seed=1) + 0.1
    fused_mean, fused = normal(B, K, seed=3), draw(B, K, seed=4) + 0.1
    observed = draw(B, 3, seed=2) > 0.4
    variance[~observed.T] = 0.0  # as stacked codes are
    total, count = 0.0, 0
    for i in range(B):
        for v in range(3):
            if observed[i, v]:
                pairs = zip(fused_mean[i], fused[i], mean[v, i], variance[v, i], strict=True)
                total += sum(naive_kl(*map(float, pair)) for pair in pairs) / K
                count += 1
    found = coherence_loss(mean, variance, fused_mean, fused, observed)
    assert float(found) == pytest.approx(total / count, rel=1e-9)
    nobody = coherence_loss(mean, variance, fused_mean, fused, torch.zeros_like(observed))
    assert float(nobody) == 0.0


def test_divergence_against_torch() -> None:
    mean, variance = normal(B, K), draw(B, K, seed=1) + 0.1
    ours = kl_to_standard_normal(mean, variance)
    one = torch.distributions.Normal(mean, variance.sqrt())
    standard = torch.distributions.Normal(torch.zeros_like(mean), torch.ones_like(mean))
    torch.testing.assert_close(
        ours, torch.distributions.kl_divergence(one, standard), rtol=1e-9, atol=1e-10
    )


def naive_log_likelihood(p: Tensor, mean: Tensor, variance: Tensor) -> float:
    """Log-density of a Gaussian, divided by the number of coordinates, without its constant."""
    cells = zip(p.tolist(), mean.tolist(), variance.tolist(), strict=True)
    return sum(-0.5 * ((a - m) ** 2 / s + math.log(s)) for a, m, s in cells) / len(p)


@pytest.mark.parametrize("related", [True, False])
def test_mutual_information(related: bool) -> None:
    part = MutualInformation(K, torch.Generator().manual_seed(0)).double()
    s, weight = normal(B, K), torch.ones(B, dtype=torch.float64)
    weight[[1, 6]] = 0.0
    with torch.no_grad():
        mean, variance = part.guess(s)
    # Codes that the guess hits, or codes of other samples: then the bound is negative.
    p = mean + 0.1 * normal(B, K, seed=1) if related else torch.flip(mean, [0])
    rows = [i for i in range(B) if weight[i]]
    likelihood = [naive_log_likelihood(p[i], mean[i], variance[i]) for i in rows]
    others = [
        sum(naive_log_likelihood(p[j], mean[i], variance[i]) for j in rows) / len(rows)
        for i in rows
    ]
    bound = (sum(likelihood) - sum(others)) / len(rows)
    assert (bound > 0) is related
    assert float(part.bound(s, p, weight)) == pytest.approx(max(bound, 0.0), rel=1e-9)
    misfit = -sum(likelihood) / len(rows)
    assert float(part.misfit(s, p, weight).detach()) == pytest.approx(misfit, rel=1e-9)
    nobody = torch.zeros_like(weight)
    assert float(part.bound(s, p, nobody)) == float(part.misfit(s, p, nobody).detach()) == 0.0


def test_guess_and_codes_are_trained_by_different_terms() -> None:
    part = MutualInformation(K, torch.Generator().manual_seed(0)).double()
    s, weight = normal(B, K).requires_grad_(), torch.ones(B, dtype=torch.float64)
    p = (part.guess(s)[0].detach() + 0.01 * normal(B, K, seed=1)).requires_grad_()
    codes, network = [s, p], list(part.parameters())
    bound = part.bound(s, p, weight)
    found = torch.autograd.grad(bound, codes + network, allow_unused=True)
    assert all((gradient != 0).any() for gradient in found[:2])
    assert all(gradient is None for gradient in found[2:])
    misfit = part.misfit(s, p, weight)
    found = torch.autograd.grad(misfit, codes + network, allow_unused=True)
    assert all(gradient is None for gradient in found[:2])
    assert all((gradient != 0).any() for gradient in found[2:])


@pytest.mark.parametrize("count", [1, 10])
def test_mean_of_draws(count: int) -> None:
    part = MeanOfDraws(count)
    part.generator = torch.Generator().manual_seed(0)
    mean, variance = torch.full((200_000,), 3.0), torch.full((200_000,), 4.0)
    before = torch.get_rng_state()
    found = part(mean, variance)
    assert torch.equal(torch.get_rng_state(), before)
    assert float(found.mean()) == pytest.approx(3.0, abs=0.02)
    assert float(found.std()) == pytest.approx(2.0 / math.sqrt(count), rel=0.02)
    variance = torch.zeros(5, requires_grad=True)  # a variance that was rounded to 0
    part(mean[:5], variance).sum().backward()
    assert torch.isfinite(variance.grad).all()


def test_gradcheck_of_gaussians() -> None:
    mean, variance = normal(3, B, K).requires_grad_(), (draw(3, B, K) + 0.2).requires_grad_()
    observed = draw(B, 3, seed=2) > 0.4
    assert torch.autograd.gradcheck(
        lambda m, s: product_of_experts(m, s, observed), (mean, variance)
    )

    def coherence(m: Tensor, s: Tensor) -> Tensor:
        return coherence_loss(m, s, *product_of_experts(m, s, observed), observed)

    assert torch.autograd.gradcheck(coherence, (mean, variance))
    assert torch.autograd.gradcheck(kl_to_standard_normal, (mean, variance))
    assert torch.autograd.gradcheck(
        lambda m, s: gaussian_kl(m[0], s[0], m[1], s[1]), (mean, variance)
    )
    part = MutualInformation(K, torch.Generator().manual_seed(0)).double()
    weight = (draw(B, seed=3) > 0.3).double()
    s = normal(B, K).requires_grad_()
    p = part.guess(s)[0].detach().requires_grad_()
    assert torch.autograd.gradcheck(lambda s, p: part.bound(s, p, weight), (s, p))

    class Misfit(torch.nn.Module):
        """`misfit` as `forward`, so that a weight can be handed in."""

        def __init__(self) -> None:
            super().__init__()
            self.part = part

        def forward(self) -> Tensor:
            return self.part.misfit(s, p, weight)

    def misfit(given: Tensor) -> Tensor:
        return torch.func.functional_call(Misfit(), {"part.head.variance.weight": given}, ())

    start = part.head.variance.weight.detach().clone().requires_grad_()
    assert torch.autograd.gradcheck(misfit, (start,))
