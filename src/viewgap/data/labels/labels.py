"""Labels: a checked label matrix, and how labels are read from what users have.

Accepted are 0, 1 and NaN (not observed), booleans, and words such as yes and no; which words were
read as what is told in one warning.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viewgap.data.labels.label_advice import (
    advice_on_classes,
    advice_on_other_columns,
    way_to_split,
)
from viewgap.data.rows.alignment import is_frame, refuse_duplicates
from viewgap.data.rows.ids import compared_ids, likely_cause, shown_id, unusable_ids
from viewgap.data.rows.values import is_sparse, row_chunks, row_numbers
from viewgap.errors import LabelError, ViewgapWarning, remedy

PAIRS = (
    ("yes", "no"),
    ("y", "n"),
    ("true", "false"),
    ("t", "f"),
    ("positive", "negative"),
    ("pos", "neg"),
    ("present", "absent"),
    ("+", "-"),
)
"""Words for a label that is there and one that is not, in any case."""

UNKNOWN = frozenset(("", "?", "na", "n/a", "#n/a", "<na>", "nan", "null", "unknown"))
"""Words for a label that was not observed, in any case."""

_PAIR_OF = {word: pair for pair in PAIRS for word in pair}
_SHOWN_COLUMNS = 3

_PLAIN: dict[Any, float] = {0: 0.0, 1: 1.0, "0": 0.0, "1": 1.0, "0.0": 0.0, "1.0": 1.0}
_PLAIN |= {"": float("nan"), None: float("nan")}

Reading = dict[str, str]  # word: "1", "0" or "unknown"


@dataclass(frozen=True, eq=False)
class Labels:
    """Labels (n, c) of n samples.

    `values` is 1 where a label is known to be there, 0 elsewhere; `observed` is True where it
    is known at all. Both are read-only. Use `as_labels` to make one from user input.
    """

    values: NDArray[np.uint8]
    observed: NDArray[np.bool_]
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        shape = self.values.shape
        if len(shape) != 2 or self.observed.shape != shape or len(self.names) != shape[1]:
            raise LabelError(
                f"values {shape}, observed {self.observed.shape} and {len(self.names)} names "
                "do not fit together; expected (n, c), (n, c) and c"
            )
        values = self.values.astype(np.uint8) * self.observed
        observed = self.observed.astype(np.bool_)
        for part in (values, observed):
            part.flags.writeable = False
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "observed", observed)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: Any) -> Labels:
        """Return the labels of some rows: slice, integers, booleans, or one integer (one row)."""
        wanted = row_numbers(rows, len(self))
        return Labels(self.values[wanted], self.observed[wanted], self.names)

    @property
    def n_labels(self) -> int:
        """Number of labels c."""
        return len(self.names)

    @property
    def shape(self) -> tuple[int, int]:
        """(number of samples, number of labels)."""
        return len(self), self.n_labels

    def as_float(self) -> NDArray[np.float64]:
        """(n, c) with NaN where a label was not observed."""
        result = self.values.astype(np.float64)
        result[~self.observed] = np.nan
        return result

    @property
    def n_observed(self) -> int:
        """Number of observed entries."""
        return int(self.observed.sum())

    def positive_counts(self) -> NDArray[np.int64]:
        """(c,) samples that are known to have each label."""
        return np.asarray(self.values.sum(axis=0, dtype=np.int64))

    def observed_counts(self) -> NDArray[np.int64]:
        """(c,) samples of which each label is known."""
        return np.asarray(self.observed.sum(axis=0, dtype=np.int64))

    def rows_with_observed(self) -> NDArray[np.bool_]:
        """(n,) whether any label of a sample is known."""
        return np.asarray(self.observed.any(axis=1))

    def positive_entries(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Row and column of every positive, row by row."""
        rows, columns = np.nonzero(self.values)
        return rows, columns

    def negative_entries(self, columns: NDArray[np.intp]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Row and column of every observed negative of some labels."""
        rows, place = np.nonzero(self.observed[:, columns] & (self.values[:, columns] == 0))
        return rows, columns[place]

    def co_occurrences(self, columns: NDArray[np.intp]) -> NDArray[np.float32]:
        """(k, k) samples that are known to have two labels, for every two of some labels."""
        positive = self.values[:, columns].astype(np.float32)
        return positive.T @ positive

    def without_rows(self, rows: NDArray[np.bool_]) -> Labels:
        """Return these labels with nothing known about some samples, given as (n,) booleans."""
        seen = ~rows[:, np.newaxis]
        return Labels(self.values * seen, self.observed & seen, self.names)

    def followed_by(self, others: Sequence[Labels]) -> Labels:
        """Return these labels and those of other samples, one after the other."""
        parts = [self, *others]
        values = np.vstack([own.values for own in parts])
        return Labels(values, np.vstack([own.observed for own in parts]), self.names)

    def with_unobserved_rows(self, count: int) -> Labels:
        """Return these labels followed by `count` samples about which nothing is known."""
        nothing = np.zeros((count, self.n_labels), dtype=np.bool_)
        values = np.vstack([self.values, nothing.astype(np.uint8)])
        return Labels(values, np.vstack([self.observed, nothing]), self.names)

    def frequency(self) -> NDArray[np.float64]:
        """(c,) share of the observed samples that have the label; NaN if never observed."""
        count, positive = self.observed_counts(), self.positive_counts()
        result = np.full(self.n_labels, np.nan)
        np.divide(positive, count, out=result, where=count > 0)
        return result


@dataclass(frozen=True)
class EntryNames:
    """Names entries of a label matrix in messages, by id and label name where they are known."""

    ids: Sequence[Any] | NDArray[Any] | None = None
    names: Sequence[str] | None = None

    def entry(self, row: int, column: int) -> str:
        """Return `sample 's1', label 'cat'`, or `row 0, column 1`."""
        row_name = f"row {row}" if self.ids is None else f"sample {shown_id(self.ids[row])}"
        return f"{row_name}, {self.label(column)}"

    def label(self, column: int) -> str:
        """Return `label 'cat'`, or `column 1`."""
        return f"column {column}" if self.names is None else f"label {self.names[column]!r}"


def read_labels(Y: Any, ids: NDArray[Any] | None, names: Sequence[str] | None) -> Labels:
    """Return `Labels` of an (n, c) array, DataFrame, list or sparse matrix.

    `ids` are the ids of the samples, if they have any: a DataFrame is aligned to them.
    """
    if is_frame(Y):
        Y = _align_rows(_choose_columns(Y, names), ids)
        names = [str(column) for column in Y.columns]
        ids = Y.index.to_numpy()
        Y = _frame_values(Y)
    if is_sparse(Y):
        values, observed = _from_sparse(Y, entry_names(Y, ids, names))
    else:
        matrix = _as_matrix(Y)
        values, observed = _from_dense(matrix, entry_names(matrix, ids, names))
    if names is None:
        names = [f"label{j}" for j in range(values.shape[1])]
    elif len(names) != values.shape[1]:
        raise LabelError(f"expected {len(names)} labels, found {values.shape[1]} columns")
    refuse_duplicates("label names", list(names), LabelError)
    return Labels(values, observed, tuple(names))


def entry_names(matrix: Any, ids: NDArray[Any] | None, names: Sequence[str] | None) -> EntryNames:
    """Names of rows and columns for messages, as far as they fit the matrix."""
    rows, columns = matrix.shape
    return EntryNames(
        ids if ids is not None and len(ids) == rows else None,
        names if names is not None and len(names) == columns else None,
    )


# ---------------------------------------------------------------------- DataFrames


def _choose_columns(frame: Any, names: Sequence[str] | None) -> Any:
    """Columns in the order of `names`."""
    order = column_order([str(column) for column in frame.columns], names)
    return frame if order is None else frame.iloc[:, order]


def column_order(columns: Sequence[str], names: Sequence[str] | None) -> list[int] | None:
    """Numbers of the columns of labels in the order of `names`; None where that is theirs."""
    refuse_duplicates("label names", columns, LabelError)
    if names is None or list(columns) == list(names):
        return None
    if sorted(columns) != sorted(names):
        different = sorted(set(columns) ^ set(names))
        raise LabelError(
            f"the label names differ from the expected ones: {', '.join(different[:5])}; "
            "rename the columns"
            + remedy(", or pass an array in the right order", " of the label table")
        )
    place = {name: j for j, name in enumerate(columns)}
    return [place[name] for name in names]


def _align_rows(frame: Any, ids: NDArray[Any] | None) -> Any:
    """Rows in the order of `ids`; NaN where the frame has no row."""
    positions = row_positions(frame.index, frame.columns, ids, stacklevel=6)
    return frame if positions is None else frame.reindex(ids)


def row_positions(
    index: Any, columns: Any, ids: NDArray[Any] | None, stacklevel: int
) -> NDArray[np.intp] | None:
    """Rows of labels with this index for the samples `ids`, -1 without; None if they are so."""
    if ids is None:
        return None
    problem = unusable_ids(index)
    if problem:
        raise LabelError(f"labels: {problem}")
    if np.array_equal(index.to_numpy(), ids):
        return None
    if index.has_duplicates:
        refuse_duplicates("labels: sample ids", index.tolist(), LabelError)
    matched = index.isin(ids)
    if not matched.any():
        both = compared_ids("the labels", index, "the views", ids)
        cause = likely_cause(index, {"the views": ids}, columns)
        raise LabelError(
            f"the labels have no id in common with the samples: {both}; "
            f"{cause or 'set the sample ids as index of the labels'}"
        )
    if not matched.all():
        extra = index[~matched]
        raise LabelError(
            f"{len(extra)} rows of labels belong to no sample of the views (first: "
            f"{shown_id(extra[0])}); "
            + remedy("leave them out, as in Y.loc[views.sample_ids]", "remove them from the table")
        )
    positions: NDArray[np.intp] = index.get_indexer(ids)
    if (positions < 0).any():
        first = ids[np.argmax(positions < 0)]
        warnings.warn(
            f"{(positions < 0).sum()} samples have no row of labels (first id: {shown_id(first)}); "
            "their labels count as not observed",
            ViewgapWarning,
            stacklevel=stacklevel,
        )
    return positions


def _frame_values(frame: Any) -> Any:
    """Values of a DataFrame; a matrix of objects where some column is not of numbers."""
    kinds = frame.dtypes.unique()
    if all(isinstance(dtype, np.dtype) for dtype in kinds):
        return frame.to_numpy()
    if all(getattr(dtype, "kind", "O") in "buif" for dtype in kinds):
        return frame.to_numpy(dtype=np.float64, na_value=np.nan)
    return frame.to_numpy(dtype=object)


# ---------------------------------------------------------------------- arrays


def _as_matrix(Y: Any) -> NDArray[Any]:
    if isinstance(Y, np.ma.MaskedArray):
        raise LabelError(
            "a masked array loses its mask in scikit-learn's splits and scores; mark unobserved "
            "labels by NaN: Y.astype(float).filled(numpy.nan)"
        )
    try:
        matrix = np.asarray(Y)
    except ValueError as error:
        raise LabelError(
            "expected a matrix (samples, labels), found rows of different lengths; sets of labels "
            "become a matrix by sklearn.preprocessing.MultiLabelBinarizer"
        ) from error
    if matrix.ndim != 2:
        one = remedy("one label is Y.reshape(-1, 1)", "one label is a matrix (samples, 1)")
        advice = (
            f"{one}; classes that exclude each other become one column each"
            if matrix.ndim == 1
            else "give one row per sample"
        )
        raise LabelError(f"expected (samples, labels), found shape {matrix.shape}; {advice}")
    if 0 in matrix.shape:
        raise LabelError(f"expected at least one sample and one label, found shape {matrix.shape}")
    if matrix.dtype.kind not in "buifOUS":
        raise LabelError(f"labels must be 0, 1 or NaN, found dtype {matrix.dtype}")
    return matrix


def _from_dense(
    matrix: NDArray[Any], entries: EntryNames
) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    if matrix.dtype.kind in "OUS":
        matrix = read_words(matrix.astype(object), entries)
    values = np.zeros(matrix.shape, dtype=np.uint8)
    observed = np.ones(matrix.shape, dtype=np.bool_)
    for part in row_chunks(len(matrix), matrix.shape[1] * matrix.dtype.itemsize):
        block = matrix[part]
        if matrix.dtype.kind == "f":
            observed[part] = ~np.isnan(block)
        positive = block == 1
        wrong = observed[part] & ~positive & (block != 0)
        if wrong.any():
            row, column = np.argwhere(wrong)[0]
            refuse_value(block[row, column], entries.entry(part.start + row, column))
        values[part] = positive
    return values, observed


def _from_sparse(Y: Any, entries: EntryNames) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    stored = Y.tocsr().tocoo()
    values = np.zeros(stored.shape, dtype=np.uint8)
    observed = np.ones(stored.shape, dtype=np.bool_)
    data = stored.data.astype(np.float64)
    unknown = np.isnan(data)
    wrong = ~unknown & (data != 0) & (data != 1)
    if wrong.any():
        first = int(np.argmax(wrong))
        refuse_value(stored.data[first], entries.entry(stored.row[first], stored.col[first]))
    values[stored.row[data == 1], stored.col[data == 1]] = 1
    observed[stored.row[unknown], stored.col[unknown]] = False
    return values, observed


def refuse_value(value: Any, where: str) -> None:
    """Refuse a number that is no label, with what to do about it."""
    if value == -1:
        absent = remedy("pass (Y > 0)", "write 0")
        unknown = remedy("put NaN", "leave it blank")
        advice = f"if -1 stands for absent, {absent}; if it stands for unknown, {unknown}"
    elif 0 < value < 1:
        advice = "soft labels are not supported; choose a threshold, or put NaN for unknown"
        advice += f"; {advice_on_other_columns()}"
    else:
        advice = f"class numbers become one column of 0 and 1 each {way_to_split()}"
        advice += f"; {advice_on_other_columns()}"
    raise LabelError(
        f"labels must be 0, 1 or NaN (not observed), found {value:g} in {where}; {advice}"
    )


# ---------------------------------------------------------------------- labels as words


def read_words(matrix: NDArray[Any], entries: EntryNames) -> NDArray[np.float64]:
    """Return numbers (n, c) of entries that are numbers, booleans, words, None or NaN.

    How words were read is told in one warning.
    """
    result = np.empty(matrix.shape, dtype=np.float64)
    readings: dict[tuple[tuple[str, str], ...], list[int]] = {}
    for j in range(matrix.shape[1]):
        try:
            result[:, j] = [_PLAIN[value] for value in matrix[:, j]]
            continue
        except (KeyError, TypeError):
            pass
        reading: Reading = {}
        result[:, j] = _read_column(matrix[:, j], reading, partial(entries.entry, column=j))
        if reading:
            readings.setdefault(tuple(sorted(reading.items(), key=_order)), []).append(j)
    if readings:
        _tell(readings, entries)
    return result


def is_label_text(value: str) -> bool:
    """Whether a text is 0, 1, one of the words, or stands for unknown."""
    word = value.strip().lower()
    return word in UNKNOWN or word in _PAIR_OF or word in ("0", "1", "0.0", "1.0")


def _read_column(
    column: NDArray[Any], reading: Reading, where: Callable[[int], str]
) -> NDArray[np.float64]:
    """Read one column; `reading` receives the words that were met, and their values."""
    numbers: dict[Any, float] = {}
    kind: Any = None  # the pair of words of this column, or "numbers"
    for i, value in enumerate(column):
        key = (type(value), value) if not _is_unknown(value) else None
        try:
            if key in numbers:
                continue
        except TypeError:  # a list or the like
            _refuse(where(i), value)
        number, kind_of_value = _meaning(value)
        if kind_of_value is None:
            _refuse(where(i), value)
        if kind_of_value != "unknown":
            if kind not in (None, kind_of_value):
                _refuse_mixture(where(i), value, kind)
            kind = kind_of_value
        numbers[key] = number
        if isinstance(value, str) and value.strip() and not _is_number(value):
            reading[value.strip()] = "unknown" if np.isnan(number) else f"{number:g}"
    if "-" in reading and "+" not in reading:
        first = next(i for i, value in enumerate(column) if str(value).strip() == "-")
        raise LabelError(
            f"{where(first)}: '-' without any '+' in its column could mean absent or unknown; "
            "write 0 for absent, and leave unknown labels blank"
        )
    return np.array(
        [numbers[None if _is_unknown(value) else (type(value), value)] for value in column],
        dtype=np.float64,
    )


def _meaning(value: Any) -> tuple[float, Any]:
    """Return the number of a value, and `"numbers"`, its pair of words, `"unknown"` or None."""
    if _is_unknown(value):
        return float("nan"), "unknown"
    if not isinstance(value, str):
        try:
            return (0.0, None) if isinstance(value, bytes) else (float(value), "numbers")
        except (TypeError, ValueError):
            return 0.0, None
    word = value.strip().lower()
    if word in UNKNOWN:
        return float("nan"), "unknown"
    if word in _PAIR_OF:
        return float(word == _PAIR_OF[word][0]), _PAIR_OF[word]
    return (float(word), "numbers") if _is_number(word) else (0.0, None)


def _is_unknown(value: Any) -> bool:
    """Whether a value is None, NaN or pandas' NA or NaT, without importing pandas."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating) and bool(np.isnan(value))


def _is_number(text: str) -> bool:
    try:
        return not np.isnan(float(text)) and "_" not in text
    except ValueError:
        return False


def _refuse(where: str, value: Any) -> None:
    shown = repr(value if not isinstance(value, str) or len(value) <= 40 else value[:37] + "...")
    words = ", ".join("/".join(pair) for pair in PAIRS)
    raise LabelError(
        f"{where}: found {shown}, but labels must be 0, 1 or NaN (not observed; blank in a file)"
        f"; the words {words} are read as 1/0, and ?, NA, null, unknown as not observed. "
        f"{advice_on_classes(value)}"
    )


def _refuse_mixture(where: str, value: Any, kind: Any) -> None:
    before = "numbers" if kind == "numbers" else "/".join(kind)
    raise LabelError(
        f"{where}: found {value!r} in a column of {before}; write all labels of a column in one way"
    )


def _order(entry: tuple[str, str]) -> tuple[int, str]:
    word, value = entry
    return ("1", "0", "unknown").index(value), word


def _tell(readings: dict[tuple[tuple[str, str], ...], list[int]], entries: EntryNames) -> None:
    parts = []
    for reading, columns in list(readings.items())[:_SHOWN_COLUMNS]:
        labels = ", ".join(entries.label(j) for j in columns[:_SHOWN_COLUMNS])
        others = len(columns) - _SHOWN_COLUMNS
        words = ", ".join(f"{word!r} as {value}" for word, value in reading)
        parts.append(f"{labels}{f' and {others} more' if others > 0 else ''}: read {words}")
    more = ", ..." if len(readings) > _SHOWN_COLUMNS else ""
    warnings.warn(f"labels: {'; '.join(parts)}{more}", ViewgapWarning, stacklevel=2)
