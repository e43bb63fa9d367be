"""`viewgap bench run` and `viewgap bench table`."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from viewgap.cli.output import print_json, print_table, show_help_without_command

app = typer.Typer(help="Run experiments and read their results.")


@app.callback(invoke_without_command=True)
def _group(context: typer.Context) -> None:
    show_help_without_command(context)


class Style(StrEnum):
    """How a table is printed."""

    TERMINAL = "terminal"
    MARKDOWN = "markdown"


@app.command()
def run(
    config: Annotated[Path, typer.Argument(help="Experiment file (TOML).")],
    out: Annotated[Path, typer.Option(help="Folder for the records.")],
    jobs: Annotated[int, typer.Option(min=1, help="Cells at the same time.")] = 1,
    json: Annotated[bool, typer.Option("--json", help="Print the tally as JSON.")] = False,
) -> None:
    """Run the cells of CONFIG that have no record yet.

    Stopped at any time, the next call goes on from there.
    """
    from viewgap.bench.cells import read_experiment
    from viewgap.bench.grid import FAILURES, run_cells

    tally = run_cells(read_experiment(config), out, jobs)
    if json:
        print_json({"skipped": tally.skipped, "done": tally.done, "failed": tally.failed})
    else:
        print(
            f"{tally.done} cells done, {tally.skipped} were there, {tally.failed} failed",
            file=sys.stderr,
        )
    if tally.failed:
        print(f"viewgap: {tally.failed} cells failed; see {out / FAILURES}", file=sys.stderr)
        raise typer.Exit(1)


@app.command()
def table(
    folders: Annotated[list[Path], typer.Argument(help="Folders written by bench run.")],
    style: Annotated[Style, typer.Option("--format", help="Form of the table.")] = Style.TERMINAL,
    json: Annotated[bool, typer.Option("--json", help="Print the records as JSON.")] = False,
) -> None:
    """Print mean ± standard deviation over folds.

    Failed cells show as holes. The best value of each column is bold.
    """
    from viewgap.bench.grid import RECORDS, read_failures, read_records
    from viewgap.bench.tables import as_markdown, as_rich, summarise
    from viewgap.errors import DataFileError

    records, failures = [], []
    for folder in folders:
        found, broken = read_records(folder), read_failures(folder)
        if not found and not broken:
            raise DataFileError(f"no results in {folder}; expected {folder / RECORDS}")
        records += found
        failures += broken
    if json:
        print_json([record.to_dict() for record in records])
        return
    rows = summarise(records, failures)
    if style is Style.MARKDOWN:
        print(as_markdown(rows), end="")
    else:
        print_table(as_rich(rows))
