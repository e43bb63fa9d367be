"""The figures of a model page, beside naive recomputation."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import label_ranking_average_precision_score, roc_auc_score

import viewgap
from viewgap.methods.estimator.training_rows import find_training_rows
from viewgap.metrics import average_precision, macro_auc
from viewgap.model_report.bootstrap import draw_weights, sample_precision, score_draws, weighted_auc


def test_precision_of_a_sample_is_scikit_learns(case: Any) -> None:
    proba = case.proba(case.views)
    found = sample_precision(case.truth, proba)
    for row, value in enumerate(found):
        known = ~np.isnan(case.truth[row])
        truth = case.truth[row, known]
        if not known.any() or not truth.any():
            assert np.isnan(value)
        elif len(truth) > 1:
            own = label_ranking_average_precision_score(truth[None], proba[row, known][None])
            assert value == pytest.approx(own)


def test_a_weighted_auc_is_that_of_repeated_rows() -> None:
    rng = np.random.default_rng(0)
    truth = (rng.random(40) < 0.4).astype(float)
    truth[:5] = np.nan
    scores = np.round(rng.random(40), 1)  # ties
    weights = draw_weights(40, n_draws=20)
    found = weighted_auc(truth, scores, weights)
    for value, own in zip(found, weights, strict=True):
        rows = np.repeat(np.arange(40), own.astype(int))
        rows = rows[~np.isnan(truth[rows])]
        assert value == pytest.approx(roc_auc_score(truth[rows], scores[rows]))


@pytest.mark.parametrize(("metric", "naive"), [("AP", average_precision), ("macro AUC", macro_auc)])
def test_a_draw_scores_like_its_rows(case: Any, metric: str, naive: Any) -> None:
    proba, weights = case.proba(case.views), draw_weights(len(case.truth), n_draws=4)
    found = score_draws(metric, case.truth, proba, weights).values
    assert found[0] == pytest.approx(naive(case.truth, proba))
    for value, own in zip(found[1:], weights, strict=True):
        rows = np.repeat(np.arange(len(own)), own.astype(int))
        assert value == pytest.approx(naive(case.truth[rows], proba[rows]))


def test_scores_are_those_of_the_metrics(case: Any) -> None:
    proba, scores = case.proba(case.views), case.report.measures.scores
    assert scores["AP"].value == pytest.approx(average_precision(case.truth, proba))
    assert scores["macro AUC"].value == pytest.approx(macro_auc(case.truth, proba))
    for own in scores.values():
        assert own.low < own.value < own.high


def test_hidden_views_are_scored_on_all_rows(case: Any) -> None:
    now = average_precision(case.truth, case.proba(case.views))
    hidden = {own.view: own for own in case.report.measures.hidden}
    assert set(hidden) == set(case.views.names)
    for j, name in enumerate(case.views.names):
        observed = case.views.observed.copy()
        observed[:, j] = False
        score = average_precision(case.truth, case.proba(case.views.with_observed(observed)))
        assert hidden[name].score.value == pytest.approx(score)
        assert hidden[name].loss.value == pytest.approx(now - score)
        only = [i for i, row in enumerate(case.views.observed) if row[j] and row.sum() == 1]
        assert hidden[name].left_without.tolist() == only


def test_pattern_scores_are_of_the_rows_of_the_pattern(case: Any) -> None:
    proba = case.proba(case.views)
    found = {own.views: own for own in case.report.measures.patterns}
    rows_of: dict[Any, list[int]] = {}
    for i, row in enumerate(case.views.observed):
        rows_of.setdefault(tuple(np.compress(row, case.views.names).tolist()), []).append(i)
    assert set(found) == set(rows_of)
    for names, rows in rows_of.items():
        assert found[names].n_samples == len(rows)
        own = average_precision(case.truth[rows], proba[rows])
        assert found[names].score.value == pytest.approx(own, nan_ok=True)


def test_counts_of_labels_are_of_observed_entries(case: Any) -> None:
    proba = case.proba(case.views)
    for j, line in enumerate(case.report.measures.labels):
        counts = {"found": 0, "missed": 0, "false_alarms": 0, "rightly_not": 0}
        for truth, p in zip(case.truth[:, j], proba[:, j], strict=True):
            if not np.isnan(truth):
                kind = ("found" if p > 0.5 else "missed") if truth else None
                counts[kind or ("false_alarms" if p > 0.5 else "rightly_not")] += 1
        assert {name: line[name] for name in counts} == counts
        assert line["label"] == case.names[j]


def test_bins_hold_every_observed_entry_once(case: Any) -> None:
    bins = case.report.measures.bins
    assert sum(own.n_entries for own in bins) == np.count_nonzero(~np.isnan(case.truth))
    ones = sum(own.frequency * own.n_entries for own in bins)
    assert ones == pytest.approx(np.nansum(case.truth))


def test_training_rows_are_found_and_new_ones_are_not(case: Any) -> None:
    assert case.report.training_rows.found is False
    train = case.all_views[case.train]
    same = viewgap.report(case.model, train, case.frame(case.train))
    assert same.training_rows.same_counts
    assert same.findings[0].kind == "training_rows"
    half = find_training_rows(case.model, train[np.arange(40)], None)
    assert half.found
    assert 0.2 < half.share < 0.8


def test_training_rows_are_found_in_another_precision_and_between_floors() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 400))
    x[:, :380] = np.where(rng.random((200, 380)) < 0.05, -9.0, x[:, :380])  # below what is measured
    y = (rng.random((200, 3)) < 0.5).astype(float)
    view = {"view": x.astype(np.float32)}
    model = viewgap.LateFusionRidge().fit({"view": view["view"][:100, :]}, y[:100])
    views = viewgap.ViewSet({"view": x})
    everything = find_training_rows(model, views, None)
    assert everything.share == 1.0
    assert everything.n_found < everything.n_extremes
    assert find_training_rows(model, views[np.arange(100, 200)], None).found is False


def test_contributions_of_a_sample_add_up(case: Any) -> None:
    explained = case.report.contributions
    answers = case.proba(case.views)[explained.rows]
    added = explained.values.sum(axis=2) + case.model.label_frequency_
    np.testing.assert_allclose(added, answers, atol=1e-6)


def test_the_figures_are_json_without_nan(case: Any) -> None:
    found = json.loads(json.dumps(case.report.to_dict(), allow_nan=False))
    assert found["scores"]["AP"]["value"] == case.report.measures.scores["AP"].value
    assert len(found["labels"]) == 4


def test_the_model_and_its_parameters_stay_as_they_were(case: Any) -> None:
    before = case.model.get_params()
    viewgap.report(case.model, case.views)
    assert case.model.get_params() == before


def test_one_label_of_two_classes_is_reported_by_its_auc() -> None:
    rng = np.random.default_rng(0)
    X = {"a": rng.normal(size=(80, 3)), "b": rng.normal(size=(80, 2))}
    y = np.where(X["a"][:, 0] > 0, "ill", "well")
    model = viewgap.LateFusionRidge().fit(X, y)
    found = viewgap.report(model, X, y)
    assert list(found.measures.scores) == ["macro AUC"]
    card = dict(found.to_dict()["card"])
    assert any("is the class 'well' of y, not 'ill'" in line for line in card["training data"])
