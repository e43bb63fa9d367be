"""`viewgap compare`: methods cross-validated on DATA, a table, and a report."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from viewgap.cli.options import (
    Data,
    Groups,
    LabelFile,
    MethodSettings,
    Missing,
    NanPolicy,
    Reading,
    reads_data,
)
from viewgap.cli.output import AsJson, print_json, print_table, say
from viewgap.errors import SettingError

if TYPE_CHECKING:
    from viewgap.comparison import ComparisonResult


@reads_data
def compare(
    data: Data,
    folds: Annotated[int, typer.Option(min=2, help="Number of folds.")] = 5,
    repeats: Annotated[
        int, typer.Option(min=1, help="How often the samples are dealt to folds anew.")
    ] = 1,
    method: Annotated[
        list[str] | None,
        typer.Option(
            help="A method (see viewgap methods) besides label_frequency, late_fusion_ridge, "
            "extra_trees and ensemble (repeatable)."
        ),
    ] = None,
    only: Annotated[
        bool, typer.Option("--only", help="Only the methods given with --method.")
    ] = False,
    settings: MethodSettings = None,
    labels: LabelFile = None,
    groups: Groups = None,
    metric: Annotated[
        str | None,
        typer.Option(
            help="The metric to compare by: AP, AUC, macro AUC, macro F1, ... [AP; macro AUC for a "
            "single label]."
        ),
    ] = None,
    missing: Missing = NanPolicy.MEAN,
    view_rate: Annotated[
        float, typer.Option(help="Share of the views to hide besides those that are missing.")
    ] = 0.0,
    label_rate: Annotated[
        float, typer.Option(help="Share of the training labels to hide besides.")
    ] = 0.0,
    seed: Annotated[int, typer.Option(help="Seed of the methods.")] = 0,
    jobs: Annotated[int, typer.Option(min=1, help="Fits at the same time.")] = 1,
    time_limit: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="Stop after this time (90s, 25m, 2h): begin no fit that is not expected to end "
            "in time.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the records and report.html.")
    ] = None,
    *,
    reading: Reading,
    json: AsJson = False,
) -> None:
    """Cross-validate methods on DATA and tell which are better.

    Folds are alike in their labels and missing views. Gaps stay as they are. With --out, the same
    command goes on where it was stopped.
    """
    from viewgap.cli.job import refuse_one_job
    from viewgap.comparison import BASELINES
    from viewgap.comparison import compare as run

    refuse_one_job(os.environ, "compare", out)
    names = ([] if only else list(BASELINES)) + (method or [])
    found: ComparisonResult
    try:
        found = run(
            data,
            methods=method_parameters(list(dict.fromkeys(names)), settings or []),
            folds=folds,
            n_repeats=repeats,
            groups=groups,
            metric=metric,
            labels=labels,
            missing=str(missing),
            reading=reading,
            view_rate=view_rate,
            label_rate=label_rate,
            random_state=seed,
            n_jobs=jobs,
            time_limit=time_limit,
            out=out,
        )
    except KeyboardInterrupt:
        say(_how_to_go_on(out))
        raise
    _show(found, json)
    if found.n_left:
        say(f"{found.n_left} fits are left; {_how_to_go_on(out)}")
    if found.failures:
        first = found.failures[0]
        say(
            f"viewgap: {len(found.failures)} fits failed; first: {first['method']}, fold "
            f"{first['fold']}: {first['error']}"
        )
        raise typer.Exit(1)


def method_parameters(names: Sequence[str], entries: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Parameters by method, from texts like `scsd.max_epochs=50`."""
    from viewgap.cli.inputs import parse_settings

    by_method: dict[str, list[str]] = {name: [] for name in names}
    for entry in entries:
        name, dot, rest = entry.partition(".")
        if not dot or "=" in name:
            raise SettingError(f"--set takes method.key=value, found {entry!r}")
        if name not in by_method:
            raise SettingError(
                f"--set {entry}: {name!r} is not compared; the methods are: {', '.join(names)}"
            )
        by_method[name].append(rest)
    return {name: parse_settings(own) for name, own in by_method.items()}


def _show(found: ComparisonResult, json: bool) -> None:
    if json:
        print_json(found.to_dict())
    else:
        from viewgap.bench.show.tables import to_rich

        left_out = f", {found.n_left_out:,} left out" if found.n_left_out else ""
        title = f"{found.dataset}: {found.n_samples:,} samples{left_out}, {found.n_folds} folds"
        print_table(to_rich(found.table(), title))
        print_table(to_rich(found.metrics_table()))
    if found.out is not None:
        from viewgap.comparison import REPORT

        say(f"records and report: {found.out / REPORT}")


def _how_to_go_on(out: Path | None) -> str:
    if out is None:
        return "nothing was kept; with --out FOLDER, the same command goes on where it was stopped"
    return f"the same command goes on where it was stopped; {out} keeps what is done"
