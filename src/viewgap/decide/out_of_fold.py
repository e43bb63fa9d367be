"""Models for calibration with training rows: each fitted without one part of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from viewgap.data.labels import Labels
from viewgap.data.splits import balanced_parts, matched_groups
from viewgap.data.viewset import ViewSet
from viewgap.decide.thresholds import Part
from viewgap.errors import SettingError, parameter
from viewgap.methods.base import MultiViewClassifier


def cross_fitted(
    model: MultiViewClassifier, views: ViewSet, labels: Labels, n_parts: int, groups: Any = None
) -> list[Part]:
    """Deal the rows that have a view to parts, and fit the method without each of them.

    Parts are alike in labels and patterns of missing views, and rows of one group are in one part.
    The parameters of the model are used; it is not changed itself.
    """
    if not isinstance(n_parts, int | np.integer) or isinstance(n_parts, bool) or n_parts < 2:
        raise SettingError(
            f"{parameter('cv')} must be a number of parts, 2 or more; found {n_parts!r}"
        )
    usable = np.flatnonzero(views.has_view)
    if len(usable) < 2 * n_parts:
        raise SettingError(
            f"{n_parts} parts need at least {2 * n_parts} samples with a view; found {len(usable)}"
        )
    numbers = matched_groups(groups, views)
    views, labels = views[usable], labels[usable]
    if numbers is not None:
        numbers = numbers[usable]
    parts = balanced_parts(views, labels, int(n_parts), np.random.default_rng(0), numbers)
    found: list[Part] = []
    for part in range(n_parts):
        inside = np.flatnonzero(parts == part)
        outside = np.flatnonzero(parts != part)
        if inside.size:
            own = clone(model).fit(views[outside], labels[outside])
            found.append((own, views[inside], labels[inside]))
    return found
