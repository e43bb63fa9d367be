"""F22: checks, scaling and gathering work in chunks; no full copy in float64 is made."""

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from viewgap.data import values as values_module
from viewgap.data.folds import make_fold, warn_shared_rows
from viewgap.data.scaling import Standardiser
from viewgap.data.viewset import ViewSet

N, D = 8000, 512
CHUNK = 2**19


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values_module, "CHUNK_BYTES", CHUNK)


def peak(work: Callable[[], Any]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_work_on_a_large_view(dtype: Any) -> None:
    array = np.random.default_rng(0).integers(0, 255, size=(N, D)).astype(dtype)
    observed = np.arange(N)[:, None] % 3 > 0
    whole = array.nbytes
    in_float64 = N * D * 8  # 33 MB
    allowance = 6 * CHUNK + 40 * N
    assert allowance < in_float64 / 8
    assert peak(lambda: ViewSet({"a": array}, observed)) < allowance
    views = ViewSet({"a": array}, observed)
    assert peak(lambda: Standardiser.fit(views)) < allowance
    assert peak(lambda: Standardiser.fit(views[::2])) < allowance
    assert peak(lambda: views[::2].with_observed(observed[::2])) < allowance
    labels = np.ones((N, 2))
    views = ViewSet({"a": array, "b": array}, np.hstack([observed, observed]))
    assert peak(lambda: make_fold(views, labels).split(views, labels)) < allowance + 20 * N
    result = N * D * 4
    assert peak(lambda: views.rows("a")) < result + allowance
    assert (
        peak(lambda: warn_shared_rows(views, range(0, 2000), range(2000, 4000)))
        < allowance + 400 * N
    )
    assert array.nbytes == whole


def test_nan_rows_are_found_without_a_copy() -> None:
    array = np.zeros((N, D), dtype=np.float32)
    array[::2] = np.nan
    assert peak(lambda: ViewSet({"a": array})) < 6 * CHUNK + 40 * N
