"""`viewgap bench submit` and `status`: array jobs of Slurm, and how far an experiment has got."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from viewgap.cli.output import make_table, print_json, print_table, say

if TYPE_CHECKING:
    from viewgap.bench.run.queue import Part
    from viewgap.bench.run.status import TaskStatus
    from viewgap.bench.run.task import Task

Configs = Annotated[
    list[Path],
    typer.Argument(
        metavar="CONFIG...", help="Experiment or queue files (TOML), the most important first."
    ),
]
Out = Annotated[
    Path, typer.Option(help="Folder for the records; those of a queue file go below it.")
]
Datasets = Annotated[
    list[str] | None, typer.Option(help="Only this data set of CONFIG (repeatable).")
]
Methods = Annotated[list[str] | None, typer.Option(help="Only this method of CONFIG (repeatable).")]
Folds = Annotated[int | None, typer.Option(min=1, help="Only so many folds, the first ones.")]
MOST_FAILURES = 5


def submit(
    configs: Configs,
    out: Out,
    array: Annotated[
        str,
        typer.Option(
            metavar="N[%M]",
            help="Jobs of the array, no more than there are tasks; with %M, M at the same time.",
        ),
    ] = "8",
    time_limit: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="How long every job runs (25m, 4h): it begins no task that is not expected to end "
            "in time. Slurm gets ten minutes more. Without it, the limit of the partition.",
        ),
    ] = None,
    sbatch: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE", help="An option of sbatch, as partition=gpu (repeatable)."
        ),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Tasks at the same time in every job.")] = 1,
    dataset: Datasets = None,
    method: Methods = None,
    folds: Folds = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Write and print the script; submit nothing.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print what was submitted as JSON.")] = False,
) -> None:
    """Run the tasks of CONFIG that have no record yet as an array of Slurm jobs.

    All jobs share the folder of the records, which must be on a file system that all hosts see,
    with locks that hold between them. The script and the logs are in OUT/slurm. The same command
    again does what is left; viewgap bench status says how much that is.
    """
    from viewgap.bench.run import slurm
    from viewgap.bench.run.claims import STALE_SECONDS
    from viewgap.bench.run.limits import parse_duration
    from viewgap.bench.run.queue import read_queue
    from viewgap.bench.run.runner import check_data, check_parameters
    from viewgap.bench.run.status import status_of

    size = slurm.ArraySize.parse(array)
    options = slurm.parse_options(sbatch or [])
    seconds = None if time_limit is None else parse_duration(time_limit)
    program = None if dry_run else slurm.find_sbatch()
    configs, out = [path.absolute() for path in configs], out.absolute()
    parts = read_queue(configs, out, dataset or (), method or (), folds)
    found = status_of(parts)
    todo = [one.task for one in found if one.state in ("failed", "left")]
    if not todo:
        _tell(found, json, {"submitted": None})
        say("nothing to submit: no task is left that nobody works on")
        running = [one for one in found if one.state == "running"]
        if running:
            say(
                f"{len(running)} are being worked on, the first by {running[0].told}; after a kill "
                f"on another host a task counts as such for {STALE_SECONDS / 60:.0f} minutes: "
                "submit again then"
            )
        return
    check_parameters(todo)  # here, and not in every job
    check_data(todo)
    if seconds is not None:
        _tell_too_long(todo, parts, seconds)
    size = size.at_most(-(-len(todo) // jobs))
    filters = typed_options({"--dataset": dataset, "--method": method, "--folds": folds})
    limits = typed_options({"--jobs": jobs if jobs > 1 else None, "--time-limit": time_limit})
    words = [["bench", "run"], *([str(path)] for path in configs), ["--out", str(out)]]
    command = [*words, *filters, *limits, ["--no-wait"]]
    text = slurm.array_script(command, size, seconds, options, slurm.environment_of_runs())
    script = slurm.write_script(out, text)
    if program is None:
        print(text, end="")
        typed = shlex.join(["sbatch", *slurm.sbatch_arguments(script)])
        say(f"script {script}; submit it with: {typed}")
        return
    if before := slurm.submitted(out):
        say(f"job {before[-1]['job']} was submitted for this folder before; squeue tells of it")
    job = slurm.submit(program, script, size)
    told = {"job": job, "array": str(size), "script": str(script), "tasks": len(todo)}
    if json:
        print_json(told)
    else:
        print(job)
    say(f"job {job}: {size.jobs} array jobs for {len(todo)} tasks; see {script.parent}")


def status(
    configs: Configs,
    out: Out,
    dataset: Datasets = None,
    method: Methods = None,
    folds: Folds = None,
    device: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Also print the minutes that the rest takes there, one task after the other, by "
            "the records from there: cpu, or the name of a GPU as records have it (NVIDIA H200).",
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the counts as JSON.")] = False,
) -> None:
    """Print how many tasks of CONFIG are done, running, failed and left.

    Nothing is run or written. Running is what a living run has claimed, on this machine or
    another; failed is what the next run tries again.
    """
    from viewgap.bench.run.queue import read_queue
    from viewgap.bench.run.slurm import submitted
    from viewgap.bench.run.status import status_of

    out = out.absolute()
    parts = read_queue(
        [path.absolute() for path in configs], out, dataset or (), method or (), folds
    )
    found = status_of(parts, device)
    jobs = submitted(out)
    _tell(found, json, {"submitted": jobs})
    for entry in jobs if not json else ():
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry["time"]))
        cluster = f" on {entry['cluster']}" if entry["cluster"] else ""
        print(f"job {entry['job']}{cluster}: {entry['jobs']} array jobs, submitted {when}")


def _tell(found: Sequence[TaskStatus], json: bool, more: dict[str, Any]) -> None:
    from viewgap.bench.run.status import STATES, counted

    totals = {state: sum(one.state == state for one in found) for state in STATES}
    if json:
        print_json({**totals, "tasks": counted(found), **more})
        return
    rows = counted(found)
    expected = [one.seconds for one in found if one.seconds is not None]
    times = ("minutes", "assumed") if expected else ()
    shown = [
        {**row, "minutes": f"{row['minutes']:.1f}"} if "minutes" in row else row for row in rows
    ]
    print_table(
        make_table(shown, ("folder", "data set", "method", "tasks", *STATES, *times), right=times)
    )
    print(", ".join(f"{number} {state}" for state, number in totals.items()))
    if expected:
        assumed = sum(one.source.startswith("assumed") for one in found)
        print(
            f"{sum(expected) / 60:.1f} minutes for what is not done, one task after the other; "
            f"{assumed} of {len(expected)} tasks are of a method without such a record, and assumed"
        )
    failed = [one for one in found if one.state == "failed"]
    for one in failed[:MOST_FAILURES]:
        print(f"FAILED {one.task.title}: {one.told}")
    if len(failed) > MOST_FAILURES:
        print(f"and {len(failed) - MOST_FAILURES} more failures (failures.jsonl has them)")


def _tell_too_long(todo: Sequence[Task], parts: Sequence[Part], seconds: float) -> None:
    """Say now, and not after hours in the queue, that jobs would begin none of these tasks.

    No refusal: the nodes may be faster than this machine, or have a GPU that it does not have.
    """
    from viewgap.bench.run.run_folder import RunFolder, estimates_of

    estimates = estimates_of([RunFolder(out) for out in {part.out for part in parts}])
    expected = [estimates.of(task) for task in todo]
    long = [estimate for estimate in expected if estimate.seconds > seconds]
    if long:
        most = max(long, key=lambda estimate: estimate.seconds)
        say(
            f"viewgap: note: {len(long)} of {len(todo)} tasks are expected to take longer than "
            f"--time-limit, up to {most.seconds:.0f} s ({most.source}), and no job would begin "
            "them; give a longer --time-limit"
        )


def typed_options(options: dict[str, Any]) -> list[list[str]]:
    """Options with their values, those that were given."""
    return [
        [name, str(value)]
        for name, given in options.items()
        for value in (given if isinstance(given, list) else [given])
        if value is not None
    ]
