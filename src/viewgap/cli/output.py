"""How commands print: tables for people, JSON for machines, both on stdout; notes on stderr.

Names, ids and paths come from outside: nothing in them reaches a terminal as a command.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from viewgap.errors import printable

if TYPE_CHECKING:
    from rich.table import Table

    from viewgap.data.viewset import ViewSet
    from viewgap.inspection.findings import Finding

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_WIDE = 160


def print_json(value: Any) -> None:
    """Print one JSON value."""
    from viewgap.strict_json import printed

    print(printed(value, indent=2))


def say(text: str) -> None:
    """Print one line for people, on stderr."""
    with contextlib.suppress(BrokenPipeError):
        print(printable(" ".join(text.split())), file=sys.stderr, flush=True)


def print_paths(paths: Iterable[object]) -> None:
    """Print paths on stdout: as they are for a program that reads them, harmless in a terminal."""
    for path in paths:
        print(printable(str(path)) if sys.stdout.isatty() else path)


def note_missing_values(views: ViewSet, nan: str) -> None:
    """Tell on stderr which views have single missing values that are filled."""
    for name, n_values in views.n_missing_values.items():
        if n_values and nan == "mean":
            samples = int((views.count_missing_values(name) > 0).sum())
            where = f"{n_values:,} missing value{'s' * (n_values > 1)}"
            where += f" in {samples:,} sample{'s' * (samples > 1)}"
            say(f"view {name!r}: {where}, filled with training means")


def print_table(table: Table) -> None:
    """Print a rich table; in a pipe or a file it is never cut to the width of a screen."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else _WIDE
    Console(width=width, highlight=False).print(table)


def print_rows(
    rows: Sequence[Mapping[str, Any]],
    *,
    right: Sequence[str] = (),
    most: int | None = None,
    total: int | None = None,
    rest: str = "--json has them",
) -> None:
    """Print rows as a table, at most `most`, and how many of the `total` are left out.

    Nothing is printed where there are none. `rest` says where the others are.
    """
    if not rows:
        return
    shown = rows[:most]
    print_table(make_table(shown, list(rows[0]), right))
    left_out = (total or len(rows)) - len(shown)
    if left_out > 0:
        print(f"  {left_out:,} more lines ({rest})\n")


def print_findings(findings: Iterable[Finding]) -> None:
    """Print what was found as a table."""
    print_rows(
        [{"": own.severity, "finding": own.text, "what to do": own.remedy} for own in findings]
    )


def make_table(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[str], right: Sequence[str] = ()
) -> Table:
    """A table of plain values; numbers are set to the right, and the columns named so."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD)
    for name in columns:
        numeric = bool(rows) and all(isinstance(row.get(name), int | float) for row in rows)
        numeric = numeric or name in right
        table.add_column(name, justify="right" if numeric else "left")
    for row in rows:
        table.add_row(*(Text(printable(_text(row.get(name)))) for name in columns))
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
