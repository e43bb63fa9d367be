"""MATLAB files, v5 and v7.3: against scipy's reader, and files made to do harm."""

import contextlib
import struct
import zlib
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import scipy.io
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from data_files import cell
from viewgap.data.formats.matlab import load_mat
from viewgap.errors import DataFileError


@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize(
    "dtype",
    ["uint8", "int8", "uint16", "int16", "uint32", "int32", "int64", "uint64", "f4", "f8", "bool"],
)
def test_v5_numbers(tmp_path: Path, dtype: str, compressed: bool) -> None:
    array = np.arange(35).reshape(5, 7).astype(dtype)
    path = tmp_path / "a.mat"
    scipy.io.savemat(path, {"other": "text", "A": array}, do_compression=compressed)
    found = load_mat(path, ["A"])
    assert list(found) == ["A"]
    assert np.array_equal(found["A"], array)
    assert found["A"].dtype == scipy.io.loadmat(path)["A"].dtype


@pytest.mark.parametrize("compressed", [True, False])
def test_v5_cells_text_and_sparse(tmp_path: Path, compressed: bool) -> None:
    path = tmp_path / "a.mat"
    matrix: Any = sparse.random(6, 4, density=0.4, random_state=0, format="csc")
    contents = {
        "X": cell(np.eye(3), matrix, "text", cell("a", "größe")),
        "names": np.array(["one", "three", "fifteen"]),
        "empty": np.zeros((0, 0)),
        "word": "höhe",
    }
    scipy.io.savemat(path, contents, do_compression=compressed)
    found = load_mat(path, contents)
    assert np.array_equal(found["X"][0], np.eye(3))
    assert np.array_equal(found["X"][1].toarray(), matrix.toarray())
    assert found["X"][2:] == ["text", ["a", "größe"]]
    assert found["names"] == ["one", "three", "fifteen"]
    assert found["empty"].size == 0
    assert found["word"] == "höhe"


@given(st.integers(0, 2**16), st.integers(0, 6), st.integers(0, 6), st.booleans())
def test_v5_equals_scipy(
    tmp_path_factory: Any, seed: int, rows: int, columns: int, packed: bool
) -> None:
    path = tmp_path_factory.mktemp("mat") / "a.mat"
    array = np.random.default_rng(seed).normal(size=(rows, columns))
    scipy.io.savemat(path, {"A": array}, do_compression=packed)
    assert np.array_equal(load_mat(path, ["A"])["A"], scipy.io.loadmat(path)["A"])


def test_v5_big_endian(tmp_path: Path) -> None:
    body = struct.pack(">IIII", 6, 8, 6, 0) + struct.pack(">IIii", 5, 8, 1, 2)
    body += struct.pack(">HHI", 1, 1, 0x41000000) + struct.pack(">IIdd", 9, 16, 1.5, -2.0)
    path = tmp_path / "a.mat"
    head = b"MATLAB".ljust(124) + struct.pack(">H", 0x0100) + b"MI"
    path.write_bytes(head + struct.pack(">II", 14, len(body)) + body)
    assert load_mat(path, ["A"])["A"].tolist() == [[1.5, -2.0]]


def v5(elements: bytes) -> bytes:
    return b"MATLAB".ljust(124) + struct.pack("<H", 0x0100) + b"IM" + elements


def v5_matrix(kind: int, shape: tuple[int, int], data: bytes, name: bytes = b"X") -> bytes:
    body = struct.pack("<IIII", 6, 8, kind, 0) + struct.pack("<IIii", 5, 8, *shape)
    body += struct.pack("<II", 1, len(name)) + name + b"\0" * (-len(name) % 8) + data
    return struct.pack("<II", 14, len(body)) + body


def packed(element: bytes) -> bytes:
    data = zlib.compress(element)
    return struct.pack("<II", 15, len(data)) + data


def test_v5_deeply_nested_cells(tmp_path: Path) -> None:
    inner = v5_matrix(6, (1, 1), struct.pack("<IId", 9, 8, 1.0), b"")
    for _ in range(1000):
        inner = v5_matrix(1, (1, 1), inner, b"X")
    path = tmp_path / "a.mat"
    path.write_bytes(v5(packed(inner)))
    with pytest.raises(DataFileError, match="nested"):
        load_mat(path, ["X"])


@pytest.mark.parametrize(
    "element",
    [
        v5_matrix(6, (2**31 - 1, 2), struct.pack("<II", 9, 2**32 - 8)),
        v5_matrix(1, (2**31 - 1, 1), b""),
        v5_matrix(6, (3, 3), struct.pack("<IId", 9, 8, 1.0)),
        v5_matrix(6, (-1, -1), struct.pack("<IId", 9, 8, 1.0)),
        v5_matrix(6, (1, 1), struct.pack("<IId", 99, 8, 1.0)),
        v5_matrix(2, (1, 1), b""),
        v5_matrix(17, (1, 1), b""),
        v5_matrix(5, (2, 2), struct.pack("<IIii", 5, 8, 7, 9) * 2 + struct.pack("<IId", 9, 8, 1.0)),
        v5_matrix(
            5, (2, 2), struct.pack("<IIii", 5, 8, 0, -5) * 2 + struct.pack("<IId", 9, 8, 1.0)
        ),
    ],
)
@pytest.mark.parametrize("compress", [True, False])
def test_v5_lies(tmp_path: Path, element: bytes, compress: bool) -> None:
    path = tmp_path / "a.mat"
    path.write_bytes(v5(packed(element) if compress else element))
    with pytest.raises(DataFileError, match=r"a\.mat"):
        load_mat(path, ["X"])


@given(st.data())
def test_v5_any_damage_is_a_data_file_error_or_harmless(tmp_path_factory: Any, data: Any) -> None:
    folder = tmp_path_factory.mktemp("mat")
    scipy.io.savemat(
        folder / "a.mat", {"X": cell(np.eye(3), "t")}, do_compression=data.draw(st.booleans())
    )
    content = bytearray((folder / "a.mat").read_bytes())
    position = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        content = content[:position]
    else:
        content[position] ^= data.draw(st.integers(1, 255))
    (folder / "b.mat").write_bytes(content)
    with contextlib.suppress(DataFileError):
        load_mat(folder / "b.mat", ["X"])


# ---------------------------------------------------------------------- v7.3


def write_text(file: Any, name: str, text: str) -> Any:
    item = file.create_dataset(name, data=np.frombuffer(text.encode("utf-16-le"), "<u2")[:, None])
    item.attrs["MATLAB_class"] = np.bytes_("char")
    return item


def write_cell(file: Any, name: str, items: list[Any]) -> None:
    references = []
    for i, item in enumerate(items):
        place = f"#refs#/{name}{i}"
        if isinstance(item, str):
            references.append(write_text(file, place, item).ref)
        else:  # MATLAB writes its column-major memory as it is
            references.append(file.create_dataset(place, data=np.asarray(item).T).ref)
    held = file.create_dataset(name, (len(items), 1), dtype=h5py.ref_dtype)
    held[:, 0] = references
    held.attrs["MATLAB_class"] = np.bytes_("cell")


def test_v73(tmp_path: Path) -> None:
    path = tmp_path / "a.mat"
    array = np.arange(6, dtype=np.uint16).reshape(2, 3)
    matrix: Any = sparse.random(5, 4, density=0.5, random_state=1, format="csc")
    with h5py.File(path, "w", userblock_size=512) as file:
        write_cell(file, "X", [array, np.eye(2)])
        write_cell(file, "names", ["DenseHue", "größe"])
        file["A"] = array.T
        write_text(file, "word", "höhe")
        group = file.create_group("S")
        group.attrs["MATLAB_sparse"] = 5
        group["data"], group["ir"], group["jc"] = matrix.data, matrix.indices, matrix.indptr
        file.create_dataset("E", data=np.array([0, 0], dtype=np.uint64)).attrs["MATLAB_empty"] = 1
    found = load_mat(path, ["X", "names", "A", "word", "S", "E"])
    assert np.array_equal(found["X"][0], array)
    assert found["X"][0].dtype == np.uint16
    assert np.array_equal(found["A"], array)
    assert found["names"] == ["DenseHue", "größe"]
    assert found["word"] == "höhe"
    assert np.array_equal(found["S"].toarray(), matrix.toarray())
    assert found["E"].size == 0
    with pytest.raises(DataFileError, match="expected the variable 'Y', found: A, E, S, X"):
        load_mat(path, ["Y"])


def test_v73_never_leaves_the_file(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["A"] = np.eye(2)
    (tmp_path / "raw.bin").write_bytes(bytes(32))
    path = tmp_path / "a.mat"
    with h5py.File(path, "w") as file:
        file["A"] = h5py.ExternalLink("secret.h5", "A")
        file["B"] = h5py.SoftLink("/A")
        file.create_dataset("C", (2, 2), "f8", external=str(tmp_path / "raw.bin"))
        layout = h5py.VirtualLayout((2, 2), "f8")
        layout[:] = h5py.VirtualSource(tmp_path / "secret.h5", "A", (2, 2))
        file.create_virtual_dataset("D", layout)
        file.create_group("E")
    for name in "ABCD":
        with pytest.raises(DataFileError, match=r"elsewhere|another file"):
            load_mat(path, [name])
    with pytest.raises(DataFileError, match="struct"):
        load_mat(path, ["E"])


def test_v73_strange_references(tmp_path: Path) -> None:
    path = tmp_path / "a.mat"
    with h5py.File(path, "w") as file:
        held = file.create_dataset("X", (1, 1), dtype=h5py.ref_dtype)
        held[0, 0] = held.ref  # a cell that holds itself
        file.create_dataset("N", (1, 1), dtype=h5py.ref_dtype)
        file["T"] = "text"
    for name in "XNT":
        with pytest.raises(DataFileError, match="damaged"):
            load_mat(path, [name])


def test_v73_truncated(tmp_path: Path) -> None:
    path = tmp_path / "a.mat"
    with h5py.File(path, "w") as file:
        file["A"] = np.random.default_rng(0).normal(size=(100, 100))
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(DataFileError, match=r"a\.mat.*fresh copy"):
        load_mat(path, ["A"])
