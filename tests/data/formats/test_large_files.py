"""Data files whose views may be larger than memory: folders of .npy files, and HDF5."""

import os
import pickle
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from viewgap.cli import run
from viewgap.data.formats import read_data, read_hdf5, read_npy_folder
from viewgap.data.rows.values import LazyRows
from viewgap.errors import DataFileError, LabelError, ViewError, ViewgapError, ViewgapWarning

N = 40
RNG = np.random.default_rng(0)
FIRST = RNG.integers(0, 200, size=(N, 3)).astype(np.uint8)
SECOND = RNG.normal(size=(N, 5)).astype(np.float32)
SECOND[4] = np.nan
LABEL = np.column_stack([FIRST[:, 0] > 100, SECOND[:, 0] > 0]).astype(float)
LABEL[7, 1] = np.nan
WHOLE = {"first": FIRST, "second": SECOND, "labels": LABEL}


def write(folder: Path, kind: str, arrays: dict[str, Any] = WHOLE) -> Path:
    """Write the arrays as .npy files or as one HDF5 file; return what `read_data` takes."""
    if kind == "npy":
        for name, array in arrays.items():
            np.save(folder / f"{name}.npy", array)
        return folder
    path = folder / f"data.{kind}"
    with h5py.File(path, "w") as file:
        file.create_group("views")
        for name, array in arrays.items():
            file["labels" if name == "labels" else f"views/{name}"] = array
    return path


both = pytest.mark.parametrize("kind", ["npy", "h5", "hdf5"])


@both
def test_views_and_labels(tmp_path: Path, kind: str) -> None:
    raw = read_data(write(tmp_path, kind))
    assert raw.views.names == ("first", "second")
    assert isinstance(raw.views.stored("first"), LazyRows)
    assert raw.views.stored("first").dtype == np.uint8
    np.testing.assert_array_equal(raw.views.stored("first"), FIRST)
    np.testing.assert_array_equal(raw.views.stored("second"), SECOND)
    assert raw.views.observed.sum() == 2 * N - 1
    np.testing.assert_array_equal(raw.labels, LABEL)  # type: ignore[arg-type]
    assert raw.label_names == ("label0", "label1")


@both
def test_without_labels_or_with_minus_one(tmp_path: Path, kind: str) -> None:
    path = write(tmp_path, kind, {"first": FIRST})
    assert read_data(path).labels is None
    path = write(tmp_path, kind, {"first": FIRST, "labels": 2 * LABEL - 1})
    with pytest.warns(ViewgapWarning, match="read -1 as 0, absent; where it means unknown"):
        labels = read_data(path).labels
    np.testing.assert_array_equal(labels, LABEL)  # type: ignore[arg-type]


@both
def test_views_above_the_size_limit_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    path = write(tmp_path, kind, {"first": SECOND, "labels": LABEL[:, :1]})
    monkeypatch.setenv("VIEWGAP_MAX_FILE_BYTES", str(8 * N))
    assert read_data(path).views.shape == (N, 5)
    monkeypatch.setenv("VIEWGAP_MAX_FILE_BYTES", str(8 * N - 1))  # labels are read as a whole
    with pytest.raises(DataFileError, match=r"320 bytes, more than the limit"):
        read_data(path)


@both
def test_from_the_command_line(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    data, model = str(write(folder, kind)), str(tmp_path / "model")
    assert run(["fit", data, "--method", "late_fusion_ridge", "--out", model]) == 0
    assert run(["predict", model, data, "--out", str(tmp_path / "predictions.csv")]) == 0
    assert len((tmp_path / "predictions.csv").read_text().splitlines()) == N + 1


@both
@pytest.mark.parametrize(
    ("arrays", "error", "message"),
    [
        ({"a": FIRST, "b": SECOND[:3]}, ViewError, "same number of rows, found a: 40, b: 3"),
        ({"a": FIRST, "b": np.ones(N)}, ViewError, r"view 'b': .* found shape \(40,\); reshape"),
        ({"a": FIRST, "b": np.float64(3)}, ViewError, r"view 'b': .* found shape \(\)"),
        ({"a": np.empty((0, 3))}, ViewError, "view 'a': no samples"),
        ({"a": np.full((N, 2), b"x")}, ViewError, "view 'a': expected numbers, found dtype"),
        ({"a": FIRST, "labels": LABEL[:3]}, LabelError, "40 samples, 3 rows"),
        ({"a": FIRST, "labels": LABEL[:, 0]}, LabelError, r"\(40,\)"),
        ({"a": FIRST, "labels": np.float64(1)}, LabelError, r"\(\)"),
        ({"a": FIRST, "labels": LABEL * 3}, DataFileError, "labels must be 0 and 1"),
        ({"a": FIRST, "labels": np.full((N, 1), b"x")}, DataFileError, "must be numbers"),
        ({"labels": LABEL}, ViewError, "at least one view"),
    ],
)
def test_contents_that_are_refused(
    tmp_path: Path, kind: str, arrays: dict[str, Any], error: Any, message: str
) -> None:
    path = write(tmp_path, kind, arrays)
    with pytest.raises(error, match=message) as caught:
        read_data(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("kind", ["npy", "h5"])
def test_truncated_and_garbage(tmp_path: Path, kind: str) -> None:
    path = write(tmp_path, kind)
    broken = path / "second.npy" if kind == "npy" else path
    content = broken.read_bytes()
    for damage in (b"", bytes(5000), os.urandom(5000), content[:-200], content[:70]):
        broken.write_bytes(damage)
        with pytest.raises(DataFileError, match=r"damaged.*fresh copy") as caught:
            read_data(path)
        assert str(broken) in str(caught.value)


# ---------------------------------------------------------------------- .npy folders


def test_pickles_are_never_loaded(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([[1, "a"]], dtype=object))
    with pytest.raises(DataFileError, match=r"'a\.npy' holds Python objects.*save it again"):
        read_data(tmp_path)
    (tmp_path / "a.npy").write_bytes(pickle.dumps(FIRST))
    with pytest.raises(DataFileError, match=r"a\.npy: the file is damaged"):
        read_data(tmp_path)


@given(data=st.data())
def test_any_damage_to_a_header(tmp_path_factory: Any, data: Any) -> None:
    path = tmp_path_factory.mktemp("broken") / "a.npy"
    np.save(path, FIRST)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, 127))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    try:
        read_data(path.parent)
    except ViewgapError as error:
        assert str(path.parent) in str(error)  # noqa: PT017


def test_folders_that_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match="no data in this folder"):
        read_npy_folder(tmp_path)
    np.save(tmp_path / "a.npy", FIRST)
    with pytest.raises(DataFileError, match="expected a folder"):
        read_npy_folder(tmp_path / "a.npy")
    with pytest.raises(DataFileError, match=r"unknown kind.*a folder with one \.npy"):
        read_data(tmp_path / "a.npy")
    (tmp_path / ".hidden.npy").write_text("")
    read_data(tmp_path)
    (tmp_path / "genes.csv").write_text("id,cat\n0,1\n")
    with pytest.raises(DataFileError, match=r"arrays \(a\.npy\) beside tables .*\(genes\.csv\)"):
        read_data(tmp_path)


# ---------------------------------------------------------------------- HDF5


def test_layouts_that_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["audio"] = FIRST
    with pytest.raises(DataFileError, match=r"a\.h5: expected a group 'views'.*found: audio"):
        read_hdf5(path)
    with h5py.File(path, "w") as file:
        file["views"] = FIRST
    with pytest.raises(DataFileError, match="expected a group 'views'"):
        read_hdf5(path)
    with h5py.File(path, "w") as file:
        file["views/inner/audio"] = FIRST
    with pytest.raises(DataFileError, match="found a group: 'inner'"):
        read_hdf5(path)
    with h5py.File(path, "r+"):
        pass  # a refused file is not kept open
    with pytest.raises(DataFileError, match="does not exist"):
        read_hdf5(tmp_path / "b.h5")


def test_values_in_other_files_are_not_read(tmp_path: Path) -> None:
    other = write(tmp_path, "h5")
    path = tmp_path / "a.h5"
    layout = h5py.VirtualLayout(shape=FIRST.shape, dtype=FIRST.dtype)
    layout[:] = h5py.VirtualSource(other, "views/first", shape=FIRST.shape)
    raw = [(tmp_path / "raw.bin", 0, h5py.h5f.UNLIMITED)]
    for link in (h5py.ExternalLink(other, "views/first"), h5py.SoftLink("/elsewhere"), None, raw):
        with h5py.File(path, "w") as file:
            group = file.create_group("views")
            if link is None:
                group.create_virtual_dataset("first", layout)
            elif link is raw:
                group.create_dataset("first", FIRST.shape, FIRST.dtype, external=raw)
            else:
                group["first"] = link
        with pytest.raises(DataFileError, match=r"a\.h5: .*(leads elsewhere|in another file)"):
            read_hdf5(path)


def test_a_row_that_cannot_be_held_is_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:  # chunks that were never written
        file.create_dataset("views/a", (10, 10**11), "f8", chunks=(1, 1000))
    with pytest.raises(DataFileError, match="800,000,000,000 bytes, more than the limit"):
        read_hdf5(tmp_path / "a.h5")


def test_h5py_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, "h5")
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(DataFileError, match=r"data\.h5: .* needs the package h5py: pip install"):
        read_data(path)
