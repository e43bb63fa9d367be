"""What to do about labels that are not 0 and 1: classes, lists, and columns that are no labels."""

from __future__ import annotations

from viewgap.errors import remedy

_SEPARATORS = ";|,/"  # of lists of labels in one cell


def way_to_split(separator: str = _SEPARATORS[0]) -> str:
    """How a column of classes or lists becomes a column of 0 and 1 for each of them.

    Examples
    --------
    >>> way_to_split()
    "by viewgap.data.split_label_lists(table, ';')"
    """
    return remedy(
        f"by viewgap.data.split_label_lists(table, {separator!r})",
        f"with --label-separator '{separator}'",
    )


def advice_on_classes(value: object) -> str:
    """What to do about a text that is no label, by the signs in it."""
    separator = next((sign for sign in _SEPARATORS if sign in str(value)), _SEPARATORS[0])
    return (
        f"A column of classes, or of lists as A{separator}B, becomes one column of 0 and 1 each "
        f"{way_to_split(separator)}"
    )


def advice_on_other_columns() -> str:
    """What to do about a column that stands among the labels and is none."""
    out = remedy("leave its column out", "choose the others with --label-columns")
    return f"if it is no label, {out}"
