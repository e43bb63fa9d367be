"""DataFrames of labels and scores: aligned by index and column name, or refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import viewgap
import viewgap.metrics as metrics
from viewgap.errors import InputError, LabelError, ViewgapError

RNG = np.random.default_rng(3)
IDS = [f"s{i}" for i in range(20)]
NAMES = ["cat", "dog", "=fish", "9"]
Y = pd.DataFrame((RNG.random((20, 4)) < 0.4).astype(float), index=IDS, columns=NAMES)
Y.iloc[::6, 1] = np.nan
P = pd.DataFrame(RNG.random((20, 4)), index=IDS, columns=NAMES)
ROWS, COLUMNS = RNG.permutation(20), [2, 0, 3, 1]
MOVED = P.iloc[ROWS, COLUMNS]
FUNCTIONS: list[Callable[..., Any]] = [
    metrics.evaluate,
    viewgap.evaluate,
    metrics.evaluate_all,
    metrics.average_precision,
    metrics.hamming_score,
    metrics.ranking_score,
    metrics.adapted_auc,
    metrics.one_error_score,
    metrics.coverage_score,
    metrics.macro_auc,
    metrics.f1_scores,
    metrics.per_label_report,
    metrics.calibration_error,
    metrics.calibration_error_per_label,
    metrics.excess_calibration_error,
    metrics.fit_thresholds,
]
every_function = pytest.mark.parametrize("function", FUNCTIONS)


def same(found: Any, expected: Any) -> bool:
    return np.array_equal(found, expected) if isinstance(found, np.ndarray) else found == expected


@every_function
def test_rows_are_matched_by_index_and_columns_by_name(function: Callable[..., Any]) -> None:
    expected = function(Y, P)
    assert same(function(Y, MOVED), expected)
    by_position = function(Y.to_numpy(), P.to_numpy())
    if function is metrics.per_label_report:
        by_position = [{**own, "label": n} for own, n in zip(by_position, NAMES, strict=True)]
    assert same(expected, by_position)


def test_every_function_that_takes_labels_and_scores_is_tested_here() -> None:
    named = {getattr(metrics, name) for name in metrics.__all__}
    functions = {item for item in named if callable(item) and not isinstance(item, type)}
    registry = {metrics.register_metric, metrics.registered_metrics, metrics.get_metric}
    others = {metrics.expected_f1_thresholds, metrics.evaluate_blocks}  # below
    assert functions - set(FUNCTIONS) - registry == others


def test_values_by_label_are_in_the_order_of_the_labels() -> None:
    turned = Y.iloc[:, COLUMNS]
    errors = metrics.calibration_error_per_label(Y, P)
    np.testing.assert_array_equal(metrics.calibration_error_per_label(turned, P), errors[COLUMNS])
    limits = metrics.fit_thresholds(Y, P)
    np.testing.assert_array_equal(metrics.fit_thresholds(turned, P), limits[COLUMNS])
    assert [row["label"] for row in metrics.per_label_report(turned, P)] == list(turned.columns)
    names = metrics.per_label_report(Y, P, names=["a", "b", "c", "d"])
    assert [row["label"] for row in names] == ["a", "b", "c", "d"]


def test_thresholds_without_labels_take_a_frame() -> None:
    limits = metrics.expected_f1_thresholds(P)
    np.testing.assert_array_equal(limits, metrics.expected_f1_thresholds(P.to_numpy()))
    union = MOVED.copy()
    union.attrs["viewgap_row_order"] = "union"
    found = metrics.expected_f1_thresholds(union)
    np.testing.assert_array_equal(found, limits[COLUMNS])


def test_blocks_are_aligned_each_and_have_one_order_of_labels() -> None:
    found = metrics.evaluate_blocks([(Y[:8], MOVED.loc[IDS[:8]]), (Y[8:], P[8:])])
    assert found == metrics.evaluate_blocks([(Y[:8], P[:8]), (Y[8:], P[8:])])
    assert found["AP"] == pytest.approx(metrics.evaluate(Y, P)["AP"], abs=1e-12)
    with pytest.raises(InputError, match="found label '=fish' in column 0, which was 'cat'"):
        metrics.evaluate_blocks([(Y[:8], P[:8]), (Y.iloc[8:, COLUMNS], P[8:])])
    stream = metrics.ThresholdStream(4)
    stream.add(P[:8])
    stream.add(P[8:].to_numpy())
    with pytest.raises(InputError, match="found label '=fish' in column 0, which was 'cat'"):
        stream.add(MOVED)


def test_a_series_of_thresholds_is_matched_by_name() -> None:
    limits = pd.Series([0.2, 0.4, 0.6, 0.8], index=NAMES)
    expected = metrics.hamming_score(Y, P, threshold=limits.to_numpy())
    assert metrics.hamming_score(Y, P, threshold=limits.iloc[::-1]) == expected
    assert metrics.f1_scores(Y, P, limits.iloc[::-1]) == metrics.f1_scores(Y, P, limits.to_numpy())
    with pytest.raises(InputError, match="1 only in the labels \\('9'\\), 0 only in threshold"):
        metrics.hamming_score(Y, P, threshold=limits.iloc[:3])


def test_columns_that_are_numbers_are_the_labels_of_that_name() -> None:
    numbered = Y.set_axis(range(4), axis=1)
    text = P.set_axis(["0", "1", "2", "3"], axis=1)
    assert metrics.evaluate(numbered, text.iloc[:, ::-1]) == metrics.evaluate(Y, P)


@every_function
@pytest.mark.parametrize(
    ("labels", "scores", "text"),
    [
        (Y, P.drop(["s3", "s5"]), r"2 only in Y \('s3', 's5'\), 0 only in P\. .*\.loc\[ids\]"),
        (Y.drop("s3"), P, r"0 only in Y, 1 only in P \('s3'\)"),
        (Y, P.reset_index(drop=True), r"20 only in Y \('s0', 's1', 's2', \.\.\.\), 20 only in P"),
        (Y, P.drop(columns="dog"), r"same labels; 1 only in Y \('dog'\), 0 only in P"),
        (Y, P.rename(columns={"dog": "Dog"}), r"1 only in Y \('dog'\), 1 only in P \('Dog'\)"),
        (pd.concat([Y, Y[:1]]), P, r"index of Y must be unique; 1 occur more than once: 's0'"),
        (Y, pd.concat([P, P[:1]]), "index of P must be unique"),
        (Y, P.set_axis(["cat", "cat", "=fish", "9"], axis=1), "names of P must be unique"),
        (
            Y.set_axis(range(20)),
            P.set_axis(map(str, range(20))),
            r"20 only in Y \(0, 1, 2, \.\.\.\), 20 only in P \('0'",
        ),
    ],
)
def test_other_samples_or_labels_are_named(
    function: Callable[..., Any], labels: Any, scores: Any, text: str
) -> None:
    with pytest.raises(InputError, match=text):
        function(labels, scores)


@every_function
def test_a_frame_beside_an_array_is_taken_by_position(function: Callable[..., Any]) -> None:
    expected = function(Y, P)
    assert same(function(Y, P.to_numpy()), expected)
    assert same(function(Y.to_numpy(), P), expected)
    with pytest.raises(InputError, match="same shape"):
        function(Y, P.to_numpy()[:-1])


@every_function
def test_an_array_beside_rows_whose_order_nobody_gave_is_refused(
    function: Callable[..., Any],
) -> None:
    union = MOVED.copy()
    union.attrs["viewgap_row_order"] = "union"
    with pytest.raises(InputError, match=r"Y has no sample ids.*give Y as a DataFrame"):
        function(Y.to_numpy(), union)
    assert same(function(Y, union), function(Y, P))


def test_values_that_are_no_labels_are_named_by_sample_and_label() -> None:
    wrong = Y.copy()
    wrong.loc["s4", "=fish"] = 7
    with pytest.raises(LabelError, match="found 7 in sample 's4', label '=fish' "):
        metrics.evaluate(wrong, MOVED)
    infinite = MOVED.copy()
    infinite.loc["s4", "9"] = np.inf
    with pytest.raises(InputError, match="found inf in sample 's4', label '9' "):
        metrics.evaluate(Y, infinite)


@pytest.mark.parametrize("kind", ["Int64", "boolean", "Float64", "object"])
def test_pandas_missing_values_are_not_observed(kind: str) -> None:
    labels = Y.astype(kind) if kind != "object" else Y.astype(object).where(Y.notna(), None)
    assert metrics.evaluate(labels, P) == metrics.evaluate(Y, P)
    assert metrics.evaluate(labels, P.to_numpy()) == metrics.evaluate(Y, P)


@pytest.mark.parametrize("frame", [P.astype(complex), P.astype(str) + "x"])
def test_values_that_are_no_numbers_are_refused(frame: pd.DataFrame) -> None:
    with pytest.raises(ViewgapError, match="P must be a numeric"):
        metrics.evaluate(Y, frame)


def test_inputs_are_not_changed() -> None:
    labels, scores = Y.copy(), MOVED.copy()
    metrics.evaluate_all(labels, scores)
    pd.testing.assert_frame_equal(labels, Y)
    pd.testing.assert_frame_equal(scores, MOVED)


def test_an_index_of_several_levels() -> None:
    index = pd.MultiIndex.from_product([["a", "b"], range(10)])
    moved = P.set_axis(index).iloc[ROWS, COLUMNS]
    assert metrics.evaluate(Y.set_axis(index), moved) == metrics.evaluate(Y, P)


def test_the_result_is_json() -> None:
    found = metrics.evaluate(Y, MOVED)
    assert json.loads(json.dumps(found)) == found


def test_predictions_of_views_that_differ_in_their_samples() -> None:
    size, colour = P.iloc[:15, :2], P.iloc[5:, 2:]
    views = {"size": size, "colour": colour.iloc[::-1]}
    model = viewgap.LateFusionRidge().fit(views, Y)
    predicted = model.predict_proba(views)
    assert list(predicted.index) != IDS
    with pytest.raises(InputError, match="give Y as a DataFrame"):
        metrics.evaluate(Y.to_numpy(), predicted)
    found = metrics.evaluate(Y, predicted)
    assert found == metrics.evaluate(Y.to_numpy(), predicted.loc[IDS, NAMES].to_numpy())
    assert found["AP"] == model.score(views, Y)
