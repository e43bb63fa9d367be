"""What to do about an entry of a view that is no number: by what it looks like."""

from __future__ import annotations

import re

from viewgap.data.formats.options import is_unnamed
from viewgap.errors import parameter

ENCODE = (
    "encode text as numbers (one column of 0 and 1 per category) or leave the column out; what was "
    "not measured stays blank"
)
TIME = "a date or a time of day is no number: write one, such as days since the first visit"
STORED_AS_TEXT = "it is a number stored as text: store the column as numbers"
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
    (rf"{_NUMBER}\s*[^\W\d_%\u2030].*|{_NUMBER}\s*[%\u2030\u00b0].*", "write the number alone, in "
     "one unit for the whole column"),
)  # fmt: skip


def id_advice(place: int, column: str, id_name: str | None) -> str:
    """Return what to do about text in the first column of a table whose ids have no name."""
    if place or not is_unnamed(id_name or ""):
        return ""
    return f"if it holds the sample ids, say {parameter('id_column', column)}; else "


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
