"""What all file formats share: the entry of the registry, limits on size, and checked results.

A format is one module of this package with a constant `FORMAT`; `viewgap.data.formats.registry`
finds it there. Readers trust nothing in a file: `check_size` comes before memory is taken, and
`reading` makes `errors.damaged_file` of whatever a library raises for a damaged file.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viewgap.data.formats.number_advice import SECOND_HEADER
from viewgap.data.formats.options import TableRequest
from viewgap.data.labels import Labels, SparseLabels, is_too_large
from viewgap.data.labels.labels import EntryNames
from viewgap.data.rows.values import is_sparse
from viewgap.data.validation import as_labels
from viewgap.data.viewset import ViewSet
from viewgap.errors import (
    DataFileError,
    InputError,
    SettingError,
    ViewgapError,
    ViewgapWarning,
    damaged_file,
    first_few,
)

PathLike = str | os.PathLike[str]

LIMIT_VARIABLE = "VIEWGAP_MAX_FILE_BYTES"
MISSING_WORDS = frozenset(
    ("", "?", "na", "n/a", "#n/a", "#na", "<na>", "nan", "-nan", "null", "none")
)
"""Texts that count as not measured in a view, in any case; `none` too, as pandas writes it."""

DEFAULT_LIMIT = 8 * 2**30
MAX_VIEWS = 1000
_CUT_NUMBER = re.compile(r"-?\d([.,]\d+)?[eE]\+\d+")


@dataclass(frozen=True, eq=False)
class RawData:
    """What a data file holds.

    Attributes
    ----------
    views : ViewSet
        The views; their rows are in the order of `labels`.
    labels : array of shape (n, c), SparseLabels, or None
        0, 1, and NaN = not observed; sparse where an array would be too large; None if there are
        no labels.
    label_names : tuple of str
        Names of the labels.
    """

    views: ViewSet
    labels: NDArray[np.float64] | SparseLabels | None
    label_names: tuple[str, ...]


@dataclass(frozen=True)
class Format:
    """One file format: how it is recognised, read and inspected.

    Exactly one of `read`, `read_table` and `read_array` is given, or `read` and `read_array` with
    `is_array`.

    Attributes
    ----------
    name : str
        Name of the format.
    title : str
        How a message calls a file of this format, as in "an .npz archive".
    suffixes : tuple of str
        Endings of file names, in small letters.
    read : callable, optional
        `read(path, nan=..., with_labels=...) -> RawData`, of a file that holds all views.
    read_table : callable, optional
        `read_table(path, request) -> DataFrame`, of a file that holds one view, the labels, or
        both in columns side by side; the index holds the sample ids as text. `request` is a
        `TableRequest`.
    read_columns : callable, optional
        `read_columns(path) -> list of str`: the columns of a table, ids included, without its rows.
    read_array : callable, optional
        `read_array(path) -> array`, of a file that holds one view without sample ids.
    is_array : callable, optional
        `is_array(path) -> bool`, whether a file holds one view, for `read_array`, or all of them.
    describe : callable, optional
        `describe(path) -> dict`, what can be told without reading the views: n, c, cardinality,
        and views ({name: width}).
    beside : tuple of str
        Endings of files of the same name that are read with it.
    is_folder : bool
        Whether a "file" of this format is a folder with files of its own.
    options : tuple of str
        Names of `ReadOptions` that `read` takes, as its parameter `options`.
    takes_known : bool
        Whether `read` takes `known`, the views of a model with the names of their columns, and then
        reads no others.
    """

    name: str
    title: str
    suffixes: tuple[str, ...]
    read: Callable[..., RawData] | None = None
    read_table: Callable[[Path, TableRequest], Any] | None = None
    read_columns: Callable[[Path], list[str]] | None = None
    read_array: Callable[[Path], Any] | None = None
    is_array: Callable[[Path], bool] | None = None
    describe: Callable[[Path], dict[str, Any]] | None = None
    beside: tuple[str, ...] = ()
    is_folder: bool = False
    options: tuple[str, ...] = ()
    takes_known: bool = False


# ---------------------------------------------------------------------- limits


def size_limit() -> int:
    """Most bytes that a data file may expand to; 8 GiB, or what VIEWGAP_MAX_FILE_BYTES says."""
    text = os.environ.get(LIMIT_VARIABLE)
    if text is None:
        return DEFAULT_LIMIT
    try:
        limit = int(text)
    except ValueError:
        limit = 0
    if limit < 1:
        raise SettingError(f"{LIMIT_VARIABLE} must be a positive whole number, found {text!r}")
    return limit


def check_size(path: Path, n_bytes: int) -> None:
    """Refuse a file whose contents would take more memory than the limit."""
    limit = size_limit()
    if n_bytes > limit:
        raise DataFileError(
            f"{path}: its contents would take {n_bytes:,} bytes, more than the limit of {limit:,}; "
            f"if you trust the file, set the environment variable {LIMIT_VARIABLE}"
        )


def check_n_views(path: Path, count: int) -> None:
    """Refuse a file that claims more views than any data has, before they are looked at."""
    if count > MAX_VIEWS:
        raise DataFileError(f"{path}: {count:,} views, more than the {MAX_VIEWS:,} that are read")


def check_n_rows(path: Path, views: Mapping[str, Any]) -> None:
    """Refuse views that stay in a file, but whose ids and masks alone would exceed the limit."""
    rows = [view.shape[0] for view in views.values() if view.shape]
    check_size(path, max(rows, default=0) * max(8, len(views)))


def name_members(path: Path, members: Iterable[str], expected: Sequence[str]) -> None:
    """Name what is not read, and refuse a mask: values under it would be taken for measured ones.

    Groups have no order of their own, in which the columns of a mask could be those of the views.
    """
    others = sorted(set(members) - set(expected))
    masks = [name for name in others if "mask" in name.lower() or "observed" in name.lower()]
    if masks:
        raise DataFileError(
            f"{path}: {masks[0]!r} is not read from a file of this kind; where a sample lacks a "
            "view, write a row of NaN instead, or write an .npz archive with view_mask"
        )
    if others:
        warnings.warn(
            f"{path}: not read: {first_few(others)}; expected {', '.join(expected)}",
            ViewgapWarning,
            stacklevel=4,
        )


def existing_file(path: PathLike) -> Path:
    """Return the path of a file that can be opened."""
    file = Path(path)
    if not file.is_file():
        what = "is a folder" if file.is_dir() else "does not exist"
        raise DataFileError(f"{file}: expected a data file, but it {what}")
    try:
        with file.open("rb"):
            return file
    except OSError as error:
        raise DataFileError(f"{file}: cannot be opened: {error.strerror}") from error


def stem_of(path: Path) -> str:
    """Return the name of a table or view: that of its file without endings (`genes.csv.gz`)."""
    return path.with_suffix("").stem if path.suffix.lower() == ".gz" else path.stem


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn whatever a library raises for a damaged file into `damaged_file`."""
    try:
        yield
    except (ViewgapError, ImportError, Warning):  # warnings that were made errors, too
        raise
    except Exception as error:  # libraries promise no particular errors for damaged files
        raise damaged_file(path, error) from error


# ---------------------------------------------------------------------- results


def raw_data(
    path: Path,
    views: Mapping[str, Any],
    labels: Any = None,
    label_names: Sequence[str] = (),
    *,
    nan: str,
    **options: Any,
) -> RawData:
    """Return checked views and labels; errors name `path`. `options` are those of `ViewSet`."""
    for name in views:
        check_text(path, "the name of a view", name)
    try:
        # What is returned beside the views follows the order of their rows.
        checked = ViewSet(views, nan=nan, **options).with_fixed_row_order()
        if labels is None:
            return RawData(checked, None, ())
        values = as_labels(labels, checked, label_names)
    except InputError as error:
        raise type(error)(f"{path}: {error}") from error
    return labelled_data(checked, values)


def labelled_data(views: ViewSet, labels: Labels) -> RawData:
    """Return views and their labels, as an array unless these are too large for that."""
    kept = labels if isinstance(labels, SparseLabels) else labels.as_float()
    return RawData(views, kept, labels.names)


def dense_labels(labels: NDArray[np.float64] | SparseLabels) -> NDArray[np.float64]:
    """Return labels of `RawData` as an array; an error where that would be too large."""
    return labels.as_float() if isinstance(labels, SparseLabels) else labels


def from_arrays(
    path: Path,
    views: Mapping[str, Any],
    label: Any,
    label_names: Any = None,
    entry_ids: Any = None,
    **options: Any,
) -> RawData:
    """Return `raw_data` of views and a matrix of label numbers, either of which may be None.

    `entry_ids` are the ids that a message about a label names, where views carry them.
    """
    if label is None:
        return raw_data(path, views, **options)
    count = label.shape[1] if label.ndim == 2 else 0
    names = read_names(path, label_names, count, "label") if count else ()
    ids = options.get("sample_ids") if entry_ids is None else entry_ids
    entries = EntryNames(ids, names if label.ndim == 2 else None)
    return raw_data(path, views, zero_one(path, label, entries), names, **options)


def zero_one(path: Path, label: Any, entries: EntryNames) -> Any:
    """Return labels as 0, 1 and NaN; the field's files also write -1 for 0.

    Sparse ones that would be too large stay sparse; whoever makes labels of them checks them.
    """
    if is_sparse(label) and is_too_large(label.shape):
        return label
    check_size(path, 8 * int(np.prod(label.shape, dtype=object)))
    dense = np.asarray(label.toarray() if is_sparse(label) else label)
    if dense.dtype.kind not in "buif":
        raise DataFileError(f"{path}: labels must be numbers, found dtype {dense.dtype}")
    values = dense.astype(np.float64)
    distinct = np.unique(values[~np.isnan(values)])
    if not (np.isin(distinct, (0, 1)).all() or np.isin(distinct, (-1, 1)).all()):
        allowed = (-1, 1) if 0 not in distinct and -1 in distinct else (0, 1)
        wrong = ~np.isnan(values) & ~np.isin(values, allowed)
        first = np.argwhere(wrong)[0] if values.ndim == 2 else None
        where = "" if first is None else f" in {entries.entry(*first.tolist())}"
        both = {-1, 0, 1} >= set(distinct.tolist())
        more = "; where one of them means unknown, write NaN for it" if both else ""
        raise DataFileError(
            f"{path}: labels must be 0 and 1, or -1 and 1; found {values[wrong][0]}{where}{more}"
        )
    if -1 in distinct and path.suffix.lower() != ".mat":  # there it is the custom of the field
        note = "labels are -1 and 1: read -1 as 0, absent; where it means unknown, write NaN"
        warnings.warn(f"{path}: {note}", ViewgapWarning, stacklevel=5)
    values[values == -1] = 0
    return values


def label_summary(labels: Any) -> dict[str, Any]:
    """Return n, c and cardinality of a label matrix, for `Format.describe`."""
    n, c = labels.shape
    stored = labels.data if is_sparse(labels) else np.asarray(labels)
    return {"n": n, "c": c, "cardinality": float(np.count_nonzero(stored == 1) / max(n, 1))}


def read_names(path: Path, given: Any, count: int, what: str) -> tuple[str, ...]:
    """Return given names as text, or `<what>0`, `<what>1`, ..."""
    if given is None:
        return tuple(f"{what}{i}" for i in range(count))
    names = text_of(path, f"{what} names", given)
    if "" in names:
        raise DataFileError(f"{path}: {what} {names.index('') + 1} of {count} has no name")
    if len(names) != count:
        raise DataFileError(f"{path}: {len(names)} {what} names for {count} {what}s")
    return names


def text_of(path: Path, what: str, given: Any) -> tuple[str, ...]:
    """Return an array or list of names as text; bytes are UTF-8."""
    items = (
        [given] if isinstance(given, str) else np.ravel(given) if hasattr(given, "ndim") else given
    )
    try:
        names = [item.decode() if isinstance(item, bytes) else str(item) for item in items]
    except ValueError as error:  # code points that do not exist
        raise DataFileError(f"{path}: {what} are no valid text: {error}") from error
    for name in names:
        check_text(path, what, name)
    return tuple(name.strip() for name in names)


def check_ids(where: object, ids: Sequence[str], after: str = "") -> None:
    """Refuse ids in text that name no sample for certain; `where` tells whose ids they are."""
    for place, sample in enumerate(ids, 1):
        if sample.lower() in MISSING_WORDS:
            shown = (
                f"{sample!r}, which stands for something absent; if it is an id, write it otherwise"
            )
            header = f"; {SECOND_HEADER}" if after and place == 1 and not sample else ""
            raise DataFileError(
                f"{where}; row {place}{after} has {shown if sample else 'none'}{header}"
            )
        if "+" in sample and _CUT_NUMBER.fullmatch(sample):
            raise DataFileError(
                f"{where}; found {sample!r}, a long number of which a spreadsheet or a float has "
                "kept the first digits only; write the ids anew, as text"
            )


def stored_ids(path: Path, what: str, values: NDArray[Any]) -> NDArray[Any]:
    """Return an array of sample ids as text, or as whole numbers."""
    if values.dtype.kind in "iu":
        return values
    if values.dtype.kind == "f" and not (values % 1 == 0).all():  # NaN and infinity, too
        raise DataFileError(f"{path}: {what} must be text or whole numbers, found decimal ones")
    if values.dtype.kind == "f" and (np.abs(values) < 2**53).all():
        return values.astype(np.int64)
    if values.dtype.kind not in "UOSTf":
        raise DataFileError(f"{path}: {what} must be text or whole numbers, found {values.dtype}")
    texts = text_of(path, what, values)
    check_ids(f"{path}: {what} must name every sample", texts)
    return np.array(texts)


def check_text(path: Path, what: str, name: str) -> None:
    """Refuse code points that no text can hold; they could never be printed or saved."""
    try:
        str(name).encode()
    except UnicodeEncodeError as error:
        raise DataFileError(f"{path}: {what}: {name!r} is no valid text") from error
