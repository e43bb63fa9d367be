"""What a model answers when only some of the views of a sample are shown to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from viewgap.data.viewset import ViewSet
from viewgap.errors import SettingError, first_few, remedy
from viewgap.methods.base import MultiViewClassifier, fitted_model
from viewgap.prediction.blocks import BLOCK_BYTES, answers_by_batch, rows_of_a_block

Mask = NDArray[np.bool_]
_MOST_BITS = 30  # of a pattern, beside those of a row in one number


@runtime_checkable
class SeparateViews(Protocol):
    """A method that looks at every view by itself before it puts them together."""

    def _view_scores(self, views: ViewSet, view: int) -> NDArray[np.float64]: ...

    def _from_view_scores(self, scores: Any, observed: Mask) -> NDArray[np.float64]: ...


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
    """Probabilities of every sample when only some of its views are shown, (n, s, len(labels)).

    `views` are matched with the model, which answers row by row; `shown` (s, m) are the subsets,
    `labels` the positions of those that are asked for. Where no view is left, the label frequencies
    of the training data.
    """
    result = np.empty((len(views), len(shown), len(labels)))
    if isinstance(model, SeparateViews):
        numbers = 8 * len(shown) * views.n_views * len(model.label_names_)
        step = max(1, min(rows_of_a_block(model), BLOCK_BYTES // numbers))
        for start in range(0, len(views), step):
            part = slice(start, start + step)
            result[part] = _from_separate_views(model, views[part], shown)[:, :, labels]
        known = ~np.isnan(model.label_frequency_[labels])
        if np.isfinite(result[:, :, known]).all():
            return result  # else the model itself shall say what is wrong
    seen = (views.observed[:, None] & shown).reshape(-1, views.n_views)
    first, place = _distinct(seen, len(shown))
    answers = np.empty((len(first), len(labels)))
    step = rows_of_a_block(model)
    for start in range(0, len(first), step):
        lines = first[start : start + step]
        some = views[lines // len(shown)].with_observed(seen[lines])
        answers[start : start + step] = model._checked_probabilities(some)[:, labels]
    result[:] = answers[place].reshape(result.shape)
    return result


def _distinct(seen: Mask, n_shown: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Where each question comes first, and which one it is: hiding what a row lacks asks nothing.

    Every `n_shown` lines of `seen` are of one row.
    """
    n, m = seen.shape
    if m > _MOST_BITS:
        return np.arange(n), np.arange(n)
    row = np.arange(n, dtype=np.int64) // n_shown
    key = (row << m) | (seen @ (np.int64(1) << np.arange(m, dtype=np.int64)))
    _, first, place = np.unique(key, return_index=True, return_inverse=True)
    return first, place.reshape(-1)


def _from_separate_views(model: Any, views: ViewSet, shown: Mask) -> NDArray[np.float64]:
    """Probabilities (n, s, c): every view is read once, whatever the number of subsets."""
    own = views.with_observed(views.observed & shown.any(axis=0))
    nothing = own[:1].with_observed(np.zeros((1, views.n_views), dtype=np.bool_))
    every = range(views.n_views)
    scores = np.stack([model._view_scores(own, view) for view in every])
    absent = np.stack([model._view_scores(nothing, view) for view in every])
    seen = (views.observed[:, None] & shown).reshape(-1, views.n_views)
    there = np.flatnonzero(seen.any(axis=1))
    told = np.where(seen[there].T[:, :, None], scores[:, there // len(shown)], absent)
    answers = np.tile(model.label_frequency_, (len(seen), 1))
    if len(there):
        answers[there] = model._from_view_scores(told, seen[there])
    answers[:, np.isnan(model.label_frequency_)] = np.nan
    return answers.reshape(len(views), len(shown), -1)
