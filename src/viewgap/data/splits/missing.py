"""The missing-data protocol of the field: which views and which labels are taken away.

The masks follow the generators behind the published fold files: views are removed from all
samples, labels only within the training rows, and every sample keeps at least one view.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from viewgap.data.rows.alignment import is_frame
from viewgap.data.validation import as_labels, as_viewset
from viewgap.data.viewset import ViewSet
from viewgap.errors import LabelError, SettingError, ViewgapWarning

Mask = NDArray[np.bool_]


def view_mask(n: int, m: int, rate: float, rng: np.random.Generator | int) -> Mask:
    """Mask (n, m), True = observed: every view is missing for exactly floor(n * rate) samples.

    Views 1 ... m-1 lose random samples independently; the last view loses random samples among
    those which still have another view, so every sample keeps at least one view.

    When too few samples are left for that draw (few views, high rates), every sample is first
    given one view to keep, dealt out evenly, and each view is then filled up at random to
    n - floor(n * rate) samples. This meets the rate whenever m * floor(n * rate) <= n * (m - 1);
    beyond that no mask can, and the sample keeps exactly its one view, with a warning.
    """
    _check_rate("view rate", rate)
    if n < 1 or m < 1:
        raise SettingError(f"a mask needs samples and views, found n = {n}, m = {m}")
    rng = np.random.default_rng(rng)
    n_missing = floor(n * rate)
    if n_missing == 0:
        return np.ones((n, m), dtype=np.bool_)
    _warn_if_out_of_reach(n, m, n_missing, rate)
    mask = np.ones((n, m), dtype=np.bool_)
    for view in range(m - 1):
        mask[rng.permutation(n)[:n_missing], view] = False
    candidates = np.flatnonzero(mask[:, : m - 1].any(axis=1))
    if len(candidates) < n_missing:
        return _dealt_mask(n, m, n_missing, rng)
    mask[rng.choice(candidates, size=n_missing, replace=False), m - 1] = False
    return mask


def _warn_if_out_of_reach(n: int, m: int, n_missing: int, rate: float) -> None:
    if m * n_missing > n * (m - 1):
        warnings.warn(
            f"a view rate of {rate:g} cannot be met: with {m} views, of which every sample keeps "
            f"one, at most {(m - 1) / m:.3g} of the entries can be missing",
            ViewgapWarning,
            stacklevel=3,
        )


def _dealt_mask(n: int, m: int, n_missing: int, rng: np.random.Generator) -> Mask:
    """Mask with one view dealt to every sample, the rest filled up at random."""
    mask = np.zeros((n, m), dtype=np.bool_)
    mask[rng.permutation(n), np.arange(n) % m] = True
    for view in range(m):
        absent = np.flatnonzero(~mask[:, view])
        more = max(0, len(absent) - n_missing)
        mask[rng.choice(absent, size=more, replace=False), view] = True
    return mask


def view_mask_over_gaps(observed: Mask, rate: float, rng: np.random.Generator | int) -> Mask:
    """`view_mask` laid over data that has gaps already.

    A sample that had some view and would lose its last one keeps one of them, chosen at random.
    """
    rng = np.random.default_rng(rng)
    n, m = observed.shape
    mask = view_mask(n, m, rate, rng)
    for row in np.flatnonzero(observed.any(axis=1) & ~(observed & mask).any(axis=1)):
        mask[row, rng.choice(np.flatnonzero(observed[row]))] = True
    return mask


def label_mask(
    Y: ArrayLike, train_rows: ArrayLike, rate: float, rng: np.random.Generator | int
) -> Mask:
    """Mask (n, c), True = observed, zero outside the training rows.

    Within the training rows, every label keeps ceil(count * (1 - rate)) of its positives and as
    many of its negatives, at random. Entries of Y that are NaN stay unobserved.
    """
    _check_rate("label rate", rate, one_allowed=True)
    rng = np.random.default_rng(rng)
    labels = np.asarray(Y)
    if labels.ndim != 2:
        raise LabelError(f"expected labels (samples, labels), found shape {labels.shape}")
    rows = np.asarray(train_rows)
    rows = np.flatnonzero(rows) if rows.dtype.kind == "b" else rows
    mask = np.zeros(labels.shape, dtype=np.bool_)
    for label, column in enumerate(labels[rows].T):
        for value in (1, 0):
            members = rows[column == value]
            kept = ceil(len(members) * (1 - rate))
            mask[rng.choice(members, size=kept, replace=False), label] = True
    return mask


def amputate(
    views: Any, labels: Any, view_rate: float = 0.5, label_rate: float = 0.5, seed: int = 0
) -> tuple[ViewSet, Any]:
    """Take views and labels away from complete data, by the field's protocol, on all rows.

    What is missing already stays missing; every sample that has a view keeps at least one.

    Parameters
    ----------
    views : dict, list, ViewSet
        What `as_viewset` accepts.
    labels : array or DataFrame of shape (n, c)
        0, 1 and NaN (not observed).
    view_rate, label_rate : float, default=0.5
        Share of the samples that lose each view, and of the labels that are taken away.
    seed : int, default=0
        Seed of the draw.

    Returns
    -------
    views : ViewSet
        The views with more entries missing; values are shared, not copied.
    labels : array or DataFrame of shape (n, c)
        The labels with NaN where they were taken away, as a DataFrame if they came as one.

    Examples
    --------
    >>> views, labels = amputate({"a": [[1.0], [2.0]], "b": [[3.0], [4.0]]}, [[1], [0]], 0.5, 0.0)
    >>> int(views.observed.sum()), labels.tolist()
    (2, [[1.0], [0.0]])
    """
    checked = as_viewset(views)
    complete = as_labels(labels, checked).as_float()
    rng = np.random.default_rng(seed)
    less = checked.with_observed(view_mask_over_gaps(checked.observed, view_rate, rng))
    kept = label_mask(complete, np.arange(len(complete)), label_rate, rng)
    left = np.where(kept, complete, np.nan)
    if not is_frame(labels):
        return less, left
    index = checked.frame_index() if checked.has_ids else labels.index
    return less, type(labels)(left, index=index, columns=labels.columns)


def floor(value: float) -> int:
    """Largest whole number up to `value`, where 0.29 * 100 counts as 29."""
    return math.floor(round(value, 9))


def ceil(value: float) -> int:
    """Smallest whole number from `value` on, where 10 * (1 - 0.7) counts as 3."""
    return math.ceil(round(value, 9))


def _check_rate(name: str, rate: float, *, one_allowed: bool = False) -> None:
    if not (0 <= rate < 1 or (one_allowed and rate == 1)):
        bound = "<=" if one_allowed else "<"
        raise SettingError(f"the {name} must lie in 0 <= rate {bound} 1, found {rate!r}")
