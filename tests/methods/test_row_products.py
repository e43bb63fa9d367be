"""Products of matrices whose rows have the same bits whatever rows are beside them."""

from __future__ import annotations

import numpy as np
import pytest

from viewgap.methods.linalg.blocks import row_products


@pytest.mark.parametrize(("columns", "labels"), [(1, 1), (3, 2), (70, 6), (700, 40)])
def test_bits_do_not_depend_on_the_other_rows(columns: int, labels: int) -> None:
    rng = np.random.default_rng(0)
    rows, weights = rng.normal(size=(150, columns)), rng.normal(size=(columns, labels))
    whole = row_products(rows, weights)
    np.testing.assert_allclose(whole, rows @ weights, rtol=1e-10, atol=1e-10)
    for n in (1, 2, 23, 24, 25, 49, 100):
        some = rng.permutation(150)[:n]
        assert np.array_equal(row_products(rows[some], weights), whole[some])


def test_no_rows() -> None:
    assert row_products(np.zeros((0, 3)), np.ones((3, 2))).shape == (0, 2)
