"""Behaviour of per-label figures, F1 and thresholds."""

from __future__ import annotations

import math

import numpy as np
import pytest

import viewgap.metrics as metrics
from viewgap.errors import InputError, SettingError

pytestmark = pytest.mark.filterwarnings("error")
NAN = np.nan
LABELS = np.array([[1, 0, 0, NAN], [1, 1, 0, NAN], [0, 0, 0, NAN], [NAN, 1, 0, NAN]])
SCORES = np.array([[0.9, 0.2, 0.6, 0.1], [0.4, 0.7, 0.2, 0.1], [0.5, 0.7, 0.1, 0.1], [0.8] * 4])


def test_report_of_four_labels() -> None:
    rows = metrics.per_label_report(LABELS, SCORES, names=["a", "b", "none", "unseen"])
    a, b, none, unseen = rows
    assert (a["label"], a["positives"], a["observed"]) == ("a", 2, 3)
    assert (a["AUC"], a["precision"], a["recall"]) == (0.5, 1.0, 0.5)
    assert b["AUC"] == pytest.approx(0.875)
    assert b["F1"] == pytest.approx(0.8)
    assert (none["observed"], none["positives"], none["precision"]) == (4, 0, 0.0)
    assert all(math.isnan(none[key]) for key in ("AUC", "AP", "recall", "F1"))
    assert unseen["observed"] == 0
    assert all(math.isnan(unseen[key]) for key in ("AUC", "AP", "precision", "recall", "F1"))


def test_names_are_made_up_or_checked() -> None:
    assert metrics.per_label_report(LABELS, SCORES)[2]["label"] == "label2"
    with pytest.raises(InputError, match=r"per label \(4\); found 1"):
        metrics.per_label_report(LABELS, SCORES, names=["a"])


def test_undefined_labels_leave_the_macro_means() -> None:
    found = metrics.evaluate_all(LABELS, SCORES)
    rows = metrics.per_label_report(LABELS, SCORES)
    assert found["n_undefined_labels"] == 2
    assert found["macro AUC"] == pytest.approx((rows[0]["AUC"] + rows[1]["AUC"]) / 2)
    assert found["macro F1"] == pytest.approx((rows[0]["F1"] + rows[1]["F1"]) / 2)
    assert metrics.macro_auc(LABELS, SCORES) == found["macro AUC"]
    assert tuple(found) == metrics.SIX + metrics.EXTRA


def test_false_alarms_on_labels_without_positives_cost_micro_f1_only() -> None:
    quiet = SCORES.copy()
    quiet[:, 2] = 0.0
    loud, silent = metrics.f1_scores(LABELS, SCORES), metrics.f1_scores(LABELS, quiet)
    assert loud["macro"] == silent["macro"]
    assert loud["micro"] < silent["micro"]


def test_f1_without_any_positive_is_nan() -> None:
    found = metrics.f1_scores(np.zeros((3, 2)), np.ones((3, 2)))
    assert math.isnan(found["macro"])
    assert math.isnan(found["micro"])


def test_thresholds_separate_what_can_be_separated() -> None:
    truth = np.array([[1, 0], [1, 1], [0, 1], [0, 0]], dtype=float)
    scores = np.array([[0.31, 0.2], [0.3, 0.9], [0.1, 0.8], [0.05, 0.6]])
    thresholds = metrics.fit_thresholds(truth, scores)
    assert thresholds == pytest.approx([0.2, 0.7])
    assert metrics.f1_scores(truth, scores, thresholds) == {"macro": 1.0, "micro": 1.0}


def test_thresholds_never_worse_than_one_half_on_their_own_rows() -> None:
    rng = np.random.default_rng(3)
    truth = (rng.random((80, 7)) < 0.2).astype(float)
    scores = np.clip(0.3 * truth + 0.5 * rng.random((80, 7)), 0, 1)
    fitted = metrics.f1_scores(truth, scores, metrics.fit_thresholds(truth, scores))
    assert fitted["macro"] > metrics.f1_scores(truth, scores)["macro"]


def test_threshold_fallback_and_full_acceptance() -> None:
    truth = np.array([[0, 1, 1, NAN], [0, 1, 1, NAN]])
    scores = np.array([[0.9, 0.4, -1.0, 0.2], [0.8, 0.6, -2.0, 0.3]])
    thresholds = metrics.fit_thresholds(truth, scores, fallback=0.6)
    assert thresholds[[0, 3]].tolist() == [0.6, 0.6]
    assert thresholds[1] == pytest.approx(0.2)
    assert -2.1 < thresholds[2] < -2.0
    with pytest.raises(SettingError, match="fallback"):
        metrics.fit_thresholds(truth, scores, fallback=float("inf"))


def test_threshold_between_neighbouring_numbers_still_separates() -> None:
    low = 0.7
    high = np.nextafter(low, 1)
    truth, scores = np.array([[1.0], [0.0]]), np.array([[high], [low]])
    (threshold,) = metrics.fit_thresholds(truth, scores)
    assert low <= threshold < high


def test_equal_scores_are_never_split() -> None:
    truth = np.array([[1.0], [0.0], [0.0]])
    (threshold,) = metrics.fit_thresholds(truth, np.full((3, 1), 0.4))
    assert threshold < 0.4
