"""Pooled gains against loops over samples and patterns; what they do to means of few samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import viewgap
from viewgap.explanation import ViewSuggester, next_view
from viewgap.explanation.pooled_gains import PooledGains, pooled_patterns


def drawn(
    n: int, m: int = 3, *, between: float = 0.0, noise: float = 1.0, seed: int = 0
) -> tuple[Any, Any, Any, Any]:
    """Losses of samples in all patterns: each view gains something, which differs by pattern."""
    rng = np.random.default_rng(seed)
    patterns = pooled_patterns(m)
    own = patterns @ np.arange(1.0, m + 1) + between * rng.normal(size=len(patterns))
    losses = -own + noise * rng.normal(size=(n, len(patterns)))
    observed = rng.random((n, m)) < 0.8
    return losses, patterns, observed, own


def loop(losses: Any, patterns: Any, observed: Any, view: int) -> dict[tuple[int, int], float]:
    """Gain of a view by sample and pattern, one by one."""
    names = ["".join("01"[flag] for flag in own) for own in patterns.astype(int)]
    found = {}
    for i, has in enumerate(observed):
        for p, name in enumerate(names):
            both = name[:view] + "1" + name[view + 1 :]
            if name[view] == "0" and all(has[v] for v in range(len(has)) if both[v] == "1"):
                found[i, p] = losses[i, p] - losses[i, names.index(both)]
    return found


@pytest.mark.parametrize("m", [3, 4])
def test_means_and_variance_are_those_of_a_loop(m: int) -> None:
    losses, patterns, observed, _ = drawn(30, m, between=0.7)
    losses[4] = np.nan  # a sample without a positive label
    pooled = PooledGains.fit(losses, patterns, observed)
    terms, weights = [], []
    for view in range(m):
        all_gains = loop(losses, patterns, observed, view)
        gains = {key: value for key, value in all_gains.items() if not np.isnan(value)}
        assert pooled.mean[view] == pytest.approx(np.mean(list(gains.values())))
        of_sample = {}
        for i in range(30):
            own = [value for (j, _), value in gains.items() if j == i]
            of_sample[i] = np.mean(own) if len(own) > 1 else np.nan
            assert pooled.of_sample[i, view] == pytest.approx(of_sample[i], nan_ok=True)
        for p in {p for _, p in gains}:
            own = [value - of_sample[i] for (i, q), value in gains.items() if q == p]
            own = [value for value in own if not np.isnan(value)]
            if len(own) > 1:
                terms.append(np.mean(own) ** 2 - np.var(own, ddof=1) / len(own))
                weights.append(len(own))
    assert pooled.variance == pytest.approx(max(0.0, np.average(terms, weights=weights)))


def test_means_of_few_samples_are_drawn_to_all_patterns_and_those_of_many_are_not() -> None:
    same = PooledGains.fit(*drawn(200)[:3])
    far = same.drawn(2, np.arange(5), same.of_sample[:5, 2] + np.array([1.0, 2, 3, 4, 5]))
    assert far == pytest.approx(same.mean[2], abs=0.5)  # patterns do not differ: 3 is chance
    losses, patterns, observed, _ = drawn(2000, between=1.0, noise=0.1)
    differ = PooledGains.fit(losses, patterns, np.ones_like(observed))
    rows = np.arange(2000)
    gains = losses[rows, 0] - losses[rows, 2]  # view 1 beside view 0
    assert patterns[[0, 2]].tolist() == [[True, False, False], [True, True, False]]
    own, other = gains.mean(), differ.mean[1]
    assert abs(own - other) > 0.2
    assert differ.drawn(1, rows, gains) == pytest.approx(own, abs=0.1 * abs(own - other))
    assert differ.drawn(1, rows[:1], gains[:1]) == other


def test_of_two_views_there_is_nothing_to_pool() -> None:
    losses, patterns, observed, _ = drawn(20, 2)
    pooled = PooledGains.fit(losses, patterns, observed)
    rows = np.flatnonzero(observed.all(axis=1))
    gains = losses[rows, 1] - losses[rows, 2]
    assert pooled.drawn(0, rows, gains) == pytest.approx(gains.mean())


def test_of_many_views_some_orders_are_pooled() -> None:
    patterns = pooled_patterns(12)
    assert 12 < len(patterns) <= 16 * 12
    losses = -(patterns @ np.arange(12.0))
    pooled = PooledGains.fit(np.tile(losses, (4, 1)), patterns, np.ones((4, 12), dtype=bool))
    np.testing.assert_allclose(pooled.mean, np.arange(12.0))
    np.testing.assert_allclose(pooled.variance, 0, atol=1e-20)


def test_a_view_that_no_sample_has_is_not_guessed() -> None:
    losses, patterns, observed, _ = drawn(20)
    observed[:, 1] = False
    pooled = PooledGains.fit(losses, patterns, observed)
    assert np.isnan(pooled.mean[1])
    assert np.isnan(pooled.of_sample[:, 1]).all()


def test_expected_gains_are_pooled_up_to_a_number_of_samples(
    data: Any, model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = slice(120, 155)
    sample = data.views[[156]].with_observed([[True, False, False]])
    found = viewgap.suggest_view(model, sample, data.views[rows], data.labels[rows])
    suggester = ViewSuggester(model).fit(data.views[rows], data.labels[rows])
    _, gains = suggester.reference_gains(np.array([True, False, False]))
    plain = np.nansum(gains, axis=1)[~np.isnan(gains).all(axis=(1, 2))].mean(axis=0)
    by_view = found.set_index("view")["expected_gain"]
    assert abs(by_view[["view1", "view2"]] - plain).max() > 1e-4
    monkeypatch.setattr(next_view, "MOST_POOLED", 10)
    unpooled = viewgap.suggest_view(model, sample, data.views[rows], data.labels[rows])
    by_view = unpooled.set_index("view")["expected_gain"]
    np.testing.assert_allclose(by_view[["view1", "view2"]], plain, atol=1e-9)
