"""How commands print: tables for people, JSON for machines, both on stdout."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.table import Table

_WIDE = 160


def print_json(value: Any) -> None:
    """Print one JSON value."""
    print(json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False))


def print_table(table: Table) -> None:
    """Print a rich table; in a pipe or a file it is never cut to the width of a screen."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else _WIDE
    Console(width=width, highlight=False).print(table)


def make_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> Table:
    """A table of plain values; numbers are set to the right."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD)
    for name in columns:
        numeric = bool(rows) and all(isinstance(row.get(name), int | float) for row in rows)
        table.add_column(name, justify="right" if numeric else "left")
    for row in rows:
        table.add_row(*(Text(_text(row.get(name))) for name in columns))
    return table


def _text(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3f}"
    if isinstance(value, int):
        return f"{value:,}"
    return str(value)


def show_help_without_command(context: typer.Context) -> None:
    """A group called without a command explains itself and ends as misuse."""
    if context.invoked_subcommand is None:
        print(context.get_help(), file=sys.stderr)
        raise typer.Exit(2)
