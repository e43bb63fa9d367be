"""NaN or infinity in a row that is not missing: kept, refused with its place, or masked."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from viewgap.data.rows import values as values_module
from viewgap.data.validation import as_viewset
from viewgap.data.viewset import ViewSet
from viewgap.errors import ViewError


@given(
    n=st.integers(1, 12),
    d=st.integers(2, 5),
    bad=st.sampled_from([np.nan, np.inf, -np.inf]),
    dtype=st.sampled_from([np.float16, np.float32, np.float64]),
    chunk=st.integers(1, 200),
    as_sparse=st.booleans(),
    data=st.data(),
)
def test_every_position(
    n: int, d: int, bad: float, dtype: Any, chunk: int, as_sparse: bool, data: Any
) -> None:
    row, column = data.draw(st.integers(0, n - 1)), data.draw(st.integers(0, d - 1))
    array = np.ones((n, d), dtype=dtype)
    array[row, column] = bad
    held = sparse.csr_array(array) if as_sparse and dtype != np.float16 else array
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(values_module, "CHUNK_BYTES", chunk)
        place = rf"'a': 1 (NaN|infinite) .* row id {row}, column {column}, value"
        with pytest.raises(ViewError, match=place):
            as_viewset({"a": held}, nan="error")
        if np.isnan(bad):
            assert as_viewset({"a": held}).n_missing_values == {"a": 1}
        else:
            with pytest.raises(ViewError, match=place):
                as_viewset({"a": held})
        views = as_viewset({"a": held}, nan="missing_view")
    assert views.n_missing_values == {"a": 0}
    assert views.observed[:, 0].tolist() == [i != row for i in range(n)]
    assert np.isfinite(views.rows("a")).all()


def test_counts_all_and_names_ids_and_columns() -> None:
    array = np.ones((5, 3))
    array[1, 2] = array[3, 0] = array[3, 1] = np.nan
    frame = pd.DataFrame(array, index=list("abcde"), columns=["p", "q", "r"])
    message = (
        r"'x': 3 NaN values in 2 rows .* row id b, column 2 \('r'\).*nan='mean'.*nan='missing_"
    )
    with pytest.raises(ViewError, match=message):
        as_viewset({"x": frame}, nan="error")
    with pytest.raises(ViewError, match=message):
        as_viewset(as_viewset({"x": frame}), nan="error")


def test_a_row_of_nan_is_a_missing_view_but_a_row_of_infinity_is_not() -> None:
    assert not ViewSet({"a": [[np.nan, np.nan]]}).observed.any()
    assert not ViewSet({"a": sparse.csr_array([[np.nan, np.nan]])}).observed.any()
    for row in ([np.inf, np.inf], [np.nan, np.inf]):
        with pytest.raises(ViewError, match="infinite"):
            ViewSet({"a": [row]})
