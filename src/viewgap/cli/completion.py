"""`viewgap complete`: labels where nobody looked, and observed ones that look wrong."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from viewgap.cli.line_files import check_lines_file, give_lines, plain_lines
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
from viewgap.cli.output import AsJson, print_rows, say
from viewgap.errors import SettingError

if TYPE_CHECKING:
    import pandas as pd

    from viewgap.completion import LabelCompletion

_MOST_LINES = 20


@reads_data
def complete(
    data: Data,
    out: Annotated[
        Path | None,
        typer.Option(help="Write flagged and unobserved entries: .csv, .json or .parquet."),
    ] = None,
    matrix: Annotated[
        Path | None,
        typer.Option(
            help="Write the completed labels, a line per sample: observed ones as they are, "
            "probabilities elsewhere."
        ),
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(help="A method (see viewgap methods) [extra_trees]; several are averaged."),
    ] = None,
    settings: MethodSettings = None,
    labels: LabelFile = None,
    groups: Groups = None,
    folds: Annotated[int, typer.Option(min=2, help="Number of folds.")] = 5,
    repeats: Annotated[int, typer.Option(min=1, help="How often folds are drawn anew.")] = 1,
    min_odds: Annotated[
        float, typer.Option(help="Least odds against an observed label to flag it.")
    ] = 5.0,
    most: Annotated[
        int | None, typer.Option(min=0, help="Flag at most so many, the most suspicious.")
    ] = None,
    missing: Missing = NanPolicy.MEAN,
    seed: Annotated[int, typer.Option(help="Seed of folds and methods.")] = 0,
    jobs: Annotated[int, typer.Option(min=1, help="Fits at the same time.")] = 1,
    *,
    reading: Reading,
    json: AsJson = False,
) -> None:
    """Complete the labels of DATA, and flag observed labels that look wrong.

    Every sample is answered by a model that was fitted without it. Labels that nobody looked at get
    a probability. Observed ones that the answers contradict are ranked, each with the reason: what
    the model says, what chance would, which views speak against it, and samples with the same
    values and the other label. Nothing in DATA is changed.
    """
    from viewgap.cli.inputs import open_data, training_labels
    from viewgap.completion import complete_labels
    from viewgap.completion.result import check_limits
    from viewgap.datasets.own_files import read_groups

    check_limits(min_odds, most)
    check_lines_file(out)
    check_lines_file(matrix)
    if out is not None and out == matrix:
        raise SettingError(f"--out and --matrix name the same file, {out}")
    given = open_data(data, labels, str(missing), reading)
    truth = training_labels(given)
    own = (
        None
        if groups is None
        else read_groups(groups, given.views, Path(data), reading["id_column"])
    )
    found = complete_labels(
        given.views.with_fixed_row_order(),
        truth,
        _methods(method or ["extra_trees"], settings or [], seed),
        cv=folds,
        n_repeats=repeats,
        groups=own,
        n_jobs=jobs,
        random_state=seed,
        nan=str(missing),
    )
    lines = found.to_lines(min_odds, most)
    give_lines(lines, out, json)
    if matrix is not None:
        completed = found.completed.rename_axis("sample").reset_index()
        give_lines(completed, matrix, json=False)
    if not json:
        _print(found, lines)


def _methods(names: list[str], entries: list[str], seed: int) -> list[Any]:
    from viewgap.cli.compare import method_parameters
    from viewgap.methods import registry

    found = []
    for name, parameters in method_parameters(list(dict.fromkeys(names)), entries).items():
        kind = registry.get(name)
        own = {"random_state": seed} if "random_state" in kind._get_param_names() else {}
        found.append(kind(**own | parameters))
    return found


def _print(found: LabelCompletion, lines: pd.DataFrame) -> None:
    flagged = lines[lines["kind"] == "suspicious"]
    rows = [
        {key: line[key] for key in ("rank", "sample", "label", "odds_against", "reason")}
        for line in plain_lines(flagged.iloc[:_MOST_LINES])
    ]
    n_observed = found.labels.n_observed
    print(
        f"{len(found.unobserved):,} label entries were not observed; "
        f"{len(flagged):,} of {n_observed:,} observed ones look wrong"
    )
    print_rows(rows)
    if len(flagged) > len(rows):
        say(f"{len(flagged) - len(rows):,} more are flagged (--out and --json have them)")
