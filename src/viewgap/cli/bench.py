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
    jobs: Annotated[int, typer.Option(min=1, help="Tasks at the same time.")] = 1,
    scheduler: Annotated[
        str | None, typer.Option(help="Address of a Dask scheduler: run the tasks there.")
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
    json: Annotated[bool, typer.Option("--json", help="Print the counts as JSON.")] = False,
) -> None:
    """Run the tasks of CONFIG that have no record yet.

    Stopped at any time, the next call goes on from there. Several calls on one folder, on one
    machine or several, share the tasks.
    """
    from viewgap.bench.results.record import FAILURES
    from viewgap.bench.run.experiment import read_experiment, select
    from viewgap.bench.run.runner import run_tasks
    from viewgap.errors import SettingError

    if scheduler is not None and jobs > 1:
        raise SettingError("--jobs and --scheduler exclude each other: the cluster has its workers")
    tasks = select(read_experiment(config), dataset or (), method or (), folds)
    tally = run_tasks(tasks, out, jobs, scheduler=scheduler)
    others = {"elsewhere": tally.elsewhere} if tally.elsewhere else {}
    if json:
        counts = {"skipped": tally.skipped, "done": tally.done, "failed": tally.failed}
        print_json({**counts, **others})
    else:
        say(
            f"{tally.done} tasks done, {tally.skipped} were there, {tally.failed} failed"
            + (f", {tally.elsewhere} done by another run" if others else "")
        )
    if tally.failed:
        say(f"viewgap: {tally.failed} tasks failed; see {out / FAILURES}")
        raise typer.Exit(1)


@app.command()
def init(
    path: Annotated[Path, typer.Argument(help="File to write.")] = Path("example.toml"),
) -> None:
    """Write an example experiment file, to be changed and run."""
    from viewgap.bench.run.experiment import shipped_text
    from viewgap.errors import SettingError
    from viewgap.fsio import check_file_writable, write_file

    if path.exists():
        raise SettingError(f"{path} exists already; give another name")
    check_file_writable(path)
    write_file(path, shipped_text("example").encode())
    say(f"experiment {path}; run it with: viewgap bench run {path} --out results")


app.command()(bench_read.table)
app.command()(bench_read.compare)
app.command()(bench_read.plot)
app.command()(bench_read.report)
