"""Which missing view to measure next: what reference samples gained by it, per cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from viewgap.constraints import Real
from viewgap.data.viewset import ViewSet
from viewgap.errors import LabelError, SettingError, first_few, remedy
from viewgap.explanation.expected_gain import ExpectedGains
from viewgap.explanation.label_losses import MEASURES, label_losses
from viewgap.explanation.pooled_gains import PooledGains, pooled_patterns
from viewgap.explanation.subsets import check_model, rows_by_pattern, subset_answers
from viewgap.methods.estimator.training_rows import warn_of_training_rows

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

MOST_POOLED = 2000
"""With more reference samples than these, a pattern has enough of its own."""
_ROWS_AT_ONCE = 256


class ViewSuggester:
    """Ranks the views that a sample lacks by the loss that measuring them is expected to save.

    What a view would save cannot be seen before it is measured. It is learned from reference
    samples that have it: it is hidden from them, together with all views that the sample in
    question lacks, and then shown. The difference of the losses is regressed on the answer
    without the view; where that foretells nothing for samples left out, a mean is what is expected:
    of those with the same pattern of views, drawn towards that over all patterns as far as it
    rests on few samples.

    Parameters
    ----------
    model : estimator
        A fitted method of viewgap, as in `explain`.
    measure : {"average_precision", "brier", "log_loss"}, optional
        What is saved: average precision that is gained, or a loss per label, a mean over the
        observed labels of a sample. Average precision if None (samples without a positive label
        then tell nothing), of a model with a single label the Brier score.

    Examples
    --------
    >>> import viewgap
    >>> data = viewgap.load_dataset("synthetic", n_samples=150, seed=0)
    >>> model = viewgap.LateFusionRidge().fit(data.views[:80], data.labels[:80])
    >>> suggester = ViewSuggester(model).fit(data.views[80:140], data.labels[80:140])
    >>> sample = data.views[[140]].with_observed([[True, False, False]])
    >>> found = suggester.suggest(sample, costs={"view1": 3})
    >>> sorted(found["view"]), sorted(found["cost"])
    (['view1', 'view2'], [1.0, 3.0])
    """

    def __init__(self, model: Any, measure: str | None = None) -> None:
        if measure is not None and measure not in MEASURES:
            option = remedy("measure", "--measure")
            raise SettingError(f"{option} must be one of {', '.join(MEASURES)}; found {measure!r}")
        self.model = check_model(model)
        self.measure = measure
        several = len(self.model.label_names_) > 1
        self.measure_ = measure or ("average_precision" if several else "brier")

    def fit(self, X: Any, y: Any) -> Self:
        """Keep reference samples.

        Parameters
        ----------
        X : ViewSet, or what `ViewSet` takes
            Samples that the model was not fitted on: on training samples, every view looks better
            than it is.
        y : array or DataFrame
            Their labels; NaN where one was not observed. Samples without any are left out.

        Returns
        -------
        self
        """
        model = self.model
        views = model._match(X, model.nan)  # samples without any view are of no use, and harmless
        labels = model._match_labels(y, views)
        warn_of_training_rows(
            model,
            views,
            labels,
            "rows that the model was fitted on are among the reference samples: every view looks "
            "better on them than it is",
        )
        truth = labels.as_float()
        truth[:, np.isnan(model.label_frequency_)] = np.nan
        useful = ~np.isnan(truth).all(axis=1) & views.has_view
        if not useful.any():
            raise LabelError(
                "no reference sample has a view and an observed label, so what a view saves cannot "
                "be learned; give others"
            )
        self.views_: ViewSet = views[useful]
        self.truth_: Floats = truth[useful]
        self._learned: dict[bytes, ExpectedGains | None] = {}
        self._pooled: PooledGains | None = None
        return self

    def suggest(self, X: Any, *, costs: Mapping[str, float] | None = None) -> pd.DataFrame:
        """Rank the views that samples lack.

        Parameters
        ----------
        X : ViewSet, or what `ViewSet` takes
            The samples.
        costs : dict, optional
            Cost of a view by its name; 1 for views that are not named.

        Returns
        -------
        DataFrame
            A line per sample and missing view, the best first: `sample`, `view`, `rank`,
            `expected_gain` (of average precision, or loss expected to be saved; negative where
            the view made answers worse), `cost`, `gain_per_cost`, `n_reference` (samples that it
            was learned from). Views that are expected to gain nothing follow by their gain, as
            it would not be worth any cost. NaN and last where no reference sample has the view
            beside those of the sample.
        """
        import pandas as pd

        if not hasattr(self, "views_"):
            raise SettingError("this ViewSuggester is not fitted yet; call fit(X, y) first")
        price = self._prices(costs)
        views = self.model._check_for_prediction(X)
        gain, count = self.expected_gains(views)
        row, view = np.nonzero(~views.observed)
        found = pd.DataFrame(
            {
                "sample": views.sample_ids[row],
                "view": np.array(views.names, dtype=object)[view],
                "rank": 0,
                "expected_gain": gain[row, view],
                "cost": price[view],
                "gain_per_cost": gain[row, view] / price[view],
                "n_reference": count[row, view],
            }
        )
        value = np.where(found["expected_gain"] > 0, found["gain_per_cost"], found["expected_gain"])
        order = np.lexsort((view, np.nan_to_num(-value, nan=np.inf), row))
        found = found.iloc[order].reset_index(drop=True)
        starts = np.searchsorted(row, row)  # of the sample; rows are sorted as before
        found["rank"] = np.arange(len(row)) - starts + 1
        return found

    def expected_gains(self, views: ViewSet) -> tuple[Floats, NDArray[np.int64]]:
        """Expected gain of every view for every sample and how many samples taught it, (n, m).

        NaN and 0 for views that the sample has, and where no reference sample can tell.
        """
        gain = np.full(views.observed.shape, np.nan)
        count = np.zeros(views.observed.shape, dtype=np.int64)
        for pattern, rows in rows_by_pattern(views.observed, len(self._labels)):
            missing = np.flatnonzero(~pattern)
            learned = self._learn(pattern) if len(missing) else None
            if learned is not None:
                now = subset_answers(self.model, views[rows], pattern[None], self._labels)[:, 0]
                gain[np.ix_(rows, missing)] = learned.predict(now)
                count[np.ix_(rows, missing)] = learned.n_rows
        return gain, count

    @property
    def _labels(self) -> list[int]:
        return np.flatnonzero(~np.isnan(self.model.label_frequency_)).tolist()

    def reference_gains(self, pattern: Mask) -> tuple[Floats, Floats]:
        """What reference samples would have gained by each of the views that a pattern lacks.

        Parameters
        ----------
        pattern : array of bool of shape (m,)
            The views that are shown before.

        Returns
        -------
        tuple of arrays
            Answers to the pattern (n, c), for the labels observed in training, of the samples that
            have it and a view more; gains of every label by every view that it lacks (n, c, k),
            which add up to the gain of a sample. NaN for labels that were not observed, and for
            views that the sample lacks.
        """
        missing, observed = np.flatnonzero(~pattern), self.views_.observed
        rows = self._rows_of(pattern)
        truth = self.truth_[rows][:, self._labels]
        several = np.stack([pattern, *(pattern | (np.arange(len(pattern)) == v) for v in missing)])
        answers = subset_answers(self.model, self.views_[rows], several, self._labels)
        now = answers[:, 0]
        before = label_losses(self.measure_, truth, now)
        gains = np.full((*before.shape, len(missing)), np.nan)
        for place, view in enumerate(missing):
            has = observed[rows, view]
            after = label_losses(self.measure_, truth[has], answers[has, 1 + place])
            gains[has, :, place] = before[has] - after
        return now, gains

    def _learn(self, pattern: Mask) -> ExpectedGains | None:
        key = pattern.tobytes()
        if key not in self._learned:
            now, gains = self.reference_gains(pattern)
            self._learned[key] = self._fit(pattern, now, gains) if len(now) else None
        return self._learned[key]

    def _fit(self, pattern: Mask, now: Floats, gains: Floats) -> ExpectedGains:
        learned = ExpectedGains.fit(now, gains)
        if not pattern.any() or len(self.views_) > MOST_POOLED:
            return learned
        if self._pooled is None:
            self._pooled = self._pool()
        rows, mean = self._rows_of(pattern), learned.mean.copy()
        for place, view in enumerate(np.flatnonzero(~pattern)):
            told = ~np.isnan(gains[:, :, place]).all(axis=1)
            if told.any():
                total = np.nansum(gains[told, :, place], axis=1)
                mean[place] = self._pooled.drawn(int(view), rows[told], total)
        return replace(learned, mean=mean)

    def _pool(self) -> PooledGains:
        """The losses of the reference samples in many patterns, pooled."""
        patterns, labels = pooled_patterns(self.views_.n_views), self._labels
        losses = np.empty((len(self.views_), len(patterns)))
        for start in range(0, len(losses), _ROWS_AT_ONCE):
            part = slice(start, start + _ROWS_AT_ONCE)
            answers = subset_answers(self.model, self.views_[part], patterns, labels)
            for number in range(len(patterns)):
                truth = self.truth_[part][:, labels]
                own = label_losses(self.measure_, truth, answers[:, number])
                total = np.where(np.isnan(own).all(axis=1), np.nan, np.nansum(own, axis=1))
                losses[part, number] = total
        return PooledGains.fit(losses, patterns, self.views_.observed)

    def _rows_of(self, pattern: Mask) -> NDArray[np.intp]:
        """Reference samples that have the views of a pattern, and a view more."""
        observed = self.views_.observed
        more = observed[:, ~pattern].any(axis=1)
        return np.flatnonzero((observed | ~pattern).all(axis=1) & more)

    def _prices(self, costs: Mapping[str, float] | None) -> Floats:
        names = list(self.model.view_names_)
        option = remedy("costs", "--cost")
        if costs is not None and not isinstance(costs, Mapping):
            raise SettingError(f"{option} must be a cost by the name of a view; found {costs!r}")
        given = dict(costs or {})
        unknown = [name for name in given if name not in names]
        if unknown:
            raise SettingError(
                f"{option} must name views of the model: {first_few(names)}; "
                f"unknown: {first_few(unknown)}"
            )
        for name, cost in given.items():
            if not Real(0, None, "right").accepts(cost):
                raise SettingError(
                    f"{option} of view {name!r} must be a positive number; found {cost!r}"
                )
        return np.array([float(given.get(name, 1.0)) for name in names])


def suggest_view(
    model: Any,
    X: Any,
    X_reference: Any,
    y_reference: Any,
    *,
    costs: Mapping[str, float] | None = None,
    measure: str | None = None,
) -> pd.DataFrame:
    """Rank the views that samples lack by what measuring them is expected to save, per cost.

    The short way to `ViewSuggester(model, measure).fit(X_reference, y_reference).suggest(X)`.

    Parameters
    ----------
    model : estimator
        A fitted method of viewgap.
    X : ViewSet, or what `ViewSet` takes
        The samples.
    X_reference, y_reference
        Labelled samples that the model was not fitted on.
    costs : dict, optional
        Cost of a view by its name; 1 for views that are not named.
    measure : {"average_precision", "brier", "log_loss"}, optional
        What is saved, as of `ViewSuggester`.

    Returns
    -------
    DataFrame
        A line per sample and missing view, the best first, as of `ViewSuggester.suggest`.

    Examples
    --------
    >>> import viewgap
    >>> data = viewgap.load_dataset("synthetic", n_samples=150, seed=0)
    >>> model = viewgap.LateFusionRidge().fit(data.views[:80], data.labels[:80])
    >>> sample = data.views[[140]].with_observed([[False, True, False]])
    >>> rest = slice(80, 140)
    >>> found = viewgap.suggest_view(model, sample, data.views[rest], data.labels[rest])
    >>> found["rank"].tolist(), found["n_reference"].tolist()
    ([1, 2], [56, 56])
    """
    return ViewSuggester(model, measure).fit(X_reference, y_reference).suggest(X, costs=costs)
