"""MATLAB cells, and views compared with what they should hold."""

from __future__ import annotations

from typing import Any

import numpy as np

from viewgap.data.viewset import ViewSet


def cell(*items: Any) -> np.ndarray[Any, Any]:
    """Return a MATLAB cell (1, k) for `scipy.io.savemat`."""
    array = np.empty((1, len(items)), dtype=object)
    for k, item in enumerate(items):
        array[0, k] = item
    return array


def same(found: ViewSet, expected: list[list[float]]) -> bool:
    """Whether all views side by side hold these values; NaN where a view or value is missing."""
    return np.array_equal(found.to_array(), np.array(expected, dtype=float), equal_nan=True)
