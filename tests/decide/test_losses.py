"""Losses of decided rows: naive loops, and labels missing at random leave their expectation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from viewgap.decide.losses import Design, row_losses
from viewgap.decide.risk_control import (
    GRIDS,
    RISKS,
    accepted_for_label,
    accepted_threshold,
    decisions,
    false_alarm_means,
    rejects,
)

LEVELS = (0.2, 0.1)


def drawn(seed: int, n: int = 60, c: int = 5, share: float = 0.7) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    proba = rng.random((n, c))
    truth = rng.random((n, c)) < proba
    return proba, truth, rng.random((n, c)) < share


def naive(risk: str, ruled: Any, certain: Any, truth: Any, seen: Any) -> list[float]:
    n_rows = sum(any(row) for row in seen.tolist())
    weight = [n_rows / max(1, sum(column)) for column in seen.T.tolist()]
    found = []
    for i in range(len(truth)):
        labels = [j for j in range(truth.shape[1]) if seen[i, j]]
        positives = [j for j in labels if truth[i, j]]
        wrong = [j for j in labels if certain[i, j] and not truth[i, j]]
        missed = [j for j in positives if ruled[i, j]]
        if risk == "missed positives" and positives:
            found.append(len(missed) / len(positives))
        elif risk == "false alarms" and labels:
            found.append(sum(weight[j] for j in wrong) / max(1, sum(certain[i])))
        elif risk == "coverage" and labels:
            found.append(max((weight[j] for j in wrong + missed), default=0.0))
    return found


@pytest.mark.parametrize("risk", RISKS)
@pytest.mark.parametrize("share", [0.3, 1.0])
def test_losses_equal_a_loop(risk: str, share: float) -> None:
    proba, truth, seen = drawn(0, share=share)
    seen[:, 0] &= np.arange(len(seen)) % 3 > 0  # labels that are not observed equally often
    decided = decisions(risk, 0.45 if risk != "false alarms" else 0.7, proba)
    found, largest = row_losses(risk, *decided, truth, Design.of(seen))
    assert found == pytest.approx(naive(risk, *decided, truth, seen))
    assert found.max() <= largest


@given(seed=st.integers(0, 10**6), share=st.floats(0.2, 1.0), n=st.integers(2, 12))
@settings(max_examples=60, deadline=None)
def test_what_was_observed_leaves_the_mean_of_a_fixed_sample(
    seed: int, share: float, n: int
) -> None:
    """Conditional on what was observed: exact for false alarms, a bound for coverage."""
    rng = np.random.default_rng(seed)
    c = int(rng.integers(1, 6))
    seen = rng.random((n, c)) < share
    seen[0] = True  # every label is observed somewhere
    truth = np.tile(rng.random(c) < 0.4, (n, 1))
    ruled, certain = (np.tile(rng.random(c) < 0.4, (n, 1)) for _ in range(2))
    ruled &= ~certain
    for risk in ("false alarms", "coverage"):
        whole, _ = row_losses(
            risk, ruled[:1], certain[:1], truth[:1], Design.of(np.ones((1, c), bool))
        )
        found, _ = row_losses(risk, ruled, certain, truth, Design.of(seen))
        if risk == "false alarms":
            assert found.mean() == pytest.approx(whole[0])
        else:
            assert found.mean() >= whole[0] - 1e-12


def test_labels_seldom_observed_take_no_part() -> None:
    proba, truth, seen = drawn(3)
    seen[2:, 2] = False
    design = Design.of(seen)
    assert design.decided.tolist() == [True, True, False, True, True]
    assert not design.observed[:, 2].any()
    assert design.largest < 3
    broken, _ = row_losses("coverage", *decisions("coverage", 0.4, proba), truth, design)
    proba[:, 2] = 1 - proba[:, 2]
    again, _ = row_losses("coverage", *decisions("coverage", 0.4, proba), truth, design)
    assert np.array_equal(broken, again)


@pytest.mark.parametrize("risk", RISKS)
def test_the_walk_ends_before_the_first_threshold_that_is_not_rejected(risk: str) -> None:
    """Bisection and walk agree with a loop over the whole grid."""
    for seed in range(4):
        proba, truth, seen = drawn(seed, n=150, share=0.8)
        design = Design.of(seen)
        expected = None
        for threshold in GRIDS[risk].tolist():
            if not rejects(risk, threshold, proba, truth, design, LEVELS):
                break
            expected = threshold
        assert accepted_threshold(risk, proba, truth, design, *LEVELS) == expected


@pytest.mark.parametrize("rows", [1, 40, 4096])
def test_means_of_all_thresholds_at_once_are_those_of_each(
    rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("viewgap.decide.risk_control._ROWS", rows)
    proba, truth, seen = drawn(7, n=90, share=0.5)
    seen[2:, 1] = False
    proba[3, 2] = np.nan
    proba[5] = GRIDS["false alarms"][:5]  # on the thresholds themselves
    seen &= ~np.isnan(proba)
    design = Design.of(seen)
    expected = []
    for threshold in GRIDS["false alarms"].tolist():
        decided = decisions("false alarms", threshold, proba)
        expected.append(row_losses("false alarms", *decided, truth, design)[0].mean())
    assert false_alarm_means(proba, truth, design) == pytest.approx(np.array(expected))


@given(seed=st.integers(0, 10**6), n=st.integers(1, 120))
@settings(max_examples=40, deadline=None)
def test_thresholds_are_nested(seed: int, n: int) -> None:
    """A higher level or more confidence never decides more."""
    proba, truth, seen = drawn(seed, n=n, c=3, share=0.9)
    levels = [(0.3, 0.2), (0.2, 0.2), (0.2, 0.05), (0.1, 0.05)]
    for risk in RISKS:
        before = None
        for alpha, delta in levels:
            own = accepted_threshold(risk, proba, truth, Design.of(seen), alpha, delta)
            ruled, certain = (
                decisions(risk, own, proba)
                if own is not None
                else (np.zeros_like(truth), np.zeros_like(truth))
            )
            if before is not None:
                assert not (ruled & ~before[0]).any()
                assert not (certain & ~before[1]).any()
            before = ruled, certain


def test_one_label_is_tested_by_the_binomial_tail() -> None:
    from scipy.stats import binom

    scores = np.random.default_rng(0).random(80)
    found = accepted_for_label(scores, 0.2, 0.1)
    assert found is not None
    after = GRIDS["missed positives"][GRIDS["missed positives"] > found][0]
    assert binom.cdf((scores <= found).sum(), 80, 0.2) <= 0.1
    assert binom.cdf((scores <= after).sum(), 80, 0.2) > 0.1
    assert accepted_for_label(scores[:0], 0.2, 0.1) is None
    assert accepted_for_label(np.ones(10), 0.2, 0.1) is None  # .8 ** 10 is more than .1
    assert accepted_for_label(np.ones(11), 0.2, 0.1) is not None


@pytest.mark.parametrize("risk", RISKS)
def test_the_promise_of_complete_labels_holds_where_half_are_missing(risk: str) -> None:
    """Labels that occur together: with one more known, one more can be wrong."""
    rng = np.random.default_rng(5)
    n = 4000
    hard = rng.random(n) < 0.3  # samples of which everything is uncertain
    proba = np.where(hard[:, None], 0.5, np.where(rng.random((n, 6)) < 0.3, 0.99, 0.01))
    proba = np.clip(proba + 0.02 * rng.normal(size=proba.shape), 0, 1)
    truth = rng.random(proba.shape) < proba
    complete = Design.of(np.ones_like(truth))
    broken = {"weighted": 0, "as if complete": 0}
    for _ in range(30):
        rows = rng.choice(n, 300)
        seen = rng.random((300, 6)) < 0.5
        plain = Design(seen, np.ones(6, bool), np.ones(6))  # observed entries count once
        for name, own in (("weighted", Design.of(seen)), ("as if complete", plain)):
            found = accepted_threshold(risk, proba[rows], truth[rows], own, 0.2, 0.1)
            if found is not None:
                decided = decisions(risk, found, proba)
                broken[name] += row_losses(risk, *decided, truth, complete)[0].mean() > 0.2
    assert broken["weighted"] <= 9  # three are expected at most
    if risk != "missed positives":  # a share of the positives themselves
        assert broken["as if complete"] > 15
