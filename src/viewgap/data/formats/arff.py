"""ARFF text (Weka's format), dense and sparse, read strictly: a line is as declared, or refused."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from viewgap.data.formats.base import check_size, check_text, existing_file
from viewgap.data.rows.values import is_sparse
from viewgap.errors import DataFileError

_NUMERIC = frozenset(("numeric", "real", "integer"))
_TEXT = frozenset(("string", "date"))
# In single or double quotes, where a backslash takes the next letter as it is. Quantifiers are
# possessive (++, *+): no text makes them try again and again.
_QUOTED = r"'(?:[^'\\]|\\.)*+'|\"(?:[^\"\\]|\\.)*+\""
_VALUE = re.compile(rf"\s*+(?:({_QUOTED})\s*+|([^,'\"{{}}]*+))(,|$)")
_NAME = re.compile(rf"({_QUOTED}|[^\s'\"{{}}]++)\s*+")
_ENTRY = re.compile(rf"\s*+(\d++)\s++({_QUOTED}|[^,\s'\"{{}}]++)\s*+(,|$)")


@dataclass(frozen=True)
class Attribute:
    """A column as declared: a number, one of `categories`, or text, which is not read."""

    name: str
    categories: tuple[str, ...] | None = None
    is_text: bool = False


@dataclass(frozen=True, eq=False)
class ArffTable:
    """The content of an ARFF file.

    Attributes
    ----------
    attributes : list of Attribute
    values : array or CSC array of shape (n, attributes)
        Numbers; for a nominal attribute the position among its categories; NaN = missing, and for
        text, which is not read.
    """

    attributes: list[Attribute]
    values: Any

    def column(self, number: int) -> NDArray[np.float64]:
        """One column as a dense array."""
        if is_sparse(self.values):
            return np.asarray(self.values[:, [number]].toarray()).ravel()
        return np.asarray(self.values[:, number])


def read_arff(path: Path) -> ArffTable:
    """Read an ARFF file; every error names the line."""
    existing_file(path)
    check_size(path, path.stat().st_size)
    try:
        with path.open(encoding="utf-8-sig", newline=None) as file:
            lines = _Lines(path, file)
            attributes = lines.header()
            return ArffTable(attributes, _rows(lines, attributes))
    except UnicodeDecodeError as error:
        wrong = error.object[error.start]
        raise DataFileError(
            f"{path}: the text is not UTF-8 (byte 0x{wrong:02x}); save it as UTF-8"
        ) from error


class _Lines:
    """The lines of an open file without comments and blank ones, and the number of the last."""

    def __init__(self, path: Path, file: Any) -> None:
        self.path, self.number = path, 0
        self._file = file

    def __iter__(self) -> Iterator[str]:
        for line in self._file:
            self.number += 1
            text = line.strip()
            if text and not text.startswith("%"):
                yield text

    def refuse(self, what: str) -> NoReturn:
        raise DataFileError(f"{self.path}: line {self.number}: {what}")

    def header(self) -> list[Attribute]:
        """What is declared before @data."""
        attributes: list[Attribute] = []
        for line in self:
            keyword, _, rest = line.replace("\t", " ").partition(" ")
            if keyword.lower() == "@data":
                return self._checked(attributes)
            if keyword.lower() == "@attribute":
                attributes.append(self._attribute(rest.strip()))
            elif keyword.lower() != "@relation":
                self.refuse(f"expected @attribute or @data, found {line[:40]!r}")
        raise DataFileError(f"{self.path}: expected an ARFF file with a line @data, found none")

    def _checked(self, attributes: list[Attribute]) -> list[Attribute]:
        names = [attribute.name for attribute in attributes]
        if not names:
            self.refuse("@data before any @attribute")
        if len(set(names)) < len(names):
            repeated = next(name for name in names if names.count(name) > 1)
            raise DataFileError(f"{self.path}: several attributes are named {repeated!r}")
        return attributes

    def _attribute(self, text: str) -> Attribute:
        found = _NAME.match(text)
        if found is None:
            self.refuse(f"expected the name of an attribute, found {text[:40]!r}")
        name, kind = unquoted(found.group(1)), text[found.end() :].strip()
        check_text(self.path, "the name of an attribute", name)
        if kind.startswith("{") and kind.endswith("}"):
            categories = tuple(self.values(kind[1:-1]))
            if len(set(categories)) < len(categories) or "" in categories:
                self.refuse(f"attribute {name!r}: its values must be distinct and not blank")
            return Attribute(name, categories)
        word = kind.split(" ", 1)[0].lower()
        if word not in _NUMERIC | _TEXT or (word in _NUMERIC and " " in kind):
            self.refuse(
                f"attribute {name!r}: expected numeric, real, integer, string, date or "
                f"{{value, ...}}, found {kind[:40]!r}"
            )
        return Attribute(name, is_text=word in _TEXT)

    def values(self, text: str) -> list[str]:
        """The values of a line, separated by commas."""
        if "'" not in text and '"' not in text and "{" not in text and "}" not in text:
            return [value.strip() for value in text.split(",")]
        found = self._matches(_VALUE, text)
        return [unquoted(one.group(1) or one.group(2).strip()) for one in found]

    def entries(self, text: str) -> list[tuple[int, str]]:
        """The entries `number value` of a sparse line."""
        if not text.strip():
            return []
        found = self._matches(_ENTRY, text)
        return [(int(one.group(1)), unquoted(one.group(2))) for one in found]

    def _matches(self, pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
        place = 0
        while True:
            found = pattern.match(text, place)
            if found is None:
                self.refuse(f"cannot be read from {text[place : place + 40]!r} on")
            yield found
            if not found.group(3):  # no comma: the end
                return
            place = found.end()


def unquoted(text: str) -> str:
    """A value without the quotes around it."""
    if len(text) >= 2 and text[0] in "'\"":
        return re.sub(r"\\(.)", r"\1", text[1:-1])
    return text


def _rows(lines: _Lines, attributes: Sequence[Attribute]) -> Any:
    """All rows; the first decides whether the file is dense or sparse."""
    dense, parts = array("d"), _SparseParts()
    kind: bool | None = None
    width = len(attributes)
    codes = [_codes(attribute) for attribute in attributes]
    for line in lines:
        braces = line.startswith("{") and line.endswith("}")
        if kind not in (None, braces):
            lines.refuse("dense and sparse rows in one file")
        kind = braces
        if braces:
            parts.add(lines, attributes, codes, line[1:-1])
        else:
            texts = lines.values(line)
            if len(texts) != width:
                lines.refuse(f"expected {width} values, found {len(texts)}")
            dense.extend(
                _number(lines, attribute, code, text)
                for attribute, code, text in zip(attributes, codes, texts, strict=True)
            )
        check_size(lines.path, 8 * len(dense) + 16 * len(parts.data))
    if kind is None:
        raise DataFileError(f"{lines.path}: there is no row after @data")
    return parts.matrix(width) if kind else np.frombuffer(dense).reshape(-1, width)


class _SparseParts:
    def __init__(self) -> None:
        self.data, self.columns, self.starts = array("d"), array("q"), array("q", [0])

    def add(
        self,
        lines: _Lines,
        attributes: Sequence[Attribute],
        codes: Sequence[dict[str, float] | None],
        text: str,
    ) -> None:
        last = -1
        for number, value in lines.entries(text):
            if not last < number < len(attributes):
                lines.refuse(
                    f"expected numbers of attributes in order, below {len(attributes)}; found "
                    f"{number}" + ("" if last < 0 else f" after {last}")
                )
            self.data.append(_number(lines, attributes[number], codes[number], value))
            self.columns.append(number)
            last = number
        self.starts.append(len(self.data))

    def matrix(self, width: int) -> Any:
        shape = (len(self.starts) - 1, width)
        whole = (np.array(self.data), np.array(self.columns), np.array(self.starts))
        return sparse.csr_array(whole, shape=shape).tocsc()


def _codes(attribute: Attribute) -> dict[str, float] | None:
    if attribute.categories is None:
        return None
    return {text: float(place) for place, text in enumerate(attribute.categories)}


def _number(
    lines: _Lines, attribute: Attribute, codes: dict[str, float] | None, text: str
) -> float:
    if text == "?" or attribute.is_text:
        return np.nan
    if codes is not None:
        if text not in codes:
            lines.refuse(f"attribute {attribute.name!r} has no value {text[:40]!r}")
        return codes[text]
    try:
        if "_" in text:  # Python reads 1_000 as a number
            raise ValueError
        return float(text)
    except ValueError:
        lines.refuse(f"attribute {attribute.name!r}: expected a number, found {text[:40]!r}")
