"""`PerView`: a transformer of scikit-learn for every view, before any method in a pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, clone

from viewgap.data.rows.alignment import is_frame
from viewgap.data.rows.values import is_sparse
from viewgap.data.validation import as_viewset, match_views
from viewgap.data.viewset import ViewSet
from viewgap.errors import SettingError, ViewError

PASSTHROUGH = "passthrough"


class PerView(  # type: ignore[call-arg]
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
    auto_wrap_output_keys=None,
):
    """Fit a transformer on each view and return a ViewSet of what they make of the samples.

    Every transformer sees the samples that have its view and no others; a single missing value is
    NaN there, so that one that does not take NaN is put behind an imputer in a pipeline of its own.
    Missing views stay missing, ids of the samples stay. Columns are named as the transformer names
    them (`get_feature_names_out`).

    Parameters
    ----------
    transformer : transformer, "passthrough", or dict of str to these
        One for all views, cloned for each; or by the name of the view. A view that the dict does
        not name is left as it is.

    Attributes
    ----------
    transformers_ : dict of str to transformer
        The fitted ones by view.
    view_names_ : tuple of str
        Names of the views.
    view_dims_ : tuple of int
        Number of columns of each view.
    n_features_in_ : int
        Number of columns of all views together.
    feature_names_in_ : dict of str to tuple of str
        Column names of the views that have any; new samples are matched by them.

    Examples
    --------
    >>> from sklearn.decomposition import PCA
    >>> from sklearn.pipeline import make_pipeline
    >>> import viewgap
    >>> data = viewgap.load_dataset("synthetic", n_samples=60, seed=0)
    >>> PerView(PCA(2)).fit_transform(data.views)
    ViewSet(60 samples; view0: 2, view1: 2, view2: 2; 0.0% of the entries missing)
    >>> model = make_pipeline(PerView({"view0": PCA(2)}), viewgap.LateFusionRidge())
    >>> model.fit(data.views, data.labels).predict_proba(data.views[:3]).shape
    (3, 12)
    """

    def __init__(self, transformer: Any) -> None:
        self.transformer = transformer

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit on the views of X; labels are not used."""
        views = as_viewset(X)
        self.view_names_ = views.names
        self.view_dims_ = views.dims
        self.n_features_in_ = views.shape[1]
        self.feature_names_in_ = {k: own for k, own in views.feature_names.items() if own}
        self.transformers_ = {}
        for name, transformer in self._chosen(views).items():
            if not views.observed[:, views.names.index(name)].any():
                raise ViewError(f"view {name!r} is missing for all samples: nothing to fit on")
            fitted = clone(transformer)
            if hasattr(fitted, "set_output"):
                fitted.set_output(**getattr(self, "_sklearn_output_config", {}))
            self.transformers_[name] = fitted.fit(_values(views, name))
        return self

    def transform(self, X: Any) -> ViewSet:
        """Return the ViewSet of the transformed views, in the order of the fit."""
        views = match_views(
            as_viewset(X), self.view_names_, self.view_dims_, self.feature_names_in_
        )
        made = {name: self._transformed(views, name) for name in self.view_names_}
        result = views.with_values({name: own[0] for name, own in made.items()}, views.observed)
        return result._replace(columns={name: own[1] for name, own in made.items()})

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Names of the columns, `<view>__<column>`, of the views with a transformer."""
        names = [
            f"{view}__{column}"
            for view, transformer in self.transformers_.items()
            for column in transformer.get_feature_names_out()
        ]
        return np.asarray(names, dtype=object)

    def set_output(self, *, transform: str | None = None) -> Self:
        """Tell the transformers of the views which containers to use; the result is a ViewSet.

        `ViewSet.to_frames` makes DataFrames of it.
        """
        if transform is not None:
            self._sklearn_output_config = {"transform": transform}  # the name that `clone` copies
        return self

    def _chosen(self, views: ViewSet) -> dict[str, Any]:
        given = self.transformer
        if not isinstance(given, Mapping):
            given = dict.fromkeys(views.names, given)
        unknown = [name for name in given if name not in views.names]
        if unknown:
            raise SettingError(
                f"transformer names the view {unknown[0]!r}; the views are: "
                f"{', '.join(views.names)}"
            )
        return {name: own for name, own in given.items() if own != PASSTHROUGH}

    def _transformed(self, views: ViewSet, name: str) -> tuple[Any, tuple[str, ...] | None]:
        """Values of one view for all samples, and the names of its columns."""
        if name not in self.transformers_:
            return views.stored(name), self.feature_names_in_.get(name)
        transformer = self.transformers_[name]
        seen = views.observed[:, views.names.index(name)]
        if not seen.any():
            width = len(transformer.get_feature_names_out())
            return np.zeros((len(views), width), dtype=np.float32), _names_out(transformer)
        found = transformer.transform(_values(views, name))
        names = tuple(map(str, found.columns)) if is_frame(found) else _names_out(transformer)
        dense = found.toarray() if is_sparse(found) else np.asarray(found)
        result = np.zeros((len(views), dense.shape[1]), dtype=np.result_type(dense, np.float32))
        result[seen] = dense
        return result, names


def _values(views: ViewSet, name: str) -> Any:
    """Rows of the samples that have the view; a DataFrame where its columns have names."""
    rows = np.flatnonzero(views.observed[:, views.names.index(name)])
    if views.is_sparse(name):
        return views[rows].stored(name)
    values = views.rows(name, rows, dtype=np.float64)
    columns = views.feature_names[name]
    if columns is None:
        return values
    import pandas as pd

    return pd.DataFrame(values, columns=list(columns))


def _names_out(transformer: Any) -> tuple[str, ...] | None:
    try:
        return tuple(map(str, transformer.get_feature_names_out()))
    except (AttributeError, ValueError):
        return None
