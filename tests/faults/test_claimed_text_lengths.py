"""A text in an HDF5 file that claims more bytes than the file is refused, not believed."""

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from viewgap.data.formats import read_data
from viewgap.data.formats.hdf5_texts import attribute, check_texts
from viewgap.errors import DataFileError
from written_data import WRITERS, small_cll

h5py = pytest.importorskip("h5py")

TEXTS = ["one", "a text of 22 characters"[:22], "", "käse"]
CLAIMED = 0x7000_0000  # bytes, which no test file has
LAYOUTS: dict[str, dict[str, Any]] = {
    "contiguous": {},
    "chunks": {"chunks": (3,)},
    "gzip": {"compression": "gzip", "chunks": (3,)},
    "shuffled gzip": {"compression": "gzip", "shuffle": True},
    "lzf": {"compression": "lzf"},
}
FILES: dict[str, dict[str, Any]] = {
    "earliest": {"libver": "earliest"},
    "latest": {"libver": "latest"},
    "user block": {"userblock_size": 1024},
    "ordered": {"track_order": True},
}


def written(path: Path, file: str = "earliest", layout: str = "contiguous") -> Path:
    with h5py.File(path, "w", **FILES[file]) as target:
        text = h5py.string_dtype()
        made = target.create_dataset("texts", data=TEXTS, dtype=text, **LAYOUTS[layout])
        made.attrs["number"] = 3.5
        made.attrs["fixed"] = np.bytes_(b"fixed")
        made.attrs["name"] = "a name of 21 letters."
        made.attrs["order"] = np.array(TEXTS, dtype=text)
        made.attrs["none"] = np.array([], dtype=text)
    return path


def forge(path: Path, length: int) -> None:
    """Claim more bytes for the only text of this length."""
    content = bytearray(path.read_bytes())
    base = content.index(b"\x89HDF")
    heap = content.index(b"GCOL") - base
    place = content.index(struct.pack("<IQ", length, heap))
    content[place : place + 4] = struct.pack("<I", CLAIMED)
    path.write_bytes(content)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("file", FILES)
def test_right_texts_pass(tmp_path: Path, file: str, layout: str) -> None:
    path = written(tmp_path / "a.h5", file, layout)
    with h5py.File(path) as source:
        check_texts(path, source["texts"])
        assert attribute(path, source["texts"], "number") == 3.5
        assert attribute(path, source["texts"], "fixed") == b"fixed"
        assert attribute(path, source["texts"], "name") == "a name of 21 letters."
        assert list(attribute(path, source["texts"], "order")) == TEXTS
        assert len(attribute(path, source["texts"], "none")) == 0
        assert attribute(path, source["texts"], "absent", "default") == "default"


@pytest.mark.parametrize("file", FILES)
def test_a_long_claim_in_a_dataset(tmp_path: Path, file: str) -> None:
    path = written(tmp_path / "a.h5", file)
    with h5py.File(path, "r+") as source:
        del source["texts"].attrs["order"]  # it holds a text of that length, too
    forge(path, 22)
    with h5py.File(path) as source, pytest.raises(DataFileError, match=r"texts.*1,879,048,192"):
        check_texts(path, source["texts"])


@pytest.mark.parametrize("file", ["earliest", "user block"])  # newer headers have a checksum
@pytest.mark.parametrize(("name", "length"), [("name", 21), ("order", 22)])
def test_a_long_claim_in_an_attribute(tmp_path: Path, file: str, name: str, length: int) -> None:
    path = written(tmp_path / "a.h5", file, "gzip")
    forge(path, length)
    with h5py.File(path) as source:
        assert attribute(path, source["texts"], "fixed") == b"fixed"
        with pytest.raises(DataFileError, match=rf"attribute '{name}'.*1,879,048,192"):
            attribute(path, source["texts"], name)


def test_a_long_claim_in_a_compressed_chunk(tmp_path: Path) -> None:
    path = written(tmp_path / "a.h5", layout="gzip")
    with h5py.File(path, "r+") as target:
        stored = target["texts"].id
        mask, values = stored.read_direct_chunk((3,))
        content = bytearray(zlib.decompress(values))
        content[:4] = struct.pack("<I", CLAIMED)
        stored.write_direct_chunk((3,), zlib.compress(bytes(content)), mask)
    with h5py.File(path) as source, pytest.raises(DataFileError, match=r"texts.*1,879,048,192"):
        check_texts(path, source["texts"])


def test_a_long_claim_in_a_dataset_kept_in_its_header(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as target:
        made = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        made.set_layout(h5py.h5d.COMPACT)
        text = h5py.h5t.py_create(h5py.string_dtype(), logical=True)
        space = h5py.h5s.create_simple((len(TEXTS),))
        h5py.h5d.create(target.id, b"texts", text, space, made)
        target["texts"][:] = TEXTS
    with h5py.File(path) as source:
        check_texts(path, source["texts"])
    forge(path, 22)
    with h5py.File(path) as source, pytest.raises(DataFileError, match=r"texts.*1,879,048,192"):
        check_texts(path, source["texts"])


def test_an_attribute_of_a_long_object_header_is_found(tmp_path: Path) -> None:
    """Headers that grew are continued elsewhere in the file."""
    with h5py.File(tmp_path / "a.h5", "w") as target:
        for number in range(60):
            target.attrs[f"a{number}"] = f"text {number}"
    with h5py.File(tmp_path / "a.h5") as source:
        for number in range(60):
            found = attribute(tmp_path / "a.h5", source, f"a{number}")
            assert found == f"text {number}"


def test_attributes_that_cannot_be_looked_at_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", libver="latest") as target:
        target.attrs["numbers"] = h5py.Empty(h5py.vlen_dtype(np.int32))
        for number in range(60):  # so many are not stored in the header
            target.attrs[f"a{number}"] = f"text {number}"
    with h5py.File(path) as source:
        with pytest.raises(DataFileError, match="not stored in the header"):
            attribute(path, source, "a3")
        with pytest.raises(DataFileError, match="no text"):
            attribute(path, source, "numbers")


@pytest.mark.filterwarnings("ignore::viewgap.errors.ViewgapWarning")
@pytest.mark.parametrize("format_", ["h5ad", "h5mu"])
def test_a_damaged_file_is_refused_without_its_memory(tmp_path: Path, format_: str) -> None:
    written = WRITERS[format_](tmp_path, small_cll())
    read_data(written.path, **written.options)
    content = written.path.read_bytes()
    with h5py.File(written.path) as file:
        ids = file["obs/_index"]
        place, size = ids.id.get_offset(), ids.id.get_storage_size()
    forged = bytearray(content)
    forged[place + size - 16 : place + size - 12] = struct.pack("<I", CLAIMED)
    written.path.write_bytes(forged)
    with pytest.raises(DataFileError, match=r"_index.* claims 1,879,048,192 bytes"):
        read_data(written.path, **written.options)


@pytest.mark.parametrize("file", FILES)
def test_texts_that_an_interrupted_copy_made_zeros_are_refused(tmp_path: Path, file: str) -> None:
    """HDF5 itself walks through such a heap for ever."""
    path = written(tmp_path / "a.h5", file)
    content = bytearray(path.read_bytes())
    heap = content.index(b"GCOL")
    content[heap + 16 + 24 : heap + 4096] = bytes(4096 - 40)  # after its first text
    path.write_bytes(content)
    with h5py.File(path) as source:
        with pytest.raises(DataFileError, match="texts of '/texts' are damaged"):
            check_texts(path, source["texts"])
        with pytest.raises(DataFileError, match="are damaged"):
            attribute(path, source["texts"], "order")
