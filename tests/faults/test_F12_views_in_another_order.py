"""F12: views are matched by name; an extra one is refused, an absent one counts as missing."""

import itertools

import numpy as np
import pytest

from viewgap.data.validation import as_viewset, match_views
from viewgap.errors import ViewError, ViewgapWarning

ARRAYS = {"a": np.full((2, 1), 1.0), "b": np.full((2, 2), 2.0), "c": np.full((2, 3), 3.0)}
NAMES, DIMS = ("a", "b", "c"), (1, 2, 3)


@pytest.mark.parametrize("order", list(itertools.permutations("abc")))
def test_every_order(order: tuple[str, ...]) -> None:
    found = match_views(as_viewset({name: ARRAYS[name] for name in order}), NAMES, DIMS)
    assert found.names == NAMES
    assert found.to_array().tolist() == [[1, 2, 2, 3, 3, 3]] * 2


def test_extra_view() -> None:
    with pytest.raises(ViewError, match=r"view 'd' was not there .* it knows: a, b, c"):
        match_views(as_viewset(ARRAYS | {"d": np.ones((2, 1))}), NAMES, DIMS)


@pytest.mark.parametrize("absent", ["a", "b", "c"])
def test_absent_view(absent: str) -> None:
    given = {name: array for name, array in ARRAYS.items() if name != absent}
    with pytest.warns(ViewgapWarning, match=f"treated as missing: {absent}"):
        found = match_views(as_viewset(given), NAMES, DIMS)
    expected = as_viewset({**ARRAYS, absent: np.full_like(ARRAYS[absent], np.nan)})
    assert np.array_equal(found.to_array(), expected.to_array(), equal_nan=True)
    assert np.array_equal(found.observed, expected.observed)
