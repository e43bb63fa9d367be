"""What a fit is stopped by says something about the data at hand, or is not there at all."""

from __future__ import annotations

import math

import numpy as np
import pytest

from viewgap.data.labels import Labels
from viewgap.metrics.evaluation import field_metrics
from viewgap.training.scores import choose_score

EQUAL = (1.0, 1.0, 1.0)


def labels(Y: object) -> Labels:
    """Labels with NaN where not observed."""
    values = np.asarray(Y, dtype=float)
    observed = ~np.isnan(values)
    names = tuple(f"label{j}" for j in range(values.shape[1]))
    return Labels(np.nan_to_num(values).astype(np.uint8), observed, names)


@pytest.mark.parametrize("weights", [EQUAL, (0.25, 0.25, 0.5), (1.0, 0.0, 0.0)])
def test_with_several_labels_it_is_the_mean_of_three_metrics(weights: tuple[float, ...]) -> None:
    rng = np.random.default_rng(0)
    Y = (rng.random((20, 5)) < 0.4).astype(float)
    Y[rng.random(Y.shape) < 0.3] = np.nan
    P = rng.random(Y.shape)
    score = choose_score(labels(Y), weights)
    found = field_metrics(Y, P)
    parts = zip(weights, ("AP", "1-RL", "AUC"), strict=True)
    assert score is not None
    assert score(P) == sum(weight * found[name] for weight, name in parts) / sum(weights)


def test_with_one_label_it_is_the_log_loss() -> None:
    score = choose_score(labels([[1], [0], [np.nan], [1]]), EQUAL)
    assert score is not None
    expected = (math.log(0.8) + math.log(0.9) + math.log(0.6)) / 3
    assert score(np.array([[0.8], [0.1], [0.5], [0.6]])) == pytest.approx(expected)
    assert score(np.array([[0.9], [0.1], [0.5], [0.6]])) > expected
    sure_and_wrong = score(np.array([[0.0], [1.0], [0.5], [0.0]], dtype=np.float32))
    assert -20 < sure_and_wrong < -10


def test_rows_without_a_pair_to_put_in_order_are_not_ranked() -> None:
    """Rows whose labels are all alike, or of which one is observed: every ranking is as good."""
    Y = [[1, 1, np.nan], [0, 0, np.nan], [np.nan, 1, np.nan], [np.nan, np.nan, 0]]
    score = choose_score(labels(Y), EQUAL)
    assert score is not None
    good = np.array([[0.9, 0.8, 0.5], [0.1, 0.2, 0.5], [0.5, 0.7, 0.5], [0.5, 0.5, 0.1]])
    assert score(good) > score(1.0 - good)
    changed = good.copy()
    changed[3, 2] = 0.9  # this label was observed with one value only: it decides nothing
    assert score(changed) == score(good)


@pytest.mark.parametrize(
    "Y", [[[0], [0]], [[1], [1]], [[np.nan], [1]], [[1, 1], [1, 1]], [[0, np.nan], [0, 0]]]
)
def test_labels_of_one_value_have_no_score(Y: object) -> None:
    assert choose_score(labels(Y), EQUAL) is None


def test_the_worst_order_has_a_score_too() -> None:
    """The field's AUC is not defined where every negative is the first of its row."""
    Y, P = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[0.1, 0.9], [0.9, 0.1]])
    assert math.isnan(field_metrics(Y, P)["AUC"])
    score = choose_score(labels(Y), EQUAL)
    assert score is not None
    assert 0 <= score(P) < score(np.array([[0.1, 0.9], [0.1, 0.9]])) < score(1 - P)
