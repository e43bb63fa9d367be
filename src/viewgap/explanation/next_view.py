"""Which missing view to measure next: what reference samples gained by it, per cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from viewgap.data.validation import as_labels
from viewgap.data.viewset import ViewSet
from viewgap.errors import LabelError, SettingError, first_few, remedy
from viewgap.explanation.expected_gain import ExpectedGain
from viewgap.explanation.subsets import check_model, rows_by_pattern, subset_answers
from viewgap.methods._one_label import as_column, is_one_label

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

MEASURES = ("log_loss", "brier")
_PROB_EPS = 1e-6


class ViewSuggester:
    """Ranks the views that a sample lacks by the loss that measuring them is expected to save.

    What a view would save cannot be seen before it is measured. It is learned from reference
    samples that have it: it is hidden from them, together with all views that the sample in
    question lacks, and then shown. The difference of the losses is regressed on the answer
    without the view; where that foretells nothing, their mean is what is expected.

    Parameters
    ----------
    model : estimator
        A fitted method of viewgap, as in `explain`.
    measure : {"log_loss", "brier"}, default="log_loss"
        The loss, a mean over the observed labels of a sample. Both are proper: no answer has less
        expected loss than the true probability.

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

    def __init__(self, model: Any, measure: str = "log_loss") -> None:
        if measure not in MEASURES:
            raise SettingError(f"measure must be one of {', '.join(MEASURES)}; found {measure!r}")
        self.model = check_model(model)
        self.measure = measure

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
        if model.one_label_ and is_one_label(y):
            y = as_column(y, model.classes_)
        labels = as_labels(y, views, names=model.label_names_)
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
        self._learned: dict[tuple[bytes, int], ExpectedGain | None] = {}
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
            `expected_gain` (loss expected to be saved; negative where the view made answers
            worse), `cost`, `gain_per_cost`, `n_reference` (samples that it was learned from). NaN
            and last where no reference sample has the view beside those of the sample.
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
        order = np.lexsort((view, np.nan_to_num(-found["gain_per_cost"], nan=np.inf), row))
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
        known = np.flatnonzero(~np.isnan(self.model.label_frequency_)).tolist()
        for pattern, rows in rows_by_pattern(views.observed, len(known)):
            now = subset_answers(self.model, views[rows], pattern[None], known)[:, 0]
            for view in np.flatnonzero(~pattern):
                learned = self._learn(pattern, int(view))
                if learned is not None:
                    gain[rows, view] = learned.predict(now)
                    count[rows, view] = learned.n_rows
        return gain, count

    def reference_gains(self, pattern: Mask, view: int) -> tuple[Floats, Floats]:
        """Answers (n, c) and gains (n,) of the reference samples that have pattern and view."""
        both = pattern.copy()
        both[view] = True
        rows = np.flatnonzero((self.views_.observed | ~both).all(axis=1))
        known = np.flatnonzero(~np.isnan(self.model.label_frequency_)).tolist()
        shown = np.stack([pattern, both])
        answers = subset_answers(self.model, self.views_[rows], shown, known)
        truth = self.truth_[rows][:, known]
        before, after = (_loss(self.measure, truth, answers[:, step]) for step in (0, 1))
        return answers[:, 0], before - after

    def _learn(self, pattern: Mask, view: int) -> ExpectedGain | None:
        key = pattern.tobytes(), view
        if key not in self._learned:
            answers, gain = self.reference_gains(pattern, view)
            self._learned[key] = ExpectedGain.fit(answers, gain) if len(gain) else None
        return self._learned[key]

    def _prices(self, costs: Mapping[str, float] | None) -> Floats:
        names = list(self.model.view_names_)
        given = dict(costs or {})
        option = remedy("costs", "--cost")
        unknown = [name for name in given if name not in names]
        if unknown:
            raise SettingError(
                f"{option} must name views of the model: {first_few(names)}; "
                f"unknown: {first_few(unknown)}"
            )
        for name, cost in given.items():
            if isinstance(cost, bool) or not np.isfinite(cost) or cost <= 0:
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
    measure: str = "log_loss",
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
    measure : {"log_loss", "brier"}, default="log_loss"
        The loss.

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
    ([1, 2], [60, 60])
    """
    return ViewSuggester(model, measure).fit(X_reference, y_reference).suggest(X, costs=costs)


def _loss(measure: str, truth: Floats, probabilities: Floats) -> Floats:
    """Mean loss over the observed labels of every sample, (n,)."""
    if measure == "brier":
        losses = (truth - probabilities) ** 2
    else:
        bounded = np.clip(probabilities, _PROB_EPS, 1.0 - _PROB_EPS)
        losses = -np.where(truth == 1, np.log(bounded), np.log1p(-bounded))
        losses[np.isnan(truth)] = np.nan
    return np.asarray(np.nanmean(losses, axis=1))
