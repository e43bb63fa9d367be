"""Zarr folders (.zarr) with one array per view, whose values stay there until rows are needed.

A folder from anywhere is not trusted: codecs are those of a list (one of numcodecs' is pickle),
chunks have a limit, and links that lead elsewhere are refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viewgap.data.formats.base import (
    Format,
    PathLike,
    RawData,
    check_n_rows,
    check_n_views,
    check_size,
    from_arrays,
    label_summary,
    name_members,
    reading,
    stored_ids,
    text_of,
)
from viewgap.data.rows.values import LazyRows
from viewgap.errors import DataFileError, damaged_file

_TEXTS = ("label_names", "sample_ids")
_NAMES = ("views", "labels", *_TEXTS)
CODECS = frozenset(
    (
        *("bytes", "transpose", "gzip", "blosc", "zstd", "crc32c", "sharding_indexed"),
        *("zlib", "bz2", "lzma", "lz4", "shuffle", "delta"),
    )
)
"""What may turn the bytes of a chunk into numbers; none of them runs code from the file."""


def read_zarr(path: PathLike, *, nan: str = "mean", with_labels: bool = True) -> RawData:
    """Read a Zarr folder (format 2 or 3) with a group `views` of 2-D arrays.

    Optional: `labels` (n, c), `label_names` and `sample_ids`, as in HDF5. Chunks are read when rows
    of them are needed; long in rows and as wide as the view is best.
    """
    source = Path(path)
    views, label, names = load_zarr(source, with_labels)
    check_n_rows(source, views)
    ids = names.get("sample_ids")
    return from_arrays(source, views, label, names.get("label_names"), nan=nan, sample_ids=ids)


def describe(path: PathLike) -> dict[str, Any]:
    """Return n, c, cardinality and the widths of the views; only the labels are read."""
    views, label, _ = load_zarr(Path(path))
    widths = {name: view.shape[1] for name, view in views.items() if len(view.shape) == 2}
    return {} if label is None or label.ndim != 2 else label_summary(label) | {"views": widths}


FORMAT = Format(
    "zarr", "a Zarr folder", (".zarr",), read=read_zarr, describe=describe, is_folder=True
)


def load_zarr(
    path: Path, with_labels: bool = True
) -> tuple[dict[str, LazyRows], Any, dict[str, Any]]:
    """Return `({name: view}, labels, names)` of a folder with a group `views`.

    Labels may be None; `names` has the sample ids and the names of labels, where they are there.
    """
    if not path.is_dir():
        raise DataFileError(f"{path}: expected a Zarr folder, found a file; unpack it")
    _refuse_links(path)
    with reading(path):
        group = path / "views"
        names = (
            sorted(own.name for own in group.iterdir() if own.is_dir()) if group.is_dir() else []
        )
        if not names:
            members = ", ".join(sorted(own.name for own in path.iterdir())) or "nothing"
            raise DataFileError(
                f"{path}: expected a group 'views' with one array per view, found: {members}"
            )
        check_n_views(path, len(names))
        name_members(path, (own.name for own in path.iterdir() if own.is_dir()), _NAMES)
        views = {name: LazyRows(_Rows(path, f"views/{name}")) for name in names}
        labels = None
        if with_labels and (path / "labels").is_dir():
            stored = _Rows(path, "labels")
            check_size(path, 8 * math.prod(stored.shape))
            labels = stored[...]
        texts = {name: _texts(path, name) for name in _TEXTS if (path / name).is_dir()}
    return views, labels, texts


def _texts(path: Path, name: str) -> Any:
    """The array of sample ids, or of names of labels."""
    stored = _Rows(path, name, kinds="iufUSTO", more_codecs=frozenset(("vlen-utf8",)))
    if len(stored.shape) != 1:
        raise DataFileError(f"{path}: {name} must be one row of them, found shape {stored.shape}")
    check_size(path, math.prod(stored.shape) * max(8, stored.dtype.itemsize))
    values = stored[...]
    return stored_ids(path, name, values) if name == "sample_ids" else text_of(path, name, values)


class _Rows:
    """One array of a folder: its shape and type, and ranges of its rows."""

    def __init__(
        self, path: Path, name: str, kinds: str = "buif", more_codecs: frozenset[str] = frozenset()
    ) -> None:
        self._array = _open(path, name)
        self.file = SimpleNamespace(filename=str(path))
        self.shape, self.dtype = self._array.shape, self._array.dtype
        self.chunks = self._array.shards or self._array.chunks
        if self.dtype.kind not in kinds:
            expected = "numbers" if kinds == "buif" else "text or whole numbers"
            raise DataFileError(f"{path}: {name} must hold {expected}, found dtype {self.dtype}")
        _check_codecs(path, name, self._array.metadata.to_dict(), CODECS | more_codecs)
        check_size(path, math.prod(self.chunks) * self.dtype.itemsize)
        _refuse_absent_chunks(path, name, self._array)

    def __getitem__(self, key: Any) -> NDArray[Any]:
        try:
            return np.asarray(self._array[key])
        except Exception as error:  # whatever a codec raises for a damaged chunk
            raise OSError(error) from error


def _open(path: Path, name: str) -> Any:
    try:
        import zarr
        from zarr.storage import LocalStore
    except ImportError as error:
        raise DataFileError(
            f"{path}: a Zarr folder needs the package zarr: pip install viewgap[zarr]"
        ) from error
    try:
        return zarr.open_array(store=LocalStore(path, read_only=True), path=name, mode="r")
    except Exception as error:
        raise damaged_file(path, f"{name} is no array: {error}") from error


def _check_codecs(
    path: Path, name: str, metadata: Mapping[str, Any], codecs: frozenset[str]
) -> None:
    unknown = sorted(set(_codecs(metadata)) - codecs)
    if unknown:
        raise DataFileError(
            f"{path}: {name} is stored with the codec {unknown[0]!r}, which is not read; write it "
            f"with one of {', '.join(sorted(codecs))}"
        )


def _codecs(metadata: Mapping[str, Any]) -> Iterable[str]:
    """Names of all codecs of an array of format 2 or 3, those inside of shards included."""
    for part in (*(metadata.get("filters") or ()), metadata.get("compressor")):
        if part is not None:
            yield str(part["id"])
    for key in ("codecs", "index_codecs"):
        for part in metadata.get(key) or ():
            yield str(part["name"]).removeprefix("numcodecs.")
            yield from _codecs(part.get("configuration") or {})


def _refuse_absent_chunks(path: Path, name: str, array: Any) -> None:
    """Refuse what is not there: the format takes it for the fill value, lost or never written."""
    whole, there, fill = array.nchunks, array.nchunks_initialized, array.fill_value
    if there < whole and not _is_nan(fill):
        raise DataFileError(
            f"{path}: {whole - there} of {whole} chunks of {name} are absent; Zarr takes them for "
            f"{fill!s}, and a lost one looks like one that was never written. If they are meant, "
            "write them (config={'write_empty_chunks': True}); for rows without the view, choose "
            "the fill value NaN"
        )


def _is_nan(value: Any) -> bool:
    """Whether a fill value is NaN: then rows that were never written are missing rows."""
    return bool(value != value)


def _refuse_links(path: Path) -> None:
    for own in path.rglob("*"):
        if own.is_symlink():
            raise DataFileError(f"{own}: a link inside of a Zarr folder is not followed")
