"""What a model answers when only some of the views of a sample are shown to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viewgap.data.viewset import ViewSet
from viewgap.errors import SettingError, first_few, remedy
from viewgap.methods._fitted import fitted_model
from viewgap.methods.base import MultiViewClassifier
from viewgap.prediction.blocks import BLOCK_BYTES, answers_by_batch, rows_of_a_block

Mask = NDArray[np.bool_]


def check_model(model: Any) -> MultiViewClassifier:
    """Refuse what cannot be explained by hiding views of one sample at a time."""
    fitted: MultiViewClassifier = fitted_model(model)
    if answers_by_batch(fitted):
        raise SettingError(
            f"this {type(fitted).__name__} answers by batch (profile='paper'): the answer for a "
            "sample changes with the samples beside it, so that no view of it can be given its "
            "part; fit with " + remedy("profile='default'", "--profile default")
        )
    return fitted


def label_positions(model: MultiViewClassifier, labels: Sequence[str] | str | None) -> list[int]:
    """Positions of labels in the model; all of them for None."""
    names = [str(name) for name in model.label_names_]
    if labels is None:
        return list(range(len(names)))
    if not isinstance(labels, Iterable):
        option = remedy("labels", "--label")
        raise SettingError(f"{option} must be names of labels, found {labels!r}")
    wanted = [labels] if isinstance(labels, str) else [str(name) for name in labels]
    unknown = [name for name in wanted if name not in names]
    if unknown or not wanted:
        found = f"unknown: {first_few(unknown)}" if unknown else "found none"
        option = remedy("labels", "--label")
        raise SettingError(f"{option} must name labels of the model: {first_few(names)}; {found}")
    return [names.index(name) for name in dict.fromkeys(wanted)]


def rows_by_pattern(observed: Mask, answers_per_row: int) -> Iterator[tuple[Mask, Any]]:
    """Yield a pattern of observed views (m,) and rows that have it, in parts that fit in memory.

    `answers_per_row` is how many numbers 2**k subsets of a pattern with k views need, per subset.
    """
    patterns, of_row = np.unique(observed, axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        rows = np.flatnonzero(of_row.reshape(-1) == number)
        n_subsets = 2 ** min(int(pattern.sum()), 13)
        step = max(1, BLOCK_BYTES // (8 * n_subsets * max(1, answers_per_row)))
        for start in range(0, len(rows), step):
            yield pattern, rows[start : start + step]


def subset_answers(
    model: MultiViewClassifier, views: ViewSet, shown: Mask, labels: Sequence[int]
) -> NDArray[np.float64]:
    """Probabilities of every sample when only some of its views are shown.

    Parameters
    ----------
    model : MultiViewClassifier
        A fitted method that answers row by row.
    views : ViewSet
        Matched views of n samples.
    shown : array of bool of shape (s, m)
        The subsets of the views.
    labels : sequence of int
        Positions of the labels that are asked for.

    Returns
    -------
    array of shape (n, s, len(labels))
        The label frequencies of the training data where no view is left.
    """
    n, s = len(views), len(shown)
    row, subset = np.repeat(np.arange(n), s), np.tile(np.arange(s), n)
    result = np.empty((n * s, len(labels)))
    step = rows_of_a_block(model)
    for start in range(0, n * s, step):
        part = slice(start, start + step)
        some = views[row[part]].with_observed(shown[subset[part]])
        result[part] = model._checked_probabilities(some)[:, labels]
    return result.reshape(n, s, len(labels))
