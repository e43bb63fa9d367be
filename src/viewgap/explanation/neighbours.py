"""Samples that a model takes to be alike: the nearest ones by its representation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from viewgap.data.viewset import ViewSet
from viewgap.errors import SettingError, ViewError, first_few, remedy
from viewgap.methods.base import MultiViewClassifier, as_method
from viewgap.prediction.blocks import BLOCK_BYTES

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]


def nearest_samples(model: Any, X: Any, reference: Any, *, n: int = 5) -> pd.DataFrame:
    """Find the reference samples that are nearest to every sample by `transform`.

    Parameters
    ----------
    model : estimator
        A fitted method that has `transform`: SCSD. Its representation is the mean of the codes of
        the views that a sample has, so that samples with different views can be compared.
    X : ViewSet, or what `ViewSet` takes
        The samples; each must have a view.
    reference : ViewSet, or what `ViewSet` takes
        Samples to look among, say those of the training data. Those without any view are left
        out, and so is a sample itself: where X and the reference came with ids, one with its id.
    n : int, default=5
        How many to find.

    Returns
    -------
    DataFrame
        A line per sample and neighbour, the nearest first: `sample`, `rank`, `neighbour`,
        `distance` (Euclidean; of equal ones the first in the reference) and `shared_views` (how
        many views both have).

    Examples
    --------
    >>> import viewgap
    >>> data = viewgap.load_dataset("synthetic", n_samples=60, seed=0)
    >>> model = viewgap.SCSD(max_epochs=2, n_networks=1, device="cpu", random_state=0)
    >>> model = model.fit(data.views[:50], data.labels[:50])
    >>> found = viewgap.nearest_samples(model, data.views[50:], data.views[:50], n=3)
    >>> found["sample"].tolist()[:4], found["rank"].tolist()[:4]
    ([50, 50, 50, 51], [1, 2, 3, 1])
    """
    fitted = _check_model(model)
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise SettingError(f"{remedy('n', '--neighbours')} must be a whole number of at least 1")
    views = fitted._match(X, fitted.nan)
    empty = np.flatnonzero(~views.has_view)
    if len(empty):
        raise ViewError(
            f"samples without any view have no neighbours: "
            f"{first_few(map(str, views.sample_ids[empty]))}; leave them out"
        )
    others = fitted._match(reference, fitted.nan)
    others = others[others.has_view]
    own = _own_rows(views, others)
    if len(others) - int((own >= 0).any()) < n:
        raise SettingError(
            f"{remedy('n', '--neighbours')} is {n}, and only {len(others)} reference samples have "
            "a view, a sample itself not counted: ask for fewer"
        )
    rows, distance = _nearest(_codes(fitted, views), _codes(fitted, others), own, n)
    return _tidy(views, others, rows, distance)


def _check_model(model: Any) -> MultiViewClassifier:
    method = as_method(model)
    if not hasattr(method, "transform"):
        raise SettingError(
            f"{type(model).__name__} has no representation of samples (transform), by which they "
            f"could be near; methods that have one: {', '.join(methods_with_transform())}"
        )
    method._check_fitted()
    return method


def methods_with_transform() -> list[str]:
    """Names of the classes of all methods that have `transform`."""
    from viewgap import methods

    found = (methods.get(name) for name in methods.names())
    return [cls.__name__ for cls in found if hasattr(cls, "transform")]


def _codes(model: Any, views: ViewSet) -> Floats:
    return np.asarray(model.transform(views), dtype=np.float64)


def _own_rows(views: ViewSet, others: ViewSet) -> NDArray[np.intp]:
    """The reference row that a sample is itself, by its id; -1 where there is none."""
    if not (views.has_ids and others.has_ids):
        return np.full(len(views), -1)
    place = {own: row for row, own in enumerate(others.sample_ids.tolist())}
    return np.array([place.get(own, -1) for own in views.sample_ids.tolist()], dtype=np.intp)


def _nearest(
    codes: Floats, others: Floats, own: NDArray[np.intp], n: int
) -> tuple[NDArray[np.intp], Floats]:
    """Rows of the reference and their distances, both (samples, n)."""
    rows, distance = np.empty((len(codes), n), dtype=np.intp), np.empty((len(codes), n))
    step = max(1, BLOCK_BYTES // (8 * len(others)))
    squares = (others**2).sum(axis=1)
    for start in range(0, len(codes), step):
        part = slice(start, start + step)
        # rounding of this form decides nothing: the distances of those found are computed anew
        near = squares - 2 * codes[part] @ others.T + (codes[part] ** 2).sum(axis=1)[:, None]
        itself = np.flatnonzero(own[part] >= 0)
        near[itself, own[part][itself]] = np.inf
        kept = np.sort(np.argpartition(near, min(2 * n, near.shape[1] - 1))[:, : 2 * n], axis=1)
        exact = np.linalg.norm(others[kept] - codes[part][:, None], axis=2)
        exact[np.isinf(np.take_along_axis(near, kept, axis=1))] = np.inf
        order = np.argsort(exact, axis=1, kind="stable")[:, :n]
        rows[part] = np.take_along_axis(kept, order, axis=1)
        distance[part] = np.take_along_axis(exact, order, axis=1)
    return rows, distance


def _tidy(
    views: ViewSet, others: ViewSet, rows: NDArray[np.intp], distance: Floats
) -> pd.DataFrame:
    import pandas as pd

    n = rows.shape[1]
    shared = (views.observed[:, None] & others.observed[rows]).sum(axis=2)
    return pd.DataFrame(
        {
            "sample": np.repeat(views.sample_ids, n),
            "rank": np.tile(np.arange(1, n + 1), len(rows)),
            "neighbour": others.sample_ids[rows.reshape(-1)],
            "distance": distance.reshape(-1),
            "shared_views": shared.reshape(-1),
        }
    )
