"""Pooled evidence against loops, and what it learns from held-out rows."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from viewgap.nn import pooling
from viewgap.nn.pooling import HeldOut, LabelCounts, LogOddsPooling

M, N, C = 3, 400, 5


def odds(p: float) -> float:
    return math.log(p / (1 - p))


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def naive(pooled: LogOddsPooling, predictions: Tensor, observed: Tensor) -> list[list[float]]:
    answers = []
    for i in range(len(observed)):
        row = []
        for j in range(predictions.shape[2]):
            prior = float(pooled.prior[j])
            seen = [v for v in range(len(predictions)) if observed[i, v]]
            total = sum(float(pooled.weight[v]) for v in seen)
            evidence = sum(
                float(pooled.weight[v]) * (odds(float(predictions[v, i, j])) - prior) for v in seen
            )
            combined = evidence / total ** float(pooled.power) if seen else 0.0
            row.append(sigmoid(prior + float(pooled.shift[j]) + float(pooled.slope) * combined))
        answers.append(row)
    return answers


def random_pooling(seed: int) -> tuple[LogOddsPooling, Tensor, Tensor]:
    rng = torch.Generator().manual_seed(seed)
    pooled = LogOddsPooling(M, C).double()
    pooled.weight.copy_(torch.rand(M, generator=rng) + 0.2)
    pooled.prior.copy_(torch.randn(C, generator=rng))
    pooled.shift.copy_(torch.randn(C, generator=rng))
    pooled.slope.fill_(1.3)
    pooled.power.fill_(0.6)
    predictions = torch.rand(M, 9, C, generator=rng).double() * 0.98 + 0.01
    observed = torch.rand(9, M, generator=rng) < 0.5
    observed[0] = False
    observed[1] = True
    return pooled, predictions, observed


@given(st.integers(0, 50))
@settings(max_examples=15, deadline=None)
def test_pooling_is_the_formula(seed: int) -> None:
    pooled, predictions, observed = random_pooling(seed)
    found = pooled(predictions, observed)
    np.testing.assert_allclose(found.numpy(), naive(pooled, predictions, observed), rtol=1e-9)


def test_missing_views_do_not_count_whatever_they_hold() -> None:
    pooled, predictions, observed = random_pooling(0)
    spoiled = torch.where(observed.T.unsqueeze(-1), predictions, torch.tensor(math.nan).double())
    assert torch.equal(pooled(spoiled, observed), pooled(predictions, observed))


def test_before_fit_the_log_odds_are_averaged() -> None:
    _, predictions, _ = random_pooling(1)
    found = LogOddsPooling(M, C).double()(predictions, torch.ones(9, M, dtype=torch.bool))
    assert torch.allclose(torch.logit(found), torch.logit(predictions).mean(dim=0))


def make_world(noise: list[float], seed: int = 0) -> tuple[HeldOut, LabelCounts]:
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
    return held_out, LabelCounts(
        (torch.sigmoid(torch.from_numpy(true)).mean(dim=0) * 1000).round(), count
    )


def test_a_view_of_noise_is_trusted_less(trained: Any) -> None:
    held_out, counts = make_world([0.3, 0.3, 4.0], trained.seed)
    pooled = LogOddsPooling(3, C)
    pooled.fit(held_out, counts)
    shares = pooled.view_weights(torch.ones(1, 3, dtype=torch.bool))[0]
    assert shares.sum() == pytest.approx(1.0)
    trained.below(shares[2] / min(shares[0], shares[1]), 0.8, "share of noise to that of signal")


def loss(pooled: LogOddsPooling, held_out: HeldOut) -> float:
    answers = pooled(held_out.predictions.float(), held_out.observed)
    return float(torch.nn.functional.binary_cross_entropy(answers, held_out.labels.float()))


def test_fitting_helps_on_rows_it_has_not_seen(trained: Any) -> None:
    held_out, counts = make_world([0.5, 1.0, 3.0], trained.seed + 1)
    fresh, _ = make_world([0.5, 1.0, 3.0], trained.seed + 2)
    pooled = LogOddsPooling(3, C)
    before = loss(pooled, fresh)
    pooled.fit(held_out, counts)
    trained.below(loss(pooled, fresh) / before, 1.0, "loss to that before fitting")


def test_timid_predictions_are_raised_to_the_known_frequency(trained: Any) -> None:
    held_out, counts = make_world([0.3, 0.3, 0.3], trained.seed)
    timid = HeldOut(
        torch.sigmoid(torch.logit(held_out.predictions) - 1.0),
        held_out.observed,
        held_out.labels,
        torch.zeros(N, C),  # not one label is observed: only the frequencies speak
    )
    pooled = LogOddsPooling(3, C)
    pooled.fit(timid, counts)
    found = pooled(timid.predictions.float(), timid.observed).mean(dim=0)
    gap = float((found.double() - counts.frequency()).abs().max())
    trained.below(gap, 0.1, "distance from the frequency of training labels")


def test_a_label_never_seen_keeps_everything_finite() -> None:
    held_out, counts = make_world([0.5, 0.5, 0.5])
    nothing = LabelCounts(counts.positives.clone(), counts.observed.clone())
    nothing.positives[0] = nothing.observed[0] = 0
    pooled = LogOddsPooling(3, C)
    pooled.fit(held_out, nothing)
    assert all(bool(torch.isfinite(buffer).all()) for buffer in pooled.buffers())


def test_many_rows_are_thinned_out() -> None:
    held_out, _ = make_world([0.5, 0.5, 0.5])
    kept = held_out.at_most(100)
    assert len(kept) == 100
    assert torch.equal(kept.observed[-1], held_out.observed[-1])
    assert held_out.at_most(N) is held_out


def test_many_labels_are_fitted_on_fewer_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(0)
    predictions = torch.rand(M, N, C, generator=generator)
    labels = (torch.rand(N, C, generator=generator) < 0.3).float()
    observed = torch.ones(N, M, dtype=torch.bool)
    held_out = HeldOut(predictions, observed, labels, torch.ones(N, C))
    counts = LabelCounts(labels.sum(dim=0), torch.full((C,), float(N)))
    few, bounded = LogOddsPooling(M, C), LogOddsPooling(M, C)
    few.fit(held_out.at_most(20), counts)
    monkeypatch.setattr(pooling, "_MAX_ENTRIES", 20 * C + 1)
    bounded.fit(held_out, counts)
    torch.testing.assert_close(bounded.shift, few.shift, rtol=0, atol=0)
    torch.testing.assert_close(bounded.weight, few.weight, rtol=0, atol=0)
