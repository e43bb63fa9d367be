"""What a fitted model loses when the values of a view say nothing about their sample."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from viewgap.data.validation import as_viewset
from viewgap.data.viewset import ViewSet
from viewgap.errors import SettingError
from viewgap.model_selection.scorers import scorer

HOW = ("permute", "hide")


def view_importance(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    scoring: Callable[[Any, Any, Any], float] | None = None,
    how: str = "permute",
    n_repeats: int = 5,
    random_state: int = 0,
) -> Bunch:
    """Permutation importance of whole views.

    All columns of a view are shuffled together among the samples that have it, so that the pattern
    of missing views stays. Views that say the same stand in for each other: each of them then looks
    unimportant.

    Parameters
    ----------
    estimator : estimator
        A fitted method, or a pipeline that ends in one.
    X : ViewSet, or what `ViewSet` takes
        Samples that the estimator was not fitted on.
    y : array or DataFrame
        Their labels; NaN where one was not observed.
    scoring : callable, optional
        `(estimator, X, y) -> float`; average precision if None (see `scorer`).
    how : {"permute", "hide"}, default="permute"
        Shuffle the values of a view, or take the view away: what its absence costs, once.
        A sample whose only view it is keeps it.
    n_repeats : int, default=5
        How often a view is shuffled.
    random_state : int, default=0
        Seed.

    Returns
    -------
    Bunch
        As of scikit-learn's `permutation_importance`: `importances` (views, repeats), the score
        with the view less the score without, `importances_mean` and `importances_std`; besides
        `view_names`.

    Examples
    --------
    >>> import viewgap
    >>> data = viewgap.load_dataset("synthetic", n_samples=90, seed=0)
    >>> train, test = slice(0, 60), slice(60, 90)
    >>> model = viewgap.LateFusionRidge().fit(data.views[train], data.labels[train])
    >>> found = view_importance(model, data.views[test], data.labels[test])
    >>> found.view_names, found.importances.shape
    (('view0', 'view1', 'view2'), (3, 5))
    """
    if how not in HOW:
        raise SettingError(f"how must be one of {', '.join(HOW)}; found {how!r}")
    if n_repeats < 1:
        raise SettingError(f"n_repeats must be at least 1, found {n_repeats!r}")
    score = scoring or scorer("AP")
    views = as_viewset(X)
    rng = np.random.default_rng(random_state)
    whole = score(estimator, views, y)
    rounds = n_repeats if how == "permute" else 1
    changed = _shuffled if how == "permute" else _hidden
    losses = np.array(
        [
            [whole - score(estimator, changed(views, name, rng), y) for _ in range(rounds)]
            for name in views.names
        ]
    )
    return Bunch(
        view_names=views.names,
        importances=losses,
        importances_mean=losses.mean(axis=1),
        importances_std=losses.std(axis=1),
    )


def _shuffled(views: ViewSet, name: str, rng: np.random.Generator) -> ViewSet:
    observed = views.observed[:, views.names.index(name)]
    order = np.arange(len(views))
    order[observed] = rng.permutation(order[observed])
    values = {own: views.stored(own) for own in views.names}
    return views.with_values(values | {name: values[name][order]}, views.observed)


def _hidden(views: ViewSet, name: str, rng: np.random.Generator) -> ViewSet:
    mask = views.observed.copy()
    others = np.delete(mask, views.names.index(name), axis=1).any(axis=1)
    mask[others, views.names.index(name)] = False
    return views.with_observed(mask)
