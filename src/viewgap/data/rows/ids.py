"""Sample ids in messages, and why tables have none in common: transposed, or of another form."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations, islice
from typing import Any

import numpy as np

from viewgap.errors import first_few

Table = tuple[Any, Any]  # the index of a DataFrame, and its columns or None

_SHOWN = 3
_MOST_COMPARED = 100_000  # ids of a table; more do not make a cause clearer
_SHORTEST_PREFIX = 4
_FIRST_INEXACT = 2**53  # from here on a float stands for several whole numbers


def unusable_ids(ids: Any) -> str | None:
    """Return why some of these ids (an index or array) name no sample for certain, if so.

    Absent and blank ones do not, nor do large numbers that were stored as floats: their last
    digits are gone, and one id may have become another.
    """
    if getattr(ids, "nlevels", 1) > 1 or (isinstance(ids, np.ndarray) and ids.dtype.kind in "bui"):
        return None
    import pandas as pd

    absent = np.flatnonzero(pd.isna(ids))
    if len(absent):
        return f"some sample ids are missing, first that of row {absent[0]}"
    for place, item in enumerate(() if ids.dtype.kind in "buiMm" else ids.tolist()):
        if isinstance(item, str) and not item.strip():
            return f"some sample ids are missing, first that of row {place}"
        if isinstance(item, float) and abs(item) >= _FIRST_INEXACT:
            return (
                f"the sample id {item:.0f} is stored as a float, which does not keep all digits of "
                "such a number; store the ids as whole numbers or text"
            )
    return None


def shown_id(item: Any) -> str:
    """Return an id as a user would write it, so that 1 and '1' differ."""
    return repr(item.item() if isinstance(item, np.generic) else item)


def shown_ids(ids: Iterable[Any]) -> str:
    """Return the first few ids."""
    return first_few(map(shown_id, ids), _SHOWN)


def compared_ids(name: str, ids: Iterable[Any], other: str, other_ids: Iterable[Any]) -> str:
    """Return the first ids of both sides, for a message."""
    return f"ids of {name}: {shown_ids(ids)}; of {other}: {shown_ids(other_ids)}"


def likely_cause(
    ids: Iterable[Any], others: Mapping[str, Iterable[Any]], columns: Iterable[Any] | None = None
) -> str | None:
    """Return why `ids` do not occur in other tables, with an example; None if nothing shows it.

    `others` are the ids of the other tables by how a message calls them; `columns` the column
    names of the table in question.
    """
    own = _first(ids)
    names = _first(() if columns is None else columns)
    for other, other_ids in others.items():
        theirs = _first(other_ids)
        cause = (
            _transposed(names, theirs, other, str)
            or _other_form(own, theirs, other)
            or _transposed(names, theirs, other, normal_form)
            or _other_form(own, theirs, other, _without_separators)
            or _prefix(own, theirs, other)
            or _bare_numbers(own, theirs, other)
        )
        if cause:
            return cause
    return None


def unrelated(tables: Mapping[str, Table]) -> str | None:
    """Return what is wrong with a view that has no id in common with any other, with its cause."""
    alone = [name for name in tables if not _shares_ids(name, tables)]
    if len(tables) < 2 or not alone:
        return None
    causes = {}
    for name in alone:
        others = {f"view {other!r}": ids for other, (ids, _) in tables.items() if other != name}
        causes[name] = likely_cause(tables[name][0], others, tables[name][1])
    name = next((name for name in alone if causes[name]), alone[0])
    other = next(other for other in tables if other != name)
    both = compared_ids(repr(name), tables[name][0], repr(other), tables[other][0])
    found = causes[name] or both_transposed(tables[name][1], tables[other][1], f"view {other!r}")
    cause = f"; likely cause: {found}" if found else ""
    return f"view {name!r} has no sample id in common with any other view ({both}){cause}"


def transposed(columns: Iterable[Any], other_ids: Iterable[Any], other: str) -> str | None:
    """Return that the columns of a table are the ids of another one, if so."""
    return _transposed(_first(columns), _first(other_ids), other, str)


def both_transposed(columns: Any, other_columns: Any, other: str) -> str | None:
    """Return that two tables without a common id have common columns, if so: those are samples."""
    own = [] if columns is None else _first(columns)
    theirs = set() if other_columns is None else set(_first(other_columns))
    common = [name for name in own if name in theirs]
    if len(common) < 2 or 2 * len(common) < min(len(own), len(theirs)):
        return None
    return (
        f"both look transposed: {shown_ids(common)} are columns here and in {other}; samples must "
        "be rows"
    )


def ids_in_another_form(ids_by_table: Mapping[str, Any]) -> str | None:
    """Return which samples would be one but for the form of their ids (`s2` and `S2`), if any.

    Ids of different length (`s2` and `s2-01A`) are told where tables have few samples in common.

    The ids are an index of pandas for each table, by how a message calls it.
    """
    for (name, ids), (other, other_ids) in combinations(ids_by_table.items(), 2):
        own, theirs = ids[~ids.isin(other_ids)], other_ids[~other_ids.isin(ids)]
        if not len(own) or not len(theirs):
            continue
        pairs = same_form(_first(own), _first(theirs))
        if pairs:
            here, there = shown_pair(*pairs[0])
            return (
                f"{len(pairs)} samples of {name} count as others than those of {other}, though "
                f"their ids differ in form only: {here} and {there}; write the ids in one way"
            )
        n_common = len(ids) - len(own)
        cause = likely_cause(own, {other: theirs})
        if cause and 2 * n_common < min(len(ids), len(other_ids)):
            return f"{name} and {other} have only {n_common:,} samples in common: {cause}"
    return None


def _shares_ids(name: str, tables: Mapping[str, Table]) -> bool:
    ids = tables[name][0]
    return any(ids.isin(others).any() for other, (others, _) in tables.items() if other != name)


def normal_form(item: Any) -> str:
    """Return an id without what tools change: case, separators, leading zeros, `.0`, R's X.

    Letters that Unicode writes in several ways become one, and signs that cannot be seen go.
    """
    text = str(item)
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
        text = "".join(letter for letter in text if unicodedata.category(letter) != "Cf")
    text = text.strip().casefold()
    text = re.sub(r"^(\d+)\.0+$", r"\1", text)
    text = re.sub(r"[^\w]+|_+", "-", text).strip("-")
    text = re.sub(r"^x(?=\d)", "", text)
    return re.sub(r"(?<!\d)0+(?=\d)", "", text)


def _without_separators(item: Any) -> str:
    """Return an id as letters and digits; only a hint, since 1-23 and 12-3 become the same."""
    return normal_form(item).replace("-", "")


def same_form(
    ids: Iterable[Any], other_ids: Iterable[Any], form: Callable[[Any], str] = normal_form
) -> list[tuple[Any, Any]]:
    """Return pairs of different ids that are the same but for their form."""
    forms = {form(item): item for item in other_ids}
    pairs = ((item, forms.get(form(item))) for item in ids)
    return [(item, other) for item, other in pairs if other is not None and item != other]


def form_only(names: Iterable[Any], known: Iterable[Any]) -> str:
    """Return which name is one of the known ones but for its form, as a part of a message."""
    pairs = same_form(names, known)
    if not pairs:
        return ""
    here, there = shown_pair(*pairs[0])
    return f"; {here} here and {there} in the model differ in form only"


def _first(items: Iterable[Any]) -> list[Any]:
    return list(islice(items, _MOST_COMPARED))


def shown_pair(item: Any, other: Any) -> tuple[str, str]:
    """Two ids as a user would write them; by their code points where they look the same."""
    here, there = shown_id(item), shown_id(other)
    look = [unicodedata.normalize("NFKC", text) for text in (here, there)]
    return (ascii(item), ascii(other)) if look[0] == look[1] else (here, there)


def _transposed(
    columns: Sequence[Any], theirs: Sequence[Any], other: str, form: Callable[[Any], str]
) -> str | None:
    ids = {form(item) for item in theirs}
    matching = [column for column in columns if form(column) in ids]
    if not matching or 2 * len(matching) < len(columns):
        return None
    return (
        f"it looks transposed: its columns ({shown_ids(matching)}) are the ids of {other}; "
        "samples must be rows"
    )


def _other_form(
    own: Sequence[Any],
    theirs: Sequence[Any],
    other: str,
    form: Callable[[Any], str] = normal_form,
) -> str | None:
    pairs = same_form(own, theirs, form)
    if not pairs:
        return None
    here, there = shown_pair(*pairs[0])
    return (
        f"{len(pairs)} ids are the same but for their form: {here} here, {there} in {other}; write "
        "them in one way"
    )


def _prefix(own: Sequence[Any], theirs: Sequence[Any], other: str) -> str | None:
    """Longer ids of the same samples, as `TCGA-06-0125-01A` against `TCGA-06-0125`."""
    for short, long in ((own, theirs), (theirs, own)):
        longer = sorted(str(item) for item in long)
        for item in short[:1000]:
            text = str(item)
            index = bisect_left(longer, text)
            if len(text) < _SHORTEST_PREFIX or index == len(longer):
                continue
            rest = longer[index].removeprefix(text)
            if rest != longer[index] and rest[:1] and not rest[0].isalnum():
                here, there = (text, longer[index]) if short is own else (longer[index], text)
                return (
                    f"the ids seem to be of different length: {here!r} here, {there!r} in {other}; "
                    "write them in one way"
                )
    return None


def _bare_numbers(own: Sequence[Any], theirs: Sequence[Any], other: str) -> str | None:
    """Ids that are numbers on one side, and the same numbers after letters (P001) on the other."""
    if not any(all(str(item).strip().isdigit() for item in side) for side in (own, theirs)):
        return None
    return _other_form(own, theirs, other, _without_letters)


def _without_letters(item: Any) -> str:
    """Return the number of an id such as P001; only a hint, as letters may tell samples apart."""
    return re.sub(r"^[^\W\d]+-?0*(?=\d+$)", "", normal_form(item))
