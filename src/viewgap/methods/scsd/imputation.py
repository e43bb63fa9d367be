"""Put predicted values where nothing was observed, and nowhere else."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viewgap.data.viewset import ViewSet
from viewgap.errors import ViewError, ViewgapWarning

Mask = NDArray[np.bool_]

_EXACT = 2**53  # float64 has every whole number up to here


def rows_to_fill(views: ViewSet, view: int) -> Mask:
    """Which samples (n,) miss the view or some of its values."""
    name = views.names[view]
    return np.asarray(~views.observed[:, view] | (views.count_missing_values(name) > 0))


def filled_view(
    views: ViewSet,
    view: int,
    rows: NDArray[np.intp],
    predicted: NDArray[Any] | None,
    mean: Callable[[], NDArray[Any]],
) -> tuple[Any, Mask]:
    """Return the values of a view with `predicted` (k, d) for `rows` (k,), and which rows have any.

    Of a row that is observed only the missing values are taken from there, and from `mean()` (d,)
    if it is not among `rows`. Without anything to fill, the values are those that were stored.
    """
    name = views.names[view]
    observed = np.array(views.observed[:, view])
    gaps = np.flatnonzero(views.count_missing_values(name))
    if not len(rows) and not len(gaps):
        return views.stored(name), observed
    values = _exact(views, name)
    if predicted is not None:
        new = ~observed[rows]
        values[rows[new]] = predicted[new]
        observed[rows[new]] = True
        beside = rows[~new]
        values[beside] = np.where(np.isnan(values[beside]), predicted[~new], values[beside])
    if len(gaps) and np.isnan(values[gaps]).any():
        values[gaps] = np.where(np.isnan(values[gaps]), mean(), values[gaps])
    return values, observed


def warn_of_means(n_samples: Mapping[str, int]) -> None:
    """Say for how many samples, by view, nothing but the means of the columns was filled in."""
    if not n_samples:
        return
    found = ", ".join(f"{name!r} in {count}" for name, count in n_samples.items())
    warnings.warn(
        f"filled with the means of the columns: view {found} samples. Nothing could be learned "
        "about it from the other views of these samples: too few training samples have both, or "
        "predictions were no better than the means where they could be compared "
        "(`imputation_error_` is 1 then)",
        ViewgapWarning,
        stacklevel=3,
    )


def _exact(views: ViewSet, name: str) -> NDArray[Any]:
    """A copy of all rows in a floating-point type that has every observed number exactly."""
    stored = views.locate(name, np.arange(0))[0].dtype
    values = views.rows(name, dtype=np.result_type(stored, np.float32))
    if stored.kind in "iu" and stored.itemsize == 8:
        whole = views.rows(name, dtype=stored)
        if int(whole.max()) > _EXACT or int(whole.min()) < -_EXACT:
            raise ViewError(
                f"view {name!r}: integers beyond 2**53 cannot stand beside predicted values; "
                "convert the view to float64 first, or rescale it"
            )
    return values
