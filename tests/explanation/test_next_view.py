"""`ViewSuggester` against losses computed by loops, and rankings with a known best view."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import viewgap
from viewgap.errors import LabelError, SettingError, ViewgapWarning
from viewgap.explanation import ViewSuggester, suggest_view
from viewgap.explanation.expected_gain import (
    _PER_LABEL,
    _RIDGE,
    ExpectedGains,
    _label_slopes,
    _ridge_slopes,
)
from viewgap.explanation.label_losses import MEASURES, label_losses
from viewgap.metrics import average_precision

REFERENCE = slice(120, 155)


@pytest.fixture(scope="module")
def suggester(data: Any, model: Any) -> ViewSuggester:
    return ViewSuggester(model).fit(data.views[REFERENCE], data.labels[REFERENCE])


def only(data: Any, rows: Any, *shown: int) -> Any:
    views = data.views[rows]
    mask = np.zeros(views.observed.shape, dtype=bool)
    mask[:, list(shown)] = True
    return views.with_observed(mask)


def loss(measure: str, labels: np.ndarray, p: np.ndarray) -> float:
    """The loss of one sample, by a loop over its observed labels."""
    terms, positives = [], []
    known = [(value, q) for value, q in zip(labels, p, strict=True) if value == value]
    for value, q in known:
        right = q if value == 1 else 1 - q
        log_loss = -np.log(min(max(right, 1e-6), 1 - 1e-6))  # so that no loss is infinite
        terms.append(log_loss if measure == "log_loss" else (1 - right) ** 2)
        if value == 1:
            above = [other for other, r in known if r >= q]
            positives.append(sum(above) / len(above))
    if measure == "average_precision":
        return -float(np.mean(positives)) if positives else float("nan")
    return float(np.mean(terms)) if terms else float("nan")


@pytest.mark.parametrize("measure", MEASURES)
def test_gains_of_reference_samples_are_differences_of_losses(
    data: Any, model: Any, measure: str
) -> None:
    labels = np.array(data.labels[REFERENCE], dtype=float)
    labels[3, 1:] = np.nan
    labels[4] = 0.0
    found = ViewSuggester(model, measure).fit(data.views[REFERENCE], labels)
    before, gains = found.reference_gains(np.array([True, False, False]))
    short = model.predict_proba(only(data, REFERENCE, 0))
    np.testing.assert_allclose(before, short, atol=1e-9)
    for place, view in enumerate((1, 2)):
        long = model.predict_proba(only(data, REFERENCE, 0, view))
        for row in range(len(gains)):
            expected = loss(measure, labels[row], short[row]) - loss(
                measure, labels[row], long[row]
            )
            own = gains[row, :, place]
            total = np.nan if np.isnan(own).all() else np.nansum(own)
            assert total == pytest.approx(expected, abs=1e-8, nan_ok=True)
            if not np.isnan(own).all():
                np.testing.assert_array_equal(np.isnan(own), np.isnan(labels[row]))


def test_losses_per_label_add_up_to_the_metric_of_the_library() -> None:
    rng = np.random.default_rng(0)
    truth = (rng.random((40, 6)) < 0.4).astype(float)
    truth[rng.random(truth.shape) < 0.2] = np.nan
    p = rng.integers(0, 4, size=truth.shape) / 4  # with ties
    losses = label_losses("average_precision", truth, p)
    told = ~np.isnan(losses).all(axis=1)
    assert told.sum() == (truth == 1).any(axis=1).sum()
    mean = -np.nansum(losses[told], axis=1).mean()
    assert mean == pytest.approx(average_precision(truth, p), abs=1e-12)


def test_samples_that_lack_the_view_tell_nothing_about_it(data: Any, model: Any) -> None:
    views = data.views[REFERENCE]
    mask = np.ones(views.observed.shape, dtype=bool)
    mask[:10, 2] = False
    mask[10:14] = [False, True, True]
    found = ViewSuggester(model).fit(views.with_observed(mask), data.labels[REFERENCE])
    _, gains = found.reference_gains(np.array([True, False, False]))
    assert len(gains) == 31
    assert np.isnan(gains[:10, :, 1]).all()
    lines = found.suggest(only(data, [156], 0)).set_index("view")["n_reference"]
    positive = np.asarray(data.labels[REFERENCE]).any(axis=1)
    assert lines["view1"] == (mask[:, 0] & positive).sum()
    assert lines["view2"] == (mask[:, 0] & mask[:, 2] & positive).sum()


def test_views_are_ranked_by_gain_per_cost(data: Any, suggester: ViewSuggester) -> None:
    samples = only(data, [156, 157], 1)
    found = suggester.suggest(samples, costs={"view0": 4.0})
    assert found["sample"].tolist() == [*np.repeat(samples.sample_ids, 2)]
    assert found["rank"].tolist() == [1, 2, 1, 2]
    np.testing.assert_allclose(found["gain_per_cost"], found["expected_gain"] / found["cost"])
    assert found.set_index("view").loc["view0", "cost"].tolist() == [4.0, 4.0]
    for _, own in found.groupby("sample"):
        assert own["gain_per_cost"].is_monotonic_decreasing
    positive = np.asarray(data.labels[REFERENCE]).any(axis=1).sum()
    assert (found["n_reference"] == positive).all()


def test_a_cost_makes_no_view_better_that_is_expected_to_gain_nothing(
    data: Any, suggester: ViewSuggester, monkeypatch: pytest.MonkeyPatch
) -> None:
    lacking = np.zeros((1, data.views.n_views), dtype=bool)
    lacking[0, 0] = True
    gains = np.full(lacking.shape, np.nan), np.ones(lacking.shape, dtype=np.int64)
    gains[0][0, 1:] = -0.01, -0.02
    monkeypatch.setattr(suggester, "expected_gains", lambda views: gains)
    sample = data.views[[0]].with_observed(lacking)
    found = suggester.suggest(sample, costs={data.views.names[2]: 100.0})
    assert found["expected_gain"].tolist() == [-0.01, -0.02]


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
    positive = np.asarray(data.labels[REFERENCE]).any(axis=1).sum()
    assert lines.loc["view0", ["rank", "n_reference"]].tolist() == [1, positive]
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
    assert ViewSuggester(model).measure_ == "average_precision"
    one = viewgap.LateFusionRidge().fit(data.views[:80], data.labels[:80, 0])
    assert ViewSuggester(one).measure_ == "brier"
    with pytest.raises(LabelError, match="no reference sample"):
        ViewSuggester(model).fit(data.views[:4], np.full((4, len(data.label_names)), np.nan))


def test_training_rows_among_the_reference_are_warned_of(data: Any, model: Any) -> None:
    with pytest.warns(ViewgapWarning, match="every view looks better"):
        ViewSuggester(model).fit(data.views[:120], data.labels[:120])


@given(st.integers(0, 2**32 - 1), st.booleans())
@settings(max_examples=10, deadline=None)
def test_errors_are_those_of_rows_left_out(seed: int, gaps: bool) -> None:
    rng = np.random.default_rng(seed)
    x, n = rng.random((12, 3)), 12
    parts = rng.normal(size=(n, 3, 2)) + x[:, :, None]
    if gaps:
        parts[rng.random((n, 3)) < 0.2] = np.nan
    target = np.nansum(parts, axis=1)
    scale = np.sqrt(x.var(axis=0).mean())
    for penalty, (errors, slopes) in zip(_RIDGE, _ridge_slopes(x, target), strict=True):

        def slope(rows: Any, penalty: float = penalty) -> np.ndarray:
            own = x[rows] - x[rows].mean(axis=0)
            gram = own.T @ own + penalty * 3 * scale**2 * np.eye(3)
            return np.linalg.solve(gram, own.T @ (target[rows] - target[rows].mean(axis=0)))

        np.testing.assert_allclose(slopes, slope(np.arange(n)), atol=1e-9)
        for row in range(n):
            rest = np.arange(n) != row
            centre = target[rest].mean(axis=0) + (x[row] - x[rest].mean(axis=0)) @ slope(rest)
            np.testing.assert_allclose(errors[row], (target[row] - centre) ** 2, atol=1e-9)
    seen = ~np.isnan(parts[:, :, 0])
    spread = x[seen].std()
    for penalty, (errors, slopes) in zip(_PER_LABEL, _label_slopes(x, parts), strict=True):
        for row in range(n):
            missed = np.zeros(2)
            for label in range(3):
                rows = seen[:, label] & (np.arange(n) != row)
                if not seen[row, label] or rows.sum() < 2:
                    continue
                z, y = x[rows, label], parts[rows, label]
                b = (
                    (z - z.mean())
                    @ (y - y.mean(axis=0))
                    / (((z - z.mean()) ** 2).sum() + penalty * spread**2)
                )
                missed += parts[row, label] - y.mean(axis=0) - (x[row, label] - z.mean()) * b
            if seen.sum(axis=0).min() > 2:
                np.testing.assert_allclose(errors[row], missed**2, atol=1e-9)
        own = x[seen[:, 0], 0] - x[seen[:, 0], 0].mean()
        expected = own @ parts[seen[:, 0], 0] / ((own**2).sum() + penalty * spread**2)
        np.testing.assert_allclose(slopes[0], expected, atol=1e-9)


def test_gains_that_answers_foretell_are_learned() -> None:
    rng = np.random.default_rng(0)
    p = rng.random((200, 4))
    gains = np.zeros((200, 4, 2))
    gains[:, 1, 0], gains[:, 2, 1] = 0.5 * p[:, 1], 0.5 * p[:, 2]
    gains += 0.02 * rng.normal(size=gains.shape) + rng.normal(size=(200, 4, 1)) * 0.05
    learned = ExpectedGains.fit(p[:150], gains[:150])
    found, true = learned.predict(p[150:]), gains[150:].sum(axis=1)
    assert np.corrcoef(found[:, 0] - found[:, 1], true[:, 0] - true[:, 1])[0, 1] > 0.9
    few = ExpectedGains.fit(p[:5], gains[:5])
    np.testing.assert_allclose(few.predict(p[:3]), np.tile(gains[:5].sum(axis=1).mean(0), (3, 1)))


def test_gains_that_nothing_foretells_are_their_mean() -> None:
    kept = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        learned = ExpectedGains.fit(rng.random((60, 5)), rng.normal(size=(60, 5, 3)))
        kept += bool(learned.slopes.any())
    assert kept < 15  # one standard error, for each of four targets


def test_what_views_have_in_common_does_not_rank_them() -> None:
    rng = np.random.default_rng(0)
    p = rng.random((100, 3))
    gains = np.repeat(np.sin(20 * p)[:, :, None] + rng.normal(size=(100, 3, 1)), 2, axis=2)
    gains[:, 0, 1] -= 0.01
    found = ExpectedGains.fit(p, gains).predict(rng.random((50, 3)))
    np.testing.assert_allclose(found[:, 0] - found[:, 1], 0.01, atol=1e-9)


def test_a_view_that_few_rows_tell_about_and_one_that_none_does() -> None:
    rng = np.random.default_rng(0)
    p, gains = rng.random((50, 3)), rng.normal(size=(50, 3, 3))
    gains[10:, :, 0], gains[:, :, 1] = np.nan, np.nan
    learned = ExpectedGains.fit(p, gains)
    assert learned.n_rows.tolist() == [10, 0, 50]
    found = learned.predict(p)
    np.testing.assert_allclose(found[:, 0], gains[:10, :, 0].sum(axis=1).mean())
    assert np.isnan(found[:, 1]).all()
    np.testing.assert_allclose(found[:, 2], gains[:, :, 2].sum(axis=1).mean())
