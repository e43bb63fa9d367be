"""The registry of metrics, and the prediction that metrics read."""

from __future__ import annotations

import math

import numpy as np
import pytest

from viewgap.metrics import (
    EXTRA,
    SIX,
    Prediction,
    evaluate,
    evaluate_all,
    get_metric,
    register_metric,
    registered_metrics,
    registry,
)

Y = np.array([[1.0, 0.0, math.nan], [0.0, 1.0, 1.0]])
P = np.array([[0.75, 0.5, 0.25], [math.nan, 0.5, 0.875]])


def test_the_six_come_first_and_every_metric_says_what_it_is() -> None:
    found = registered_metrics()
    assert tuple(metric.name for metric in found[:6]) == SIX
    assert {metric.name for metric in found} >= {*SIX, *EXTRA[:-1]}
    for metric in found:
        assert metric.title != metric.name
        assert metric.direction == ("higher" if metric.greater_is_better else "lower")


def test_measure_is_every_metric_at_once() -> None:
    found = registry.measure(Prediction.of(Y, P))
    everything = evaluate_all(Y, P)
    assert all(found[name] == everything[name] for name in (*SIX, *EXTRA[:-1]) if name in found)
    assert {name: found[name] for name in SIX} == dict(evaluate(Y, P))


def test_what_is_not_defined_is_left_out_unless_it_is_required() -> None:
    found = registry.measure(Prediction.of([[1.0, 1.0]], [[0.5, 0.25]]))
    assert "macro AUC" not in found  # no label has both classes
    assert math.isnan(found["AUC"])


def test_a_prediction_holds_labels_and_scores_of_the_entries_that_count() -> None:
    prediction = Prediction.of(Y, P)
    valid = ~(np.isnan(Y) | np.isnan(P))
    np.testing.assert_array_equal(prediction.Y, np.where(valid, Y, np.nan))
    np.testing.assert_array_equal(prediction.P, np.where(valid, P, np.nan))


def test_decisions_of_a_method_count_instead_of_the_threshold() -> None:
    decisions = [[0, 0, 1], [1, 1, 1]]
    counts = Prediction.of(Y, P, decisions=decisions).decision_counts
    assert counts.predicted.tolist() == [0, 1, 1]
    assert counts.hit.tolist() == [0, 1, 1]
    assert Prediction.of(Y, P).decision_counts.predicted.tolist() == [1, 0, 1]


def test_registering_a_name_again_replaces_it() -> None:
    try:
        for value in (1.0, 2.0):
            register_metric("constant")(lambda _, value=value: value)
        assert registry.measure(Prediction.of(Y, P))["constant"] == 2.0
    finally:
        del registry._METRICS["constant"]
    assert get_metric("constant").function is None


def test_metrics_of_other_packages_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []

    class EntryPoint:
        def load(self) -> None:
            loaded.append("theirs")

    monkeypatch.setattr(registry, "entry_points", lambda group: [EntryPoint()])
    registry._load_plugins.cache_clear()
    registered_metrics()
    registered_metrics()
    assert loaded == ["theirs"]
