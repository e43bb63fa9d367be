"""`viewgap bench run`, and the group its readers belong to."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from viewgap.cli import bench_read
from viewgap.cli.output import print_json, say, show_help_without_command

app = typer.Typer(help="Run experiments and read their results.")


@app.callback(invoke_without_command=True)
def _group(context: typer.Context) -> None:
    show_help_without_command(context)


@app.command()
def run(
    config: Annotated[Path, typer.Argument(help="Experiment file (TOML).")],
    out: Annotated[Path, typer.Option(help="Folder for the records.")],
    jobs: Annotated[int, typer.Option(min=1, help="Cells at the same time.")] = 1,
    scheduler: Annotated[
        str | None, typer.Option(help="Address of a Dask scheduler: run the cells there.")
    ] = None,
    dataset: Annotated[
        list[str] | None, typer.Option(help="Only this data set of CONFIG (repeatable).")
    ] = None,
    method: Annotated[
        list[str] | None, typer.Option(help="Only this method of CONFIG (repeatable).")
    ] = None,
    folds: Annotated[
        int | None, typer.Option(min=1, help="Only so many folds, the first ones.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the tally as JSON.")] = False,
) -> None:
    """Run the cells of CONFIG that have no record yet.

    Stopped at any time, the next call goes on from there. Several calls on one folder, on one
    machine or several, share the cells.
    """
    from viewgap.bench.run.experiment import read_experiment, select
    from viewgap.bench.run.runner import FAILURES, run_cells
    from viewgap.errors import SettingError

    if scheduler is not None and jobs > 1:
        raise SettingError("--jobs and --scheduler exclude each other: the cluster has its workers")
    cells = select(read_experiment(config), dataset or (), method or (), folds)
    tally = run_cells(cells, out, jobs, scheduler=scheduler)
    others = {"elsewhere": tally.elsewhere} if tally.elsewhere else {}
    if json:
        counts = {"skipped": tally.skipped, "done": tally.done, "failed": tally.failed}
        print_json({**counts, **others})
    else:
        say(
            f"{tally.done} cells done, {tally.skipped} were there, {tally.failed} failed"
            + (f", {tally.elsewhere} done by another run" if others else "")
        )
    if tally.failed:
        say(f"viewgap: {tally.failed} cells failed; see {out / FAILURES}")
        raise typer.Exit(1)


app.command()(bench_read.table)
app.command()(bench_read.compare)
app.command()(bench_read.plot)
app.command()(bench_read.report)
