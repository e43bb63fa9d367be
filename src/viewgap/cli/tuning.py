"""`viewgap tune`: better settings of a method, found on rows that it was not fitted on."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from viewgap.cli.options import (
    Data,
    LabelFile,
    Missing,
    NanPolicy,
    Reading,
    reads_data,
    typed_options,
)
from viewgap.cli.output import AsJson, print_json, print_rows, say

if TYPE_CHECKING:
    from viewgap.tuning import Tuning


@reads_data
def tune(
    context: typer.Context,
    data: Data,
    out: Annotated[Path, typer.Option(help="Folder of the study; one that is there goes on.")],
    method: Annotated[str, typer.Option(help="A method (see viewgap methods).")] = "scsd",
    labels: LabelFile = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="Parameter that all trials have, key=value; not searched."),
    ] = None,
    search: Annotated[
        list[str] | None,
        typer.Option(help="A setting to search; without it, all that have a search range."),
    ] = None,
    profile: Annotated[str, typer.Option(help="Profile of the method.")] = "default",
    metric: Annotated[
        str | None, typer.Option(help="What to compare; AP, or macro AUC for a single label.")
    ] = None,
    trials: Annotated[
        int | None,
        typer.Option(help="Trials of the study in all; 50 without --time-budget."),
    ] = None,
    time_budget: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="After this time (90s, 25m, 2h, or seconds) no further trial begins.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    missing: Missing = NanPolicy.MEAN,
    *,
    reading: Reading,
    json: AsJson = False,
) -> None:
    """Look for better settings of a method on DATA.

    Trials are compared by predictions of samples that a model was not fitted on; the defaults are
    the first trial. Prints the best settings as --set options of viewgap fit, and keeps the study.

    The same command goes on with a study that was interrupted, and several of them may run at
    once. Give no test samples: settings are chosen by all of DATA.
    """
    from viewgap.cli.inputs import open_data, parse_settings, seconds_of, training_labels
    from viewgap.cli.job import refuse_one_job
    from viewgap.interruption import Interrupted, stop_on_signals
    from viewgap.tuning import tune as search_settings
    from viewgap.tuning.study import require_optuna

    refuse_one_job(os.environ, "tune", out)
    require_optuna()  # before anything is read
    fixed = parse_settings(settings or [])
    seconds = seconds_of(time_budget)
    given = open_data(data, labels, str(missing), reading)
    truth = training_labels(given)
    try:
        with stop_on_signals():
            result = search_settings(
                given.views,
                truth,
                method=method,
                params={"nan": str(missing)} | fixed,
                profile=profile,
                study_dir=out,
                trials=trials,
                time_budget=seconds,
                metric=metric,
                search=search,
                random_state=seed,
                verbose=True,
            )
    except Interrupted as error:
        words: Sequence[str] = context.obj or ("tune", "...")
        say(f"{out} keeps the trials that have ended; to go on, repeat the command:")
        print(shlex.join(["viewgap", *words]), file=sys.stderr)
        raise typer.Exit(error.exit_code) from error
    options = _options(labels, settings or [], profile, seed, missing) + typed_options(reading)
    _print(result, data, options, json)


def _options(
    labels: Path | None, settings: Sequence[str], profile: str, seed: int, missing: NanPolicy
) -> list[str]:
    """The options of `viewgap fit` that the trials had."""
    found = [] if labels is None else ["--labels", str(labels)]
    found += ["--profile", profile] * (profile != "default") + ["--seed", str(seed)] * (seed != 0)
    found += ["--missing", str(missing)] * (missing is not NanPolicy.MEAN)
    return found + [word for text in settings for word in ("--set", text)]


def _print(result: Tuning, data: str, options: Sequence[str], as_json: bool) -> None:
    from viewgap.errors import printable
    from viewgap.tuning.result import fit_command

    command = fit_command(data, result.method, result.settings, options)
    if as_json:
        print_json(result.to_dict() | {"command": command})
        return
    print_rows(result.best_lines())
    print(printable(result.summary))
    if result.settings:
        print(printable(" ".join(f"--set {shlex.quote(text)}" for text in result.settings)))
    print(printable(command))
    say(f"study {result.study_dir}")
