"""Labels written as words: yes/no, positive/negative, ... and what stands for an unknown label."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viewgap.data.id_mismatch import shown_id
from viewgap.errors import LabelError, ViewgapWarning

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


@dataclass(frozen=True)
class Places:
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


def read_words(matrix: NDArray[Any], places: Places) -> NDArray[np.float64]:
    """Return numbers (n, c) of cells that are numbers, booleans, words, None or NaN.

    How words were read is told in one warning.
    """
    result = np.empty(matrix.shape, dtype=np.float64)
    readings: dict[tuple[tuple[str, str], ...], list[int]] = {}
    for j in range(matrix.shape[1]):
        try:
            result[:, j] = [_PLAIN[cell] for cell in matrix[:, j]]
            continue
        except (KeyError, TypeError):
            pass
        reading: Reading = {}
        result[:, j] = _read_column(matrix[:, j], reading, partial(places.entry, column=j))
        if reading:
            readings.setdefault(tuple(sorted(reading.items(), key=_order)), []).append(j)
    if readings:
        _tell(readings, places)
    return result


def is_label_cell(cell: str) -> bool:
    """Whether a text is 0, 1, one of the words, or stands for unknown."""
    word = cell.strip().lower()
    return word in UNKNOWN or word in _PAIR_OF or word in ("0", "1", "0.0", "1.0")


def _read_column(
    cells: NDArray[Any], reading: Reading, where: Callable[[int], str]
) -> NDArray[np.float64]:
    """Read one column; `reading` receives the words that were met, and their values."""
    values: dict[Any, float] = {}
    kind: Any = None  # the pair of words of this column, or "numbers"
    for i, cell in enumerate(cells):
        key = (type(cell), cell) if not _is_unknown(cell) else None
        try:
            if key in values:
                continue
        except TypeError:  # a list or the like
            _refuse(where(i), cell)
        value, found = _meaning(cell)
        if found is None:
            _refuse(where(i), cell)
        if found != "unknown":
            if kind not in (None, found):
                _refuse_mixture(where(i), cell, kind)
            kind = found
        values[key] = value
        if isinstance(cell, str) and cell.strip() and not _is_number(cell):
            reading[cell.strip()] = "unknown" if np.isnan(value) else f"{value:g}"
    if "-" in reading and "+" not in reading:
        first = next(i for i, cell in enumerate(cells) if str(cell).strip() == "-")
        raise LabelError(
            f"{where(first)}: '-' without any '+' in its column could mean absent or unknown; "
            "write 0 for absent, and leave unknown labels blank"
        )
    return np.array(
        [values[None if _is_unknown(cell) else (type(cell), cell)] for cell in cells],
        dtype=np.float64,
    )


def _meaning(cell: Any) -> tuple[float, Any]:
    """Value of a cell, and `"numbers"`, its pair of words, `"unknown"`, or None."""
    if _is_unknown(cell):
        return float("nan"), "unknown"
    if not isinstance(cell, str):
        try:
            return (0.0, None) if isinstance(cell, bytes) else (float(cell), "numbers")
        except (TypeError, ValueError):
            return 0.0, None
    word = cell.strip().lower()
    if word in UNKNOWN:
        return float("nan"), "unknown"
    if word in _PAIR_OF:
        return float(word == _PAIR_OF[word][0]), _PAIR_OF[word]
    return (float(word), "numbers") if _is_number(word) else (0.0, None)


def _is_unknown(cell: Any) -> bool:
    """Whether a cell is None, NaN or pandas' NA or NaT, told without importing pandas."""
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(cell, float | np.floating) and bool(np.isnan(cell))


def _is_number(text: str) -> bool:
    try:
        return not np.isnan(float(text)) and "_" not in text
    except ValueError:
        return False


def _refuse(place: str, cell: Any) -> None:
    shown = repr(cell if not isinstance(cell, str) or len(cell) <= 40 else cell[:37] + "...")
    words = ", ".join("/".join(pair) for pair in PAIRS)
    raise LabelError(
        f"{place}: found {shown}, but labels must be 0, 1 or NaN (not observed; a blank cell in a "
        f"file); the words {words} are read as 1/0, and ?, NA, null, unknown as not observed. "
        "Classes become one column of 0 and 1 each"
    )


def _refuse_mixture(place: str, cell: Any, kind: Any) -> None:
    before = "numbers" if kind == "numbers" else "/".join(kind)
    raise LabelError(
        f"{place}: found {cell!r} in a column of {before}; write all labels of a column in one way"
    )


def _order(entry: tuple[str, str]) -> tuple[int, str]:
    word, value = entry
    return ("1", "0", "unknown").index(value), word


def _tell(readings: dict[tuple[tuple[str, str], ...], list[int]], places: Places) -> None:
    parts = []
    for reading, columns in list(readings.items())[:_SHOWN_COLUMNS]:
        words = ", ".join(f"{word!r} as {value}" for word, value in reading)
        parts.append(f"{_names(columns, places)}: read {words}")
    more = ", ..." if len(readings) > _SHOWN_COLUMNS else ""
    warnings.warn(f"labels: {'; '.join(parts)}{more}", ViewgapWarning, stacklevel=2)


def _names(columns: Sequence[int], places: Places) -> str:
    shown = ", ".join(places.label(j) for j in columns[:_SHOWN_COLUMNS])
    more = len(columns) - _SHOWN_COLUMNS
    return shown + (f" and {more} more" if more > 0 else "")
