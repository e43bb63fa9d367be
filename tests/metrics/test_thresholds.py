"""Thresholds of the highest expected F1, against trying every cut and against drawn labels."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from viewgap import metrics
from viewgap.errors import InputError

probabilities = arrays.arrays(
    np.float64, st.tuples(st.integers(1, 12), st.integers(1, 3)), elements=st.floats(0.01, 1.0)
)


def expected_f1(column: np.ndarray, threshold: float) -> float:
    accepted = column > threshold
    return float(2 * column[accepted].sum() / (accepted.sum() + column.sum()))


@given(probabilities)
@settings(deadline=None)
def test_no_cut_is_expected_to_be_better(P: np.ndarray) -> None:
    for column, threshold in zip(P.T, metrics.expected_f1_thresholds(P), strict=True):
        every = [expected_f1(column, cut) for cut in (0.0, *(column - 1e-12))]
        assert expected_f1(column, threshold) >= max(every) - 1e-9


def test_it_is_good_on_labels_drawn_from_the_probabilities() -> None:
    rng = np.random.default_rng(0)
    P = rng.beta(0.4, 2.0, size=(4000, 4))
    truth = (rng.random(P.shape) < P).astype(float)
    best = metrics.f1_scores(truth, P, metrics.fit_thresholds(truth, P))["macro"]
    found = metrics.f1_scores(truth, P, metrics.expected_f1_thresholds(P))["macro"]
    assert found > best - 0.01
    assert found > metrics.f1_scores(truth, P)["macro"] + 0.05


def test_cells_without_a_probability_do_not_count() -> None:
    P = np.array([[0.9, np.nan], [0.2, np.nan], [np.nan, np.nan]])
    thresholds = metrics.expected_f1_thresholds(P, fallback=0.7)
    assert thresholds[0] == metrics.expected_f1_thresholds(P[:2, :1])[0]
    assert thresholds[1] == 0.7


def test_scores_are_refused() -> None:
    with pytest.raises(InputError, match=r"probabilities in \[0, 1\]"):
        metrics.expected_f1_thresholds([[2.0]])
