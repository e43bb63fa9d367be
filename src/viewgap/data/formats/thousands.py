"""Points that may separate thousands: 1.234 beside 860 is 1234 where the decimal sign is a comma.

Read as a decimal point, it would be a thousandth of what it is, without a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from viewgap.data.rows.values import row_chunks

_GROUPED = re.compile(r"[-+]?[1-9]\d{0,2}\.\d{3}")
_WHOLE = re.compile(r"[-+]?\d{1,3}")
_FEWEST = 3  # numbers with a point: of one or two, three digits after it say little


def suspected_columns(values: NDArray[np.float64]) -> NDArray[np.intp]:
    """Columns (of n x d numbers) that could hold separated thousands, judged without their text.

    Below 1000 in size, some of them whole numbers besides 0, the others from 1 on and with at most
    three decimals.
    """
    width = values.shape[1]
    fits = np.ones(width, dtype=np.bool_)
    has_whole, has_point = np.zeros((2, width), dtype=np.bool_)
    for part in row_chunks(len(values), 8 * width):
        size = np.abs(values[part])
        known = ~np.isnan(size)
        with np.errstate(invalid="ignore"):
            whole = size == np.floor(size)
            digits = np.abs(1000 * size - np.round(1000 * size)) < 1e-6
        pointed = known & ~whole
        fits &= (~known | ((size < 1000) & (whole | (digits & (size > 1))))).all(axis=0)
        has_whole |= (whole & (size > 0)).any(axis=0)
        has_point |= pointed.any(axis=0)
        if not fits.any():
            break
    return np.flatnonzero(fits & has_whole & has_point)


def ambiguous_number(texts: Iterable[str]) -> tuple[str, str] | None:
    """Return a number with a point, and one without, where points may separate thousands.

    That is, where all numbers with a point have three digits after it, and others have neither a
    point nor more than three digits: decimals with a fixed number of digits all have the point,
    and others lack some digits.

    Examples
    --------
    >>> ambiguous_number(["1.234", "860", "12.100", "2.050"])
    ('1.234', '860')
    >>> ambiguous_number(["1.234", "8.600", "12.100", "2.050"])
    """
    filled = [text.strip() for text in texts if any(letter.isdigit() for letter in text)]
    grouped = [text for text in filled if _GROUPED.fullmatch(text)]
    whole = [text for text in filled if _WHOLE.fullmatch(text)]
    others = [text for text in whole if text.strip("+-0")]
    if len(grouped) < _FEWEST or not others or len(grouped) + len(whole) < len(filled):
        return None
    return grouped[0], others[0]


def question(column: str, found: Sequence[str]) -> str:
    """The question of a message about an ambiguous column."""
    return (
        f"column {column!r} holds {found[0]!r} and {found[1]!r}: does the point separate "
        "thousands? All numbers with one have three digits after it, and others have none. If it "
        "does, write numbers without it; if it is a decimal point, write all of them with decimals "
        f"({found[1]}.000)"
    )
