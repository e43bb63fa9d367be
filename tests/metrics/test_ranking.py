"""Behaviour of the six metrics: variants, NaN cells, undefined cases, input errors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import viewgap.metrics as metrics
from viewgap.errors import InputError, LabelError, SettingError, ViewgapError

RNG = np.random.default_rng(7)
Y = (RNG.random((30, 9)) < 0.3).astype(float)
P = RNG.random((30, 9))
SINGLE = {
    "AP": metrics.average_precision,
    "1-HL": metrics.hamming_score,
    "1-RL": metrics.ranking_score,
    "AUC": metrics.adapted_auc,
    "1-OE": metrics.one_error_score,
    "1-Cov": metrics.coverage_score,
}
pytestmark = [
    pytest.mark.filterwarnings("error"),
    pytest.mark.filterwarnings("ignore:.*have no positive label:viewgap.errors.ViewgapWarning"),
]
variants = pytest.mark.parametrize("variant", ["field", "clean"])


@variants
def test_evaluate_has_the_six_keys_in_table_order(variant: str) -> None:
    found = metrics.evaluate(Y, P, variant)
    assert tuple(found) == metrics.SIX
    assert all(type(value) is float for value in found.values())


@variants
def test_single_functions_equal_evaluate(variant: str) -> None:
    found = metrics.evaluate(Y, P, variant)
    assert {key: single(Y, P, variant=variant) for key, single in SINGLE.items()} == found


def test_constant_scores_gain_nothing_in_the_clean_variant() -> None:
    truth = np.array([[1.0, 0.0, 0.0, 0.0]])
    found = metrics.evaluate(truth, np.full((1, 4), 0.7), "clean")
    assert found["AUC"] == 0.5
    assert (found["1-RL"], found["1-OE"], found["AP"]) == (0.0, 0.0, 0.25)


def test_field_ties_prefer_the_higher_column_but_one_error_the_first() -> None:
    last, first = np.array([[0.0, 0.0, 1.0]]), np.array([[1.0, 0.0, 0.0]])
    flat = np.full((1, 3), 0.4)
    assert metrics.average_precision(last, flat, "field") == 1.0
    assert metrics.average_precision(first, flat, "field") == pytest.approx(1 / 3)
    assert metrics.one_error_score(first, flat, "field") == 1.0
    assert metrics.one_error_score(last, flat, "field") == 0.0


def test_ties_among_many_columns_are_deterministic() -> None:
    """An unstable sort shuffles long runs of equal scores; the definition does not."""
    scores = np.zeros((1, 2000))
    for column in (0, 999, 1999):
        truth = np.zeros((1, 2000))
        truth[0, column] = 1.0
        assert metrics.average_precision(truth, scores, "field") == 1 / (2000 - column)


def test_wide_rows_with_ties_do_not_overflow() -> None:
    scores = np.zeros((1, 70_000))
    truth = np.zeros((1, 70_000))
    truth[0, 10] = 1.0
    assert metrics.coverage_score(truth, scores, "field") == pytest.approx(
        1 - (70_000 - 11) / 70_000
    )


def test_rows_without_positives() -> None:
    truth, scores = np.array([[1.0, 0.0], [0.0, 0.0]]), np.array([[0.9, 0.1], [0.2, 0.1]])
    field, clean = metrics.evaluate(truth, scores, "field"), metrics.evaluate(truth, scores)
    assert field["AP"] == 0.5
    assert field["1-OE"] == 0.5
    assert field["1-RL"] == 1.0
    assert field["1-Cov"] == 1 + 1 / 4  # the credit of -1/(n c)
    assert clean == dict.fromkeys(metrics.SIX, 1.0)


@variants
@pytest.mark.parametrize(
    "truth", [np.zeros((0, 3)), np.zeros((4, 0)), np.full((2, 3), np.nan)], ids=str
)
def test_undefined_is_nan_and_not_an_exception(variant: str, truth: Any) -> None:
    found = metrics.evaluate_all(truth, np.zeros(truth.shape), variant)
    assert found.pop("n_undefined_labels") == truth.shape[1]
    assert all(math.isnan(value) for value in found.values())


def test_single_class_data() -> None:
    negatives, positives = np.zeros((3, 4)), np.ones((3, 4))
    scores = P[:3, :4]
    for variant in ("field", "clean"):
        assert math.isnan(metrics.adapted_auc(negatives, scores, variant))
        assert math.isnan(metrics.adapted_auc(positives, scores, variant))
    assert math.isnan(metrics.average_precision(negatives, scores, "clean"))
    assert metrics.average_precision(negatives, scores, "field") == 0.0
    assert metrics.average_precision(positives, scores, "field") == 1.0
    assert math.isnan(metrics.ranking_score(positives, scores, "clean"))


def test_field_auc_is_undefined_when_every_negative_stands_first() -> None:
    assert math.isnan(metrics.adapted_auc([[0, 1, 1]], [[0.9, 0.5, 0.1]], "field"))


def test_threshold_is_strict_and_may_differ_by_label() -> None:
    truth, scores = np.array([[1.0, 0.0]]), np.array([[0.5, 0.5]])
    assert metrics.hamming_score(truth, scores) == 0.5
    assert metrics.hamming_score(truth, scores, threshold=[0.4, 0.6]) == 1.0
    assert metrics.evaluate(truth, scores, threshold=np.array([0.4, 0.6]))["1-HL"] == 1.0


@pytest.mark.parametrize("kind", [bool, np.uint8, np.int64, np.float16, np.float32, list])
def test_label_types(kind: Any) -> None:
    truth = Y.tolist() if kind is list else Y.astype(kind)
    assert metrics.evaluate(truth, P) == metrics.evaluate(Y, P)


def test_inputs_are_not_changed() -> None:
    labels, scores = Y.copy(), P.copy()
    labels[0, 0] = scores[1, 1] = np.nan
    before = labels.copy(), scores.copy()
    metrics.evaluate_all(labels, scores)
    metrics.fit_thresholds(labels, scores)
    np.testing.assert_array_equal(labels, before[0])
    np.testing.assert_array_equal(scores, before[1])


@pytest.mark.parametrize(
    ("labels", "scores", "error", "text"),
    [
        (Y, P[:, :-1], InputError, r"\(30, 9\) and \(30, 8\)"),
        (Y[0], P[0], LabelError, "2-D"),
        (Y, P[0], InputError, "2-D"),
        (Y * 2 - 1, P, LabelError, r"found -1 in row .*Y > 0"),
        (Y * 0.5, P, LabelError, "found 0.5 in row"),
        (Y, np.where(Y == 1, np.inf, P), InputError, "found inf in row"),
        (np.full(Y.shape, "a"), P, LabelError, "numeric"),
        (Y, P * 1j, InputError, "complex"),
        (np.ma.masked_array(Y, mask=Y == 1), P, LabelError, "masked array"),
    ],
)
def test_input_errors(labels: Any, scores: Any, error: type[ViewgapError], text: str) -> None:
    with pytest.raises(error, match=text):
        metrics.evaluate(labels, scores)


def test_sparse_labels_are_refused_with_advice() -> None:
    from scipy.sparse import csr_matrix

    with pytest.raises(LabelError, match="toarray"):
        metrics.evaluate(csr_matrix(Y), P)


@pytest.mark.parametrize("single", [*SINGLE.values(), metrics.evaluate, metrics.evaluate_all])
def test_unknown_variant(single: Any) -> None:
    with pytest.raises(SettingError, match="'field' or 'clean', found 'sklearn'"):
        single(Y, P, variant="sklearn")


@pytest.mark.parametrize("threshold", [[0.5, 0.5], "high", float("nan")])
def test_bad_threshold(threshold: Any) -> None:
    with pytest.raises(SettingError, match="threshold"):
        metrics.evaluate(Y, P, threshold=threshold)


@variants
@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_invariance_and_bounds(variant: str, seed: int) -> None:
    """Row order never matters, column order not without ties, nor any increasing map per row."""
    rng = np.random.default_rng(seed)
    truth = (rng.random((12, 6)) < 0.4).astype(float)
    scores = rng.random((12, 6))
    found = metrics.evaluate(truth, scores, variant)
    rows, columns = rng.permutation(12), rng.permutation(6)
    moved = metrics.evaluate(truth[rows][:, columns], scores[rows][:, columns], variant)
    assert moved == pytest.approx(found, abs=1e-12)
    mapped = metrics.evaluate(truth, np.exp(scores) * rng.uniform(1, 9, (12, 1)), variant)
    del mapped["1-HL"]
    assert mapped == pytest.approx({key: found[key] for key in mapped}, abs=1e-12)
    assert all(0 <= value <= 1 + 1 / 6 for value in found.values())


def test_metrics_import_no_heavy_package() -> None:
    import subprocess
    import sys

    code = (
        "import sys, viewgap.metrics; "
        "print({'torch', 'sklearn', 'pandas', 'scipy'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert done.stdout.strip() == "set()"
