"""Rows that sum up the others, as spreadsheets and pivot tables have them: they are no samples.

An id alone is no proof, since a sample may be called anything; nor are numbers alone. A row is
refused where its id says that it holds sums or means, and its numbers are just these.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viewgap.data.rows.values import is_sparse, row_chunks
from viewgap.errors import ViewError, first_few

Rows = NDArray[np.intp]
Floats = NDArray[np.float64]

_SUMS = (
    *("total", "totals", "subtotal", "sum", "sums", "all", "overall", "margin", "\u03a3", "\u2211"),
    *("summe", "gesamt", "gesamtsumme", "gesamtergebnis", "insgesamt", "zwischensumme"),
    *("somme", "totaux", "suma", "somma", "soma", "totale", "totaal", "totalt", "summa"),
)
_MEANS = (
    *("mean", "means", "average", "averages", "avg", "\u00d8"),
    *("mittelwert", "mittel", "durchschnitt", "moyenne", "media", "promedio", "gemiddelde"),
    *("gennemsnit", "medelv\u00e4rde"),
)
_OTHERS = (
    *("median", "min", "max", "minimum", "maximum", "count", "std", "sd", "stdev", "sem"),
    *("variance", "range", "anzahl", "standardabweichung"),
)
_MORE = ("grand", "of", "the", "row", "rows", "column", "columns", "sample", "samples", "value")


def _pattern(words: Iterable[str]) -> re.Pattern[str]:
    """A pattern that finds these words where neither a letter nor a digit adjoins them."""
    return re.compile(rf"(?<![^\W_])(?:{'|'.join(words)})(?![^\W_])", re.IGNORECASE)


_SUM, _MEAN = _pattern(_SUMS), _pattern(_MEANS)
_ANY = _pattern((*_SUMS, *_MEANS, *_OTHERS))
_WHOLE = re.compile(
    rf"[\W_]*(?:(?:{'|'.join((*_SUMS, *_MEANS, *_OTHERS, *_MORE))})(?:[\W_]+|$))+", re.IGNORECASE
)
_WORD = re.compile(r"[^\W\d_]+|\u2211")
_WORDS = frozenset(word.lower() for word in (*_SUMS, *_MEANS, *_OTHERS))
_BLOCK = 10_000
_MOST_DECIMALS = 6  # numbers with more are not rounded ones
_ENOUGH = 0.9  # share of the columns: a formula may cover some of them only
_EXACT = 1e-6  # float32 was summed in another order


def named_like_summary(ids: Sequence[Any] | NDArray[Any]) -> list[Any]:
    """Return the ids that are nothing but the name of a statistic, such as `Total` or `mean`.

    Examples
    --------
    >>> named_like_summary(["s1", "total RNA", "Grand Total:", "AVG"])
    ['Grand Total:', 'AVG']
    """
    return [item for item in ids if isinstance(item, str) and _is_name_of_statistic(item)]


def _is_name_of_statistic(item: str) -> bool:
    return bool(_ANY.search(item) and _WHOLE.fullmatch(item))


def refuse_summary_rows(
    ids: NDArray[Any], views: Mapping[str, Any], observed: NDArray[np.bool_]
) -> None:
    """Refuse a row whose id says that it sums up the others, where its numbers say so, too.

    Parameters
    ----------
    ids : array of shape (n,)
        The sample ids.
    views : mapping of str to matrix or None
        The values of every view; rows that are not observed are not read.
    observed : array of shape (n, m) of bool
        Which views are observed.
    """
    if ids.dtype.kind not in "OUT":
        return
    items = ids.tolist()
    rows = _rows_named_so(items)
    if not rows:
        return
    others = np.delete(np.arange(len(items)), rows)
    for (name, values), there in zip(views.items(), observed.T, strict=True):
        base = others[there[others]]
        candidates = [k for k in rows if there[k] and _statistic(items[k])]
        if len(base) < 2 or not candidates or not _is_matrix(values):
            continue
        summary = _Summary(values, base)
        for row in candidates:
            what = _statistic(items[row])
            n_equal, n_filled = summary.agreement(_block(values, np.array([row]))[0], what)
            if n_equal and n_equal >= _ENOUGH * n_filled:
                _refuse(name, items, row, what, (n_equal, n_filled))


def _rows_named_so(items: Sequence[Any]) -> list[int]:
    """The rows in whose id such a word stands; a million ids without any take half a second."""
    found = []
    for start in range(0, len(items), _BLOCK):
        texts = [item for item in items[start : start + _BLOCK] if isinstance(item, str)]
        words = set(_WORD.findall("\n".join(texts).lower()))
        if not words.isdisjoint(_WORDS):
            block = enumerate(items[start : start + _BLOCK], start)
            found += [k for k, item in block if isinstance(item, str) and _ANY.search(item)]
    return found


def _statistic(item: str) -> str:
    """What a row of this id would hold: `sums`, `means`, or nothing that is looked at."""
    if _SUM.search(item):
        return "sums"
    return "means" if _MEAN.search(item) else ""


def _refuse(name: str, items: Sequence[str], row: int, what: str, found: tuple[int, int]) -> None:
    alike = [shown for shown in named_like_summary(items) if shown != items[row]]
    more = f" (and look at {first_few(alike)})" if alike else ""
    raise ViewError(
        f"view {name!r}: row {items[row]!r} is no sample: {found[0]:,} of the {found[1]:,} values "
        f"compared are the {what} of the other rows. Delete this row in the table{more}; if it is "
        "a sample after all, give it another id"
    )


class _Summary:
    """Sums, means and spreads of the columns of a view over some of its rows."""

    def __init__(self, values: Any, rows: Rows) -> None:
        width = values.shape[1]
        self._count, self._sum, self._size = (np.zeros(width) for _ in range(3))
        self._low, self._high = np.full(width, np.inf), np.full(width, -np.inf)
        for part in row_chunks(len(rows), 8 * width):
            block = _block(values, rows[part])
            known = ~np.isnan(block)
            filled = np.where(known, block, 0.0)
            self._count += known.sum(axis=0)
            self._sum += filled.sum(axis=0)
            self._size += np.abs(filled).sum(axis=0)
            self._low = np.fmin(self._low, np.fmin.reduce(block, axis=0))
            self._high = np.fmax(self._high, np.fmax.reduce(block, axis=0))

    def agreement(self, row: Floats, what: str) -> tuple[int, int]:
        """In how many columns a row has the statistic, and in how many it could be told."""
        judged = ~np.isnan(row) & (self._count >= 2) & (self._high > self._low)
        share = 1.0 if what == "sums" else 1.0 / np.maximum(self._count, 1)
        rounding = np.array([_rounding(value) for value in row])
        with np.errstate(invalid="ignore"):
            # A rounded number agrees where rounding is small against what the samples differ by.
            allowed = np.minimum(rounding, 0.01 * (self._high - self._low)) + (
                _EXACT * self._size * share
            )
            equal = judged & (np.abs(row - self._sum * share) <= allowed)
        return int(equal.sum()), int(judged.sum())


def _rounding(value: float) -> float:
    """Half a unit of the last decimal of a number."""
    for decimals in range(_MOST_DECIMALS + 1):
        if abs(value - round(value, decimals)) <= 1e-9 * abs(value):
            return float(0.5 * 10.0**-decimals)
    return 0.0


def _is_matrix(values: Any) -> bool:
    """Whether these are numbers in rows and columns; all else is refused elsewhere."""
    return len(getattr(values, "shape", ())) == 2 and values.dtype.kind in "buif"


def _block(values: Any, rows: Rows) -> Floats:
    """Some rows of a view as floats."""
    block = values[rows]
    return np.asarray(block.toarray() if is_sparse(block) else block, dtype=np.float64)
