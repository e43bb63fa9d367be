"""Pickles, bombs and damaged files end in a DataFileError, and nothing is executed."""

import io
import os
import pickle
import re
import struct
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.io
from hypothesis import given
from hypothesis import strategies as st

from viewgap.data.formats import read_data, read_npz, read_six_view, read_table_folder
from viewgap.data.formats.base import size_limit
from viewgap.data.viewset import ViewSet
from viewgap.errors import DataFileError, SettingError, ViewgapError


class _Payload:
    """Makes a file when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.mark),)


def test_pickled_objects_are_never_loaded(tmp_path: Path) -> None:
    mark = tmp_path / "executed"
    array = np.empty((2, 2), dtype=object)
    array[:] = [[_Payload(mark)] * 2] * 2
    np.savez(tmp_path / "a.npz", view0=np.ones((2, 2)), labels=array)
    with pytest.raises(DataFileError, match=r"a\.npz.*'labels\.npy' holds Python objects"):
        read_npz(tmp_path / "a.npz")
    for name in ("b.npz", "b.mat", "c.npz"):
        (tmp_path / name).write_bytes(pickle.dumps(_Payload(mark)))
        with pytest.raises(DataFileError, match="damaged"):
            read_data(tmp_path / name)
    assert not mark.exists()


def npy_header(shape: tuple[int, ...], dtype: str = "<f8") -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        stream, {"descr": dtype, "fortran_order": False, "shape": shape}
    )
    return stream.getvalue()


def test_zip_bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.npz"
    np.savez_compressed(path, view0=np.zeros((1000, 1000)), labels=np.ones((1000, 1)))
    assert path.stat().st_size < 20_000
    assert read_npz(path).views.shape == (1000, 1000)
    monkeypatch.setenv("VIEWGAP_MAX_FILE_BYTES", "1000000")
    with pytest.raises(DataFileError, match=r"a\.npz.*limit of 1,000,000.*VIEWGAP_MAX_FILE_BYTES"):
        read_npz(path)


def test_npz_that_lies_about_sizes(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("view0.npy", npy_header((10**9, 10**9)) + bytes(100))
    with pytest.raises(DataFileError, match="claimed"):
        read_npz(path)
    # More bytes than the directory of the archive says: the rest is never expanded.
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("view0.npy", npy_header((1000, 100)) + bytes(800_000))
    content = path.read_bytes()
    true_size = struct.pack("<I", len(npy_header((1000, 100))) + 800_000)
    assert content.count(true_size) == 2
    path.write_bytes(content.replace(true_size, struct.pack("<I", 200)))
    with pytest.raises(DataFileError, match="damaged"):
        read_npz(path)


def test_npz_of_a_later_zip_version(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, view0=np.ones((2, 2)), labels=np.ones((2, 1)))
    content = bytearray(path.read_bytes())
    content[content.rindex(b"PK\1\2") + 6] = 119  # version needed: 11.9, in the directory
    path.write_bytes(content)
    with pytest.raises(DataFileError, match=r"a\.npz.*damaged"):
        read_data(path)


def test_v5_bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.mat"
    cells = np.empty((1, 1), dtype=object)
    cells[0, 0] = np.zeros((1000, 1000))
    scipy.io.savemat(path, {"X": cells, "label": np.eye(1000, 2)}, do_compression=True)
    assert path.stat().st_size < 20_000
    assert read_six_view(path).views.shape == (1000, 1000)
    monkeypatch.setenv("VIEWGAP_MAX_FILE_BYTES", "1000000")
    with pytest.raises(DataFileError, match=r"a\.mat.*limit of 1,000,000"):
        read_six_view(path)


def test_v73_bomb(tmp_path: Path) -> None:
    path = tmp_path / "a.mat"
    with h5py.File(path, "w") as file:  # 8 TB of nothing: chunks that were never written
        file.create_dataset("label", (10**6, 10**6), "f8", chunks=(1000, 1000))
        file["X"] = np.eye(2)
    with pytest.raises(DataFileError, match="more than the limit"):
        read_six_view(path)


def test_parquet_bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pd.DataFrame({"id": range(100_000), "p": np.zeros(100_000)})
    frame.to_parquet(tmp_path / "a.parquet")
    monkeypatch.setenv("VIEWGAP_MAX_FILE_BYTES", "1000000")
    with pytest.raises(DataFileError, match=r"a\.parquet.*more than the limit"):
        read_table_folder(tmp_path)


@pytest.mark.parametrize("value", ["many", "0", "-5", "1e9", ""])
def test_limits_that_are_no_numbers(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("VIEWGAP_MAX_FILE_BYTES", value)
    with pytest.raises(SettingError, match="positive whole number"):
        size_limit()


def write_npz(path: Path) -> None:
    np.savez_compressed(path, view0=np.arange(12.0).reshape(6, 2), labels=np.eye(6, 2))


def write_v5(path: Path) -> None:
    cells = np.empty((1, 2), dtype=object)
    cells[0, 0], cells[0, 1] = np.arange(12.0).reshape(6, 2), np.ones((6, 3), dtype=np.uint8)
    scipy.io.savemat(path, {"X": cells, "label": np.eye(6, 2)}, do_compression=True)


def write_v73(path: Path) -> None:
    with h5py.File(path, "w") as file:
        held = file.create_dataset("X", (1, 1), dtype=h5py.ref_dtype)
        held[0, 0] = file.create_dataset("a", data=np.arange(12.0).reshape(2, 6)).ref
        file["label"] = np.eye(2, 6)


def write_parquet(path: Path) -> None:
    pd.DataFrame({"id": ["a", "b"], "p": [1.0, 2.0]}).to_parquet(path)


WRITERS: list[tuple[str, Callable[[Path], None]]] = [
    ("a.npz", write_npz),
    ("a.mat", write_v5),
    ("b_six_view.mat", write_v73),
    ("a.parquet", write_parquet),
]


def read_any(path: Path) -> Any:
    return read_table_folder(path.parent) if path.suffix == ".parquet" else read_data(path)


@pytest.mark.parametrize(("name", "write"), WRITERS)
def test_whole_empty_and_garbage(tmp_path: Path, name: str, write: Callable[[Path], None]) -> None:
    path = tmp_path / name
    write(path)
    read_any(path)
    content = path.read_bytes()
    for broken in (
        b"",
        b"\0" * 5000,
        os.urandom(5000),
        content[: len(content) // 2],
        content[:140],
    ):
        path.write_bytes(broken)
        with pytest.raises(DataFileError) as caught:
            read_any(path)
        assert str(path) in str(caught.value)
        assert "fresh copy" in str(caught.value)


@pytest.mark.parametrize(("name", "write"), WRITERS[:2])
@given(data=st.data())
def test_any_damage(
    tmp_path_factory: Any, name: str, write: Callable[[Path], None], data: Any
) -> None:
    path = tmp_path_factory.mktemp("broken") / name
    write(path)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    try:
        raw = read_data(path)
    except ViewgapError as error:
        assert str(path) in str(error)  # noqa: PT017
    else:
        assert len(raw.views) == 6


def test_csv_that_is_no_csv(tmp_path: Path) -> None:
    for content in (b"", b"\xff\xfe\x00garbage\x00", b'a,b\n"never closed'):
        (tmp_path / "a.csv").write_bytes(content)
        with pytest.raises(ViewgapError, match=r"a\.csv|no \.csv|view 'a'"):
            read_table_folder(tmp_path)


def test_compressed_garbage_inside_a_v5_file(tmp_path: Path) -> None:
    path = tmp_path / "a.mat"
    head = b"MATLAB".ljust(124) + struct.pack("<H", 0x0100) + b"IM"
    for inner in (os.urandom(200), zlib.compress(os.urandom(200)), zlib.compress(b"")):
        path.write_bytes(head + struct.pack("<II", 15, len(inner)) + inner)
        with pytest.raises(DataFileError, match=r"a\.mat"):
            read_six_view(path)


# ---------------------------------------------------------------------- limits before memory


LIMIT = 64 * 2**20


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit of 64 MB, as VIEWGAP_MAX_FILE_BYTES sets it."""
    monkeypatch.setenv("VIEWGAP_MAX_FILE_BYTES", str(LIMIT))


def fill_rows(file: h5py.File) -> None:
    file.create_dataset("views/a", (10**9, 1), "i1", chunks=(1000, 1), compression="gzip")


def large_chunk(file: h5py.File) -> None:
    shape = (3000, 10**6)
    file.create_dataset("views/a", shape, "i1", chunks=shape, compression="gzip")


def many_values(file: h5py.File) -> None:
    file.create_dataset("views/a", (10**6, 10**4), "f8", chunks=(10, 10**4), compression="gzip")


def large_labels(file: h5py.File) -> None:
    file["views/a"] = np.ones((3, 2))
    file.create_dataset("labels", (10**6, 10**6), "i1", chunks=(100, 100))


def chunk_of_small_labels(file: h5py.File) -> None:
    file["views/a"] = np.ones((3, 2))
    chunks = (10**5, 10**4)
    file.create_dataset("labels", (3, 2), "i1", chunks=chunks, maxshape=(None, None))


@pytest.mark.usefixtures("limited")
@pytest.mark.parametrize(
    "fill", [fill_rows, large_chunk, many_values, large_labels, chunk_of_small_labels]
)
def test_hdf5_that_claims_too_much(tmp_path: Path, fill: Callable[[Any], None]) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        fill(file)
    assert path.stat().st_size < 100_000
    with pytest.raises(DataFileError, match=r"a\.h5: .*more than the limit of 67,108,864"):
        read_data(path)


@pytest.mark.usefixtures("limited")
def test_hdf5_larger_than_the_limit_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:  # stored as it is: nothing expands
        file.create_dataset("views/a", (10**5, 100), "f8")[:] = 1
    assert read_data(path).views.shape == (10**5, 100)


def test_hdf5_with_too_many_views(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        made = file.create_dataset("views/a", data=np.ones((2, 1)))
        for i in range(1001):
            file[f"views/v{i}"] = made
    with pytest.raises(DataFileError, match="1,002 views, more than the 1,000"):
        read_data(tmp_path / "a.h5")


@pytest.mark.usefixtures("limited")
def test_v73_chunks_and_sparse_sizes(tmp_path: Path) -> None:
    path = tmp_path / "a_six_view.mat"
    with h5py.File(path, "w") as file:
        chunks = (10**5, 10**4)
        file.create_dataset("label", (3, 2), "f8", chunks=chunks, maxshape=(None, None))
        file["X"] = np.eye(2)
    with pytest.raises(DataFileError, match="more than the limit"):
        read_six_view(path)
    with h5py.File(path, "w") as file:
        held = file.create_dataset("X", (1, 1), dtype=h5py.ref_dtype)
        group = file.create_group("#refs#/0")
        group.attrs["MATLAB_sparse"] = np.uint64(10**12)
        group["data"], group["ir"], group["jc"] = np.ones(1), np.zeros(1, "u8"), np.ones(3, "u8")
        group["jc"][0] = 0
        held[0, 0] = group.ref
        file["label"] = np.eye(2)
    with pytest.raises(DataFileError, match="8,000,000,000,000 bytes, more than the limit"):
        read_six_view(path)


@pytest.mark.usefixtures("limited")
@pytest.mark.parametrize("shape", [(2, 10**12), (10**12, 2)])
def test_sparse_arrays_that_claim_too_much(tmp_path: Path, shape: tuple[int, int]) -> None:
    parts = {"data": np.ones(1), "indices": np.zeros(1, "i8"), "indptr": np.array([0, 1, 1])}
    named: dict[str, Any] = {f"s_{key}": part for key, part in parts.items()}
    np.savez(tmp_path / "a.npz", **named, s_shape=np.array(shape))
    with pytest.raises(DataFileError, match="8,000,000,000,000 bytes, more than the limit"):
        read_npz(tmp_path / "a.npz")


@pytest.mark.usefixtures("limited")
def test_labels_that_become_numbers(tmp_path: Path) -> None:
    np.savez_compressed(
        tmp_path / "a.npz", x=np.ones((3000, 1)), labels=np.ones((3000, 3000), "u1")
    )
    with pytest.raises(DataFileError, match="72,000,000 bytes, more than the limit"):
        read_npz(tmp_path / "a.npz")


@pytest.mark.usefixtures("limited")
def test_parquet_texts_that_expand(tmp_path: Path) -> None:
    frame = pd.DataFrame({"id": ["x" * 1_000_000] * 200, "a": [1.0] * 200})
    frame.to_parquet(tmp_path / "a.parquet", index=False)
    assert (tmp_path / "a.parquet").stat().st_size < 300_000
    with pytest.raises(DataFileError, match=r"a\.parquet.*more than the limit"):
        read_table_folder(tmp_path)


@pytest.mark.parametrize("cell", [[1, 2], {"b": 1}, b"bytes"])
def test_parquet_columns_of_other_things(tmp_path: Path, cell: Any) -> None:
    pd.DataFrame({"id": ["x"], "a": [cell]}).to_parquet(tmp_path / "a.parquet", index=False)
    with pytest.raises(DataFileError, match=r"a\.parquet: column 'a' holds .*expected numbers"):
        read_table_folder(tmp_path)


READ_AFTER_CUT = """
import os, sys
from viewgap.data.formats import read_data
views = read_data(sys.argv[1]).views
assert views.rows("a", [19_999]).sum() == 50
os.truncate(sys.argv[1] + "/a.npy", 4096)
views.rows("a", slice(19_000, 19_010))
"""


def test_npy_cut_while_in_use(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.ones((20_000, 50)))
    command = [sys.executable, "-c", READ_AFTER_CUT, str(tmp_path)]  # what fails, fails by SIGBUS
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1
    assert re.search(r"DataFileError: .*a\.npy.*cut while in use", done.stderr)


@pytest.mark.skipif(os.name != "posix", reason="the size of an open file is asked of the system")
@pytest.mark.parametrize("chunks", [None, (100, 5)])
@pytest.mark.parametrize("compression", [None, "gzip"])
def test_hdf5_cut_while_in_use(tmp_path: Path, chunks: Any, compression: Any) -> None:
    how = {"chunks": chunks, "compression": compression}
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("views/a", data=np.ones((20_000, 5)), **how)
    views = read_data(tmp_path / "a.h5").views
    assert views.rows("a", [3, 1999]).sum() == 10
    os.truncate(tmp_path / "a.h5", 3000)
    with pytest.raises(DataFileError, match=r"a\.h5.*: "):
        views.rows("a", [10_000])
    if compression is None:  # reads as zeros
        with pytest.raises(
            DataFileError, match=r"cut while in use: [\d,]+ bytes before, now 3,000"
        ):
            views.rows("a", slice(9000, 11_000))


def test_hdf5_that_is_being_written_is_read(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        data = file.create_dataset("a", data=np.ones((2000, 5)))
        views = ViewSet({"a": data, "b": np.ones((2000, 1))})
        assert views.rows("a", [3, 1999]).sum() == 10


def test_npy_replaced_while_in_use(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.ones((2000, 5)))
    views = read_data(tmp_path).views
    np.save(tmp_path / "b.tmp.npy", np.zeros((2, 2)))
    (tmp_path / "b.tmp.npy").replace(path)
    assert views.rows("a", [0, 1999]).sum() == 10
