"""HDF5 datasets as views: the same answers as arrays in memory, read row by row."""

import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from viewgap import methods
from viewgap.data.preprocessing import Standardiser
from viewgap.data.rows import values as values_module
from viewgap.data.rows.values import LazyRows, is_dataset
from viewgap.data.validation import as_viewset
from viewgap.data.viewset import ViewSet
from viewgap.errors import DataFileError, ViewError

N = 40
RNG = np.random.default_rng(0)
ARRAYS = {
    "whole": RNG.normal(size=(N, 5)).astype(np.float32),
    "packed": RNG.normal(size=(N, 3)),
    "bytes": RNG.integers(0, 255, size=(N, 4)).astype(np.uint8),
}
ARRAYS["whole"][[3, 17]] = np.nan


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    path = tmp_path_factory.mktemp("hdf5") / "data.h5"
    with h5py.File(path, "w") as target:
        target["views/whole"] = ARRAYS["whole"]
        target.create_dataset("views/packed", data=ARRAYS["packed"], chunks=(7, 2), compression=1)
        target["views/bytes"] = ARRAYS["bytes"]
        target["flat"] = np.ones(N)
        target["text"] = [["a"]] * N
        target["complex"] = np.ones((N, 1), dtype=complex)
        target["deep"] = np.ones((N, 2, 2))
        target["no_columns"] = np.ones((N, 0))
        target["nothing"] = h5py.Empty("f8")
    with h5py.File(path, "r") as source:
        yield source


@pytest.fixture
def views(file: Any, monkeypatch: pytest.MonkeyPatch) -> ViewSet:
    monkeypatch.setattr(values_module, "CHUNK_BYTES", 100)  # a few rows
    return as_viewset(file["views"])  # a group is a mapping of datasets


@pytest.fixture
def expected() -> ViewSet:
    return ViewSet({name: ARRAYS[name] for name in sorted(ARRAYS)})


@pytest.mark.parametrize("name", ARRAYS)
@given(rows=st.lists(st.integers(-N, N - 1), max_size=2 * N))
def test_rows_come_in_the_order_asked_for(file: Any, name: str, rows: list[int]) -> None:
    found = LazyRows(file["views"][name])[rows]
    np.testing.assert_array_equal(found, ARRAYS[name][np.array(rows, dtype=int)])
    assert found.dtype == ARRAYS[name].dtype


@pytest.mark.parametrize("rows", [slice(None), slice(5, 30, 4), slice(9, 2, -1), np.arange(N) > 30])
def test_slices_and_booleans(file: Any, rows: Any) -> None:
    lazy = LazyRows(file["views/packed"])
    np.testing.assert_array_equal(lazy[rows], ARRAYS["packed"][rows])
    np.testing.assert_array_equal(np.asarray(lazy), ARRAYS["packed"])
    assert np.asarray(lazy, dtype=np.float32).dtype == np.float32
    with pytest.raises(ValueError, match="without a copy"):
        lazy.__array__(copy=False)
    with pytest.raises(IndexError, match="within the 40 rows"):
        lazy[[N]]


def test_a_view_set_of_datasets_is_that_of_arrays(views: ViewSet, expected: ViewSet) -> None:
    assert (views.names, views.dims, len(views)) == (expected.names, expected.dims, N)
    assert not views.observed[[3, 17], views.names.index("whole")].any()
    np.testing.assert_array_equal(views.observed, expected.observed)
    np.testing.assert_array_equal(views.to_array(), expected.to_array())
    some = np.array([30, 3, 3, 8])
    for name in views.names:
        assert not views.is_sparse(name)
        assert isinstance(views.stored(name), LazyRows)
        np.testing.assert_array_equal(views.rows(name, some), expected.rows(name, some))
        np.testing.assert_array_equal(views[some].stored(name), expected[some].stored(name))
    again = ViewSet({name: views.stored(name) for name in views.names})
    np.testing.assert_array_equal(again.to_array(), expected.to_array())


def test_scaling_to_the_bit(views: ViewSet, expected: ViewSet) -> None:
    rows = RNG.permutation(N)[:30]
    found, wanted = (Standardiser.fit(each, rows) for each in (views, expected))
    for part in ("mean", "scale"):
        for mine, its in zip(getattr(found, part), getattr(wanted, part), strict=True):
            np.testing.assert_array_equal(mine, its)


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("scsd", {"max_epochs": 2, "device": "cpu", "random_state": 0}),
        ("late_fusion_ridge", {"random_state": 0}),
        ("imputed_logistic", {}),
    ],
)
def test_methods_predict_the_same_bits(
    views: ViewSet, expected: ViewSet, method: str, settings: dict[str, Any]
) -> None:
    labels = (ARRAYS["packed"][:, :2] > 0).astype(float)
    answers = []
    for each in (views, expected):
        model = methods.get(method)(**settings).fit(each[5:], labels[5:])
        answers.append(model.predict_proba(each))
    np.testing.assert_array_equal(*answers)


def test_rows_travel_to_other_processes_as_arrays(views: ViewSet, expected: ViewSet) -> None:
    for some in (slice(None), [7, 2, 3]):
        copy = pickle.loads(pickle.dumps(views[some]))
        assert isinstance(copy.stored("whole"), np.ndarray)
        np.testing.assert_array_equal(copy.to_array(), expected[some].to_array())


def test_one_dataset_cut_by_columns(file: Any) -> None:
    columns = {"first": slice(None, 2), "last": slice(-1, None), "numbers": [1, 2]}
    cut = as_viewset(file["views/packed"], views=columns)
    assert cut.dims == (2, 1, 2)
    assert isinstance(cut.stored("first"), LazyRows)
    for name, wanted in columns.items():
        np.testing.assert_array_equal(cut.rows(name, dtype=float), ARRAYS["packed"][:, wanted])
    for scattered in ([0, 2], slice(None, None, 2), slice(None, None, -1)):
        with pytest.raises(ViewError, match=r"view 'a': .* must follow one another"):
            as_viewset(file["views/packed"], views={"a": scattered})
    with pytest.raises(ViewError, match=r"one 2-D table, found shape \(40, 2, 2\)"):
        as_viewset(file["deep"], views={"a": slice(2)})


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("flat", r"view 'a': expected \(samples, features\), found shape \(40,\); reshape"),
        ("deep", r"view 'a': .* found shape \(40, 2, 2\)"),
        ("text", "view 'a': expected numbers, found dtype object"),
        ("complex", "view 'a': expected numbers, found dtype complex128"),
        ("no_columns", "view 'a': no columns"),
        ("nothing", r"view 'a': .* found shape \(\)"),
    ],
)
def test_datasets_that_are_no_views(file: Any, name: str, message: str) -> None:
    with pytest.raises(ViewError, match=message):
        ViewSet({"a": file[name], "b": np.ones((N, 1))})
    with pytest.raises(ViewError, match="same number of rows, found a: 40, b: 3"):
        ViewSet({"a": file["views/whole"], "b": np.ones((3, 1))})


def test_a_nan_is_found_where_it_is(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as target:
        target["x"] = np.ones((N, 2))
        target["x"][31, 1] = np.nan
        with pytest.raises(ViewError, match=r"view 'a': 1 NaN .* row id 31, column 1"):
            ViewSet({"a": target["x"]}, nan="error")
        assert ViewSet({"a": target["x"]}).n_missing_values == {"a": 1}
        assert not ViewSet({"a": target["x"]}, nan="missing_view").observed[31, 0]


def test_a_closed_file_is_named(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as target:
        target["x"] = np.ones((N, 2))
        views = ViewSet({"a": target["x"]})
    with pytest.raises(ViewError, match=r"a\.h5: the file was closed.*keep it open"):
        views.rows("a")


def test_damage_met_while_reading_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as target:
        target.create_dataset("x", data=np.ones((N, 2), dtype=int), compression=1)
        start = target["x"].id.get_chunk_info(0).byte_offset
    content = bytearray(path.read_bytes())
    content[start : start + 20] = bytes(20)
    path.write_bytes(content)
    with h5py.File(path) as source:
        views = ViewSet({"a": source["x"]})
        with pytest.raises(DataFileError, match=r"a\.h5: the file is damaged"):
            views.rows("a")


def test_h5py_is_not_imported_to_tell_a_type(monkeypatch: pytest.MonkeyPatch, file: Any) -> None:
    dataset = file["flat"]
    assert is_dataset(dataset)
    monkeypatch.setitem(sys.modules, "h5py", None)
    assert not is_dataset(dataset)
    monkeypatch.delitem(sys.modules, "h5py")
    assert not is_dataset(np.ones(3))
    assert "h5py" not in sys.modules
