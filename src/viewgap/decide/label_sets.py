"""LabelSets: certain, possible or ruled out, for the views that a sample has."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from viewgap.constraints import Choice
from viewgap.constraints import check as check_value
from viewgap.data.labels import Labels
from viewgap.data.validation import as_labels
from viewgap.data.viewset import ViewSet
from viewgap.decide.measured import PatternLoss, measure_pattern
from viewgap.decide.out_of_fold import cross_fitted
from viewgap.decide.risk_control import RISKS
from viewgap.decide.set_file import read_sets, write_sets
from viewgap.decide.thresholds import CERTAIN, POSSIBLE, RULED_OUT, Part, PatternThresholds
from viewgap.errors import SettingError, ViewgapWarning, damaged_file, parameter, remedy
from viewgap.methods.base import MultiViewClassifier, fitted_model
from viewgap.methods.estimator.numeric_checks import warn_of_far_values
from viewgap.methods.estimator.training_rows import find_training_rows
from viewgap.methods.estimator.training_summary import pattern_counts

MOST_VIEWS = 6
"""Up to so many views, `save` keeps the thresholds of all patterns."""


class LabelSets:
    r"""Say of every label whether it is certain, possible or ruled out, with a bounded risk.

    With probability `confidence_level` over the calibration rows, the expected loss of a new
    sample is at most 1 - `target_level`, for each pattern of missing views:

    - `"missed positives"`: share of the positives of a sample that are ruled out, over samples
      with positives (no label is called certain);
    - `"false alarms"`: share of the labels called certain that are negative, 0 where none is (none
      is ruled out);
    - `"coverage"`: 1 if any positive is ruled out or any negative is called certain.

    Labels of the calibration rows may be missing at random: which are observed must not depend on
    values and labels. The promise is then still one about complete labels: observed entries
    count for those that were not, so that the sets get wider, not wrong. For `"missed positives"`
    a sample then counts by its chance to have a positive observed. A label
    observed ten times more seldom than the one observed most is always possible.

    By default the promise is of all labels together, not of every single one. With `per_label`
    (missed positives only) each label has a threshold of its own, and for each of them the
    probability that a positive is ruled out is bounded; labels with few observed positives get
    wider sets.

    Parameters
    ----------
    model : fitted MultiViewClassifier
        Fitted on a label matrix; a model of a 1-D y is refused, as is one whose answers depend on
        the samples beside each other.
    risk : {"missed positives", "false alarms", "coverage"}
        What is bounded.
    target_level : float, default=0.9
        One minus the largest expected loss.
    confidence_level : float, default=0.9
        How probable it is that the bound holds.
    per_label : bool, default=False
        Whether the promise is made for every label by itself.

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
        per_label: bool = False,
    ) -> None:
        fitted_model(model)
        _refuse_models(model)
        check_value("risk", Choice(*RISKS), risk)
        for name, value in (("target_level", target_level), ("confidence_level", confidence_level)):
            if not (isinstance(value, float) and 0 < value < 1):
                told = f"must be a number between 0 and 1; found {value!r}"
                raise SettingError(f"{parameter(name)} {told}")
        if per_label and risk != "missed positives":
            raise SettingError(
                f"{parameter('per_label')} is for missed positives; {risk!r} is about the labels "
                "of a sample together: leave it out"
            )
        self.model, self.risk, self.per_label = model, risk, bool(per_label)
        self.target_level, self.confidence_level = target_level, confidence_level
        self.out_of_fold = False
        self.nan = model.nan  # a value missing in an observed row is taken as in the calibration
        self._parts: list[Part] = []
        self._tables: dict[str, PatternThresholds] = {}

    # ------------------------------------------------------------------ calibration

    def calibrate(self, X: Any, y: Any) -> Self:
        """Remember calibration rows; thresholds of a pattern are computed when it is first asked.

        Parameters
        ----------
        X : like the X of `fit`
            Rows that neither trained the model nor were its `validation`, else the promise does
            not hold. The model keeps no rows; where the extremes of its columns tell that training
            rows are among these, a warning says so.
        y : array or DataFrame of shape (n_samples, n_labels)
            NaN where a label was not observed.

        Returns
        -------
        self
        """
        views, labels = self._labelled(X, y, self.model.nan)
        rows = find_training_rows(self.model, views, labels)
        if rows.found:
            warnings.warn(
                "rows that the model was fitted on are among the calibration rows ("
                f"{rows.evidence}): the promise does not hold; take other rows, or the training "
                "rows with " + remedy("calibrate_out_of_fold", "--out-of-fold"),
                ViewgapWarning,
                stacklevel=2,
            )
        self._parts, self._tables, self.out_of_fold = [(self.model, views, labels)], {}, False
        self.nan = self.model.nan
        return self

    def calibrate_out_of_fold(self, X: Any, y: Any, *, cv: int = 5, groups: Any = None) -> Self:
        """Calibrate with the training rows, each answered by a model that was fitted without it.

        The method is fitted `cv` times more, each time without one part of the rows. No row is
        lost for training, but the promise is weaker: it is of the models of the parts, and goes
        over to the model itself as far as that one is no worse than they are (it has more rows).
        They share training rows, so that the confidence is approximate.

        Parameters
        ----------
        X : like the X of `fit`
            The rows that the model was fitted on.
        y : array or DataFrame of shape (n_samples, n_labels)
            NaN where a label was not observed.
        cv : int, default=5
            Number of parts, alike in labels and in patterns of missing views.
        groups : array of shape (n_samples,), or Series, optional
            Rows of one group are in one part. A Series is matched by sample id.

        Returns
        -------
        self
        """
        views, labels = self._labelled(X, y, self.model.nan)
        if find_training_rows(self.model, views, labels).found is False:
            warnings.warn(
                "these do not look like the rows that the model was fitted on: out-of-fold "
                "calibration is for these; calibrate with other rows by "
                + remedy("calibrate(X, y)", "leaving --out-of-fold out"),
                ViewgapWarning,
                stacklevel=2,
            )
        self._parts = cross_fitted(self.model, views, labels, cv, groups)
        self._tables, self.out_of_fold = {}, True
        self.nan = self.model.nan
        return self

    def _labelled(self, X: Any, y: Any, nan: str) -> tuple[ViewSet, Labels]:
        views = self.model._match(X, nan)
        labels = as_labels(y, views, names=self.model.label_names_)
        warn_of_far_values(views, self.model.column_ranges_)
        return views, labels

    @property
    def assumption(self) -> str:
        """What the promise rests on, in words."""
        said = (
            "new samples are like the calibration rows, and labels and views are missing at random "
            "(which are observed does not depend on values and labels)"
        )
        if self.out_of_fold:
            said += "; the model is no worse than those fitted without a part of its rows"
        return said

    @property
    def promise(self) -> str:
        """What is bounded, in words."""
        limit = f"{1 - self.target_level:.3g}"
        said = {
            "missed positives": "the expected share of a sample's positives that are ruled out",
            "false alarms": "the expected share of negatives among a sample's certain labels",
            "coverage": "the probability that any label of a sample is decided wrongly",
        }[self.risk]
        if self.per_label:
            said = "of every label, the probability that a positive is ruled out"
        sure = f"{self.confidence_level:.3g}"
        return f"{said} is at most {limit}, for each pattern of missing views, at confidence {sure}"

    # ------------------------------------------------------------------ use

    def predict(self, X: Any) -> Any:
        """Return a DataFrame (samples x labels) of "certain", "possible" and "ruled out".

        A sample without any view has "possible" throughout.
        """
        import pandas as pd

        views = self.model._match(X, self.nan)
        warn_of_far_values(views, self.model.column_ranges_)
        columns = list(self.model.label_names_)
        return pd.DataFrame(self.words(views), index=views.frame_index(), columns=columns)

    def words(self, views: ViewSet) -> NDArray[Any]:
        """The answers of `predict` as an array, for the views of the model in its order."""
        answers = np.full((len(views), len(self.model.label_names_)), POSSIBLE, dtype=object)
        for pattern, rows in _rows_by_pattern(views):
            proba = self.model._checked_probabilities(views[rows])
            ruled_out, certain = self._table(pattern).decide(proba)
            own = answers[rows]
            own[ruled_out], own[certain] = RULED_OUT, CERTAIN
            answers[rows] = own
        return answers

    def evaluate(self, X: Any, y: Any) -> Any:
        """Measure the loss on labelled rows that were not used for calibration.

        Returns
        -------
        DataFrame
            A line per pattern of missing views (and per label with `per_label`): rows, mean loss,
            its 95 % interval, the largest loss promised, the share of label entries left possible,
            and whether the rows say that the promise is broken (the interval lies above it).
        """
        import pandas as pd

        views, labels = self._labelled(X, y, self.nan)
        return pd.DataFrame([line.to_dict() for line in self.pattern_losses(views, labels)])

    def pattern_losses(self, views: ViewSet, labels: Labels) -> list[PatternLoss]:
        """`evaluate`, for the views of the model in its order."""
        found: list[PatternLoss] = []
        for pattern, rows in _rows_by_pattern(views):
            proba = self.model._checked_probabilities(views[rows])
            decided = self._table(pattern).decide(proba)
            names = self.model.label_names_ if self.per_label else None
            limit = 1 - self.target_level
            found += measure_pattern(pattern, self.risk, decided, labels[rows], limit, names)
        return found

    def summary(self) -> Any:
        """Return a DataFrame: per pattern and label the thresholds and the counts.

        `n_rows` are the calibration rows that have the views of the pattern, `n_effective` as how
        many completely labelled ones they count (with `per_label`: positives of the rarest label).
        The patterns are those asked for so far.
        """
        import pandas as pd

        lines = [
            {"pattern": pattern, "label": name}
            | {"n_rows": table.n_rows, "n_effective": table.n_effective}
            | {key: getattr(table, key)[j] for key in _BY_LABEL}
            for pattern, table in self.tables.items()
            for j, name in enumerate(self.model.label_names_)
        ]
        return pd.DataFrame(lines)

    def check_patterns(self, views: ViewSet) -> None:
        """Refuse rows with a pattern of missing views that there are no thresholds for."""
        for pattern, _ in _rows_by_pattern(views):
            self._table(pattern)

    @property
    def tables(self) -> dict[str, PatternThresholds]:
        """Thresholds of the patterns asked for so far; at least those of all views."""
        if not self._tables:
            self._table("1" * len(self.model.view_names_))
        return dict(self._tables)

    def _table(self, pattern: str) -> PatternThresholds:
        if pattern not in self._tables:
            if not self._parts and not self._tables:
                told = "these label sets are not calibrated yet; call calibrate(X, y) first"
                raise SettingError(told)
            if not self._parts:
                raise SettingError(self._unknown(pattern))
            wanted = np.array([flag == "1" for flag in pattern])
            levels = 1 - self.target_level, 1 - self.confidence_level
            self._tables[pattern] = PatternThresholds.fit(
                self._parts, wanted, self.risk, self.per_label, levels
            )
        return self._tables[pattern]

    def _unknown(self, pattern: str) -> str:
        names = zip(self.model.view_names_, pattern, strict=True)
        views = "+".join(name for name, flag in names if flag == "1")
        return f"no thresholds for samples that have only the views {views}; " + remedy(
            f"call calibrate(X, y), and save(path, patterns=[{pattern!r}]) to keep them",
            f"give viewgap calibrate --pattern {views}",
        )

    # ------------------------------------------------------------------ files

    def save(self, path: str | os.PathLike[str], patterns: Sequence[str] | None = None) -> None:
        """Write the thresholds as one JSON file; no calibration row is kept.

        `patterns` such as `["110"]` are added to those computed so far. Without them: all patterns
        of up to 6 views, else those of the calibration and the training rows.
        """
        n_views = len(self.model.view_names_)
        if isinstance(patterns, str):
            raise SettingError(f"patterns must be a list, [{patterns!r}]; found {patterns!r}")
        for pattern in self._wanted_patterns() if patterns is None else patterns:
            right = isinstance(pattern, str) and len(pattern) == n_views
            if not right or set(pattern) - {"0", "1"} or "1" not in pattern:
                raise SettingError(f"a pattern is {n_views} times 0 or 1; found {pattern!r}")
            self._table(pattern)
        settings = {name: getattr(self, name) for name in _SETTINGS}
        facts = {"nan": self.nan, "out_of_fold": self.out_of_fold}
        said = {"promise": self.promise, "assumption": self.assumption}
        write_sets(path, self.model, settings, facts | said, self.tables)

    def _wanted_patterns(self) -> list[str]:
        n_views = len(self.model.view_names_)
        if n_views <= MOST_VIEWS:
            return [f"{number:0{n_views}b}" for number in range(1, 2**n_views)]
        summary = self.model.training_summary_
        seen = set() if summary is None else set(summary.patterns)
        for _, views, _ in self._parts:
            seen |= set(pattern_counts(views.observed))
        return sorted({pattern for pattern in seen if "1" in pattern} | {"1" * n_views})

    @classmethod
    def load(cls, path: str | os.PathLike[str], model: MultiViewClassifier) -> Self:
        """Read what `save` wrote; refused for another model than the one it was made for."""
        settings, facts, tables = read_sets(path, model, _SETTINGS)
        _refuse_models(model)
        try:
            sets = cls(model, **settings)
        except SettingError as error:
            raise damaged_file(Path(path), error) from error
        sets._tables, sets.out_of_fold, sets.nan = tables, facts["out_of_fold"], facts["nan"]
        return sets


_SETTINGS = ("risk", "target_level", "confidence_level", "per_label")
_BY_LABEL = ("lower", "upper", "n_positives", "n_negatives")


def _refuse_models(model: MultiViewClassifier) -> None:
    if model.one_label_:
        raise SettingError(
            "label sets are for models of a label matrix (samples, labels); this one was "
            "fitted on a 1-D y: fit it on y as a matrix with one column"
        )
    from viewgap.prediction.blocks import answers_by_batch

    if answers_by_batch(model):
        raise SettingError(
            "label sets need answers that do not depend on the samples beside each other; this "
            "model was fitted with prediction='batch' (as in profile='paper'): fit it with "
            "prediction='row'"
        )


def _rows_by_pattern(views: ViewSet) -> Iterator[tuple[str, NDArray[np.intp]]]:
    """The patterns that have a view, most frequent first, with their rows."""
    for pattern in pattern_counts(views.observed):
        wanted = np.array([flag == "1" for flag in pattern])
        if wanted.any():
            yield pattern, np.flatnonzero((views.observed == wanted).all(axis=1))
