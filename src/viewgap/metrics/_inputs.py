"""The door of the metrics: labels and scores are checked and brought into one form here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from viewgap.errors import InputError, LabelError, SettingError

Variant = Literal["field", "clean"]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Cells:
    """Checked labels and scores of the cells that count.

    Shape: `truth` (n, c) is True at positives that count; `scores` (n, c) is -inf at cells that do
    not count, so that they sort behind every other; `counted` (n, c) is None when all cells count.
    """

    truth: Bools
    scores: Floats
    counted: Bools | None

    @property
    def counts(self) -> Ints:
        """Cells that count, per row (n,)."""
        if self.counted is None:
            return np.full(len(self.truth), self.truth.shape[1], dtype=np.int64)
        counts: Ints = self.counted.sum(axis=1, dtype=np.int64)
        return counts

    def transposed(self) -> Cells:
        """The same cells with labels as rows."""
        counted = None if self.counted is None else np.ascontiguousarray(self.counted.T)
        return Cells(
            np.ascontiguousarray(self.truth.T), np.ascontiguousarray(self.scores.T), counted
        )

    def without_empty_rows(self) -> Cells:
        """Only the rows in which at least one cell counts."""
        left = self.counts > 0
        if left.all():
            return self
        counted = None if self.counted is None else self.counted[left]
        return Cells(self.truth[left], self.scores[left], counted)


def check_cells(Y: Any, P: Any) -> Cells:
    """Labels (n, c) in {0, 1, NaN} and finite or NaN scores (n, c), as `Cells`."""
    labels = _as_matrix(Y, "Y", LabelError)
    scores = _as_matrix(P, "P", InputError)
    if labels.shape != scores.shape:
        raise InputError(
            f"Y and P must have the same shape (samples, labels); found {labels.shape} and "
            f"{scores.shape}"
        )
    truth = labels == 1
    unobserved = _check_labels(labels, truth)
    no_evidence = _check_scores(scores)
    if unobserved is None and no_evidence is None:
        return Cells(truth, scores, None)
    dropped = np.zeros(truth.shape, dtype=bool)
    for part in (unobserved, no_evidence):
        if part is not None:
            dropped |= part
    return Cells(truth & ~dropped, np.where(dropped, -np.inf, scores), ~dropped)


def refuse_scores(cells: Cells) -> None:
    """Probabilities are wanted: scores outside [0, 1] are an `InputError`."""
    counted = cells.scores if cells.counted is None else cells.scores[cells.counted]
    if counted.size and (counted.min() < 0 or counted.max() > 1):
        raise InputError(
            "expected probabilities in [0, 1]; found scores from "
            f"{counted.min():g} to {counted.max():g}"
        )


def check_variant(variant: str) -> Variant:
    """`"field"` or `"clean"`; anything else is a `SettingError`."""
    if variant not in ("field", "clean"):
        raise SettingError(f"variant must be 'field' or 'clean', found {variant!r}")
    return cast(Variant, variant)


def check_threshold(threshold: Any, n_labels: int) -> Floats:
    """One threshold for all labels, shape (), or one for each, shape (c,)."""
    try:
        values = np.asarray(threshold, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise SettingError(f"threshold must be a number, found {threshold!r}") from error
    if values.shape not in ((), (n_labels,)):
        raise SettingError(
            f"threshold must be one number or one per label ({n_labels}); found shape "
            f"{values.shape}"
        )
    if np.isnan(values).any():
        raise SettingError("threshold must be a number, found NaN")
    return values


def _as_matrix(values: Any, name: str, error_type: type[InputError]) -> Floats:
    if isinstance(values, np.ma.MaskedArray):
        raise error_type(
            f"{name} is a masked array, whose mask numpy functions may ignore; pass "
            f"{name}.astype(float).filled(numpy.nan)"
        )
    if hasattr(values, "toarray"):
        raise error_type(f"{name} is sparse; pass a dense array, for example {name}.toarray()")
    try:
        array = np.asarray(values)
        if array.dtype.kind == "c":
            raise TypeError("complex numbers have no order")
        matrix = array.astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        raise error_type(f"{name} must be a numeric (n, c) array: {error}") from error
    if matrix.ndim != 2:
        raise error_type(
            f"{name} must be 2-D, (samples, labels); found {matrix.ndim}-D with shape "
            f"{matrix.shape}"
        )
    return matrix


def _check_labels(labels: Floats, truth: Bools) -> Bools | None:
    strange = ~(truth | (labels == 0))
    if not strange.any():
        return None
    unobserved = np.isnan(labels)
    strange &= ~unobserved
    if strange.any():
        row, column = np.argwhere(strange)[0]
        raise LabelError(
            f"Y must hold 0, 1 or NaN (not observed); found {labels[row, column]:g} in row {row}, "
            f"column {column} ({np.count_nonzero(strange)} such cells). For labels in {{-1, 1}} "
            "pass (Y > 0)"
        )
    return unobserved


def _check_scores(scores: Floats) -> Bools | None:
    finite = np.isfinite(scores)
    if finite.all():
        return None
    no_evidence = np.isnan(scores)
    infinite = ~(finite | no_evidence)
    if infinite.any():
        row, column = np.argwhere(infinite)[0]
        raise InputError(
            f"P must hold finite scores, or NaN for a label without evidence; found "
            f"{scores[row, column]} in row {row}, column {column} "
            f"({np.count_nonzero(infinite)} such cells)"
        )
    return no_evidence
