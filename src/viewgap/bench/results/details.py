"""What a record keeps of a prediction besides the six metrics: calibration, F1, label by label.

Written by `describe` when a cell has run, read by `figure_of` and `labels_of`. Older records have
no details, which is a hole; details of another form are an error.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viewgap.bench.results.record import Record
from viewgap.data.labels import Labels
from viewgap.errors import DataFileError
from viewgap.metrics import (
    calibration_error_per_label,
    excess_calibration_error,
    f1_scores,
    macro_auc,
    per_label_report,
)
from viewgap.metrics.prediction import mean_defined as mean_calibration_error

Floats = NDArray[np.float64]
CALIBRATION = ("calibration error", "beyond chance")
FIGURES = ("macro AUC", "macro F1", "micro F1", *CALIBRATION)
LOWER_IS_BETTER = frozenset(CALIBRATION)
_LATER = frozenset({"beyond chance"})  # records made before it was kept have a hole there
_DIGITS = 4  # of a figure of one label: more would make records long


def describe(
    labels: Labels | NDArray[Any], probabilities: NDArray[Any], decisions: NDArray[Any]
) -> dict[str, Any]:
    """Figures of the probabilities and of the decisions made from them.

    A figure that the data do not define is None.
    """
    truth = labels.as_float() if isinstance(labels, Labels) else np.asarray(labels)
    f1 = f1_scores(truth, np.where(np.isnan(probabilities), np.nan, decisions))
    errors = calibration_error_per_label(truth, probabilities)
    by_label = per_label_report(truth, probabilities)
    figures = {
        "macro AUC": macro_auc(truth, probabilities),
        "macro F1": f1["macro"],
        "micro F1": f1["micro"],
        "calibration error": mean_calibration_error(errors),
        "beyond chance": excess_calibration_error(truth, probabilities),
    }
    return {
        **{name: _defined(value) for name, value in figures.items()},
        "labels": {
            "positives": [entry["positives"] for entry in by_label],
            "AP": _rounded(entry["AP"] for entry in by_label),
            "calibration error": _rounded(errors),
        },
    }


def _defined(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _rounded(values: Iterable[float]) -> list[float | None]:
    return [None if np.isnan(value) else round(float(value), _DIGITS) for value in values]


@dataclass(frozen=True)
class LabelFigures:
    """One number per label of a prediction: positives among the test rows, and AP or NaN."""

    positives: Floats
    ap: Floats


def figure_of(record: Record, name: str) -> float | None:
    """One of `FIGURES`; None where the record has no details or the data define no figure."""
    if not record.details:
        return None
    value = record.details.get(name, None if name in _LATER else "nothing")
    if value is not None and not _is_number(value):
        raise DataFileError(f"{_place(record)}: {name} must be a number or null, found {value!r}")
    return None if value is None else float(value)


def labels_of(record: Record) -> LabelFigures | None:
    """The figures of every label; None where the record has no details."""
    if not record.details:
        return None
    columns = record.details.get("labels")
    if not isinstance(columns, Mapping):
        raise DataFileError(f"{_place(record)}: expected lists of figures per label")
    found = LabelFigures(_column(record, columns, "positives"), _column(record, columns, "AP"))
    if found.positives.shape != found.ap.shape:
        raise DataFileError(f"{_place(record)}: lists of figures per label differ in length")
    return found


def _column(record: Record, columns: Mapping[str, Any], name: str) -> Floats:
    values = columns.get(name)
    if not isinstance(values, list | tuple) or not all(
        value is None or _is_number(value) for value in values
    ):
        raise DataFileError(f"{_place(record)}: {name} of the labels must be a list of numbers")
    return np.array([math.nan if value is None else value for value in values], dtype=np.float64)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _place(record: Record) -> str:
    return f"details of {record.method} on {record.dataset}, fold {record.fold}"
