"""Prepared rows: the same numbers whichever rows are read together, and nothing of missing ones."""

import numpy as np
import pytest
from scipy import sparse

from viewgap.data.preprocessing import PreparedRows, Standardiser
from viewgap.data.rows import values
from viewgap.data.viewset import ViewSet


def make_views() -> ViewSet:
    rng = np.random.default_rng(0)
    observed = rng.random((30, 3)) < 0.6
    observed[:, 2] = True
    dense = rng.normal(2.0, 3.0, size=(30, 4))
    dense[~observed[:, 0]] = 1e30  # never read
    counts = np.round(rng.random((30, 6)) * 3)
    blocks = {"a": dense, "b": sparse.csr_array(counts), "c": rng.normal(size=(30, 2))}
    return ViewSet(blocks, observed=observed)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("features", ["plain", "auto"])
def test_rows_are_standardised_and_zero_where_a_view_is_missing(
    features: str, dtype: type[np.floating]
) -> None:
    views = make_views()
    scaler = Standardiser.fit(views, features=features)
    reader = PreparedRows(views, scaler, dtype)
    for view, name in enumerate(views.names):
        found = reader.read(view)
        observed = views.observed[:, view]
        assert found.dtype == dtype
        np.testing.assert_array_equal(found[~observed], 0.0)
        expected = scaler.apply(view, views.rows(name, dtype=dtype), observed)
        np.testing.assert_array_equal(found, expected)


def test_without_a_preparation_rows_are_as_they_are() -> None:
    views = make_views()
    for view, name in enumerate(views.names):
        np.testing.assert_array_equal(PreparedRows(views).read(view), views.rows(name))


def test_a_row_does_not_depend_on_the_rows_read_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    views = make_views()
    reader = PreparedRows(views, Standardiser.fit(views, features="auto"))
    whole = [reader.read(view) for view in range(3)]
    monkeypatch.setattr(values, "CHUNK_BYTES", 1)  # one row at a time
    rows = np.array([7, 0, 29, 3, 3])
    for view in range(3):
        np.testing.assert_array_equal(reader.read(view), whole[view])
        np.testing.assert_array_equal(reader.read(view, rows), whole[view][rows])
        out = np.full((5, views.dims[view]), 9, dtype=np.float32)
        assert reader.read(view, rows, out) is out
        np.testing.assert_array_equal(out, whole[view][rows])
        assert reader.read(view, rows[:0]).shape == (0, views.dims[view])
