"""`viewgap bench run`, and the group that it and its readers belong to."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from viewgap.cli import bench_cluster, bench_read
from viewgap.cli.bench_cluster import Configs, Datasets, Folds, Methods, Out, typed_options
from viewgap.cli.output import make_table, print_json, print_table, say, show_help_without_command

if TYPE_CHECKING:
    from viewgap.bench.run.runner import Left, Tally

app = typer.Typer(help="Run experiments and read their results.")


@app.callback(invoke_without_command=True)
def _group(context: typer.Context) -> None:
    show_help_without_command(context)


@app.command()
def run(
    configs: Configs,
    out: Out,
    jobs: Annotated[int, typer.Option(min=1, help="Tasks at the same time.")] = 1,
    scheduler: Annotated[
        str | None, typer.Option(help="Address of a Dask scheduler: run the tasks there.")
    ] = None,
    dataset: Datasets = None,
    method: Methods = None,
    folds: Folds = None,
    time_limit: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="Stop after this time (90s, 25m, 2h): begin no task that is not expected to end "
            "in time.",
        ),
    ] = None,
    stop_after: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Begin so many tasks at most.")
    ] = None,
    wait: Annotated[
        bool,
        typer.Option(
            help="Wait for tasks that other runs have: one of them may die, and its task is done "
            "here. Without it, the run ends where nothing else is left."
        ),
    ] = True,
    json: Annotated[bool, typer.Option("--json", help="Print the counts as JSON.")] = False,
) -> None:
    """Run the tasks of CONFIG that have no record yet.

    Stopped at any time, the next call goes on from there. Several calls on one folder, on one
    machine or several, share the tasks. A limit ends the run with a table of what is left.
    """
    from viewgap.bench.results.record import FAILURES
    from viewgap.bench.run.limits import Limits, parse_duration
    from viewgap.bench.run.queue import read_queue
    from viewgap.bench.run.runner import run_parts
    from viewgap.cli.job import refuse_one_job
    from viewgap.errors import SettingError

    refuse_one_job(os.environ, "bench run", out)
    if scheduler is not None and jobs > 1:
        raise SettingError("--jobs and --scheduler exclude each other: the cluster has its workers")
    seconds = None if time_limit is None else parse_duration(time_limit)
    limits = Limits(seconds, stop_after)
    parts = read_queue(configs, out, dataset or (), method or (), folds)
    tally = run_parts(parts, jobs, scheduler=scheduler, limits=limits, wait=wait)
    limited = seconds is not None or stop_after is not None or not wait
    _tell(tally, json, limited=limited)
    if tally.left:
        options = {
            "--jobs": jobs if jobs > 1 else None,
            "--scheduler": scheduler,
            "--dataset": dataset,
            "--method": method,
            "--folds": folds,
            "--time-limit": time_limit,
            "--stop-after": stop_after,
        }
        words = ["viewgap", "bench", "run", *map(str, configs), "--out", str(out)]
        no_wait = "" if wait else " --no-wait"
        say(f"go on with: {shlex.join([*words, *chain(*typed_options(options))])}{no_wait}")
    if tally.failed:
        folders = ", ".join(dict.fromkeys(str(part.out / FAILURES) for part in parts))
        say(f"viewgap: {tally.failed} tasks failed; see {folders}")
        raise typer.Exit(1)


def _tell(tally: Tally, json: bool, limited: bool) -> None:
    others = {"elsewhere": tally.elsewhere} if tally.elsewhere else {}
    rows = _rows_left(tally.left)
    if json:
        counts = {"skipped": tally.skipped, "done": tally.done, "failed": tally.failed}
        print_json({**counts, **others, **({"left": rows} if limited else {})})
        return
    say(
        f"{tally.done} tasks done, {tally.skipped} were there, {tally.failed} failed"
        + (f", {tally.elsewhere} done by another run" if others else "")
        + (f", {len(tally.left)} left" if limited else "")
    )
    if rows:
        from viewgap.bench.run.progress import duration

        words = [
            {**row, "each": duration(row["each"]), "together": duration(row["together"])}
            for row in rows
        ]
        print_table(make_table(words, _LEFT))


_LEFT = ("folder", "data set", "method", "tasks", "stopped", "each", "together", "expected from")


def _rows_left(left: Sequence[Left]) -> list[dict[str, Any]]:
    """One row for the tasks of a method on a data set in a folder; seconds as expected."""
    groups: dict[tuple[str, str, str], list[Left]] = {}
    for one in left:
        title = f"{one.task.method} ({one.task.profile})"
        groups.setdefault((str(one.out), one.task.dataset, title), []).append(one)
    return [
        {
            "folder": folder,
            "data set": dataset,
            "method": title,
            "tasks": len(group),
            "stopped": sum(one.stopped for one in group),
            "each": max(one.estimate.seconds for one in group),
            "together": sum(one.estimate.seconds for one in group),
            "expected from": max(group, key=lambda one: one.estimate.seconds).estimate.source,
        }
        for (folder, dataset, title), group in groups.items()
    ]


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


app.command()(bench_cluster.submit)
app.command()(bench_cluster.status)
app.command()(bench_read.table)
app.command()(bench_read.compare)
app.command()(bench_read.ranks)
app.command()(bench_read.plot)
app.command()(bench_read.report)
