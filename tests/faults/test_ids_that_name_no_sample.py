"""F13, F14: ids that are absent, cut or changed on the way are refused, in whatever holds them."""

from __future__ import annotations

import zipfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from viewgap.data import as_labels, as_viewset, read_data
from viewgap.data.viewset import ViewSet
from viewgap.errors import LabelError, ViewError, ViewgapError, ViewgapWarning

VALUES = np.arange(6.0).reshape(3, 2)
LABELS = np.array([[1], [0], [1]])
LONG = 2**53


@pytest.mark.parametrize(
    "ids",
    [
        [1.0, np.nan, 3.0],
        ["a", " ", "c"],
        ["a", None, "c"],
        np.array(["2020-01-01", "NaT", "2020-01-03"], dtype="M8[ns]"),
        pd.array([1, None, 3], dtype="Int64"),
        pd.array([1.5, None, 3], dtype="Float64"),
        pd.Categorical(["a", None, "c"]),
    ],
)
def test_absent_ids(ids: Any) -> None:
    with pytest.raises(ViewError, match="some sample ids are missing, first that of row 1"):
        ViewSet({"a": VALUES}, sample_ids=ids)
    with pytest.raises(ViewError, match="view 'a': some sample ids are missing"):
        as_viewset({"a": pd.DataFrame(VALUES, index=ids)})


def test_numbers_beside_text_stay_numbers() -> None:
    views = ViewSet({"a": VALUES}, sample_ids=[1, "b", 2])
    assert views.sample_ids.tolist() == [1, "b", 2]
    labels = pd.DataFrame(LABELS, index=[2, "b", 1])
    assert as_labels(labels.iloc[::-1], views).as_float().ravel().tolist() == [1, 0, 1]


def test_long_numbers_that_became_floats() -> None:
    # As floats, the ids of three samples are those of two; pandas would join the wrong ones.
    exact = pd.DataFrame(VALUES, index=[LONG, LONG + 1, LONG + 3])
    rounded = pd.DataFrame(VALUES, index=[float(LONG), float(LONG + 2), float(LONG + 4)])
    with pytest.raises(ViewError, match=r"view 'b'.*stored as a float.*whole numbers or text"):
        as_viewset({"a": exact, "b": rounded})
    labels = pd.DataFrame(LABELS, index=rounded.index)
    with pytest.raises(LabelError, match="labels: the sample id 9007199254740992 is stored as"):
        as_labels(labels, as_viewset({"a": exact}))


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_decimal_numbers_as_ids_keep_their_digits(library: str) -> None:
    module = pytest.importorskip(library)
    pytest.importorskip("narwhals")
    table = module.table if library == "pyarrow" else module.DataFrame
    ids = [Decimal("12345678901234567890"), Decimal("12345678901234567899")]
    one = table({"id": ids, "x": [1.0, 2.0]})
    other = table({"id": [ids[1]], "x": [5.0]})
    views = as_viewset({"a": one, "b": other}, id_column="id")
    assert views.sample_ids.tolist() == list(map(int, ids))
    np.testing.assert_array_equal(views.observed, [[True, False], [True, True]])


def test_an_index_beside_an_id_column_is_named() -> None:
    frame = pd.DataFrame({"sid": ["p", "q"], "x": [1.0, 2.0]}, index=pd.Index([30, 40], name="age"))
    with pytest.warns(ViewgapWarning, match=r"index \('age'\) is not read.*reset_index"):
        assert as_viewset({"a": frame}, id_column="sid").dims == (1,)
    assert as_viewset({"a": frame.reset_index()}, id_column="sid").dims == (2,)


# ---------------------------------------------------------------------- files


def csv(folder: Path, ids: Any) -> Path:
    lines = [f"{sample},{row}" for row, sample in enumerate(ids)]
    (folder / "a.csv").write_text("\n".join(["id,x", *lines, ""]))
    return folder


def npy(folder: Path, ids: Any) -> Path:
    np.save(folder / "a.npy", VALUES)
    (folder / "a.ids.txt").write_text("\n".join(map(str, ids)) + "\n")
    return folder


def npz(folder: Path, ids: Any) -> Path:
    np.savez(folder / "a.npz", a=VALUES, labels=LABELS, sample_ids=ids)
    return folder / "a.npz"


def hdf5(folder: Path, ids: Any) -> Path:
    h5py = pytest.importorskip("h5py")
    stored = np.array(ids)
    with h5py.File(folder / "a.h5", "w") as file:
        file["views/a"], file["labels"] = VALUES, LABELS
        file["sample_ids"] = stored.astype("S") if stored.dtype.kind == "U" else stored
    return folder / "a.h5"


def h5ad(folder: Path, ids: Any) -> Path:
    h5py = pytest.importorskip("h5py")
    stored = np.array(ids)
    with h5py.File(folder / "a.h5ad", "w") as file:
        file["X"] = VALUES
        for table, names in (("obs", stored), ("var", np.array(["x", "y"]))):
            file[f"{table}/_index"] = names.astype("S") if names.dtype.kind == "U" else names
            file[table].attrs["_index"] = "_index"
    return folder / "a.h5ad"


def parquet(folder: Path, ids: Any) -> Path:
    pytest.importorskip("pyarrow")
    pd.DataFrame({"id": ids, "x": VALUES[:, 0]}).to_parquet(folder / "a.parquet", index=False)
    return folder


@pytest.mark.parametrize("write", [csv, npy, npz, hdf5, h5ad, parquet])
@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (["p", "NaN", "q"], "row 2.* has 'NaN', which stands for something absent"),
        (["NA", "p", "q"], "row 1.* has 'NA'"),
        (["1.23457E+17", "p", "q"], "'1.23457E\\+17', a long number of which"),
    ],
)
def test_ids_in_text(tmp_path: Path, write: Any, ids: Any, message: str) -> None:
    with pytest.raises(ViewgapError, match=message):
        read_data(write(tmp_path, ids))


@pytest.mark.parametrize("write", [csv, npy, npz, hdf5, h5ad, parquet])
def test_ids_of_plates_and_genes_are_ids(tmp_path: Path, write: Any) -> None:
    for ids in (["1E05", "2E10", "B3"], ["INF", "1.5", "1.5b"], ["007", "7", "7.0"]):
        assert read_data(write(tmp_path, ids)).views.sample_ids.tolist() == ids


@pytest.mark.parametrize("write", [npz, hdf5, h5ad])
@pytest.mark.parametrize(
    "ids", [[1.0, np.nan, 3.0], [1.5, 2.0, 3.0], [True, False, True], [[1], [2], [3]]]
)
def test_ids_that_are_no_whole_numbers(tmp_path: Path, write: Any, ids: Any) -> None:
    with pytest.raises(ViewgapError, match=r"sample_ids|one value per row|ids of 'obs'"):
        read_data(write(tmp_path, ids))


@pytest.mark.parametrize("write", [npz, hdf5])
def test_whole_numbers_that_became_floats_are_whole(tmp_path: Path, write: Any) -> None:
    ids = read_data(write(tmp_path, [3.0, 1.0, 2.0])).views.sample_ids
    assert ids.dtype.kind == "i"
    assert ids.tolist() == [3, 1, 2]


def test_an_archive_with_two_arrays_of_one_name(tmp_path: Path) -> None:
    path = npz(tmp_path, ["p", "q", "r"])
    other = tmp_path / "other.npy"
    np.save(other, VALUES + 100)
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.write(other, "a.npy")
    with pytest.raises(ViewgapError, match=r"several arrays are named 'a.npy'"):
        read_data(path)


def test_ids_are_no_view(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", VALUES)
    np.save(tmp_path / "sample_ids.npy", np.array([[7], [8], [9]]))
    with pytest.raises(ViewError, match="does 'sample_ids' hold the ids of the samples"):
        read_data(tmp_path)
    (tmp_path / "sample_ids.npy").rename(tmp_path / "sample_ids_view.npy")
    assert read_data(tmp_path).views.names == ("a", "sample_ids_view")


# ---------------------------------------------------------------------- Parquet


def test_decimal_ids_of_a_parquet_file_keep_their_digits(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet as files

    ids = ["12345678901234567890", "12345678901234567899"]
    numbers = pyarrow.array(list(map(Decimal, ids)), pyarrow.decimal128(38, 0))
    files.write_table(pyarrow.table({"id": numbers, "x": [1.0, 2.0]}), tmp_path / "a.parquet")
    (tmp_path / "labels.csv").write_text(f"id,l\n{ids[1]},1\n{ids[0]},0\n")
    raw = read_data(tmp_path)
    assert raw.views.sample_ids.tolist() == ids[::-1]
    np.testing.assert_array_equal(raw.views.rows("a"), [[2], [1]])


def test_long_float_ids_of_a_parquet_file(tmp_path: Path) -> None:
    with pytest.raises(ViewgapError, match="the sample id 9007199254740992 is stored as a float"):
        read_data(parquet(tmp_path, [float(LONG), 1.0, 2.0]))


def test_an_index_of_a_parquet_file_beside_an_id_column(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    index = pd.Index([30, 40], name="age")
    frame = pd.DataFrame({"sid": ["p", "q"], "x": [1.0, 2.0]}, index=index)
    frame.to_parquet(tmp_path / "a.parquet")
    with pytest.warns(ViewgapWarning, match="the index 'age' is not read: 'sid' holds the sample"):
        assert read_data(tmp_path, id_column="sid").views.feature_names == {"a": ("x",)}
    wide = read_data(tmp_path / "a.parquet", id_column="sid", views={"v": ["x", "age"]})
    assert wide.views.feature_names == {"v": ("age", "x")}
    np.testing.assert_array_equal(wide.views.rows("v"), [[30, 1], [40, 2]])
