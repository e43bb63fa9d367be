"""The one list of file formats: every module of this package that has a constant `FORMAT`."""

from __future__ import annotations

import pkgutil
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
    name = path.name.lower()
    known = ((suffix, one) for one in all_formats() for suffix in one.suffixes)
    return next((one for suffix, one in known if name != suffix and name.endswith(suffix)), None)


def suffixes(*readers: str) -> list[str]:
    """Return the endings of the files that have one of these readers, such as `"read_table"`."""
    formats = [one for reader in readers for one in all_formats() if getattr(one, reader)]
    return [suffix for one in formats for suffix in one.suffixes]


def listed(*readers: str) -> str:
    """Return `suffixes` for a message, as in `.csv, .tsv or .parquet`."""
    *first, end = suffixes(*readers)
    return f"{', '.join(first)} or {end}" if first else end
