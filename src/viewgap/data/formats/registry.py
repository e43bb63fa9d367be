"""The one list of file formats: every module of this package that has a constant `FORMAT`."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from pathlib import Path

from viewgap.data.formats.base import Format

_PACKAGE = "viewgap.data.formats"


@cache
def all_formats() -> tuple[Format, ...]:
    """Return all formats, by the names of their modules."""
    folder = [str(Path(__file__).parent)]
    modules = [import_module(f"{_PACKAGE}.{info.name}") for info in pkgutil.iter_modules(folder)]
    return tuple(module.FORMAT for module in modules if hasattr(module, "FORMAT"))


def format_of(path: Path) -> Format | None:
    """Return the format that a file's name tells; None if there is none for it."""
    suffix = path.suffix.lower()
    return next((one for one in all_formats() if suffix in one.suffixes), None)


def container_formats() -> tuple[Format, ...]:
    """Return the formats whose files hold all views."""
    return tuple(one for one in all_formats() if one.read)


def table_formats() -> tuple[Format, ...]:
    """Return the formats whose files hold one table with sample ids."""
    return tuple(one for one in all_formats() if one.read_table)


def array_formats() -> tuple[Format, ...]:
    """Return the formats whose files hold one view without sample ids."""
    return tuple(one for one in all_formats() if one.read_array)


def suffixes(formats: Iterable[Format]) -> list[str]:
    """Return the endings of all file names of some formats."""
    return [suffix for one in formats for suffix in one.suffixes]


def listed(formats: Iterable[Format], last: str = "or") -> str:
    """Return the endings of some formats for a message, as in `.csv, .tsv or .parquet`."""
    *first, end = suffixes(formats)
    return f"{', '.join(first)} {last} {end}" if first else end
