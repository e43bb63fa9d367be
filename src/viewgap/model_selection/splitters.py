"""`BalancedKFold`: folds that are alike in their labels and in the views that they miss."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import BaseCrossValidator

from viewgap.data.labels import Labels
from viewgap.data.rows.alignment import is_frame
from viewgap.data.splits import balanced_parts
from viewgap.data.validation import as_labels, as_viewset, is_one_array
from viewgap.data.viewset import ViewSet
from viewgap.errors import LabelError, SettingError, first_few
from viewgap.methods.estimator.one_label import as_column, find_classes, is_one_label

Rows = NDArray[np.intp]


class BalancedKFold(BaseCrossValidator):  # type: ignore[misc]
    """K folds for scikit-learn's model selection, on data with missing views and labels.

    Every row is in the test part of one fold (of each repetition). Folds are alike in the positives
    and negatives of every label, as far as they were observed, and in the patterns of missing
    views. With `groups` given to `split`, as by `GridSearchCV.fit(X, y, groups=...)`, rows of one
    group are never on both sides.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds.
    n_repeats : int, default=1
        How often the rows are dealt anew.
    random_state : int, default=0
        Seed; the same one gives the same folds for the same data.
    views : mapping, optional
        `{name: columns}` of every view where X comes as one 2-D array, as for the methods. Without
        it, the views that such an X misses are not balanced.

    Examples
    --------
    >>> import numpy as np
    >>> X = ViewSet({"a": [[1.0], [2.0], None, None], "b": [[1.0]] * 4})
    >>> y = np.array([[1], [np.nan], [1], [np.nan]])
    >>> for train, test in BalancedKFold(n_splits=2).split(X, y):
    ...     print(X[test].observed[:, 0].sum(), np.nansum(y[test]))
    1 1.0
    1 1.0
    """

    # scikit-learn's metadata routing: groups are asked for.
    __metadata_request__split = {"groups": True}  # noqa: RUF012 (read by scikit-learn as it is)

    def __init__(
        self,
        n_splits: int = 5,
        *,
        n_repeats: int = 1,
        random_state: int = 0,
        views: Mapping[str, Any] | None = None,
    ) -> None:
        for name, value, least in (("n_splits", n_splits, 2), ("n_repeats", n_repeats, 1)):
            if not isinstance(value, int | np.integer) or value < least:
                raise SettingError(f"{name} must be {least} or more, found {value!r}")
        if not isinstance(random_state, int | np.integer) or random_state < 0:
            raise SettingError(f"random_state must be an int, 0 or more, found {random_state!r}")
        self.n_splits = n_splits
        self.n_repeats = n_repeats
        self.random_state = random_state
        self.views = views

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return how many pairs of training and test rows `split` yields."""
        return self.n_splits * self.n_repeats

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[Rows, Rows]]:
        """Yield row numbers of the training and of the test part, fold by fold.

        Parameters
        ----------
        X : ViewSet, or array of shape (n, d)
            The samples.
        y : array or DataFrame of shape (n, c), or 1-D, optional
            Labels in the order of X; NaN where one was not observed. Without them, only patterns
            of missing views are balanced.
        groups : array of shape (n,), optional
            Rows of the same group stay on the same side.
        """
        views = self._as_views(X)
        labels = _as_labels(y, views)
        for repeat in range(self.n_repeats):
            rng = np.random.default_rng([self.random_state, repeat])
            parts = balanced_parts(views, labels, self.n_splits, rng, groups)
            for part in range(self.n_splits):
                yield np.flatnonzero(parts != part), np.flatnonzero(parts == part)

    def _as_views(self, X: Any) -> ViewSet:
        if isinstance(X, ViewSet):
            return X
        if self.views is None and (is_one_array(X) or is_frame(X)):
            return ViewSet({"all": np.zeros((len(X) if is_frame(X) else X.shape[0], 1))})
        return as_viewset(X, views=self.views)


def _as_labels(y: Any, views: ViewSet) -> Labels:
    if y is None:
        return as_labels(np.full((len(views), 1), np.nan), views.with_fixed_row_order())
    if is_one_label(y):
        y = as_column(y, find_classes(y))
    if is_frame(y) and views.has_ids and list(y.index) != views.sample_ids.tolist():
        # scikit-learn selects rows by number: labels of other samples would be taken.
        raise LabelError(
            "y has other samples than X, or the same in another order (first ids: "
            f"{first_few(y.index, 3)} and {first_few(views.sample_ids, 3)}); scikit-learn selects "
            "rows by number: pass y.reindex(X.sample_ids)"
        )
    return as_labels(y, views.with_fixed_row_order())
