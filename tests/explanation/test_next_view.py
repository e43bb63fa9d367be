"""`ViewSuggester` against losses computed by loops, and rankings with a known best view."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import viewgap
from viewgap.errors import LabelError, SettingError
from viewgap.explanation import ViewSuggester, suggest_view
from viewgap.explanation.expected_gain import ExpectedGain, _best_slope

REFERENCE = slice(120, 155)


@pytest.fixture(scope="module")
def suggester(data: Any, model: Any) -> ViewSuggester:
    return ViewSuggester(model).fit(data.views[REFERENCE], data.labels[REFERENCE])


def only(data: Any, rows: Any, *shown: int) -> Any:
    views = data.views[rows]
    mask = np.zeros(views.observed.shape, dtype=bool)
    mask[:, list(shown)] = True
    return views.with_observed(mask)


@pytest.mark.parametrize("measure", ["log_loss", "brier"])
def test_gains_of_reference_samples_are_differences_of_losses(
    data: Any, model: Any, measure: str
) -> None:
    labels = data.labels[REFERENCE].astype(float)
    labels[3, 1:] = np.nan
    found = ViewSuggester(model, measure).fit(data.views[REFERENCE], labels)
    before, gain = found.reference_gains(np.array([True, False, False]), 2)
    short = model.predict_proba(only(data, REFERENCE, 0))
    long = model.predict_proba(only(data, REFERENCE, 0, 2))
    np.testing.assert_allclose(before, short, atol=1e-9)
    for row in range(len(gain)):
        losses = []
        for p in (short[row], long[row]):
            terms = []
            for value, q in zip(labels[row], p, strict=True):
                if value == value:
                    right = q if value == 1 else 1 - q
                    bounded = min(max(right, 1e-6), 1 - 1e-6)  # so that no loss is infinite
                    log_loss = -np.log(bounded)
                    terms.append(log_loss if measure == "log_loss" else (1 - right) ** 2)
            losses.append(np.mean(terms))
        assert gain[row] == pytest.approx(losses[0] - losses[1], abs=1e-8)


def test_views_are_ranked_by_gain_per_cost(data: Any, suggester: ViewSuggester) -> None:
    samples = only(data, [156, 157], 1)
    found = suggester.suggest(samples, costs={"view0": 4.0})
    assert found["sample"].tolist() == [*np.repeat(samples.sample_ids, 2)]
    assert found["rank"].tolist() == [1, 2, 1, 2]
    np.testing.assert_allclose(found["gain_per_cost"], found["expected_gain"] / found["cost"])
    assert found.set_index("view").loc["view0", "cost"].tolist() == [4.0, 4.0]
    for _, own in found.groupby("sample"):
        assert own["gain_per_cost"].is_monotonic_decreasing
    assert (found["n_reference"] == 35).all()


def test_a_view_that_says_nothing_is_suggested_last() -> None:
    rng = np.random.default_rng(0)
    truth = (rng.random((300, 2)) < 0.5).astype(float)
    blocks = {
        "weak": truth + 2.5 * rng.normal(size=truth.shape),
        "strong": truth + 0.2 * rng.normal(size=truth.shape),
        "noise": rng.normal(size=(300, 3)),
    }
    views = viewgap.ViewSet(blocks)
    model = viewgap.LateFusionRidge().fit(views[:120], truth[:120])
    samples = views[280:].with_observed(np.tile([True, False, False], (20, 1)))
    found = suggest_view(model, samples, views[120:280], truth[120:280])
    assert (found.loc[found["rank"] == 1, "view"] == "strong").all()
    dear = suggest_view(
        model, samples, views[120:280], truth[120:280], costs={"strong": 1e6}, measure="brier"
    )
    assert (dear.loc[dear["view"] == "strong", "gain_per_cost"] < 1e-5).all()


def test_samples_with_all_views_have_no_lines_and_no_sample_changes_another(
    data: Any, suggester: ViewSuggester
) -> None:
    whole = suggester.suggest(data.views[[156]])
    assert whole.empty
    assert list(whole.columns[:3]) == ["sample", "view", "rank"]
    both = suggester.suggest(only(data, [156, 157], 1))
    alone = suggester.suggest(only(data, [157], 1))
    later = both[both["sample"] == data.views.sample_ids[157]]
    np.testing.assert_allclose(later["expected_gain"], alone["expected_gain"], atol=1e-9)


def test_what_no_reference_sample_can_tell_is_not_guessed(data: Any, model: Any) -> None:
    found = ViewSuggester(model).fit(only(data, REFERENCE, 0, 1), data.labels[REFERENCE])
    lines = found.suggest(only(data, [156], 1)).set_index("view")
    assert lines.loc["view0", ["rank", "n_reference"]].tolist() == [1, 35]
    assert lines.loc["view2", ["rank", "n_reference"]].tolist() == [2, 0]
    assert np.isnan(lines.loc["view2", "expected_gain"])


def test_bad_requests_are_refused(data: Any, model: Any, suggester: ViewSuggester) -> None:
    sample = only(data, [156], 1)
    with pytest.raises(SettingError, match="unknown: view9"):
        suggester.suggest(sample, costs={"view9": 1})
    for cost in (0, -1, float("nan"), float("inf"), True):
        with pytest.raises(SettingError, match="positive number"):
            suggester.suggest(sample, costs={"view0": cost})
    with pytest.raises(SettingError, match="found 'entropy'"):
        ViewSuggester(model, "entropy")
    with pytest.raises(SettingError, match="not fitted"):
        ViewSuggester(model).suggest(sample)
    with pytest.raises(LabelError, match="no reference sample"):
        ViewSuggester(model).fit(data.views[:4], np.full((4, len(data.label_names)), np.nan))


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=10, deadline=None)
def test_the_penalty_has_the_least_error_of_rows_left_out(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(24, 3))
    x -= x.mean(axis=0)
    y = x[:, 0] * rng.choice([0.0, 0.5]) + rng.normal(size=24)
    y -= y.mean()
    found, n = _best_slope(x, y), len(y)

    def slope(rows: np.ndarray, penalty: float) -> np.ndarray:
        own, target = x[rows] - x[rows].mean(axis=0), y[rows] - y[rows].mean()
        return np.linalg.solve(own.T @ own + penalty * np.eye(3), own.T @ target)

    errors, slopes = [], []
    for penalty in [np.inf, *(10.0 ** np.arange(-1, 5) * n)]:
        total = 0.0
        for row in range(n):
            rest = np.arange(n) != row
            own = np.zeros(3) if np.isinf(penalty) else slope(rest, penalty)
            total += (y[row] - y[rest].mean() - (x[row] - x[rest].mean(axis=0)) @ own) ** 2
        errors.append(total)
        slopes.append(np.zeros(3) if np.isinf(penalty) else slope(np.ones(n, bool), penalty))
    np.testing.assert_allclose(found, slopes[int(np.argmin(errors))], atol=1e-9)


def test_gains_that_answers_foretell_are_learned() -> None:
    rng = np.random.default_rng(0)
    p = rng.uniform(0.01, 0.99, size=(200, 2))
    gain = p[:, 0] * (1 - p[:, 0])
    learned = ExpectedGain.fit(p[:150], gain[:150])
    assert np.corrcoef(learned.predict(p[150:]), gain[150:])[0, 1] > 0.9
    few = ExpectedGain.fit(p[:5], gain[:5])
    np.testing.assert_allclose(few.predict(p[:3]), gain[:5].mean())
