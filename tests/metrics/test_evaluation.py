"""The result of `evaluate`: one default, samples without positives counted and warned about."""

from __future__ import annotations

import copy
import inspect
import json
import math
import pickle
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import viewgap
import viewgap.metrics as metrics
from viewgap.errors import ViewgapWarning, command_line_words
from viewgap.metrics.evaluation import field_metrics

RANKING = (
    metrics.average_precision,
    metrics.ranking_score,
    metrics.adapted_auc,
    metrics.one_error_score,
    metrics.coverage_score,
)
WITH_VARIANT = [
    getattr(metrics, name)
    for name in metrics.__all__
    if callable(getattr(metrics, name)) and not isinstance(getattr(metrics, name), type)
    if {"Y", "variant"} <= set(inspect.signature(getattr(metrics, name)).parameters)
]


def perfect(n: int = 200, without: int = 49, labels: int = 2) -> tuple[Any, Any]:
    """Perfect scores; so many of the samples have no positive label."""
    truth = np.zeros((n, labels))
    truth[np.arange(n), np.arange(n) % labels] = 1
    truth[:without] = 0
    return truth, 0.1 + 0.8 * truth + 0.01 * np.arange(labels)


@pytest.mark.parametrize("function", [*WITH_VARIANT, viewgap.evaluate])
def test_clean_is_the_default_everywhere(function: Callable[..., Any]) -> None:
    assert inspect.signature(function).parameters["variant"].default == "clean"
    assert len(WITH_VARIANT) == 8


def test_perfect_scores_are_perfect_although_samples_have_no_positive() -> None:
    found = viewgap.evaluate(*perfect())
    assert found == dict.fromkeys(metrics.SIX, 1.0)
    assert (found.n_samples, found.n_without_positives, found.n_without_labels) == (200, 49, 0)
    assert found.variant == "clean"


def test_field_counts_them_as_failures_and_says_so() -> None:
    with pytest.warns(ViewgapWarning, match="49 of 200 samples have no positive label.*0.755") as w:
        found = metrics.evaluate(*perfect(), variant="field")
    assert len(w) == 1
    assert w[0].filename == __file__
    assert found["AP"] == pytest.approx(0.755)
    assert found["1-OE"] == pytest.approx(0.755)
    assert found["1-Cov"] == pytest.approx(1 + 0.245 / 2)
    assert (found.variant, found.n_without_positives) == ("field", 49)


@pytest.mark.parametrize("function", [*RANKING, metrics.evaluate_all])
def test_every_ranking_metric_warns_under_field(function: Callable[..., Any]) -> None:
    with pytest.warns(ViewgapWarning, match="variant='clean' leaves them out") as found:
        function(*perfect(), variant="field")
    assert len(found) == 1
    assert found[0].filename == __file__


def test_the_command_line_is_told_its_option() -> None:
    with command_line_words(), pytest.warns(ViewgapWarning, match="--variant clean leaves"):
        metrics.evaluate(*perfect(), variant="field")


def test_nothing_to_warn_about() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        metrics.evaluate(*perfect(without=0), variant="field")
        metrics.hamming_score(*perfect(), variant="field")  # the same in both variants
        for function in WITH_VARIANT:
            function(*perfect())
        truth, scores = perfect(without=0)
        truth[:3] = np.nan  # nothing observed: no variant counts them
        assert metrics.evaluate(truth, scores, variant="field").n_without_labels == 3


def test_field_metrics_are_those_of_evaluate_without_a_word() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = field_metrics(*perfect())
    with pytest.warns(ViewgapWarning):
        assert found == metrics.evaluate(*perfect(), variant="field")
    assert type(found) is dict


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_samples_are_counted_as_a_loop_counts_them(seed: int) -> None:
    rng = np.random.default_rng(seed)
    truth = (rng.random((30, 3)) < 0.3).astype(float)
    scores = rng.random((30, 3))
    truth[rng.random((30, 3)) < 0.4] = np.nan
    scores[rng.random((30, 3)) < 0.2] = np.nan
    empty = without = 0
    for labels, own in zip(truth, scores, strict=True):
        pairs = zip(labels.tolist(), own.tolist(), strict=True)
        left = [label for label, score in pairs if not math.isnan(label + score)]
        empty += not left
        without += bool(left) and 1 not in left
    for function in (metrics.evaluate, metrics.evaluate_all):
        found = function(truth, scores)
        counts = found.n_samples, found.n_without_positives, found.n_without_labels
        assert counts == (30, without, empty)


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_clean_metrics_stay_between_zero_and_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = int(rng.integers(1, 12)), int(rng.integers(1, 6))
    truth = (rng.random(shape) < rng.random()).astype(float)
    truth[rng.random(shape) < 0.2] = np.nan
    for value in metrics.evaluate(truth, rng.integers(0, 4, shape) / 3).values():
        assert np.isnan(value) or 0 <= value <= 1


@dataclass
class Result:
    metrics: dict[str, float]


def test_the_result_is_a_dict_in_every_respect() -> None:
    found = metrics.evaluate(*perfect())
    assert isinstance(found, dict)
    assert json.loads(json.dumps(found)) == found
    assert asdict(Result(found)) == {"metrics": dict(found)}
    for twin in (copy.deepcopy(found), copy.copy(found), pickle.loads(pickle.dumps(found))):
        assert twin == found
        assert twin.n_without_positives == 49
    assert repr(found) == (
        "Evaluation({'AP': 1.0, '1-HL': 1.0, '1-RL': 1.0, 'AUC': 1.0, '1-OE': 1.0, '1-Cov': 1.0}, "
        "variant='clean', n_samples=200, n_without_positives=49, n_without_labels=0)"
    )
    assert repr(metrics.Evaluation(AP=1.0)) == "{'AP': 1.0}"
