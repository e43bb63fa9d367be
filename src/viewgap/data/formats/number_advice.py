"""What to do about an entry of a view that is no number: by what it looks like."""

from __future__ import annotations

import re
from collections.abc import Sequence

from viewgap.data.formats.options import is_unnamed
from viewgap.errors import parameter

ENCODE = (
    "encode text as numbers (one column of 0 and 1 per category) or leave the column out; what was "
    "not measured stays blank"
)
TIME = "a date or a time of day is no number: write one, such as days since the first visit"
STORED_AS_TEXT = "it is a number stored as text: store the column as numbers"
SECOND_HEADER = "if this line holds units or a second header, remove it"
_BLANK = "where it stands for a value that was not measured, leave the cell blank"
_GROUPED = re.compile(r"[-+]?\d{1,3}([ '_\u00a0\u2009\u202f]\d{3})+([.,]\d+)?")
_GROUPED_BY_COMMA = re.compile(r"[-+]?[1-9]\d{0,2}(,\d{3})+(\.\d+)?")
_NUMBER = r"[-+]?(\d+[.,]?\d*|[.,]\d+)([eE][-+]?\d+)?"
_BY_LOOK = (
    (r"#\w+(/0)?[!?]", "an error of a spreadsheet: repair its formula, or leave the cell blank"),
    (r"[^\w\s]+|n\.?d\.?|n\.?a\.?|lod|bdl|missing|unknown|not measured", _BLANK),
    (r"(\d{4}|\d{1,2})[-/.]\d{1,2}[-/.](\d{4}|\d{1,2})([T ].*)?|\d{1,2}:\d{2}(:[\d.]+)?", TIME),
    (r"[<>\u2264\u2265~].*\d.*", "a limit is no number: write one, or leave the cell blank"),
    (rf"[\u2010-\u2015\u2212]\s*{_NUMBER}", "write the minus sign as -"),
    (_GROUPED.pattern, "write numbers without separators of thousands"),
    (rf"[-+]?[$\u20ac\u00a3\u00a5]\s*{_NUMBER}", "write the number alone, in one unit for the "
     "whole column"),
    (rf"{_NUMBER}\s*[^\W\d_%\u2030].*|{_NUMBER}\s*[%\u2030\u00b0].*", "write the number alone, in "
     "one unit for the whole column"),
)  # fmt: skip


_NAMES_OF_IDS = re.compile(
    r"((sample|patient|subject|case|donor|specimen|record|participant)s?[ ._-]*)?"
    r"(id|ids|identifier|barcode|name|no|nr)|sample|patient|subject|donor|specimen|participant",
    re.IGNORECASE,
)


def is_id_name(name: str) -> bool:
    """Whether a name is one that people give to sample ids.

    Examples
    --------
    >>> is_id_name("Patient ID"), is_id_name("identity")
    (True, False)
    """
    return _NAMES_OF_IDS.fullmatch(name.strip()) is not None


def id_advice(place: int, column: str, id_name: str | None) -> str:
    """Return what to do about text in a column that could hold the ids, by its place or name.

    That is the first one of a table whose ids have no name, or one that is named as ids are.
    """
    by_place = not place and is_unnamed(id_name or "")
    if not by_place and not is_id_name(column):
        return ""
    return f"if it holds the sample ids, say {parameter('id_column', column)}; else "


def header_advice(number: int, texts: Sequence[str], columns: Sequence[str] = ()) -> str:
    """Return what to do about text in a row that is no sample: a header again, or units.

    Parameters
    ----------
    number : int
        Number of the row, 1 for the first one after the header.
    texts : sequence of str
        Its entries besides the id.
    columns : sequence of str
        The names of the columns.

    Examples
    --------
    >>> header_advice(1, ["mg/l", "%"])
    'if this line holds units or a second header, remove it; else '
    """
    if columns and [text.strip() for text in texts] == list(columns):
        return "the header stands here once more: remove this line; else "
    filled = [text for text in texts if text.strip()]
    if number > 1 or len(filled) < 2 or any(re.search(r"\d", text) for text in filled):
        return ""
    return f"{SECOND_HEADER}; else "


def number_advice(text: str, *, comma: bool = False) -> str:
    """Return what to do about a text where a number is expected.

    `comma`: the decimal sign of the file is a comma.

    Examples
    --------
    >>> number_advice("45 %")
    'write the number alone, in one unit for the whole column'
    """
    word = text.strip()
    if comma and re.fullmatch(r"[-+]?[\d.]+,?\d*", word):
        return f"a point in a number is refused beside {parameter('decimal', ',')}"
    if not comma and re.fullmatch(r"[-+]?\d*,\d+([eE][-+]?\d+)?", word):
        advice = f"write a decimal point: {word.replace(',', '.')}, or say "
        advice += parameter("decimal", ",")
        thousands = word.replace(",", "")
        if not _GROUPED_BY_COMMA.fullmatch(word):
            return advice
        return f"{advice}; or {thousands}, where the comma separates thousands"
    if _GROUPED_BY_COMMA.fullmatch(word):
        return "write numbers without separators of thousands"
    for look, advice in _BY_LOOK:
        if re.fullmatch(look, word, re.IGNORECASE):
            return advice
    return ENCODE
