"""How a file is to be read: its id column, the columns of views and labels, the decimal sign."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import translate
from pathlib import Path
from typing import Any, Self

from viewgap.errors import DataFileError, SettingError, first_few, parameter, remedy

Patterns = str | Sequence[str]


@dataclass(frozen=True)
class ReadOptions:
    """How to read a file that does not say everything itself.

    Attributes
    ----------
    views : mapping of str to tuple of str
        Names of columns by view, in one table or file with all of them; `*` stands for any letters.
    label_columns : tuple of str
        Names of the columns that hold labels, in the same way.
    label_separator : str, optional
        What separates the labels in one column of lists.
    id_column : str, optional
        Name of the column of sample ids; without it the first one.
    decimal : {".", ","}
        The decimal sign of numbers in text.
    """

    views: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    label_columns: tuple[str, ...] = ()
    label_separator: str | None = None
    id_column: str | None = None
    decimal: str = "."

    @classmethod
    def of(
        cls,
        views: Mapping[str, Patterns] | None = None,
        label_columns: Patterns = (),
        label_separator: str | None = None,
        id_column: str | None = None,
        decimal: str = ".",
    ) -> Self:
        """Return checked options; one pattern may stand for a list of one."""
        if views is not None and not isinstance(views, Mapping):
            raise SettingError(f"views must be {{name: columns}}, found {type(views).__name__}")
        if label_separator is not None and not label_separator.strip(" "):
            raise SettingError(
                f"{parameter('label_separator')} must be a sign such as ';', found "
                f"{label_separator!r}"
            )
        if decimal not in (".", ","):
            raise SettingError(f"{parameter('decimal')} must be '.' or ',', found {decimal!r}")
        patterns = {name: _texts("views", given) for name, given in (views or {}).items()}
        labels = _texts("label_columns", label_columns)
        return cls(patterns, labels, label_separator, id_column, decimal)

    def given(self) -> list[str]:
        """Return the names of the options that differ from their defaults."""
        default = type(self)()
        return [name for name in vars(default) if getattr(self, name) != getattr(default, name)]


@dataclass(frozen=True)
class TableRequest:
    """What to read of a table.

    `as_text` asks for the text of every entry where the format stores text; `columns` for some of
    the columns, in this order.
    """

    as_text: bool = False
    id_column: str | None = None
    decimal: str = "."
    columns: tuple[str, ...] | None = None

    def split_header(self, path: Path, header: Sequence[str]) -> tuple[str, list[str]]:
        """Return the name of the id column, and those of the columns to read."""
        names = list(header)
        if self.id_column is not None and self.id_column not in names:
            raise DataFileError(
                f"{path}: no column is named {self.id_column!r} ({parameter('id_column')}); found "
                f"{first_few(names)}"
            )
        own = names[0] if self.id_column is None else self.id_column
        if own != names[0] and is_unnamed(names[0]):
            names = names[1:]
        if self.columns is not None:
            return own, list(self.columns)
        names.remove(own)
        return own, names


def is_unnamed(name: str) -> bool:
    """Whether nobody named the first column: pandas and R write the names of rows into it."""
    return name in ("", "Unnamed: 0", "...1", "__index_level_0__")


def _texts(name: str, given: Any) -> tuple[str, ...]:
    texts = tuple(given) if isinstance(given, Iterable) and not isinstance(given, str) else (given,)
    if not all(isinstance(text, str) and text.strip() for text in texts):
        raise SettingError(f"{parameter(name)} must be names or patterns such as 'genes_*'")
    return tuple(text.strip() for text in texts)


# ---------------------------------------------------------------------- patterns


def refuse_unused(source: Path, options: ReadOptions, used: Iterable[str], why: str) -> None:
    """Refuse options that would change nothing: they were given to say something."""
    unused = [name for name in options.given() if name not in set(used)]
    if unused:
        raise SettingError(f"{source}: {parameter(unused[0])} has no use here: {why}")


def matching(pattern: str, names: Iterable[str]) -> list[str]:
    """Return the names that a pattern means: itself, or with `*` for any letters."""
    match = re.compile(translate(re.sub(r"([\[?])", r"[\1]", pattern))).match
    return [name for name in names if match(name)]


def choose(path: Path | str, patterns: Sequence[str], names: Sequence[str], what: str) -> list[str]:
    """Return the names that some patterns mean, in the order of `names`; each must mean one."""
    chosen: set[str] = set()
    for pattern in patterns:
        found = matching(pattern, names)
        if not found:
            raise DataFileError(
                f"{path}: no column is named {pattern!r} ({what}); there are: {first_few(names)}"
            )
        chosen.update(found)
    return [name for name in names if name in chosen]


def columns_of_views(
    path: Path | str, views: Mapping[str, Sequence[str]], names: Sequence[str]
) -> dict[str, list[str]]:
    """Return the columns of each view; a column that would be in two views is refused."""
    owner: dict[str, str] = {}
    result: dict[str, list[str]] = {}
    for view, patterns in views.items():
        result[view] = choose(path, patterns, names, f"of view {view!r}")
        both = [name for name in result[view] if name in owner]
        if both:
            raise DataFileError(
                f"{path}: {len(both)} columns are in two views, {owner[both[0]]!r} and {view!r}: "
                f"{first_few(both)}; make the patterns exclude each other"
            )
        owner.update(dict.fromkeys(result[view], view))
    return result


def shown_views(views: Mapping[str, str]) -> str:
    """Return the option that names these patterns, as it is typed."""
    typed = " ".join(f'--views "{name}={pattern}"' for name, pattern in views.items())
    return remedy(f"views={dict(views)!r}", typed)
