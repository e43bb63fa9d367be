"""What `fit` is given, checked: views, labels, validation rows, unlabelled rows, keywords."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array

from viewgap.data.labels import Labels
from viewgap.data.validation import as_labels, as_viewset, is_one_array, match_views
from viewgap.data.viewset import ViewSet
from viewgap.errors import (
    EmptyRowsError,
    LabelError,
    SettingError,
    ViewError,
    ViewgapDeprecationWarning,
    ViewgapWarning,
    first_few,
    parameter,
)
from viewgap.methods.estimator.one_label import as_column, is_one_label
from viewgap.methods.estimator.parameters import ParametrisedEstimator

Validation = tuple[ViewSet, Labels]


class FitInputs(ParametrisedEstimator):
    """Base of all methods, as far as the input of `fit` goes."""

    semi_supervised: ClassVar[bool] = False
    """Whether `fit` takes `X_unlabeled`."""

    n_unlabeled_: int

    def _refuse_keywords(self, function: str, keywords: Mapping[str, Any]) -> None:
        """Refuse `sample_weight`, which scikit-learn passes by name; not one of our parameters."""
        for name, value in keywords.items():
            if name != "sample_weight":
                raise TypeError(
                    f"{type(self).__name__}.{function}() got an unexpected keyword argument "
                    f"{name!r}"
                )
            if value is not None:
                raise SettingError(
                    "no method of viewgap weights samples: leave sample_weight out; to give a "
                    "sample a whole-number weight, repeat its rows in X and y"
                )

    def _target(self, y: Any, Y: Any) -> Any:
        """The labels, also under the name that they had before."""
        if Y is not None:
            if y is not None:
                raise LabelError("Y is the old name of y: pass one of them")
            warnings.warn(
                "Y= is now called y=; the old name will be removed in the next release",
                ViewgapDeprecationWarning,
                stacklevel=3,
            )
            return Y
        if y is None:
            raise LabelError(
                f"{type(self).__name__} requires y to be passed, but the target y is None"
            )
        return y

    def _as_views(self, X: Any, nan: str) -> ViewSet:
        """Checked views; one 2-D array is checked as scikit-learn does."""
        if self.views is not None and is_one_array(X):
            try:
                X = check_array(
                    X, accept_sparse=("csr", "csc"), ensure_all_finite=False, estimator=self
                )
            except ValueError as error:
                raise ViewError(str(error)) from error
        return as_viewset(X, views=self.views, nan=nan)

    def _drop_rows_without_views(self, views: ViewSet, labels: Labels) -> tuple[ViewSet, Labels]:
        present = views.has_view
        if present.all():
            return views, labels
        if present.any():  # a view that nobody has is why they lack all, and is to be told first
            self._check_views_can_be_learned(views)
        self._refuse_or_warn_empty(views, present, "left out of the fit")
        if not present.any():
            raise EmptyRowsError("no sample has any observed view: there is nothing to learn from")
        return views[present], labels[present]

    def _refuse_or_warn_empty(
        self, views: ViewSet, present: NDArray[np.bool_], consequence: str
    ) -> None:
        ids = views.sample_ids[~present]
        shown = first_few(ids)
        if self.on_empty == "error":
            raise EmptyRowsError(
                f"{len(ids)} of {len(views)} samples have no observed view (ids: {shown}); "
                f"remove them, or use {parameter('on_empty', 'prior')} to leave them out of the "
                "fit and answer with the label frequencies"
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
        self,
        validation: tuple[Any, Any],
        views: ViewSet,
        labels: Labels,
        classes: NDArray[Any] | None,
    ) -> Validation:
        held_out = match_views(
            self._as_views(validation[0], self.nan),
            views.names,
            views.dims,
            named_columns(views),
        )
        y = validation[1]
        if classes is not None and is_one_label(y):
            y = as_column(y, classes)
        held_labels = as_labels(y, held_out, names=labels.names)
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
            self._as_views(X_unlabeled, self.nan),
            views.names,
            views.dims,
            named_columns(views),
        )
        more = more[more.has_view]
        self.n_unlabeled_ = len(more)
        return views.joined(more), labels.with_unobserved_rows(len(more))


def named_columns(views: ViewSet) -> dict[str, tuple[str, ...]]:
    """Column names of the views that have any."""
    return {name: names for name, names in views.feature_names.items() if names is not None}


def warn_without_negatives(frequency: NDArray[np.float64], *, stacklevel: int) -> None:
    """Say that no label is known to be absent anywhere, as where absent ones were left blank.

    `frequency` (c,) is the share of positives among the observed entries, NaN where there are none.
    """
    known = frequency[~np.isnan(frequency)]
    if known.size and (known == 1).all():
        warnings.warn(
            "no label is 0 in any sample, so that nothing tells when one is absent: probabilities "
            "will be near 1, and scores say nothing. If blanks mean absent, write 0: blank is read "
            "as unknown",
            ViewgapWarning,
            stacklevel=stacklevel + 1,
        )
