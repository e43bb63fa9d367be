"""Checks of numbers: weights that diverged, answers that are not finite, values far off."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from viewgap.data.preprocessing import ColumnRanges
from viewgap.data.viewset import ViewSet
from viewgap.errors import RunError, ViewError, ViewgapWarning, first_few
from viewgap.state import State


def check_state(method: str, state: State) -> None:
    """Refuse a fit that ended in weights which are not numbers."""
    for name, array in state.arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise RunError(
                f"the fit of {method} diverged: {name!r} holds NaN or infinite numbers; check the "
                "scale of the views (values of 1e15 and more lose precision when they are "
                "multiplied), or rescale them"
            )


def warn_of_far_values(views: ViewSet, ranges: ColumnRanges | None) -> None:
    """Warn once of values far outside of what was seen in training (`column_ranges.FAR`)."""
    far = None if ranges is None else ranges.farthest(views)
    if far is None:
        return
    column = some_columns(views, far.view, [far.column])
    warnings.warn(
        f"{far.n_values} values in {far.n_samples} samples are far outside of what was seen in "
        f"training; the farthest: view {far.view!r}, column {column}, sample id "
        f"{views.sample_ids[far.row]!s}: {far.value:g}, where training had {far.low:g} to "
        f"{far.high:g} (off by a factor of {far.factor:.3g}); answers for such samples cannot be "
        "trusted: check units, columns and codes for unknown values",
        ViewgapWarning,
        stacklevel=4,
    )


def refuse_answers(
    method: str, views: ViewSet, answers: NDArray[Any], ranges: ColumnRanges | None
) -> NoReturn:
    """Raise for answers (n, ...) that are not finite: name the sample and its most extreme view."""
    broken = np.flatnonzero(~np.isfinite(answers.reshape(len(answers), -1)).all(axis=1))
    row = int(broken[0])
    view, column, value = _most_extreme(views, row, ranges)
    raise ViewError(
        f"{method} has no finite answer for {len(broken)} of {len(views)} samples; first: sample "
        f"id {views.sample_ids[row]!s}, whose most extreme value is {value:g} in view {view!r}, "
        f"column {some_columns(views, view, [column])}; check the units of the view, or rescale it"
    )


def _most_extreme(views: ViewSet, row: int, ranges: ColumnRanges | None) -> tuple[str, int, float]:
    """View, column and value of a sample: farthest out of its range, else largest."""
    candidates = []
    for j, name in enumerate(views.names):
        if not views.observed[row, j]:
            continue
        values = np.nan_to_num(views.rows(name, [row], dtype=np.float64)[0])
        columns = np.arange(len(values))
        factors = (
            np.zeros(len(values)) if ranges is None else ranges.views[j].factors(values, columns)
        )
        at = int(np.lexsort((np.abs(values), factors))[-1])
        candidates.append((float(factors[at]), abs(float(values[at])), name, at, float(values[at])))
    _, _, name, at, value = max(candidates)
    return name, at, value


def some_columns(views: ViewSet, name: str, columns: Sequence[Any] | NDArray[Any]) -> str:
    """Numbers of up to five columns of a view, with their names where they are known."""
    names = views.feature_names[name]
    return first_few(c if names is None else f"{c} ({names[c]!r})" for c in columns)
