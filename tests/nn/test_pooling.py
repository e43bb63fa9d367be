"""Pooled evidence against loops, and what it learns from held-out rows."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from viewgap.nn import voting
from viewgap.nn.voting import HeldOut, Known, Votes

M, N, C = 3, 400, 5


def odds(p: float) -> float:
    return math.log(p / (1 - p))


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def naive(votes: Votes, predictions: Tensor, observed: Tensor) -> list[list[float]]:
    answers = []
    for i in range(len(observed)):
        row = []
        for j in range(predictions.shape[2]):
            prior = float(votes.prior[j])
            seen = [v for v in range(len(predictions)) if observed[i, v]]
            total = sum(float(votes.weight[v]) for v in seen)
            evidence = sum(
                float(votes.weight[v]) * (odds(float(predictions[v, i, j])) - prior) for v in seen
            )
            pooled = evidence / total ** float(votes.power) if seen else 0.0
            row.append(sigmoid(prior + float(votes.shift[j]) + float(votes.slope) * pooled))
        answers.append(row)
    return answers


def random_votes(seed: int) -> tuple[Votes, Tensor, Tensor]:
    rng = torch.Generator().manual_seed(seed)
    votes = Votes(M, C).double()
    votes.weight.copy_(torch.rand(M, generator=rng) + 0.2)
    votes.prior.copy_(torch.randn(C, generator=rng))
    votes.shift.copy_(torch.randn(C, generator=rng))
    votes.slope.fill_(1.3)
    votes.power.fill_(0.6)
    predictions = torch.rand(M, 9, C, generator=rng).double() * 0.98 + 0.01
    observed = torch.rand(9, M, generator=rng) < 0.5
    observed[0] = False
    observed[1] = True
    return votes, predictions, observed


@given(st.integers(0, 50))
@settings(max_examples=15, deadline=None)
def test_votes_are_the_formula(seed: int) -> None:
    votes, predictions, observed = random_votes(seed)
    found = votes(predictions, observed)
    np.testing.assert_allclose(found.numpy(), naive(votes, predictions, observed), rtol=1e-9)


def test_missing_views_do_not_count_whatever_they_hold() -> None:
    votes, predictions, observed = random_votes(0)
    spoiled = torch.where(observed.T.unsqueeze(-1), predictions, torch.tensor(math.nan).double())
    assert torch.equal(votes(spoiled, observed), votes(predictions, observed))


def test_before_learning_the_log_odds_are_averaged() -> None:
    _, predictions, _ = random_votes(1)
    found = Votes(M, C).double()(predictions, torch.ones(9, M, dtype=torch.bool))
    assert torch.allclose(torch.logit(found), torch.logit(predictions).mean(dim=0))


def make_world(noise: list[float], seed: int = 0) -> tuple[HeldOut, Known]:
    """Views that see the log-odds of the labels through noise; all but a share is missing."""
    rng = np.random.default_rng(seed)
    true = rng.normal(-1.0, 1.5, size=(N, C))
    labels = rng.random((N, C)) < 1 / (1 + np.exp(-true))
    seen = np.stack([true + rng.normal(0, s, size=true.shape) for s in noise])
    observed = rng.random((N, len(noise))) < 0.6
    observed[~observed.any(axis=1), 0] = True
    held_out = HeldOut(
        torch.sigmoid(torch.from_numpy(seen)),
        torch.from_numpy(observed),
        torch.from_numpy(labels.astype(float)),
        torch.ones(N, C),
    )
    count = torch.full((C,), 1000)
    return held_out, Known(
        (torch.sigmoid(torch.from_numpy(true)).mean(dim=0) * 1000).round(), count
    )


def test_a_view_of_noise_is_trusted_less(trained: Any) -> None:
    held_out, known = make_world([0.3, 0.3, 4.0], trained.seed)
    votes = Votes(3, C)
    votes.learn(held_out, known)
    shares = votes.shares()
    assert shares.sum() == pytest.approx(1.0)
    trained.below(shares[2] / min(shares[0], shares[1]), 0.8, "share of noise to that of signal")


def loss(votes: Votes, held_out: HeldOut) -> float:
    answers = votes(held_out.predictions.float(), held_out.observed)
    return float(torch.nn.functional.binary_cross_entropy(answers, held_out.labels.float()))


def test_learning_helps_on_rows_it_has_not_seen(trained: Any) -> None:
    held_out, known = make_world([0.5, 1.0, 3.0], trained.seed + 1)
    fresh, _ = make_world([0.5, 1.0, 3.0], trained.seed + 2)
    votes = Votes(3, C)
    before = loss(votes, fresh)
    votes.learn(held_out, known)
    trained.below(loss(votes, fresh) / before, 1.0, "loss to that before learning")


def test_timid_predictions_are_raised_to_the_known_frequency(trained: Any) -> None:
    held_out, known = make_world([0.3, 0.3, 0.3], trained.seed)
    timid = HeldOut(
        torch.sigmoid(torch.logit(held_out.predictions) - 1.0),
        held_out.observed,
        held_out.labels,
        torch.zeros(N, C),  # not one label is known: only the frequencies speak
    )
    votes = Votes(3, C)
    votes.learn(timid, known)
    found = votes(timid.predictions.float(), timid.observed).mean(dim=0)
    gap = float((found.double() - known.frequency()).abs().max())
    trained.below(gap, 0.1, "distance from the known frequency")


def test_a_label_never_seen_keeps_everything_finite() -> None:
    held_out, known = make_world([0.5, 0.5, 0.5])
    nothing = Known(known.positives.clone(), known.count.clone())
    nothing.positives[0] = nothing.count[0] = 0
    votes = Votes(3, C)
    votes.learn(held_out, nothing)
    assert all(bool(torch.isfinite(buffer).all()) for buffer in votes.buffers())


def test_many_rows_are_thinned_out() -> None:
    held_out, _ = make_world([0.5, 0.5, 0.5])
    kept = held_out.at_most(100)
    assert len(kept) == 100
    assert torch.equal(kept.observed[-1], held_out.observed[-1])
    assert held_out.at_most(N) is held_out


def test_many_labels_are_learned_from_fewer_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(0)
    predictions = torch.rand(M, N, C, generator=generator)
    labels = (torch.rand(N, C, generator=generator) < 0.3).float()
    observed = torch.ones(N, M, dtype=torch.bool)
    held_out = HeldOut(predictions, observed, labels, torch.ones(N, C))
    known = Known(labels.sum(dim=0), torch.full((C,), float(N)))
    few, bounded = Votes(M, C), Votes(M, C)
    few.learn(held_out.at_most(20), known)
    monkeypatch.setattr(voting, "_MOST_CELLS", 20 * C + 1)
    bounded.learn(held_out, known)
    torch.testing.assert_close(bounded.shift, few.shift, rtol=0, atol=0)
    torch.testing.assert_close(bounded.weight, few.weight, rtol=0, atol=0)
