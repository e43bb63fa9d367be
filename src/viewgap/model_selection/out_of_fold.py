"""Out-of-fold predictions, with labels that were not observed."""

from __future__ import annotations

from typing import Any

import numpy as np

from viewgap.errors import SettingError
from viewgap.model_selection.splitters import BalancedKFold

METHODS = ("predict_proba", "predict")


def cross_val_predict(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    groups: Any = None,
    cv: Any = 5,
    n_jobs: int | None = None,
    method: str = "predict_proba",
) -> Any:
    """Predict every sample by a model that was fitted without it.

    scikit-learn's function of this name numbers the values of every label before
    `method="predict_proba"`, and takes NaN for a class; this one leaves labels as they are.

    Parameters
    ----------
    estimator : estimator
        A method, or a pipeline or search that ends in one. It is cloned.
    X : ViewSet, or array of shape (n, d)
        The samples.
    y : array or DataFrame of shape (n, c), or 1-D
        Labels in the order of X; NaN where one was not observed.
    groups : array of shape (n,), optional
        Given to the splitter.
    cv : int or splitter, default=5
        An int is the number of folds of `BalancedKFold`. Every row must be in one test part.
    n_jobs : int, optional
        Processes of joblib.
    method : {"predict_proba", "predict"}, default="predict_proba"

    Returns
    -------
    array or DataFrame of shape (n, c)
        In the order of X; a DataFrame where the estimator answers with one.

    Examples
    --------
    >>> import viewgap
    >>> data = viewgap.load_dataset("synthetic", n_samples=60, seed=0)
    >>> cross_val_predict(viewgap.LateFusionRidge(), data.views, data.labels, cv=3).shape
    (60, 12)
    """
    from joblib import Parallel, delayed
    from sklearn.base import clone

    if method not in METHODS:
        raise SettingError(f"method must be one of {', '.join(METHODS)}; found {method!r}")
    cv = BalancedKFold(int(cv)) if isinstance(cv, int | np.integer) else cv
    folds = list(cv.split(X, y, groups))
    tested = np.concatenate([test for _, test in folds])
    if not np.array_equal(np.sort(tested), np.arange(_length(X))):
        raise SettingError(
            "cv must have every row in one test part: repetitions and parts of the rows cannot be "
            "put together to one prediction per sample"
        )
    answers = Parallel(n_jobs=n_jobs)(
        delayed(_fit_predict)(clone(estimator), X, y, train, test, method) for train, test in folds
    )
    order = np.argsort(tested)
    if hasattr(answers[0], "iloc"):
        import pandas as pd

        return pd.concat(answers).iloc[order]
    return np.concatenate(answers)[order]


def _length(X: Any) -> int:
    return len(X) if hasattr(X, "__len__") else int(X.shape[0])


def _fit_predict(model: Any, X: Any, y: Any, train: Any, test: Any, method: str) -> Any:
    from sklearn.utils import _safe_indexing

    model.fit(_safe_indexing(X, train), _safe_indexing(y, train))
    return getattr(model, method)(_safe_indexing(X, test))
