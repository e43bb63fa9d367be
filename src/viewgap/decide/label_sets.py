"""LabelSets: certain, possible or ruled out, for the views that a sample has."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from viewgap import strict_json
from viewgap.constraints import Choice
from viewgap.constraints import check as check_value
from viewgap.data.labels import Labels
from viewgap.data.validation import as_labels
from viewgap.data.viewset import ViewSet
from viewgap.decide.risk_control import RISKS, accepted_threshold
from viewgap.errors import DataFileError, SettingError, damaged_file
from viewgap.fsio import write_file
from viewgap.methods._training_summary import pattern_counts
from viewgap.methods.base import MultiViewClassifier

ASSUMPTION = "labels of the calibration rows are missing at random; new samples are like these rows"
MOST_VIEWS = 6
"""Up to so many views, `save` keeps the thresholds of all patterns."""

CERTAIN, POSSIBLE, RULED_OUT = "certain", "possible", "ruled out"


class LabelSets:
    """Say of every label whether it is certain, possible or ruled out, with a bounded risk.

    With probability `confidence_level` over the calibration rows, the expected loss of a new
    sample is at most 1 - `target_level`, for each pattern of missing views. Losses count observed
    label entries only:

    - `"missed positives"`: share of the positives of a sample that are ruled out (no label is
      called certain);
    - `"false alarms"`: share of the labels called certain that are negative (none is ruled out);
    - `"coverage"`: 1 if any positive is ruled out or any negative is called certain.

    Where labels of the calibration rows are missing, `"false alarms"` and `"coverage"` bound the
    mistakes among labels observed as often, not among all: calibrate them with complete labels.
    The guarantee is over all labels together, not for every single one. A label without an
    observed positive in the calibration rows is never ruled out, one without an observed negative
    is never certain under `"coverage"`, and one never observed in training is always possible.

    Parameters
    ----------
    model : fitted MultiViewClassifier
        Fitted on a label matrix; a model of a 1-D y is refused.
    risk : {"missed positives", "false alarms", "coverage"}
        What is bounded.
    target_level : float, default=0.9
        One minus the largest expected loss.
    confidence_level : float, default=0.9
        How probable it is that the bound holds.

    Examples
    --------
    >>> import viewgap
    >>> data = viewgap.load_dataset("synthetic", n_samples=300, seed=0)
    >>> model = viewgap.LateFusionRidge().fit(data.views[:100], data.labels[:100])
    >>> sets = LabelSets(model).calibrate(data.views[100:], data.labels[100:])
    >>> sets.predict(data.views[:2]).shape
    (2, 12)
    """

    def __init__(
        self,
        model: MultiViewClassifier,
        *,
        risk: str = "missed positives",
        target_level: float = 0.9,
        confidence_level: float = 0.9,
    ) -> None:
        model._check_fitted()
        if model.one_label_:
            raise SettingError(
                "label sets are for models of a label matrix (samples, labels); this one was "
                "fitted on a 1-D y: fit it on y as a matrix with one column"
            )
        check_value("risk", Choice(*RISKS), risk)
        for name, value in (("target_level", target_level), ("confidence_level", confidence_level)):
            if not (isinstance(value, float) and 0 < value < 1):
                raise SettingError(f"{name} must be a number between 0 and 1; found {value!r}")
        self.model, self.risk = model, risk
        self.target_level, self.confidence_level = target_level, confidence_level
        self._rows: tuple[ViewSet, Labels] | None = None
        self._tables: dict[str, dict[str, Any]] = {}

    def calibrate(self, X: Any, y: Any) -> Self:
        """Remember calibration rows; thresholds of a pattern are computed when it is first asked.

        Parameters
        ----------
        X : like the X of `fit`
            Rows that neither trained the model nor were its `validation`: the model keeps no
            samples, so this cannot be checked here, and the guarantee does not hold otherwise.
        y : array or DataFrame of shape (n_samples, n_labels)
            NaN where a label was not observed.

        Returns
        -------
        self
        """
        views = self.model._match(X, self.model.nan)
        self._rows = views, as_labels(y, views, names=self.model.label_names_)
        self._tables = {}
        return self

    def predict(self, X: Any) -> Any:
        """Return a DataFrame (samples x labels) of "certain", "possible" and "ruled out".

        A sample without any view has "possible" throughout.
        """
        import pandas as pd

        views = self.model._match(X, self.model.nan)
        answers = np.full((len(views), len(self.model.label_names_)), POSSIBLE, dtype=object)
        for pattern in pattern_counts(views.observed):
            wanted = np.array([flag == "1" for flag in pattern])
            if not wanted.any():
                continue
            rows = np.flatnonzero((views.observed == wanted).all(axis=1))
            proba = self.model._checked_probabilities(views[rows])
            table = self._table(pattern)
            answers[rows] = _decided(proba, table["lower"], table["upper"])
        columns = list(self.model.label_names_)
        return pd.DataFrame(answers, index=views.frame_index(), columns=columns)

    def summary(self) -> Any:
        """Return a DataFrame: per pattern and label the thresholds and the effective counts."""
        import pandas as pd

        if not self._tables:
            self._table("1" * len(self.model.view_names_))
        lines = [
            {"pattern": pattern, "label": name, "n_rows": table["n_rows"]}
            | {key: table[key][j] for key in ("lower", "upper", "n_positives", "n_negatives")}
            for pattern, table in self._tables.items()
            for j, name in enumerate(self.model.label_names_)
        ]
        return pd.DataFrame(lines)

    # ------------------------------------------------------------------ thresholds of a pattern

    def _table(self, pattern: str) -> dict[str, Any]:
        if pattern not in self._tables:
            if self._rows is None:
                raise SettingError(
                    f"no thresholds for the pattern of views {pattern}; call calibrate(X, y), and "
                    f"save(path, patterns=[{pattern!r}]) to keep them"
                )
            self._tables[pattern] = self._fitted(pattern, *self._rows)
        return self._tables[pattern]

    def _fitted(self, pattern: str, views: ViewSet, labels: Labels) -> dict[str, Any]:
        wanted = np.array([flag == "1" for flag in pattern])
        rows = np.flatnonzero(views.observed[:, wanted].all(axis=1))
        hidden = views[rows].with_observed(np.tile(wanted, (len(rows), 1)))
        proba = self.model._checked_probabilities(hidden)
        truth = labels.values[rows].astype(np.bool_)
        observed = labels.observed[rows] & ~np.isnan(proba)
        alpha, delta = 1 - self.target_level, 1 - self.confidence_level
        found = accepted_threshold(self.risk, proba, truth, observed, alpha, delta)
        positives = (observed & truth).sum(axis=0).tolist()
        negatives = (observed & ~truth).sum(axis=0).tolist()
        lower = None if self.risk == "false alarms" else found
        upper = None if self.risk == "missed positives" else found
        if self.risk == "coverage" and found is not None:
            upper = 1 - found
        own = self.risk == "coverage"
        return {
            "n_rows": len(rows),
            "lower": [lower if count else None for count in positives],
            "upper": [upper if count or not own else None for count in negatives],
            "n_positives": positives,
            "n_negatives": negatives,
        }

    # ------------------------------------------------------------------ files

    def save(self, path: str | os.PathLike[str], patterns: Any = None) -> None:
        """Write the thresholds as one JSON file; no calibration row is kept.

        `patterns` such as `["110"]` are added to those computed so far. Without them: all patterns
        of up to 6 views, else those of the calibration and the training rows.
        """
        for pattern in self._wanted_patterns() if patterns is None else patterns:
            n_views = len(self.model.view_names_)
            if len(pattern) != n_views or set(pattern) - {"0", "1"} or "1" not in pattern:
                raise SettingError(f"a pattern is {n_views} times 0 or 1; found {pattern!r}")
            self._table(pattern)
        content = {
            "format": "viewgap label sets 1",
            "model": fingerprint(self.model),
            "risk": self.risk,
            "target_level": self.target_level,
            "confidence_level": self.confidence_level,
            "assumption": ASSUMPTION,
            "label_names": list(self.model.label_names_),
            "patterns": self._tables,
        }
        write_file(path, strict_json.dumps(content))

    def _wanted_patterns(self) -> list[str]:
        n_views = len(self.model.view_names_)
        if n_views <= MOST_VIEWS:
            return [f"{number:0{n_views}b}" for number in range(1, 2**n_views)]
        summary = self.model.training_summary_
        seen = set() if summary is None else set(summary.patterns)
        if self._rows is not None:
            seen |= set(pattern_counts(self._rows[0].observed))
        return sorted(pattern for pattern in seen if "1" in pattern)

    @classmethod
    def load(cls, path: str | os.PathLike[str], model: MultiViewClassifier) -> Self:
        """Read what `save` wrote; refused for another model than the one it was made for."""
        file = Path(path)
        try:
            stored = strict_json.loads(file.read_bytes())
        except OSError as error:
            raise DataFileError(f"{file}: cannot be read ({error.strerror})") from error
        except ValueError as error:
            raise damaged_file(file, error) from error
        keys = {"format", "model", "risk", "target_level", "confidence_level", "patterns"}
        if not isinstance(stored, dict) or not keys <= set(stored):
            raise damaged_file(file, "it is no file of label sets")
        if stored["model"] != fingerprint(model):
            raise DataFileError(f"{file}: made for another model; calibrate this one")
        names = ("risk", "target_level", "confidence_level")
        sets = cls(model, **{name: stored[name] for name in names})
        if not _are_tables(stored["patterns"], len(model.view_names_), len(model.label_names_)):
            raise damaged_file(file, "its thresholds do not fit the model")
        sets._tables = stored["patterns"]
        return sets


def _decided(proba: NDArray[np.float64], lower: list[Any], upper: list[Any]) -> NDArray[Any]:
    low = np.array([-np.inf if value is None else value for value in lower])
    high = np.array([np.inf if value is None else value for value in upper])
    answers = np.full(proba.shape, POSSIBLE, dtype=object)
    answers[proba <= low] = RULED_OUT
    answers[proba > high] = CERTAIN
    return answers


def _are_tables(tables: Any, n_views: int, n_labels: int) -> bool:
    return isinstance(tables, dict) and all(
        len(pattern) == n_views and _is_table(table, n_labels) for pattern, table in tables.items()
    )


def _is_table(table: Any, n_labels: int) -> bool:
    keys = ("lower", "upper", "n_positives", "n_negatives")
    if not isinstance(table, dict) or set(table) != {"n_rows", *keys}:
        return False
    if not all(isinstance(table[key], list) and len(table[key]) == n_labels for key in keys):
        return False
    thresholds = [value for key in ("lower", "upper") for value in table[key]]
    return all(v is None or (type(v) is float and 0 <= v <= 1) for v in thresholds)


def fingerprint(model: MultiViewClassifier) -> str:
    """Hash of everything that a fitted model predicts with."""
    state = model._get_state()
    digest = hashlib.sha256(repr((model.view_names_, model.label_names_)).encode())
    for name in sorted(state.arrays):
        values = np.ascontiguousarray(state.arrays[name])
        digest.update(f"{name} {values.dtype} {values.shape} ".encode())
        digest.update(values.tobytes())
    return digest.hexdigest()[:32]
