"""The values of one view: what is stored, rows read from it, and single missing values (NaN).

Whatever lies in a row that is not observed is never looked at here.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from viewgap.errors import SettingError, ViewError, damaged_file, parameter, remedy

CHUNK_BYTES = 16 * 2**20
_GAP_BYTES = 2**16  # rows of a file that lie no farther apart are read as one range
# Half of the range of float32, so that the difference of two values is always finite.
LARGEST = np.float64(np.finfo(np.float32).max) / 2

Rows = NDArray[np.intp]
Stored = Any  # a 2-D numpy array (any real dtype, memmap included), CSR array or LazyRows


def is_sparse(values: Any) -> bool:
    """Whether `values` is a scipy sparse matrix or array of any format."""
    return bool(sparse.issparse(values))


def store(name: str, values: Any) -> Stored:
    """Return an array, sparse matrix or LazyRows as a read-only 2-D one that shares its memory."""
    stored: Stored = _store_sparse(name, values) if is_sparse(values) else values
    _check_shape(name, stored)
    if stored.dtype.kind not in "buif":
        raise ViewError(
            f"view {name!r}: expected numbers, found dtype {stored.dtype}; "
            "convert it to a numeric type first"
        )
    return lock(stored)


def lock(stored: Stored) -> Stored:
    """Return a view of the same memory that cannot be written through."""
    if is_sparse(stored):
        parts = [np.asarray(part).view() for part in (stored.data, stored.indices, stored.indptr)]
        for part in parts:
            part.flags.writeable = False
        locked = sparse.csr_array(tuple(parts), shape=stored.shape, copy=False)
        locked.has_canonical_format = True
        return locked
    if not isinstance(stored, np.ndarray):  # LazyRows: there is no way to write through it
        return stored
    dense = stored.view()
    dense.flags.writeable = False
    return dense


def _store_sparse(name: str, values: Any) -> Stored:
    if len(values.shape) != 2:
        raise ViewError(f"view {name!r}: expected 2 dimensions, found shape {values.shape}")
    try:
        if values.format in ("csr", "csc"):  # compiled code trusts their parts
            check_sparse(_shell(values))
        shared = _shell(values.tocsr())
    except (ValueError, IndexError) as error:
        raise ViewError(f"view {name!r}: the sparse matrix is not valid: {error}") from error
    if not shared.has_canonical_format:
        shared = shared.copy()
        shared.sum_duplicates()
    return shared


def check_sparse(matrix: Any) -> None:
    """Raise ValueError if the parts of a CSR or CSC array do not fit; compiled code trusts them."""
    matrix.check_format(full_check=True)
    if (np.diff(matrix.indptr) < 0).any():  # scipy looks at this only where there are values
        raise ValueError("indptr must be a non-decreasing sequence")


def _shell(values: Any) -> Any:
    """Return a new object around the same arrays: checks set attributes on what they check."""
    kind = sparse.csc_array if values.format == "csc" else sparse.csr_array
    return kind((values.data, values.indices, values.indptr), shape=values.shape, copy=False)


def _check_shape(name: str, stored: Stored) -> None:
    if stored.ndim != 2:
        column = remedy(
            "reshape(-1, 1) makes one column of it, reshape(1, -1) one sample",
            "save one column as (samples, 1)",
        )
        advice = column if stored.ndim == 1 else "give one row each"
        raise ViewError(
            f"view {name!r}: expected (samples, features), found shape {stored.shape}; {advice}"
        )
    if stored.shape[0] == 0:
        raise ViewError(f"view {name!r}: no samples (shape {stored.shape})")
    if stored.shape[1] == 0:
        raise ViewError(f"view {name!r}: no columns (shape {stored.shape}); leave the view out")


def row_numbers(rows: Any, n: int) -> Rows:
    """Row numbers (k,) meant by a slice, integers, booleans or one integer, all within 0..n-1."""
    if isinstance(rows, tuple) and len(rows) == 2 and rows[1] is Ellipsis:
        rows = rows[0]  # scikit-learn indexes rows as X[rows, ...]
    if isinstance(rows, int | np.integer):
        rows = [rows]
    if isinstance(rows, slice):
        return np.arange(*rows.indices(n), dtype=np.intp)
    wanted = np.asarray(rows)
    if wanted.ndim != 1:
        raise IndexError(f"rows must be a slice or one-dimensional, found shape {wanted.shape}")
    if wanted.dtype.kind == "b":
        if len(wanted) != n:
            raise IndexError(f"{len(wanted)} booleans cannot choose among {n} rows")
        return np.flatnonzero(wanted)
    if not len(wanted):
        return np.empty(0, dtype=np.intp)
    if wanted.dtype.kind not in "ui":
        raise IndexError(f"rows must be integers or booleans, found dtype {wanted.dtype}")
    wanted = wanted.astype(np.intp, copy=True)
    wanted[wanted < 0] += n
    if wanted.min() < 0 or wanted.max() >= n:
        raise IndexError(f"row numbers must lie within the {n} rows")
    return wanted


def row_chunks(n_rows: int, bytes_per_row: int) -> Iterator[slice]:
    """Slices that cover `n_rows` rows, each about `CHUNK_BYTES` long."""
    step = max(1, CHUNK_BYTES // max(1, bytes_per_row))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def gather(
    stored: Stored, positions: Rows, present: NDArray[np.bool_], dtype: DTypeLike
) -> NDArray[Any]:
    """Dense rows (len(positions), d) of `stored`; zero where `present` is False.

    Works in chunks, so that the only large array is the result.
    """
    width = stored.shape[1]
    result = np.zeros((len(positions), width), dtype=dtype)
    wanted = np.flatnonzero(present)
    for part in row_chunks(len(wanted), width * stored.dtype.itemsize):
        target = wanted[part]
        block = stored[positions[target]]
        result[target] = block.toarray() if is_sparse(block) else block
    return result


def stack_rows(blocks: Sequence[Stored]) -> Stored:
    """Rows of several blocks of one view below each other; sparse if all of them are."""
    if all(is_sparse(block) for block in blocks):
        return sparse.csr_array(sparse.vstack(blocks, format="csr"))
    dense = [block.toarray() if is_sparse(block) else block for block in blocks]
    return np.concatenate(dense, axis=0)


# ---------------------------------------------------------------------- values in open files


def is_dataset(values: Any) -> bool:
    """Whether `values` is an h5py.Dataset, told without importing h5py."""
    return isinstance(values, getattr(sys.modules.get("h5py"), "Dataset", ()))


def is_on_disk(values: Any) -> bool:
    """Whether the values of a view lie in a file: a `LazyRows` or a memory map, also a sparse one.

    Examples
    --------
    >>> is_on_disk(np.zeros((2, 2)))
    False
    """
    if isinstance(values, LazyRows):
        return True
    array = values.data if is_sparse(values) else values
    while isinstance(array, np.ndarray):
        if isinstance(array, np.memmap):
            return True
        array = array.base
    return False


class LazyRows:
    """An open HDF5 dataset that answers `shape`, `dtype` and `[rows]` as an array does.

    `[rows]` (a slice, integers or booleans) reads those rows into a new array, and nothing is read
    otherwise. `columns`, in steps of one, are the only ones it shows. The file must stay open.
    """

    __slots__ = ("_columns", "_file", "_order", "_rows", "_source", "dtype", "shape")

    def __init__(self, source: Any, columns: slice = slice(None)) -> None:
        self._source = source
        self._file = str(source.file.filename)
        self._columns = columns
        self._order: NDArray[np.intp] | None = None  # of the columns that were read; None is all
        self._rows: NDArray[np.intp] | None = None  # of the file, -1 for none; None is all
        self.dtype: np.dtype[Any] = source.dtype
        shape: tuple[int, ...] = source.shape or ()  # None for a dataset that holds nothing
        if len(shape) == 2:
            kept = range(shape[1])[columns]
            self._columns = slice(kept.start, kept.stop)
            shape = (shape[0], len(kept))
        self.shape = shape

    def select_columns(self, positions: NDArray[np.intp]) -> LazyRows:
        """Return these columns, in this order; all of them are still read from the file."""
        chosen = LazyRows(self._source, self._columns)
        chosen._order = positions if self._order is None else self._order[positions]
        chosen._rows = self._rows
        chosen.shape = (self.shape[0], len(positions))
        return chosen

    def select_rows(self, positions: NDArray[np.intp]) -> LazyRows:
        """Return these rows, in this order; -1 is a row that the file lacks, and reads as zeros."""
        chosen = LazyRows(self._source, self._columns)
        chosen._order = self._order
        chosen._rows = positions if self._rows is None else self._rows[positions]
        if self._rows is not None:
            chosen._rows[positions < 0] = -1
        chosen.shape = (len(positions), *self.shape[1:])
        return chosen

    @property
    def chunk_rows(self) -> int:
        """Rows that the file can only read together; 1 if each can be read for itself."""
        chunks = getattr(self._source, "chunks", None)
        return int(chunks[0]) if chunks else 1

    @property
    def ndim(self) -> int:
        """Number of dimensions; views have 2."""
        return len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> NDArray[Any]:
        wanted = row_numbers(rows, len(self))
        if self._rows is not None:
            wanted = self._rows[wanted]
            if (wanted < 0).any():
                result = np.zeros((len(wanted), *self.shape[1:]), dtype=self.dtype)
                result[wanted >= 0] = self._stored(wanted[wanted >= 0])
                return result
        return self._stored(wanted)

    def _stored(self, wanted: NDArray[np.intp]) -> NDArray[Any]:
        """Return rows of the file by their numbers there."""
        if not len(wanted):
            return np.empty((0, *self.shape[1:]), dtype=self.dtype)
        # HDF5 takes row numbers in rising order, each of them once.
        rising, back = np.unique(wanted, return_inverse=True)
        block = self._read(rising)
        return block if np.array_equal(rising, wanted) else block[back]

    def _read(self, rising: NDArray[np.intp]) -> NDArray[Any]:
        if not self._source:
            raise ViewError(
                f"{self._file}: the file was closed, but a view has its values there; keep it open "
                "as long as the views are used"
            )
        try:
            block = self._read_ranges(rising)
            if is_dataset(self._source):
                _refuse_cut_file(self._source.file)
        except OSError as error:
            raise damaged_file(Path(self._file), error) from error
        return np.asarray(block if self._order is None else block[:, self._order])

    def _read_ranges(self, rising: NDArray[np.intp]) -> NDArray[Any]:
        """Rows in rising order, by ranges: each is read much faster than a list of rows."""
        row_bytes = max(1, self.dtype.itemsize * math.prod(self._source.shape[1:]))
        together = max(1, CHUNK_BYTES // 4 // row_bytes)  # most rows of a range
        gaps = np.diff(rising)
        apart = (gaps > 1 + _GAP_BYTES // row_bytes) | (np.diff(rising // together) > 0) & (
            gaps > 1
        )
        ends = [0, *(np.flatnonzero(apart) + 1).tolist(), len(rising)]
        result = None
        for start, stop in pairwise(ends):
            wanted, first = rising[start:stop], int(rising[start])
            block = self._source[first : int(wanted[-1]) + 1, self._columns]
            if len(block) > len(wanted):
                block = block[wanted - first]
            if len(block) == len(rising):
                return np.asarray(block)
            if result is None:
                result = np.empty((len(rising), *block.shape[1:]), dtype=self.dtype)
            result[start:stop] = block
        assert result is not None  # noqa: S101  (there are rows)
        return result

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("rows of a file cannot become an array without a copy")
        return self[:].astype(self.dtype if dtype is None else dtype, copy=False)

    def __reduce__(self) -> tuple[Any, ...]:
        # An open file cannot travel to another process, and there it might be another file.
        return np.asarray, (self[:],)


def _refuse_cut_file(file: Any) -> None:
    """An HDF5 file that was cut while it is open reads as zeros from there on: an OSError."""
    if file.mode != "r" or file.driver != "sec2" or os.name != "posix":
        return
    before, now = file.id.get_filesize(), os.fstat(file.id.get_vfd_handle()).st_size
    if now < before:
        raise OSError(f"it was cut while in use: {before:,} bytes before, now {now:,}")


# ---------------------------------------------------------------------- single missing values


def without_missing_values(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    """Return rows (b, d) with zeros for missing values, and where they are; None if nowhere."""
    if values.dtype.kind != "f":
        return values, None
    missing = np.isnan(values)
    if not missing.any():
        return values, None
    return np.where(missing, values.dtype.type(0), values), missing


def split_sparse(selected: Stored) -> tuple[Stored, Rows, Rows]:
    """Return a CSR array without its missing values, and the rows and columns (k,) of these."""
    missing = np.isnan(selected.data)
    rows = np.repeat(np.arange(selected.shape[0]), np.diff(selected.indptr))
    gone = (rows[missing], selected.indices[missing].astype(np.intp))
    if not missing.any():
        return selected, *gone
    starts = np.concatenate([[0], np.cumsum(~missing)])[selected.indptr]
    parts = (selected.data[~missing], selected.indices[~missing], starts)
    return sparse.csr_array(parts, shape=selected.shape), *gone


NAN_POLICIES = ("mean", "error", "missing_view")


def check_nan_policy(nan: object) -> None:
    """Refuse anything that is not one of the choices for a NaN in an observed row."""
    if not isinstance(nan, str) or nan not in NAN_POLICIES:
        raise SettingError(f"nan must be 'mean', 'error' or 'missing_view', found {nan!r}")


@dataclass
class _Fault:
    """Values of one kind: how many, in which rows, and the first of them."""

    n_values: int = 0
    rows: list[Rows] = field(default_factory=list)
    counts: list[Rows] = field(default_factory=list)  # how many each of the rows has
    first: tuple[int, int, float] | None = None

    def add(self, rows: Rows, columns: Rows, values: NDArray[Any]) -> None:
        if not len(rows):
            return
        self.n_values += len(rows)
        distinct, counts = np.unique(rows, return_counts=True)
        self.rows.append(distinct)
        self.counts.append(counts)
        if self.first is None:
            self.first = (int(rows[0]), int(columns[0]), float(values[0]))


@dataclass
class _Scan:
    """What a pass over the observed rows of a view found."""

    empty: list[Rows] = field(default_factory=list)
    missing: _Fault = field(default_factory=_Fault)
    infinite: _Fault = field(default_factory=_Fault)
    too_large: _Fault = field(default_factory=_Fault)

    def add(self, rows: Rows, columns: Rows, values: NDArray[Any]) -> None:
        for fault, affected in (
            (self.missing, np.isnan(values)),
            (self.infinite, np.isinf(values)),
            (self.too_large, np.isfinite(values) & (np.abs(values) > LARGEST)),
        ):
            fault.add(rows[affected], columns[affected], values[affected])


def observed_rows(
    name: str,
    stored: Stored,
    observed: NDArray[np.bool_],
    ids: Sequence[Any] | NDArray[Any],
    nan: str = "mean",
    columns: Sequence[Any] | None = None,
) -> tuple[NDArray[np.bool_], NDArray[np.int32] | None]:
    """Which rows (n,) of a view hold values, and how many missing values each has (None: none).

    All-NaN rows count as missing. Any other NaN is a missing value, is refused if `nan` is
    `"error"`, and makes its row missing if it is `"missing_view"`. An infinite value is refused,
    or makes its row missing with the latter. Finite values too large for float32 are always
    refused. Rows that are not observed are not looked at.
    """
    if stored.dtype.kind != "f":
        return observed, None
    scan = _scan_sparse(stored, observed) if is_sparse(stored) else _scan(stored, observed)
    if scan.too_large.first:
        _refuse(name, scan.too_large, ids, columns, "beyond the range of float32", "rescale them")
    if scan.infinite.first and nan != "missing_view":
        dropped = parameter("nan", "missing_view")
        advice = f"replace them, or pass {dropped} to treat the view as missing there"
        _refuse(name, scan.infinite, ids, columns, "infinite", advice)
    if scan.missing.first and nan == "error":
        _refuse(name, scan.missing, ids, columns, "NaN", advice_on_nan())
    result = observed.copy()
    dropped_rows = [*scan.missing.rows, *scan.infinite.rows] if nan == "missing_view" else []
    for rows in (*scan.empty, *dropped_rows):
        result[rows] = False
    if not scan.missing.first or nan == "missing_view":
        return result, None
    n_missing = np.zeros(len(observed), dtype=np.int32)
    n_missing[np.concatenate(scan.missing.rows)] = np.concatenate(scan.missing.counts)
    return result, n_missing


def advice_on_nan() -> str:
    """Return what to do about single NaN values that are refused."""
    filled, dropped = parameter("nan", "mean"), parameter("nan", "missing_view")
    return (
        f"pass {filled} to fill them with the mean of the column in the training data, or "
        f"{dropped} to treat the view as missing there"
    )


def _scan(stored: NDArray[Any], observed: NDArray[np.bool_]) -> _Scan:
    scan = _Scan()
    for part in row_chunks(stored.shape[0], stored.shape[1] * stored.dtype.itemsize):
        rows = np.flatnonzero(observed[part]) + part.start
        block = stored[part] if len(rows) == part.stop - part.start else stored[rows]
        if not _usable(block):
            _inspect(scan, rows, np.asarray(block))
    return scan


def _usable(block: NDArray[Any]) -> bool:
    """Whether all is finite and in range; min and max carry NaN on and need no temporary."""
    if not block.size:
        return True
    with np.errstate(invalid="ignore"):
        low, high = float(block.min()), float(block.max())
    return bool(low >= -LARGEST and high <= LARGEST)


def _inspect(scan: _Scan, rows: Rows, block: NDArray[Any]) -> None:
    empty = np.isnan(block).all(axis=1)
    scan.empty.append(rows[empty])
    rows, block = rows[~empty], block[~empty]
    where, columns = np.nonzero(~(np.abs(block) <= LARGEST))
    scan.add(rows[where], columns, block[where, columns])


def _scan_sparse(stored: Stored, observed: NDArray[np.bool_]) -> _Scan:
    scan = _Scan()
    if _usable(stored.data):
        return scan
    rows = np.repeat(np.arange(stored.shape[0]), np.diff(stored.indptr))
    visible = observed[rows]
    n_nan = np.bincount(rows[visible & np.isnan(stored.data)], minlength=stored.shape[0])
    empty = n_nan == stored.shape[1]
    scan.empty.append(np.flatnonzero(empty))
    visible &= ~empty[rows]
    scan.add(rows[visible], stored.indices[visible], stored.data[visible])
    return scan


def _refuse(
    name: str, fault: _Fault, ids: Any, columns: Sequence[Any] | None, what: str, advice: str
) -> None:
    assert fault.first is not None  # noqa: S101  (tells the type checker what the caller knows)
    row, column, value = fault.first
    n_rows = sum(map(len, fault.rows))
    label = f"{column}" if columns is None else f"{column} ({columns[column]!r})"
    raise ViewError(
        f"view {name!r}: {fault.n_values} {what} values in {n_rows} rows that are not missing; "
        f"first: row id {ids[row]!s}, column {label}, value {value:g}; {advice}"
    )
