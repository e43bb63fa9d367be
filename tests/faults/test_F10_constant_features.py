"""F10: a constant feature becomes exactly 0 with scale 1, and disturbs nothing else."""

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from viewgap.data.preprocessing import Standardiser
from viewgap.data.viewset import ViewSet


@pytest.mark.parametrize("value", [0.0, 0.1, -1e-30, 1 / 3, 12345.678, 1e30])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("as_sparse", [False, True])
def test_constant_column(value: float, dtype: Any, as_sparse: bool) -> None:
    rng = np.random.default_rng(0)
    free = rng.normal(size=(1001, 2)).astype(dtype)
    array = np.hstack([free[:, :1], np.full((1001, 1), value, dtype), free[:, 1:]])
    with np.errstate(all="raise"):
        views = ViewSet({"a": sparse.csr_array(array) if as_sparse else array})
        scaler = Standardiser.fit(views)
        block = scaler.apply(0, views.rows("a"), views.observed[:, 0])
    assert scaler.scale[0][1] == 1
    assert (block[:, 1] == 0).all()
    dropped = ViewSet({"a": free})
    without = Standardiser.fit(dropped)
    assert np.array_equal(
        block[:, [0, 2]], without.apply(0, dropped.rows("a"), dropped.observed[:, 0])
    )


def test_one_row_makes_every_feature_constant() -> None:
    views = ViewSet({"a": [[3.0, -2.0]]})
    scaler = Standardiser.fit(views)
    assert scaler.scale[0].tolist() == [1, 1]
    assert scaler.apply(0, views.rows("a"), views.observed[:, 0]).tolist() == [[0, 0]]
