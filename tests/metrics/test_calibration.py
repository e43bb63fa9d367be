"""Calibration error: against naive loops, and what must hold for any data."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from viewgap.errors import InputError, SettingError
from viewgap.metrics import (
    calibration_error,
    calibration_error_per_label,
    excess_calibration_error,
)

pytestmark = pytest.mark.filterwarnings("error")
NAN = math.nan


def naive(truth: NDArray[Any], scores: NDArray[Any], n_bins: int) -> list[float]:
    """Bin by bin: share of the cells times the gap between mean probability and frequency."""
    found = []
    for label in range(truth.shape[1]):
        bins: list[list[tuple[float, float]]] = [[] for _ in range(n_bins)]
        total = 0
        for row in range(truth.shape[0]):
            y, p = truth[row, label], scores[row, label]
            if math.isnan(y) or math.isnan(p):
                continue
            total += 1
            bins[min(math.floor(p * n_bins), n_bins - 1)].append((y, p))
        error = 0.0
        for cells in bins:
            if cells:
                frequency = sum(y for y, _ in cells) / len(cells)
                confidence = sum(p for _, p in cells) / len(cells)
                error += len(cells) / total * abs(confidence - frequency)
        found.append(error if total else NAN)
    return found


@st.composite
def predictions(draw: st.DrawFn) -> tuple[NDArray[Any], NDArray[Any]]:
    shape = draw(st.integers(1, 12)), draw(st.integers(1, 4))
    truth = draw(arrays(float, shape, elements=st.sampled_from([0.0, 1.0, NAN])))
    chances = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.1, 0.5, 1.0, NAN]))
    return truth, draw(arrays(float, shape, elements=chances))


@settings(max_examples=60, deadline=None)
@given(predictions(), st.integers(1, 15))
def test_it_is_the_naive_one_and_a_share(
    data: tuple[NDArray[Any], NDArray[Any]], n_bins: int
) -> None:
    found = calibration_error_per_label(*data, n_bins)
    np.testing.assert_allclose(found, naive(*data, n_bins), atol=1e-12)
    defined = found[~np.isnan(found)]
    assert ((defined >= 0) & (defined <= 1 + 1e-12)).all()
    mean = calibration_error(*data, n_bins)
    assert math.isnan(mean) if not len(defined) else mean == pytest.approx(defined.mean())


@settings(max_examples=30, deadline=None)
@given(predictions(), st.randoms(use_true_random=False))
def test_the_order_of_the_rows_does_not_matter(
    data: tuple[NDArray[Any], NDArray[Any]], random: Any
) -> None:
    order = list(range(len(data[0])))
    random.shuffle(order)
    shuffled = calibration_error_per_label(data[0][order], data[1][order])
    np.testing.assert_allclose(shuffled, calibration_error_per_label(*data), atol=1e-12)


@settings(max_examples=30, deadline=None)
@given(predictions())
def test_cells_without_label_or_score_are_left_out(
    data: tuple[NDArray[Any], NDArray[Any]],
) -> None:
    truth, scores = data
    more_truth = np.vstack([truth, np.full_like(truth[:1], NAN), np.ones_like(truth[:1])])
    more_scores = np.vstack([scores, np.full_like(scores[:1], 0.9), scores[:1] * NAN])
    np.testing.assert_allclose(
        calibration_error_per_label(more_truth, more_scores),
        calibration_error_per_label(truth, scores),
        atol=1e-12,
    )


def test_probabilities_that_come_true_have_no_error() -> None:
    truth = np.array([[1.0], [0.0], [0.0], [0.0], [1.0], [1.0], [1.0], [0.0]])
    scores = np.array([[0.25]] * 4 + [[0.75]] * 4)
    assert calibration_error(truth, scores) == 0
    assert calibration_error(truth, truth) == 0
    assert calibration_error(truth, 1 - truth) == 1


def test_too_confident_by_a_known_amount() -> None:
    assert calibration_error([[1], [0]], [[0.91], [0.93]]) == pytest.approx(0.42)


@pytest.mark.parametrize("scores", [[[1.5], [0.1]], [[-0.1], [0.1]]])
def test_scores_are_no_probabilities(scores: Any) -> None:
    with pytest.raises(InputError, match=r"probabilities in \[0, 1\]"):
        calibration_error([[1], [0]], scores)
    assert calibration_error([[NAN], [0]], scores) == pytest.approx(0.1)  # its cell does not count


def test_bins_are_counted_from_one() -> None:
    with pytest.raises(SettingError, match="n_bins"):
        calibration_error([[1]], [[0.5]], n_bins=0)


@pytest.fixture(scope="module")
def right() -> tuple[NDArray[Any], NDArray[Any]]:
    """Labels of 60 rows, drawn by their probabilities: few rows, so that chance shows."""
    rng = np.random.default_rng(3)
    chances = rng.beta(0.3, 2.0, size=(60, 400))
    return (rng.random(chances.shape) < chances).astype(float), chances


def test_right_probabilities_have_an_error_but_none_beyond_chance(
    right: tuple[NDArray[Any], NDArray[Any]],
) -> None:
    assert calibration_error(*right) > 0.04
    assert abs(excess_calibration_error(*right)) < 0.002


def test_timid_ones_have_it_though_their_error_is_not_larger(
    right: tuple[NDArray[Any], NDArray[Any]],
) -> None:
    truth, chances = right
    timid = 0.7 * chances.mean(axis=0) * np.ones_like(chances)
    assert calibration_error(truth, timid) < calibration_error(truth, chances)
    assert excess_calibration_error(truth, timid) > 0.01


def test_the_excess_ignores_what_is_unknown_and_is_the_same_every_time(
    right: tuple[NDArray[Any], NDArray[Any]],
) -> None:
    truth, chances = right[0].copy(), right[1]
    truth[:, 0] = NAN
    assert excess_calibration_error(truth, chances) == excess_calibration_error(truth, chances)
    assert math.isnan(excess_calibration_error([[NAN]], [[0.5]]))
