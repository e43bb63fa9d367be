"""The contract of every method: what `fit` and `predict_proba` check, promise and remember.

A method is one file beside this one that defines one subclass of `MultiViewClassifier` and
implements `_fit`, `_predict_proba`, `_get_state` and `_set_state`. Input checks, matching of views
by name, samples without any view, labels never observed and scoring are done here, once.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError as SklearnNotFittedError

from viewgap.data.checks import as_labels, as_viewset, match_views
from viewgap.data.labels import Labels
from viewgap.data.viewset import ViewSet
from viewgap.errors import EmptyRowsError, SettingError, ViewError, ViewgapError, ViewgapWarning
from viewgap.metrics import average_precision
from viewgap.state import State

Array = NDArray[Any]
Validation = tuple[ViewSet, Labels]


class NotFittedError(ViewgapError, SklearnNotFittedError):  # type: ignore[misc]
    """The estimator was used before `fit`."""


class MultiViewClassifier(ClassifierMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """Base of all methods. The constructor only stores; fitted attributes end in `_`.

    Every method takes these parameters:

    - `views`: `{name: columns}`, when X comes as one 2-D array or one DataFrame;
    - `nan`: what a NaN in an observed row means: `"error"`, or `"missing_view"` to treat the
      view as missing for that row;
    - `on_empty`: samples without any view: `"error"`, or `"prior"` to leave them out of `fit`
      and answer with the label frequencies in `predict_proba`.
    """

    summary: ClassVar[str]
    """The idea in one line."""
    reference: ClassVar[str] = ""
    certainty: ClassVar[str] = ""
    """What the method was written from: `"released code"`, or `"reconstruction (...)"` where parts
    of the published method had to be inferred; empty for the simple picks, which have one form."""
    semi_supervised: ClassVar[bool] = False
    """Whether `fit` takes `X_unlabeled`."""

    views: Mapping[str, Any] | None = None
    nan: str = "error"
    on_empty: str = "error"

    view_names_: tuple[str, ...]
    view_dims_: tuple[int, ...]
    label_names_: tuple[str, ...]
    label_frequency_: NDArray[np.float64]
    classes_: NDArray[np.int64]
    n_features_in_: int
    n_unlabeled_: int
    thresholds_: Any = 0.5

    # ------------------------------------------------------------------ what a method implements

    @abstractmethod
    def _fit(self, views: ViewSet, labels: Labels, validation: Validation | None) -> None:
        """Learn from checked data: every row has a view, every view has a row."""

    @abstractmethod
    def _predict_proba(self, views: ViewSet) -> Array:
        """Probabilities (n, c) for checked data: every row has at least one view."""

    @abstractmethod
    def _get_state(self) -> State:
        """Everything `_predict_proba` needs besides the parameters and the fitted names."""

    @abstractmethod
    def _set_state(self, state: State) -> None:
        """Restore what `_get_state` returned."""

    # ------------------------------------------------------------------ what a user calls

    def fit(
        self,
        X: Any,
        Y: Any,
        validation: tuple[Any, Any] | None = None,
        X_unlabeled: Any = None,
    ) -> Self:
        """Fit on views X and labels Y, (n, c) with NaN where a label was not observed.

        `validation`, a pair (X, Y), is used for early stopping by the methods that stop early.
        `X_unlabeled`: samples without any label that the semi-supervised methods learn from too.
        Whoever passes the samples to be predicted here uses the method transductively.
        """
        self._check_common_settings()
        views = as_viewset(X, views=self.views, nan=self.nan)
        labels = as_labels(Y, views)
        views, labels = self._drop_rows_without_views(views, labels)
        self._check_views_can_be_learned(views)
        held_out = None if validation is None else self._check_validation(validation, views, labels)
        self.is_fitted_ = False  # if this fit fails, the old weights do not fit the new names
        self._remember(views, labels)
        views, labels = self._append_unlabeled(views, labels, X_unlabeled)
        self._fit(views, labels, held_out)
        self.is_fitted_ = True
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probability of every label for every sample, (n, c).

        A label that was never observed in training has no evidence: its column is NaN.
        """
        views = self._check_for_prediction(X)
        present = views.has_view
        probabilities = np.tile(self.label_frequency_, (len(views), 1))
        if present.any():
            rows = views if present.all() else views[present]
            probabilities[present] = self._predict_proba(rows)
        probabilities[:, np.isnan(self.label_frequency_)] = np.nan
        return probabilities

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Labels (n, c): 1 where the probability is above the label's threshold.

        That is one half, unless the method has learned `thresholds_`.
        """
        decided: NDArray[np.bool_] = self.predict_proba(X) > self.thresholds_
        return decided.astype(np.int64)

    def score(self, X: Any, Y: Any) -> float:
        """Average precision (`clean` variant) over the observed labels of Y; higher is better."""
        views = as_viewset(X, views=self.views, nan=self.nan)
        labels = as_labels(Y, views)
        return average_precision(labels.as_float(), self.predict_proba(views), variant="clean")

    def __sklearn_is_fitted__(self) -> bool:
        return getattr(self, "is_fitted_", False)

    # ------------------------------------------------------------------ the checks, once

    def _check_common_settings(self) -> None:
        if self.nan not in ("error", "missing_view"):
            raise SettingError(f"nan must be 'error' or 'missing_view', found {self.nan!r}")
        if self.on_empty not in ("error", "prior"):
            raise SettingError(f"on_empty must be 'error' or 'prior', found {self.on_empty!r}")

    def _drop_rows_without_views(self, views: ViewSet, labels: Labels) -> tuple[ViewSet, Labels]:
        present = views.has_view
        if present.all():
            return views, labels
        self._refuse_or_warn_empty(views, present, "left out of the fit")
        if not present.any():
            raise EmptyRowsError("no sample has any observed view: there is nothing to learn from")
        return views[present], labels[present]

    def _refuse_or_warn_empty(
        self, views: ViewSet, present: NDArray[np.bool_], consequence: str
    ) -> None:
        ids = views.sample_ids[~present]
        shown = ", ".join(map(str, ids[:5])) + (", ..." if len(ids) > 5 else "")
        if self.on_empty == "error":
            raise EmptyRowsError(
                f"{len(ids)} of {len(views)} samples have no observed view (ids: {shown}); "
                "remove them, or pass on_empty='prior' to leave them out of the fit and answer "
                "with the label frequencies"
            )
        warnings.warn(
            f"{len(ids)} samples without any view (ids: {shown}): {consequence}",
            ViewgapWarning,
            stacklevel=4,
        )

    def _check_views_can_be_learned(self, views: ViewSet) -> None:
        never = [name for j, name in enumerate(views.names) if not views.observed[:, j].any()]
        if never:
            raise ViewError(
                f"view {never[0]!r} is missing for every training sample, so nothing can be "
                "learned about it; leave the view out"
            )

    def _check_validation(
        self, validation: tuple[Any, Any], views: ViewSet, labels: Labels
    ) -> Validation:
        held_out = match_views(
            as_viewset(validation[0], views=self.views, nan=self.nan), views.names, views.dims
        )
        held_labels = as_labels(validation[1], held_out, names=labels.names)
        present = held_out.has_view
        return held_out[present], held_labels[present]

    def _append_unlabeled(
        self, views: ViewSet, labels: Labels, X_unlabeled: Any
    ) -> tuple[ViewSet, Labels]:
        """Rows of `X_unlabeled` behind the others, nothing of their labels observed."""
        self.n_unlabeled_ = 0
        if X_unlabeled is None:
            return views, labels
        if not self.semi_supervised:
            raise SettingError(
                f"{type(self).__name__} does not learn from unlabelled samples; leave X_unlabeled "
                "out, or use a semi-supervised method"
            )
        more = match_views(
            as_viewset(X_unlabeled, views=self.views, nan=self.nan), views.names, views.dims
        )
        more = more[more.has_view]
        self.n_unlabeled_ = len(more)
        return views.joined(more), labels.with_unobserved_rows(len(more))

    def _remember(self, views: ViewSet, labels: Labels) -> None:
        self.view_names_ = views.names
        self.view_dims_ = views.dims
        self.n_features_in_ = sum(views.dims)
        self.label_names_ = labels.names
        self.classes_ = np.arange(len(labels.names))
        self.label_frequency_ = labels.frequency()
        never = np.flatnonzero(np.isnan(self.label_frequency_))
        if never.size:
            shown = ", ".join(labels.names[j] for j in never[:5]) + (
                ", ..." if never.size > 5 else ""
            )
            warnings.warn(
                f"{never.size} labels were never observed in training ({shown}); "
                "their predictions are NaN",
                ViewgapWarning,
                stacklevel=3,
            )

    def _check_for_prediction(self, X: Any) -> ViewSet:
        if not self.__sklearn_is_fitted__():
            name = type(self).__name__
            raise NotFittedError(f"this {name} is not fitted yet; call fit(X, Y) first")
        views = match_views(
            as_viewset(X, views=self.views, nan=self.nan), self.view_names_, self.view_dims_
        )
        present = views.has_view
        if not present.all():
            self._refuse_or_warn_empty(views, present, "answered with the label frequencies")
        return views
