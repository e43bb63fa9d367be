"""Checks, scaling and gathering work in chunks; no full copy in float64 is made.

Views in a file (memory maps, HDF5 datasets) are never read whole.
"""

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from scipy import sparse

from viewgap.data.formats import read_data
from viewgap.data.preprocessing import Standardiser
from viewgap.data.preprocessing.features import KNOTS
from viewgap.data.rows import values as values_module
from viewgap.data.splits import amputate, make_fold, warn_shared_rows
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


@pytest.mark.slow
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
    more = allowance + 6 * CHUNK + 20 * KNOTS * D  # some columns are sorted; knots are kept
    assert more < in_float64 / 3
    assert peak(lambda: Standardiser.fit(views, features="auto")) < more
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


def write_views(folder: Path, kind: str, **views: np.ndarray) -> Path:
    """Write a folder of .npy files or an HDF5 file; return what `read_data` takes."""
    if kind == "npy":
        for name, values in views.items():
            np.save(folder / f"{name}.npy", values)
        return folder
    with h5py.File(folder / "data.h5", "w") as file:
        for name, values in views.items():
            file.create_dataset(f"views/{name}", data=values, chunks=(100, D))
    return folder / "data.h5"


@pytest.mark.slow
@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_a_sparse_view_never_becomes_dense(scale: float) -> None:
    """Term counts, and the same weighted: by direction and by rank."""
    rng = np.random.default_rng(0)
    counts = sparse.random_array((N, 4 * D), density=0.002, rng=rng, format="csr")
    counts.data = np.ceil(9 * counts.data) * scale
    views = ViewSet({"a": counts})
    dense_in_bytes = N * 4 * D
    allowed = 6 * CHUNK + 20 * KNOTS * 4 * D
    assert allowed < dense_in_bytes
    assert peak(lambda: Standardiser.fit(views, features="auto")) < allowed


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["npy", "h5"])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_views_in_files(tmp_path: Path, kind: str, dtype: Any) -> None:
    array = np.random.default_rng(0).integers(0, 255, size=(N, D)).astype(dtype)
    path = write_views(tmp_path, kind, a=array, b=array[::-1])
    del array
    # Less than either view, in bytes as they lie in the file.
    allowance = 6 * CHUNK + 40 * N
    assert allowance < N * D
    assert peak(lambda: read_data(path)) < allowance
    views, labels = read_data(path).views, np.eye(2)[np.arange(N) % 2]
    assert peak(lambda: views[::-2].with_observed(np.ones((N // 2, 2)))) < allowance
    assert peak(lambda: amputate(views, labels)) < allowance
    fold = make_fold(views, labels)
    assert peak(lambda: fold.split(views, labels)) < allowance
    train = fold.split(views, labels).train[0]
    assert peak(lambda: Standardiser.fit(train)) < allowance
    more = allowance + 6 * CHUNK + 20 * KNOTS * D
    assert peak(lambda: Standardiser.fit(train, features="auto")) < more
    assert peak(lambda: train.rows("a", np.arange(0, 4000, 31))) < allowance
    assert peak(lambda: train.rows("a")) < len(train) * D * 4 + allowance
    assert peak(lambda: train[:100].__getstate__()) < allowance


class Spy:
    """Stands in for `h5py.Dataset.__getitem__`, and remembers the most rows of one read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows = self.total = 0
        read = h5py.Dataset.__getitem__

        def counted(dataset: Any, *arguments: Any, **options: Any) -> Any:
            found = read(dataset, *arguments, **options)
            self.rows = max(self.rows, len(found))
            self.total += len(found)
            return found

        def refused(*arguments: Any, **options: Any) -> Any:
            raise AssertionError("a read that is not by rows")

        monkeypatch.setattr(h5py.Dataset, "__getitem__", counted)
        for other in ("__array__", "__iter__", "astype", "read_direct"):
            monkeypatch.setattr(h5py.Dataset, other, refused)


def test_a_dataset_is_never_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    n, most = 500, 20
    rng = np.random.default_rng(0)
    array = rng.normal(size=(n, D)).astype(np.float32)
    path = write_views(tmp_path, "h5", a=array, b=array[::-1])
    labels = np.eye(2)[np.arange(n) % 2]
    monkeypatch.setattr(values_module, "CHUNK_BYTES", most * D * 4)
    spy = Spy(monkeypatch)
    views = read_data(path).views
    assert (spy.rows, spy.total) == (most, 2 * n)  # the check for NaN, once
    less, _ = amputate(views, labels)
    splits = make_fold(less, labels).split(less, labels)
    assert views[::2].select(["b"]).with_missing_view("c", 3).shape == (n // 2, D + 3)
    assert spy.total == 2 * n  # nothing of this reads a value
    Standardiser.fit(splits.train[0])
    Standardiser.fit(views)
    Standardiser.fit(splits.train[0], features="auto")
    warn_shared_rows(views, range(0, n, 2), range(1, n, 2))
    views.to_array()
    views.rows("a", rng.permutation(n))
    assert spy.rows == most
    before = spy.total
    splits.test[0].rows("b", [5, 3, 5])
    assert spy.total <= before + 2
    assert len(views.stored("a")[:]) == spy.rows == n  # the spy does see a whole read
