"""Every metric, recomputed cell by cell in plain loops, and compared with scikit-learn."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn import metrics as sk

import viewgap.metrics as metrics

Array = NDArray[np.float64]
TOLERANCE = 1e-12
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*have no positive label:viewgap.errors.ViewgapWarning"
)
NAN = float("nan")


# ------------------------------------------------------------------------------ the naive versions


def cells_of(Y: Array, P: Array, i: int) -> list[int]:
    """Columns of row i that count."""
    return [j for j in range(Y.shape[1]) if not (math.isnan(Y[i, j]) or math.isnan(P[i, j]))]


def rows_of(Y: Array, P: Array) -> list[tuple[list[float], list[bool]]]:
    """Scores and truth of the cells that count, for the rows that have one."""
    rows = []
    for i in range(Y.shape[0]):
        columns = cells_of(Y, P, i)
        if columns:
            rows.append(([float(P[i, j]) for j in columns], [Y[i, j] == 1 for j in columns]))
    return rows


def ordinal_ranks(scores: list[float]) -> list[int]:
    """1 + the number of cells that are higher, or equal with a higher column."""
    ranks = []
    for j, score in enumerate(scores):
        before = [k for k, other in enumerate(scores) if other > score]
        before += [k for k, other in enumerate(scores) if other == score and k > j]
        ranks.append(1 + len(before))
    return ranks


def worst_ranks(scores: list[float]) -> list[int]:
    return [sum(other >= score for other in scores) for score in scores]


def mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else NAN


def naive_average_precision(Y: Array, P: Array, variant: str) -> float:
    values = []
    for scores, truth in rows_of(Y, P):
        ranks = ordinal_ranks(scores) if variant == "field" else worst_ranks(scores)
        positives = [j for j, true in enumerate(truth) if true]
        if not positives:
            if variant == "field":
                values.append(0.0)
            continue
        terms = [sum(ranks[k] <= ranks[j] for k in positives) / ranks[j] for j in positives]
        values.append(sum(terms) / len(positives))
    return mean(values)


def naive_hamming(Y: Array, P: Array, variant: str) -> float:
    right = []
    for scores, truth in rows_of(Y, P):
        right += [float((s > 0.5) == t) for s, t in zip(scores, truth, strict=True)]
    return mean(right)


def pairs_of(scores: list[float], truth: list[bool]) -> list[tuple[float, float]]:
    """(score of a positive, score of a negative), for all such pairs of the row."""
    positive = [s for s, t in zip(scores, truth, strict=True) if t]
    negative = [s for s, t in zip(scores, truth, strict=True) if not t]
    return [(a, b) for a in positive for b in negative]


def naive_ranking(Y: Array, P: Array, variant: str) -> float:
    losses = []
    for scores, truth in rows_of(Y, P):
        pairs = pairs_of(scores, truth)
        if pairs:
            losses.append(sum(b >= a for a, b in pairs) / len(pairs))
        elif variant == "field":
            losses.append(0.0)
    return 1 - mean(losses)


def naive_auc(Y: Array, P: Array, variant: str) -> float:
    rows = rows_of(Y, P)
    if variant == "clean":
        pairs = [pair for scores, truth in rows for pair in pairs_of(scores, truth)]
        return mean([1.0 if a > b else 0.5 if a == b else 0.0 for a, b in pairs])
    n_positive = sum(sum(truth) for _, truth in rows)
    n_negative = sum(len(truth) for _, truth in rows) - n_positive
    if not n_positive or not n_negative:
        return NAN
    points = []
    for depth in range(1, Y.shape[1] + 1):
        true_positive = false_positive = 0
        for scores, truth in rows:
            for rank, positive in zip(ordinal_ranks(scores), truth, strict=True):
                true_positive += rank <= depth and positive
                false_positive += rank <= depth and not positive
        points.append((false_positive / n_negative, true_positive / n_positive))
    if points[0][0] == 1:
        return NAN
    area = 0.0
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        area += (x1 - x0) * (y0 + y1) / 2
    return area / (1 - points[0][0])


def naive_one_error(Y: Array, P: Array, variant: str) -> float:
    right = []
    for scores, truth in rows_of(Y, P):
        maxima = [j for j, score in enumerate(scores) if score == max(scores)]
        if variant == "field":
            right.append(float(truth[maxima[0]]))
        elif any(truth):
            right.append(float(all(truth[j] for j in maxima)))
    return mean(right)


def naive_coverage(Y: Array, P: Array, variant: str) -> float:
    losses = []
    for scores, truth in rows_of(Y, P):
        ranks = ordinal_ranks(scores) if variant == "field" else worst_ranks(scores)
        deepest = max([rank for rank, t in zip(ranks, truth, strict=True) if t], default=0)
        if variant == "field":
            losses.append((deepest - 1) / len(scores))
        elif any(truth):
            losses.append((deepest - sum(truth)) / len(scores))
    return 1 - mean(losses)


def naive_label(Y: Array, P: Array, j: int, threshold: float) -> dict[str, float]:
    """Figures of one label, from its observed cells."""
    column = [
        (P[i, j], Y[i, j] == 1)
        for i in range(Y.shape[0])
        if not (math.isnan(Y[i, j]) or math.isnan(P[i, j]))
    ]
    scores, truth = [s for s, _ in column], [t for _, t in column]
    positive = sum(truth)
    predicted = sum(s > threshold for s in scores)
    hit = sum(s > threshold and t for s, t in column)
    pairs = pairs_of(scores, truth)
    precisions = [
        sum(other >= s and t for other, t in column) / sum(other >= s for other in scores)
        for s, positive_here in column
        if positive_here
    ]
    return {
        "positives": positive,
        "observed": len(column),
        "AUC": mean([1.0 if a > b else 0.5 if a == b else 0.0 for a, b in pairs]),
        "AP": mean(precisions),
        "precision": hit / predicted if predicted else NAN,
        "recall": hit / positive if positive else NAN,
        "F1": 2 * hit / (predicted + positive) if positive else NAN,
    }


NAIVE = {
    "AP": (metrics.average_precision, naive_average_precision),
    "1-HL": (metrics.hamming_score, naive_hamming),
    "1-RL": (metrics.ranking_score, naive_ranking),
    "AUC": (metrics.adapted_auc, naive_auc),
    "1-OE": (metrics.one_error_score, naive_one_error),
    "1-Cov": (metrics.coverage_score, naive_coverage),
}


# ------------------------------------------------------------------------------ inputs


@st.composite
def problems(
    draw: st.DrawFn, missing: bool = True, ties: bool = True, both_classes: bool = False
) -> tuple[Array, Array]:
    """Labels and scores with rows without positives, all-positive rows, ties and NaN cells."""
    n, c = draw(st.integers(1, 7)), draw(st.integers(2 if both_classes else 1, 8))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    Y = (rng.random((n, c)) < draw(st.sampled_from([0.1, 0.4, 0.8]))).astype(float)
    if both_classes:
        Y[:, 0], Y[:, 1] = 0.0, 1.0
        Y = rng.permuted(Y, axis=1)
    else:
        kind = rng.random(n)
        Y[kind < 0.15], Y[kind > 0.85] = 0.0, 1.0
    P = rng.random((n, c)) * draw(st.sampled_from([1.0, 3.0])) - draw(st.sampled_from([0.0, 1.0]))
    if ties:
        P = np.round(P, draw(st.sampled_from([0, 1, 15])))
    if missing:
        Y[rng.random((n, c)) < draw(st.sampled_from([0.0, 0.3, 0.9]))] = np.nan
        P[rng.random((n, c)) < draw(st.sampled_from([0.0, 0.3]))] = np.nan
    return Y, P


def close(found: float, expected: float) -> bool:
    if math.isnan(expected):
        return math.isnan(found)
    return abs(found - expected) <= TOLERANCE


# ------------------------------------------------------------------------------ tests


@pytest.mark.parametrize("variant", ["field", "clean"])
@pytest.mark.parametrize("key", metrics.SIX)
@settings(max_examples=60, deadline=None)
@given(problem=problems())
def test_metric_equals_naive_loops(key: str, variant: str, problem: tuple[Array, Array]) -> None:
    fast, naive = NAIVE[key]
    expected = naive(*problem, variant)
    assert close(fast(*problem, variant=variant), expected)
    assert close(metrics.evaluate(*problem, variant=variant)[key], expected)


@settings(max_examples=60, deadline=None)
@given(problem=problems(), threshold=st.sampled_from([0.5, 0.0, 0.3]))
def test_label_report_equals_naive_loops(problem: tuple[Array, Array], threshold: float) -> None:
    report = metrics.per_label_report(*problem, threshold=threshold)
    for j, row in enumerate(report):
        for key, expected in naive_label(*problem, j, threshold).items():
            assert close(row[key], expected), (j, key, row[key], expected)


@settings(max_examples=60, deadline=None)
@given(problem=problems())
def test_extra_metrics_equal_naive_loops(problem: tuple[Array, Array]) -> None:
    rows = [naive_label(*problem, j, 0.5) for j in range(problem[0].shape[1])]
    found = metrics.evaluate_all(*problem)
    auc = [row["AUC"] for row in rows if not math.isnan(row["AUC"])]
    f1 = [row["F1"] for row in rows if not math.isnan(row["F1"])]
    assert close(found["macro AUC"], mean(auc))
    assert close(found["macro F1"], mean(f1))
    assert found["n_undefined_labels"] == len(rows) - len(auc)


@settings(max_examples=60, deadline=None)
@given(problem=problems())
def test_fitted_thresholds_reach_the_best_f1_of_all_cuts(problem: tuple[Array, Array]) -> None:
    Y, P = problem
    thresholds = metrics.fit_thresholds(Y, P, fallback=0.25)
    for j in range(Y.shape[1]):
        scores = P[:, j][~np.isnan(P[:, j]) & ~np.isnan(Y[:, j])]
        if naive_label(Y, P, j, 0.0)["positives"] == 0:
            assert thresholds[j] == 0.25
            continue
        cuts = [*scores, scores.min() - 1]
        best = max(naive_label(Y, P, j, cut)["F1"] for cut in cuts)
        assert close(naive_label(Y, P, j, thresholds[j])["F1"], best)


@settings(max_examples=60, deadline=None)
@given(problem=problems(missing=False))
def test_field_metrics_and_scikit_learn_for_all_inputs(problem: tuple[Array, Array]) -> None:
    Y, P = problem
    assert close(metrics.hamming_score(Y, P), 1 - sk.hamming_loss(Y, P > 0.5))
    if Y.shape[1] > 1:
        assert close(metrics.ranking_score(Y, P, "field"), 1 - sk.label_ranking_loss(Y, P))


@settings(max_examples=60, deadline=None)
@given(problem=problems(missing=False, ties=False))
def test_field_metrics_and_scikit_learn_without_ties(problem: tuple[Array, Array]) -> None:
    Y, P = problem
    c = Y.shape[1]
    if c == 1:
        return
    without = np.mean(Y.sum(axis=1) == 0)
    lrap = sk.label_ranking_average_precision_score(Y, P)
    assert close(metrics.average_precision(Y, P, "field"), lrap - without)
    assert close(metrics.coverage_score(Y, P, "field"), 1 - (sk.coverage_error(Y, P) - 1) / c)


@settings(max_examples=60, deadline=None)
@given(problem=problems(missing=False, both_classes=True))
def test_clean_metrics_and_scikit_learn_with_ties(problem: tuple[Array, Array]) -> None:
    Y, P = problem
    lrap = sk.label_ranking_average_precision_score(Y, P)
    unavoidable = Y.sum(axis=1).mean()
    depth = (sk.coverage_error(Y, P) - unavoidable) / Y.shape[1]
    assert close(metrics.average_precision(Y, P, "clean"), lrap)
    assert close(metrics.ranking_score(Y, P, "clean"), 1 - sk.label_ranking_loss(Y, P))
    assert close(metrics.coverage_score(Y, P, "clean"), 1 - depth)


@settings(max_examples=60, deadline=None)
@given(problem=problems(missing=False))
def test_label_figures_and_scikit_learn(problem: tuple[Array, Array]) -> None:
    Y, P = problem
    for j, row in enumerate(metrics.per_label_report(Y, P)):
        truth, decided = Y[:, j], P[:, j] > 0.5
        if 0 < truth.sum() < len(truth):
            assert close(row["AUC"], sk.roc_auc_score(truth, P[:, j]))
        if truth.any():
            assert close(row["AP"], sk.average_precision_score(truth, P[:, j]))
            assert close(row["F1"], sk.f1_score(truth, decided))
            assert close(row["recall"], sk.recall_score(truth, decided))
    if Y.any():
        pooled = sk.f1_score(Y.ravel(), P.ravel() > 0.5)
        assert close(metrics.f1_scores(Y, P)["micro"], pooled)


@settings(max_examples=60, deadline=None)
@given(problem=problems(missing=False))
def test_adapted_auc_closed_form(problem: tuple[Array, Array]) -> None:
    Y, P = problem
    n, c = Y.shape
    if not 0 < Y.sum() < n * c:
        return
    ranks = np.array([ordinal_ranks(list(row)) for row in P])
    true_rate = ((ranks == 1) & (Y == 1)).sum() / Y.sum()
    false_rate = ((ranks == 1) & (Y == 0)).sum() / (n * c - Y.sum())
    if false_rate == 1:
        return
    micro = sk.roc_auc_score(Y.ravel(), -ranks.ravel())
    expected = (micro - true_rate * false_rate / 2) / (1 - false_rate)
    assert close(metrics.adapted_auc(Y, P, "field"), expected)


def test_oracle_agrees_with_a_row_worked_by_hand() -> None:
    """Scores .9 .7 .7 .1 with positives at columns 1 and 3: ordinal ranks 1 3 2 4."""
    Y, P = np.array([[0.0, 1.0, 0.0, 1.0]]), np.array([[0.9, 0.7, 0.7, 0.1]])
    field: dict[str, Any] = {
        "AP": (1 / 3 + 2 / 4) / 2,
        "1-HL": 1 / 4,
        "1-RL": 0.0,
        "1-OE": 0.0,
        "1-Cov": 1 - 3 / 4,
    }
    clean: dict[str, Any] = {"AP": (1 / 3 + 2 / 4) / 2, "AUC": 0.5 / 4, "1-Cov": 1 - 2 / 4}
    for variant, expected in (("field", field), ("clean", clean)):
        for key, value in expected.items():
            assert close(NAIVE[key][1](Y, P, variant), value), key
            assert close(metrics.evaluate(Y, P, variant)[key], value), key
