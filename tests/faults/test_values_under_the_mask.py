"""Whatever lies under a False mask changes no bit of anything."""

import warnings
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from viewgap.data.preprocessing import Standardiser
from viewgap.data.splits import amputate, make_fold, warn_shared_rows
from viewgap.data.viewset import ViewSet

N = 30
FILLS = [np.nan, np.inf, -np.inf, 1e30, 1e300, 0.0]


def everything(fill: float, kind: str) -> list[Any]:
    rng = np.random.default_rng(0)
    observed = rng.random((N, 2)) < 0.6
    arrays: list[Any] = [rng.normal(size=(N, 4)), rng.normal(size=(N, 3)).astype(np.float32)]
    labels = rng.integers(0, 2, size=(N, 3))
    with np.errstate(over="ignore"):
        for array, seen in zip(arrays, observed.T, strict=True):
            array[~seen] = fill
            array[~seen, 0] = -fill  # a mixture too
    if kind == "sparse":
        arrays = [sparse.csr_array(array) for array in arrays]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        views = ViewSet({"a": arrays[0], "b": arrays[1]}, observed)
        scaler = Standardiser.fit(views)
        results = [views.observed, views.to_array(), *scaler.mean, *scaler.scale]
        for part in (
            views,
            views[::2],
            views[[5, 1, 5]],
            make_fold(views, labels).split(views, labels)[0][0],
        ):
            for j, name in enumerate(views.names):
                block = part.rows(name)
                results += [block, scaler.apply(j, block, part.observed[:, j])]
                raw = np.where(part.observed[:, [j]], block, np.float32(min(fill, 1e30)))
                results.append(scaler.apply(j, raw, part.observed[:, j]))
        results.append(amputate(views, labels)[0].to_array())
        results.append(np.array(warn_shared_rows(views, [0, 1, 2], [3, 4])))
    return results


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("fill", FILLS)
def test_no_bit_changes(fill: float, kind: str) -> None:
    expected, found = everything(7.0, kind), everything(fill, kind)
    for first, second in zip(expected, found, strict=True):
        assert first.tobytes() == second.tobytes()
