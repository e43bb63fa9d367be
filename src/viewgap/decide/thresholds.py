"""Thresholds of one pattern of missing views, from rows whose views are hidden to match it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from viewgap.data.labels import Labels
from viewgap.data.viewset import ViewSet
from viewgap.decide.losses import Design
from viewgap.decide.risk_control import Levels, accepted_for_label, accepted_threshold
from viewgap.methods.base import MultiViewClassifier

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Part = tuple[MultiViewClassifier, ViewSet, Labels]
"""Rows, and a model that was not fitted on them."""

CERTAIN, POSSIBLE, RULED_OUT = "certain", "possible", "ruled out"


@dataclass(frozen=True)
class PatternThresholds:
    """Thresholds of the labels for one pattern of missing views, and what they rest on.

    Attributes
    ----------
    n_rows : int
        Calibration rows that have at least the views of the pattern.
    n_effective : float
        As how many rows with complete labels they count.
    lower, upper : list of float or None
        A label is ruled out up to `lower` and certain above `upper`; never for None.
    n_positives, n_negatives : list of int
        Observed entries of each label in these rows.
    """

    n_rows: int
    n_effective: float
    lower: list[float | None]
    upper: list[float | None]
    n_positives: list[int]
    n_negatives: list[int]

    @classmethod
    def fit(
        cls, parts: Sequence[Part], wanted: Bools, risk: str, per_label: bool, levels: Levels
    ) -> Self:
        """Find thresholds from the rows of all parts that have the views wanted."""
        return cls.from_answers(*_hidden(parts, wanted), risk, per_label, levels)

    @classmethod
    def from_answers(
        cls, proba: Floats, labels: Labels, risk: str, per_label: bool, levels: Levels
    ) -> Self:
        """Find thresholds from the probabilities (n, c) and the labels of rows."""
        truth = labels.values.astype(np.bool_)
        observed = labels.observed & ~np.isnan(proba)
        positives = (observed & truth).sum(axis=0)
        negatives = (observed & ~truth).sum(axis=0)
        counts = (positives.tolist(), negatives.tolist())
        nothing: list[float | None] = [None] * proba.shape[1]
        if per_label:
            lower = [
                accepted_for_label(proba[observed[:, j] & truth[:, j], j], *levels)
                for j in range(proba.shape[1])
            ]
            return cls(
                len(proba), float(positives.min(initial=len(proba))), lower, nothing, *counts
            )
        design = Design.of(observed)
        found = accepted_threshold(risk, proba, truth, design, *levels)
        low, high = (None if risk == "false alarms" else found), None
        if risk != "missed positives" and found is not None:
            high = 1 - found if risk == "coverage" else found
        # fewer decisions make none of these two losses larger
        has_positive = design.decided & ((positives > 0) | (risk == "false alarms"))
        has_negative = design.decided & ((negatives > 0) | (risk == "false alarms"))
        effective = design.rows.sum() / design.largest
        if risk == "missed positives":
            effective = (design.observed & truth).any(axis=1).sum()
        return cls(
            len(proba),
            float(effective),
            [low if own else None for own in has_positive.tolist()],
            [high if own else None for own in has_negative.tolist()],
            *counts,
        )

    def decide(self, proba: Floats) -> tuple[Bools, Bools]:
        """What is ruled out, and what is certain."""
        low = np.array([-np.inf if value is None else value for value in self.lower])
        high = np.array([np.inf if value is None else value for value in self.upper])
        return proba <= low, proba > high

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, stored: Any, n_labels: int) -> Self:
        """Restore what `to_dict` gave; ValueError for anything that does not fit the model."""
        if not isinstance(stored, dict) or set(stored) != {field.name for field in fields(cls)}:
            raise ValueError("its thresholds are not complete")
        for name in ("lower", "upper", "n_positives", "n_negatives"):
            if not isinstance(stored[name], list) or len(stored[name]) != n_labels:
                raise ValueError(f"{name} must hold {n_labels} values")
        thresholds = [*stored["lower"], *stored["upper"]]
        counts = [*stored["n_positives"], *stored["n_negatives"], stored["n_rows"]]
        right = all(v is None or (type(v) is float and 0 <= v <= 1) for v in thresholds)
        right = right and all(type(v) is int and v >= 0 for v in counts)
        effective = stored["n_effective"]
        if not right or type(effective) is not float or not 0 <= effective < np.inf:
            raise ValueError("its thresholds or counts are out of range")
        return cls(**stored)


def _hidden(parts: Sequence[Part], wanted: Bools) -> tuple[Floats, Labels]:
    """Probabilities and labels of the rows that have the views wanted, with the others hidden."""
    probabilities, rows_of_labels = [], []
    for model, views, labels in parts:
        rows = np.flatnonzero(views.observed[:, wanted].all(axis=1))
        hidden = views[rows].with_observed(np.tile(wanted, (len(rows), 1)))
        probabilities.append(model._checked_probabilities(hidden))
        rows_of_labels.append(labels[rows])
    values = np.concatenate([own.values for own in rows_of_labels])
    observed = np.concatenate([own.observed for own in rows_of_labels])
    return np.concatenate(probabilities), Labels(values, observed, parts[0][2].names)
