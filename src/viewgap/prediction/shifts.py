"""Columns all of whose values lie on one side of what training had: another unit, another kind."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
from numpy.typing import NDArray

from viewgap.data.preprocessing.column_ranges import fit_view
from viewgap.data.viewset import ViewSet
from viewgap.errors import counted
from viewgap.inspection.findings import Finding, named
from viewgap.methods.base import MultiViewClassifier

_SURE = 1e-6  # probability of one such column among all, were the samples like those of training


def shifted_columns(
    model: MultiViewClassifier, views: ViewSet, others: Collection[str | None] = ()
) -> Iterator[Finding]:
    """Yield a finding for every view with shifted columns.

    Of n training values and k new ones in random order, the k are above all n, or below, with
    probability 2 / C(n + k, k), however the values are distributed. It is small where there are a
    few new samples already.

    Parameters
    ----------
    model : fitted method
        What knows the ranges of the training data.
    views : ViewSet
        New samples, with the views and columns of the model.
    others : collection of str
        Views that are left out, as more is said about them already.

    Yields
    ------
    Finding
        Of kind `"shifted_columns"`.
    """
    ranges, training = model.column_ranges_, model.training_summary_
    if ranges is None or training is None:
        return
    for j, (name, fitted) in enumerate(zip(views.names, ranges.views, strict=True)):
        if name in others or not views.observed[:, j].any():
            continue
        n_training = training.n_observed_views[j] - training.n_missing_values[j]
        found, count = fit_view(views, name)
        # Data in another precision are no other values.
        slack = np.finfo(np.float32).eps * np.maximum(np.abs(fitted.low), np.abs(fitted.high))
        outside = (found.low > fitted.high + slack) | (found.high < fitted.low - slack)
        chance = _chance(max(0, n_training), count) * sum(model.view_dims_)
        shifted = np.flatnonzero(outside & (count > 0) & (chance < _SURE))
        if not len(shifted):
            continue
        first = shifted[0]
        names = views.feature_names[name] or tuple(map(str, range(len(found.low))))
        text = (
            f"view {name!r}: {counted(len(shifted), 'column')} with all values outside of what "
            f"training had; first: {names[first]!r}, {found.low[first]:g} to "
            f"{found.high[first]:g}, where training had {fitted.low[first]:g} to "
            f"{fitted.high[first]:g}"
        )
        remedy = (
            "check their units; where the samples are of another kind than those of training "
            "(another site, another year), its scores are not about them"
        )
        columns = named(names[column] for column in shifted)
        yield Finding("warning", "shifted_columns", text, remedy, view=name, columns=columns)


def _chance(n_training: int, count: NDArray[np.int64]) -> NDArray[np.float64]:
    """2 / C(n + k, k) for k = `count` (d,)."""
    from scipy.special import gammaln

    n, k = float(n_training), count.astype(np.float64)
    return np.asarray(2.0 * np.exp(gammaln(k + 1) + gammaln(n + 1) - gammaln(n + k + 1)))
