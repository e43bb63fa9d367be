"""Mulan's data sets: `<name>.arff`, the labels in `<name>.xml`, the views in `<name>.views.toml`.

The file of views says which columns make up which view:

ignore = ["hasSegments"]            # columns that belong to none

[views]
rhythm = "BH*"                      # by name; * stands for any letters
timbre = ["Mean_*", "Std_*"]
colour = "1-98"                     # by number: the attributes of the file from 1 on

[missing.segments]                  # the view is missing where another column has this value
hasSegments = "0"
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import translate
from itertools import chain
from pathlib import Path
from typing import Any, Self
from xml.parsers import expat

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from viewgap.data.formats.arff import ArffTable, Attribute, read_arff
from viewgap.data.formats.base import (
    Format,
    PathLike,
    RawData,
    check_n_views,
    check_size,
    existing_file,
    raw_data,
)
from viewgap.data.rows.values import is_sparse
from viewgap.errors import DataFileError, damaged_file, first_few

_BINARY = ({"0", "1"}, {"0"}, {"1"})
_MOST_XML_BYTES = 16 * 2**20
_KEYS = {"views", "ignore", "missing"}


@dataclass(frozen=True)
class ViewSplit:
    """Which columns make up which view.

    Attributes
    ----------
    views : mapping of str to list of str
        Names of columns (`*` = any letters) or ranges of their numbers (`1-98`), by view.
    ignore : sequence of str
        Columns of no view, in the same way.
    missing : mapping of str to (column, value)
        A view that is missing where this column has this value.
    """

    views: Mapping[str, Sequence[str]]
    ignore: Sequence[str] = ()
    missing: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file of views."""
        try:
            content = tomllib.loads(existing_file(path).read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise DataFileError(f"{path} is not valid TOML: {error}") from error
        unknown = sorted(set(content) - _KEYS)
        if unknown:
            raise DataFileError(
                f"{path}: unknown key {unknown[0]!r}; known: {', '.join(sorted(_KEYS))}"
            )
        views = content.get("views")
        if not isinstance(views, dict) or not views:
            raise DataFileError(f"{path}: expected a table [views] with the columns of each view")
        missing = content.get("missing", {})
        if not isinstance(missing, dict):
            raise DataFileError(f"{path}: missing must be tables [missing.<view>]")
        return cls(
            {name: _texts(path, name, given) for name, given in views.items()},
            _texts(path, "ignore", content.get("ignore", [])),
            {name: _condition(path, name, views, given) for name, given in missing.items()},
        )


def _texts(path: Path, name: str, given: Any) -> list[str]:
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise DataFileError(f"{path}: {name} must be text or a list of texts, found {given!r}")
    return texts


def _condition(path: Path, name: str, views: Any, given: Any) -> tuple[str, str]:
    if name not in views:
        raise DataFileError(f"{path}: [missing.{name}] is about no view of [views]")
    if not isinstance(given, dict) or len(given) != 1:
        raise DataFileError(f'{path}: [missing.{name}] must be one line: column = "value"')
    ((column, value),) = given.items()
    return column, str(value)


def read_mulan(
    path: PathLike,
    *,
    nan: str = "mean",
    with_labels: bool = True,
    split: ViewSplit | None = None,
) -> RawData:
    """Read `<name>.arff`, dense or sparse, with the files beside it.

    Labels are the attributes that `<name>.xml` lists. The columns of the views are those of
    `split`, or of the file `<name>.views.toml`. A nominal attribute of the values 0 and 1 is one
    column, any other one column per value (numbers in their order, words as declared). A question
    mark is a missing value, or a label that nobody observed.
    """
    source = Path(path)
    table = read_arff(source)
    names = [attribute.name for attribute in table.attributes]
    beside = source.with_suffix(".xml")
    if with_labels and not beside.exists():
        raise DataFileError(
            f"{beside} does not exist; it lists the labels of {source.name}, as Mulan writes it: "
            '<labels><label name="..."></label></labels>'
        )
    labels = label_names(beside) if beside.exists() else ()
    absent = [name for name in labels if name not in names]
    if absent and with_labels:
        raise DataFileError(
            f"{beside}: label {absent[0]!r} is no attribute of {source.name}, which has: "
            f"{first_few(names, 5)}"
        )
    split = split or ViewSplit.read(_views_file(source))
    check_n_views(source, len(split.views))
    columns = _columns_of_views(source, split, names, set(labels))
    views = {name: _view(source, table, own) for name, own in columns.items()}
    observed = _observed(source, table, split, list(views))
    options: dict[str, Any] = {} if observed is None else {"observed": observed}
    if not with_labels or not labels:
        return raw_data(source, views, nan=nan, **options)
    places = [names.index(name) for name in labels]
    values = np.column_stack([_label(source, table, place) for place in places])
    return raw_data(source, views, values, labels, nan=nan, **options)


FORMAT = Format(
    "mulan", "a Mulan .arff file", (".arff",), read=read_mulan, beside=(".xml", ".views.toml")
)


def _views_file(path: Path) -> Path:
    file = path.with_suffix(".views.toml")
    if not file.is_file():
        raise DataFileError(
            f"{path}: which columns make up which view? Write {file.name} beside it, with a table "
            '[views] such as rhythm = "BH*" (by name) or colour = "1-98" (by number)'
        )
    return file


# ---------------------------------------------------------------------- labels


def label_names(path: Path) -> tuple[str, ...]:
    """Names of the labels in Mulan's XML, in its order; labels below others count as they do."""
    content = existing_file(path).read_bytes()
    if len(content) > _MOST_XML_BYTES:
        raise DataFileError(f"{path}: {len(content):,} bytes are too many for a list of labels")
    found: list[str] = []

    def start(tag: str, given: dict[str, str]) -> None:
        if tag.rpartition(":")[2] == "label":
            found.append(given.get("name", "").strip())

    def refuse(*_: object) -> None:  # entities, which can name other files or grow without end
        raise DataFileError(f"{path}: expected a plain list of labels, found a DOCTYPE")

    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.StartDoctypeDeclHandler = start, refuse
    try:
        parser.Parse(content, True)
    except (expat.ExpatError, ValueError, LookupError) as error:
        raise damaged_file(path, error) from error
    names = tuple(found)
    if not names or "" in names or len(set(names)) < len(names):
        raise DataFileError(
            f'{path}: expected <labels> with one <label name="..."> each, all different; found '
            f"{len(names)} labels, {len(set(names) - {''})} different names"
        )
    return names


def _label(path: Path, table: ArffTable, place: int) -> NDArray[np.float64]:
    attribute, values = table.attributes[place], table.column(place)
    if attribute.categories is None:
        return values  # `raw_data` refuses what is not 0, 1 or NaN
    if attribute.is_text or set(attribute.categories) not in _BINARY:
        raise DataFileError(
            f"{path}: label {attribute.name!r} must have the values 0 and 1, declared are: "
            f"{first_few(attribute.categories, 5)}"
        )
    return _of_categories(values, np.array([float(c) for c in attribute.categories]))


def _of_categories(places: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The value of each place; NaN stays."""
    known = ~np.isnan(places)
    result = np.full(len(places), np.nan)
    result[known] = values[places[known].astype(np.intp)]
    return result


# ---------------------------------------------------------------------- views


def _columns_of_views(
    path: Path, split: ViewSplit, names: list[str], labels: set[str]
) -> dict[str, list[int]]:
    """Numbers of the columns of each view; each column belongs to one view, or is ignored."""
    owner: dict[int, str] = {}
    found: dict[str, list[int]] = {}
    for view, patterns in (*split.views.items(), ("", split.ignore)):
        chosen = [n for pattern in patterns for n in _chosen(path, pattern, names, labels)]
        for number in chosen:
            if number in owner:
                both = " and ".join(repr(one) if one else "ignore" for one in (owner[number], view))
                raise DataFileError(f"{path}: column {names[number]!r} is in {both}")
            owner[number] = view
        if view:
            found[view] = sorted(chosen)
    left = [n for number, n in enumerate(names) if number not in owner and n not in labels]
    if left:
        raise DataFileError(
            f"{path}: {len(left)} columns are in no view: {first_few(left, 5)}; add them to a "
            "view, or to ignore"
        )
    return found


def _chosen(path: Path, pattern: str, names: list[str], labels: set[str]) -> list[int]:
    """Columns of a pattern that are no labels; a range may not touch a label."""
    numbers = re.fullmatch(r"(\d+)(?:-(\d+))?", pattern.strip())
    if numbers:
        first, last = int(numbers.group(1)), int(numbers.group(2) or numbers.group(1))
        chosen = list(range(first - 1, last))
        wrong = [n for n in chosen if not 0 <= n < len(names) or names[n] in labels]
        if not chosen or wrong:
            raise DataFileError(
                f"{path}: the columns {pattern!r} must be among 1-{len(names)} and hold no label"
            )
        return chosen
    match = re.compile(translate(re.sub(r"([\[?])", r"[\1]", pattern))).match
    chosen = [n for n, name in enumerate(names) if match(name) and name not in labels]
    if not chosen:
        raise DataFileError(f"{path}: no column is named {pattern!r}")
    return chosen


def _view(path: Path, table: ArffTable, columns: list[int]) -> Any:
    """The numbers of a view, with column names where it is dense."""
    texts = [table.attributes[n].name for n in columns if table.attributes[n].is_text]
    if texts:
        raise DataFileError(f"{path}: column {texts[0]!r} is text; add it to ignore")
    if is_sparse(table.values):
        if all(_is_plain(table.attributes[number]) for number in columns):
            return table.values[:, columns].tocsr()
        return sparse.csr_array(sparse.hstack([_encoded(table, number)[0] for number in columns]))
    import pandas as pd

    pieces, names = zip(*(_encoded(table, number) for number in columns), strict=True)
    check_size(path, 8 * len(table.values) * sum(map(len, names)))
    return pd.DataFrame(np.column_stack(pieces), columns=list(chain.from_iterable(names)))


def _is_plain(attribute: Attribute) -> bool:
    """Whether the stored number is the value; of 0 and 1, declared so, the places are 0 and 1."""
    return attribute.categories in (None, ("0", "1"))


def _encoded(table: ArffTable, number: int) -> tuple[Any, list[str]]:
    """The columns of numbers that stand for an attribute."""
    attribute = table.attributes[number]
    whole = sparse.csc_array if is_sparse(table.values) else np.asarray
    if attribute.categories is None or _is_plain(attribute):
        return table.values[:, [number]], [attribute.name]
    places = table.column(number)
    if set(attribute.categories) in _BINARY:
        values = np.array([float(category) for category in attribute.categories])
        return whole(_of_categories(places, values)[:, None]), [attribute.name]
    order = _in_order(attribute.categories)
    one_hot = (places[:, None] == np.array(order)).astype(np.float64)
    one_hot[np.isnan(places)] = np.nan
    return whole(one_hot), [f"{attribute.name}={attribute.categories[place]}" for place in order]


def _in_order(categories: Sequence[str]) -> list[int]:
    places = list(range(len(categories)))
    try:
        return sorted(places, key=lambda place: float(categories[place]))
    except ValueError:
        return places


def _observed(
    path: Path, table: ArffTable, split: ViewSplit, names: list[str]
) -> NDArray[np.bool_] | None:
    if not split.missing:
        return None
    known = [attribute.name for attribute in table.attributes]
    observed = np.ones((table.values.shape[0], len(names)), dtype=np.bool_)
    for view, (column, value) in split.missing.items():
        if column not in known:
            raise DataFileError(f"{path}: view {view!r} depends on {column!r}, which is no column")
        number = known.index(column)
        categories = table.attributes[number].categories
        if categories is not None and value not in categories:
            raise DataFileError(f"{path}: column {column!r} has no value {value!r}")
        try:
            wanted = float(value) if categories is None else float(categories.index(value))
        except ValueError as error:
            raise DataFileError(
                f"{path}: [missing.{view}]: column {column!r} holds numbers, found {value!r}"
            ) from error
        flags = table.column(number)
        if np.isnan(flags).any():
            raise DataFileError(
                f"{path}: column {column!r} says who has view {view!r}, and is unknown in row "
                f"{np.flatnonzero(np.isnan(flags))[0] + 1} after @data"
            )
        observed[:, names.index(view)] = flags != wanted
    return observed
