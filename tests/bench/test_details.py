"""Details of a record: right when they are written, strict when they are read."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, f1_score, roc_auc_score

from viewgap import strict_json
from viewgap.bench.results.details import FIGURES, LOWER_IS_BETTER, describe, figure_of, labels_of
from viewgap.bench.results.record import Record
from viewgap.errors import DataFileError
from viewgap.metrics import calibration_error, excess_calibration_error

Make = Callable[..., Record]


def test_figures_agree_with_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    truth = (rng.random((40, 3)) < 0.4).astype(float)
    chances = np.clip(0.5 * truth + rng.random((40, 3)) * 0.6, 0, 1)
    decisions = (chances > 0.55).astype(float)
    found = describe(truth, chances, decisions)
    assert found["macro AUC"] == pytest.approx(roc_auc_score(truth, chances, average="macro"))
    assert found["macro F1"] == pytest.approx(f1_score(truth, decisions, average="macro"))
    assert found["micro F1"] == pytest.approx(f1_score(truth, decisions, average="micro"))
    assert found["calibration error"] == pytest.approx(calibration_error(truth, chances))
    assert found["beyond chance"] == pytest.approx(excess_calibration_error(truth, chances))
    precision = [average_precision_score(truth[:, j], chances[:, j]) for j in range(3)]
    assert found["labels"]["AP"] == pytest.approx(precision, abs=5.1e-5)
    assert found["labels"]["positives"] == truth.sum(axis=0).tolist()
    assert set(FIGURES) | {"labels"} == set(found)
    assert set(FIGURES) > LOWER_IS_BETTER


def test_what_is_undefined_is_none_and_survives_strict_json(make_record: Make) -> None:
    truth = np.array([[0.0, math.nan], [0.0, math.nan]])
    found = describe(truth, np.full((2, 2), 0.25), np.zeros((2, 2)))
    assert found["macro AUC"] is None
    assert found["macro F1"] is None
    assert found["labels"]["AP"] == [None, None]
    assert found["labels"]["calibration error"] == [0.25, None]
    record = make_record(details=found)
    again = Record.from_dict(strict_json.loads(strict_json.dumps(record.to_dict())))
    assert again == record
    assert figure_of(again, "macro AUC") is None
    assert figure_of(again, "calibration error") == 0.25
    labels = labels_of(again)
    assert labels is not None
    assert np.isnan(labels.ap).all()
    assert labels.positives.tolist() == [0, 0]


def test_labels_without_a_prediction_cost_no_decision() -> None:
    truth = np.array([[1.0, 1.0], [0.0, 0.0]])
    chances = np.array([[0.9, math.nan], [0.1, math.nan]])
    found = describe(truth, chances, np.array([[1.0, 0.0], [0.0, 1.0]]))
    assert found["macro F1"] == found["micro F1"] == 1.0


def test_an_older_record_has_no_details(make_record: Make) -> None:
    plain = make_record().to_dict()
    del plain["details"]
    record = Record.from_dict(plain)
    assert record.details == {}
    assert figure_of(record, "macro F1") is None
    assert labels_of(record) is None


def test_a_figure_that_came_later_is_a_hole_in_older_records(make_record: Make) -> None:
    older = {name: value for name, value in GOOD.items() if name != "beyond chance"}
    assert figure_of(make_record(details=older), "beyond chance") is None
    assert figure_of(make_record(details=GOOD), "beyond chance") == 0.5


GOOD = {**dict.fromkeys(FIGURES, 0.5), "labels": {"positives": [3], "AP": [0.5]}}


@pytest.mark.parametrize("value", ["0.5", True, [0.5]])
def test_a_figure_is_a_number(make_record: Make, value: Any) -> None:
    record = make_record(details={**GOOD, "macro F1": value})
    with pytest.raises(DataFileError, match="label_frequency on tiny, fold 0: macro F1 must be"):
        figure_of(record, "macro F1")


def test_a_figure_left_out_is_not_a_hole(make_record: Make) -> None:
    with pytest.raises(DataFileError, match="must be a number or null, found 'nothing'"):
        figure_of(make_record(details={"labels": {}}), "macro F1")


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (None, "expected lists"),
        ({"positives": [1]}, "AP of the labels"),
        ({"positives": [1], "AP": "0.5"}, "AP of the labels"),
        ({"positives": [1], "AP": ["0.5"]}, "AP of the labels"),
        ({"positives": [1, 2], "AP": [0.5]}, "differ in length"),
    ],
)
def test_figures_per_label_are_checked(make_record: Make, labels: Any, message: str) -> None:
    with pytest.raises(DataFileError, match=message):
        labels_of(make_record(details={**GOOD, "labels": labels}))


@pytest.mark.parametrize("details", [[], "x", None])
def test_details_are_an_object(make_record: Make, details: Any) -> None:
    with pytest.raises(DataFileError, match="details has the wrong type"):
        Record.from_dict({**make_record().to_dict(), "details": details})
