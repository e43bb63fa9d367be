"""Samples that occur more than once: they stay on one side of a fold, and testify to each other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from viewgap.data.viewset import ViewSet
from viewgap.inspection.columns import read_columns
from viewgap.inspection.samples import duplicate_groups


def duplicates(views: ViewSet) -> NDArray[np.intp]:
    """(n,) a number per sample; samples with the same values in the same views share theirs.

    Samples that have nothing but views of a few whole numbers, which agree by chance, are taken to
    differ.
    """
    numbers = np.arange(len(views))
    for rows in duplicate_groups(views, [read_columns(views, name) for name in views.names]):
        numbers[rows] = rows[0]
    return numbers
