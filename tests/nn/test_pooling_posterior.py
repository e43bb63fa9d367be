"""The maximum a posteriori of log-odds pooling: its formula in loops, and a slope of zero there."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from viewgap.nn import pooling_posterior
from viewgap.nn.pooling_posterior import PROB_EPS, PoolingPosterior

M, N, C = 3, 60, 4


def make_posterior(seed: int = 0, labelled: float = 0.8) -> PoolingPosterior:
    rng = torch.Generator().manual_seed(seed)
    true = 1.5 * torch.randn(N, C, generator=rng).double() - 1.0
    noise = torch.tensor([0.3, 1.0, 3.0]).view(M, 1, 1)
    prior = torch.randn(C, generator=rng).double() - 1.0
    observed = torch.rand(N, M, generator=rng) < 0.5
    observed[0] = False
    evidence = true - prior + noise * torch.randn(M, N, C, generator=rng).double()
    return PoolingPosterior(
        torch.where(observed.T.unsqueeze(-1), evidence, math.nan),
        observed,
        torch.rand(N, C, generator=rng) < torch.sigmoid(true),
        torch.rand(N, C, generator=rng) < labelled,
        prior,
        torch.sigmoid(prior),
        torch.tensor([500.0, 20.0, 0.0, 1000.0]),
    )


def naive(posterior: PoolingPosterior, theta: Tensor) -> Tensor:
    """Minus the log posterior, written down entry by entry."""
    log_weight, (log_slope, power, common), own = theta[:M], theta[M : M + 3], theta[M + 3 :]
    scores = []
    for i in range(N):
        views = [v for v in range(M) if posterior.observed[i, v]]
        count = sum(log_weight[v].exp() for v in views)
        for j in range(C):
            total = sum(log_weight[v].exp() * posterior.evidence[v, i, j] for v in views)
            pooled = total / count**power if views else torch.zeros(())
            scores.append(posterior.prior[j] + common + own[j] + log_slope.exp() * pooled)
    s = torch.stack(scores).view(N, C)
    mask, labels = posterior.label_mask, posterior.labels
    result = (F.binary_cross_entropy_with_logits(s, labels, reduction="none") * mask).sum()
    expected = torch.sigmoid(s).mean(dim=0).clamp(PROB_EPS, 1 - PROB_EPS)
    met = F.binary_cross_entropy(expected, posterior.frequency, reduction="none")
    result = result + (posterior._compared * met).sum()
    for value, centre, spread in (
        (log_weight, 0.0, 0.5),
        (log_slope, 0.0, 0.5),
        (power, 0.75, 0.5),
        (common, 0.0, 2.0),
        (own, 0.0, 0.3),
    ):
        result = result + ((value - centre) / spread).square().sum() / 2
    return result


def random_theta(seed: int) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    return 0.4 * torch.randn(M + 3 + C, generator=rng).double()


@pytest.mark.parametrize("seed", range(3))
def test_the_value_is_the_formula(seed: int) -> None:
    posterior, theta = make_posterior(seed), random_theta(seed)
    assert posterior.value(theta) == pytest.approx(float(naive(posterior, theta)), rel=1e-10)


@pytest.mark.parametrize("chunk", [1, 1 << 17])
@pytest.mark.parametrize("seed", range(3))
def test_the_gradient_is_that_of_the_formula(
    seed: int, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many rows are looked at together."""
    monkeypatch.setattr(pooling_posterior, "_CHUNK", chunk)
    posterior, theta = make_posterior(seed), random_theta(seed).requires_grad_()
    naive(posterior, theta).backward()
    found, _ = posterior._newton_step(theta.detach())
    torch.testing.assert_close(found, theta.grad, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("labelled", [0.8, 0.0])
def test_the_slope_is_zero_at_the_maximum(labelled: float) -> None:
    posterior = make_posterior(0, labelled)
    weight, slope, power, shift = posterior.maximise()
    common = shift.mean() * (2.0**2 * C) / (2.0**2 * C + 0.3**2)  # how the priors share it
    theta = torch.cat([weight.log(), torch.stack([slope.log(), power, common]), shift - common])
    theta.requires_grad_()
    naive(posterior, theta).backward()
    assert float(theta.grad.abs().max()) < 1e-3
    assert posterior.value(theta.detach()) < posterior.value(random_theta(1))


def test_a_step_solves_the_whole_system() -> None:
    """The diagonal block is taken out of it first."""
    rng = torch.Generator().manual_seed(0)
    root = torch.randn(7, 7, generator=rng).double()
    matrix = root @ root.T + torch.eye(7).double()
    matrix[3:, 3:] = matrix[3:, 3:].diag().diag()
    matrix += 10 * torch.eye(7).double()
    gradient = torch.randn(7, generator=rng).double()
    found = pooling_posterior._solve(
        matrix[:3, :3], matrix[:3, 3:], matrix[3:, 3:].diag(), gradient
    )
    torch.testing.assert_close(matrix @ found, gradient)


def test_a_step_beyond_all_numbers_is_worth_nothing() -> None:
    posterior = make_posterior(0)
    far = torch.full_like(posterior._centre, 2000.0)
    assert posterior.value(far) == math.inf
