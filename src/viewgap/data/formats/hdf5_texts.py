"""Texts of any length in HDF5 files: how long they claim to be, before the library believes it.

Such a text is stored as its length and a place in the file. The HDF5 library takes memory of that
length before it looks at the place: up to 4 GiB for a text that is not there. A text lies in the
file as it is, so that none is longer than the file. The lengths are therefore read first, as plain
bytes: of a dataset from where its values lie, of an attribute from the header of its object.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from viewgap.errors import DataFileError

_LAYOUT, _ATTRIBUTE, _CONTINUATION = 0x08, 0x0C, 0x10  # kinds of messages in a header
_MAX_BLOCKS = 1000  # of one header; a damaged one can lead in circles


def attribute(path: Path, item: Any, name: str, default: Any = None) -> Any:
    """Return an attribute of a group or dataset, `default` where there is none.

    Numbers and texts only, and no text that claims to be longer than the file.
    """
    if name not in item.attrs:
        return default
    kind = item.attrs.get_id(name).dtype
    if kind.kind == "O":
        _check_texts(path, f"{item.name!r}, attribute {name!r}", kind)
        count = math.prod(item.attrs.get_id(name).shape or ())
        values = _Header(path, item).attribute(name)
        _check_lengths(path, item, name, values[: count * _size_of_text(item)])
    elif kind.kind not in "buifS":
        raise DataFileError(
            f"{path}: attribute {name!r} of {item.name!r} holds {kind}, neither numbers nor text"
        )
    return item.attrs[name]


def check_texts(path: Path, dataset: Any) -> None:
    """Refuse a dataset that is no text, or one of whose texts claims more bytes than the file."""
    _check_texts(path, repr(dataset.name), dataset.dtype)
    for values in _stored_values(path, dataset):
        _check_lengths(path, dataset, "", values)


def _check_texts(path: Path, place: str, kind: Any) -> None:
    import h5py

    if h5py.check_string_dtype(kind) is None:
        raise DataFileError(f"{path}: {place} holds {kind}, no text")


def _check_lengths(path: Path, item: Any, name: str, values: bytes) -> None:
    width = _size_of_text(item) - 8
    one = np.dtype([("length", "<u4"), ("heap", f"V{width}"), ("number", "<u4")])
    texts = np.frombuffer(values[: len(values) // one.itemsize * one.itemsize], one)
    lengths = texts["length"]
    whole = path.stat().st_size
    if len(lengths) and lengths.max() > whole:
        where = f"attribute {name!r} of {item.name!r}" if name else repr(item.name)
        raise DataFileError(
            f"{path}: a text in {where} claims {lengths.max():,} bytes, and the whole file has "
            f"{whole:,}: the file is damaged; get a fresh copy of it"
        )
    for heap in sorted({_number(heap.tobytes()) for heap in texts["heap"][lengths > 0]}):
        _check_heap(path, item, heap)


def _check_heap(path: Path, item: Any, address: int) -> None:
    """Refuse a heap of texts in which HDF5 would walk forever: free space that has no bytes.

    A stretch of zeros, as an interrupted copy leaves, is such a one. Whatever else is wrong with a
    heap the library finds by itself.
    """
    width = item.file.id.get_create_plist().get_sizes()[1]
    place = item.file.userblock_size + address
    with path.open("rb") as file:
        file.seek(place)
        start = file.read(8 + width)
        heap = start + file.read(max(0, min(_number(start[8:]), path.stat().st_size) - len(start)))
    place = -(-len(start) // 8) * 8
    while heap[:4] == b"GCOL" and place + 8 + width <= len(heap):
        number, size = (
            _number(heap[place : place + 2]),
            _number(heap[place + 8 : place + 8 + width]),
        )
        if not number and not size:
            raise DataFileError(
                f"{path}: the texts of {item.name!r} are damaged: they hold nothing where a text "
                "or free space has to begin; get a fresh copy of the file"
            )
        place += size if not number else 8 + width + -(-size // 8) * 8


# ---------------------------------------------------------------------- values of a dataset


def _stored_values(path: Path, dataset: Any) -> Iterator[bytes]:
    """The stored bytes of a dataset, as they are after decompression."""
    from h5py import h5d

    layout = dataset.id.get_create_plist().get_layout()
    if layout == h5d.CHUNKED:
        yield from _chunks(path, dataset)
    elif layout == h5d.CONTIGUOUS and dataset.id.get_storage_size():
        yield _bytes_at(path, dataset.id.get_offset(), dataset.id.get_storage_size())
    elif layout == h5d.COMPACT:
        yield _Header(path, dataset).compact_values()


def _chunks(path: Path, dataset: Any) -> Iterator[bytes]:
    """The chunks, expanded by HDF5: as plain bytes, in a file that is in memory only."""
    import h5py

    space = h5py.h5s.create_simple(dataset.chunks)
    whole = path.stat().st_size
    with h5py.File("plain", "w", driver="core", backing_store=False) as memory:
        kind = h5py.h5t.create(h5py.h5t.OPAQUE, _size_of_text(dataset))
        for number in range(dataset.id.get_num_chunks()):
            stored = dataset.id.get_chunk_info(number)
            if stored.size > whole:
                raise ValueError(f"a part of {dataset.name!r} claims {stored.size:,} bytes")
            skipped, values = dataset.id.read_direct_chunk(stored.chunk_offset)
            plain = h5py.h5d.create(memory.id, b"plain", kind, space, _filters(dataset, skipped))
            plain.write_direct_chunk((0,), values)
            yield memory["plain"][()].tobytes()
            del memory["plain"]


def _filters(dataset: Any, skipped: int) -> Any:
    """The same chunks and filters for a dataset of another type; `skipped` has a bit per filter."""
    import h5py

    found, made = dataset.id.get_create_plist(), h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    made.set_chunk(dataset.chunks)
    for number in range(found.get_nfilters()):
        code, flags, values, _ = found.get_filter(number)
        if not skipped >> number & 1:
            made.set_filter(code, flags, values)
    return made


def _size_of_text(item: Any) -> int:
    """Bytes of a length, an address and an index."""
    return 8 + int(item.file.id.get_create_plist().get_sizes()[0])


def _bytes_at(path: Path, start: int, count: int) -> bytes:
    if count > path.stat().st_size:
        raise ValueError(f"{count:,} bytes at {start} of the file, which has fewer")
    with path.open("rb") as file:
        file.seek(start)
        return file.read(count)


# ---------------------------------------------------------------------- headers


class _Header:
    """The messages of the header of a group or dataset; both versions that HDF5 files have."""

    def __init__(self, path: Path, item: Any) -> None:
        import h5py

        self._path, self._name = path, item.name
        self._base = item.file.userblock_size  # addresses are counted from its end
        self._address, self._length = item.file.id.get_create_plist().get_sizes()
        self._place = h5py.h5o.get_info(item["/"].id if item.name == "/" else item.id).addr

    def attribute(self, name: str) -> bytes:
        """Return the stored bytes of an attribute, and what follows them in the header."""
        for kind, data in self._messages():
            if kind == _ATTRIBUTE:
                found, values = _attribute(data)
                if found == name.encode():
                    return values
        raise DataFileError(
            f"{self._path}: attribute {name!r} of {self._name!r} is not stored in the header of "
            "its object, as h5py and anndata store it; write the file again with one of them"
        )

    def compact_values(self) -> bytes:
        """Return the values of a small dataset that are stored in the header."""
        for kind, data in self._messages():
            if kind == _LAYOUT and data[0] in (3, 4) and data[1] == 0:
                return data[4 : 4 + _number(data[2:4])]
        raise ValueError(f"no values of {self._name!r} in its header")

    def _messages(self) -> Iterator[tuple[int, bytes]]:
        """The kind and content of every message, in the order in which HDF5 looks at them."""
        start = _bytes_at(self._path, self._base + self._place, 34)
        newer = start[:4] == b"OHDR"
        blocks = [self._first_newer(start) if newer else (16, _number(start[8:12]))]
        blocks[0] = (self._place + blocks[0][0], blocks[0][1])
        with_order = newer and bool(start[5] & 4)
        for place, count in blocks:
            if len(blocks) > _MAX_BLOCKS:
                raise ValueError(f"the header of {self._name!r} has no end")
            block = _bytes_at(self._path, self._base + place, count)
            for kind, data in _newer(block, with_order) if newer else _older(block):
                yield kind, data
                if kind == _CONTINUATION:
                    where = _number(data[: self._address])
                    size = _number(data[self._address : self._address + self._length])
                    # A newer block begins with a signature, and ends with a checksum.
                    blocks.append((where + 4, size - 8) if newer else (where, size))

    @staticmethod
    def _first_newer(start: bytes) -> tuple[int, int]:
        """Where the messages of a newer header begin, and how many bytes they have."""
        flags = start[5]
        place = 6 + (16 if flags & 0x20 else 0) + (4 if flags & 0x10 else 0)
        width = 1 << (flags & 3)
        return place + width, _number(start[place : place + width])


def _older(block: bytes) -> Iterator[tuple[int, bytes]]:
    place = 0
    while place + 8 <= len(block):
        kind, size = _number(block[place : place + 2]), _number(block[place + 2 : place + 4])
        yield kind, block[place + 8 : place + 8 + size]
        place += 8 + size


def _newer(block: bytes, with_order: bool) -> Iterator[tuple[int, bytes]]:
    place, head = 0, 6 if with_order else 4
    while place + head <= len(block):
        size = _number(block[place + 1 : place + 3])
        yield block[place], block[place + head : place + head + size]
        place += head + size


def _attribute(data: bytes) -> tuple[bytes, bytes]:
    """Return the name of an attribute, and its stored values."""
    version, start = data[0], 9 if data[0] == 3 else 8
    sizes = [_number(data[place : place + 2]) for place in (2, 4, 6)]
    if version == 1:
        sizes = [-(-size // 8) * 8 for size in sizes]
    name = data[start : start + sizes[0]].partition(b"\0")[0]
    return name, data[start + sum(sizes) :]


def _number(data: bytes) -> int:
    return int.from_bytes(data, "little")
