"""`viewgap explain` and `suggest`: why an answer is what it is, and which view to measure next."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from viewgap.cli.line_files import check_out, give, print_contributions, print_lines
from viewgap.cli.options import Data, LabelFile, MissingAsFitted, Model, Reading, reads_data
from viewgap.cli.output import AsJson, say
from viewgap.errors import SettingError, first_few

if TYPE_CHECKING:
    from viewgap.data.viewset import ViewSet
    from viewgap.methods.base import MultiViewClassifier

Samples = Annotated[
    list[str] | None, typer.Option("--sample", help="Id of a sample; may be repeated.")
]
Out = Annotated[
    Path | None, typer.Option(help="Write the lines to this file: .csv, .json or .parquet.")
]
OutOrDrawing = Annotated[
    Path | None,
    typer.Option(
        help="Write the lines to this file, .csv, .json or .parquet, or contributions drawn as a "
        "page (.html) or picture (.svg)."
    ),
]


@reads_data
def explain(
    model: Model,
    data: Data,
    sample: Samples = None,
    label: Annotated[
        list[str] | None, typer.Option("--label", help="Name of a label; may be repeated.")
    ] = None,
    interactions: Annotated[
        bool, typer.Option("--interactions", help="What views do alone and two together.")
    ] = False,
    columns: Annotated[
        str | None,
        typer.Option(
            "--columns",
            metavar="VIEW",
            help="Instead: what the score on DATA loses when columns of this view are shuffled. "
            "DATA needs labels.",
        ),
    ] = None,
    group_by: Annotated[
        str | None,
        typer.Option(
            "--group-by", metavar="SEPARATOR", help="Shuffle columns together that agree up to it."
        ),
    ] = None,
    repeats: Annotated[
        int | None, typer.Option(help="How often columns are shuffled; 5 if not given.")
    ] = None,
    labels: LabelFile = None,
    nearest: Annotated[
        str | None,
        typer.Option(
            "--nearest",
            metavar="DATA",
            help="Instead: the samples of this data (say, that of training) that are nearest by "
            "the representation of the model; for methods that have one (scsd).",
        ),
    ] = None,
    neighbours: Annotated[
        int | None, typer.Option(help="How many nearest samples; 5 if not given.")
    ] = None,
    seed: Annotated[
        int, typer.Option(help="Seed of shuffles, and for samples with more than 10 views.")
    ] = 0,
    out: OutOrDrawing = None,
    missing: MissingAsFitted = None,
    *,
    reading: Reading,
    json: AsJson = False,
) -> None:
    """Say what each view contributes to the answer for a sample of DATA.

    Contributions (Shapley values over the views) add up to the probability minus the one without
    any view, which is the frequency of the label in training. A view that the sample lacks
    contributes nothing. Without --sample, all samples are explained, into --out or as --json.
    With --columns VIEW: which columns of a view the score depends on. With --nearest DATA: which
    samples are like it.
    """
    of_columns: dict[str, Any] = {"--group-by": group_by, "--repeats": repeats, "--labels": labels}
    of_contributions = {"--label": label, "--interactions": interactions or None}
    from viewgap.cli.inputs import load_fitted

    _refuse(columns is None, of_columns, "--columns VIEW")
    _refuse(nearest is None, {"--neighbours": neighbours}, "--nearest DATA")
    _refuse(not (columns is None and nearest is None), of_contributions, "contributions of views")
    check_out(out, drawings=columns is None and nearest is None)
    if columns is not None:
        _refuse(True, {"--sample": sample, "--nearest": nearest}, "single samples")
    elif not sample and out is None and not json:
        raise SettingError("give --sample ID, or --out FILE (or --json) for all samples")
    fitted = load_fitted(model, missing, on_empty="prior")
    asked: dict[str, Any] = {"random_state": seed}
    if columns is not None:
        asked |= {"view": columns, "groups": group_by}
        asked |= {} if repeats is None else {"n_repeats": repeats}
        _explain_columns(fitted, data, labels, reading, asked, out, json)
        return
    given = _chosen(_open(fitted, data, reading), sample)
    if nearest is not None:
        n = 5 if neighbours is None else neighbours
        _find_nearest(fitted, given, _open(fitted, nearest, reading), n, out, json)
        return
    asked |= {"labels": label or None, "interactions": interactions}
    _explain_views(fitted, given, asked, out, json, Path(data).name)


def _refuse(when: bool, options: dict[str, Any], belongs_to: str) -> None:
    given = [name for name, value in options.items() if value is not None and value != []]
    if when and given:
        raise SettingError(f"{given[0]} is for {belongs_to}; leave it out, or ask for that")


def _explain_views(
    model: MultiViewClassifier,
    views: ViewSet,
    asked: dict[str, Any],
    out: Path | None,
    json: bool,
    title: str,
) -> None:
    from viewgap.explanation import explain as explain_views

    found = explain_views(model, views, **asked)
    give(found, out, json, title)
    if out is None and not json:
        print_contributions(found)


def _explain_columns(
    model: MultiViewClassifier,
    data: str,
    labels: Path | None,
    reading: Reading,
    asked: dict[str, Any],
    out: Path | None,
    json: bool,
) -> None:
    from viewgap.cli.inputs import open_labelled
    from viewgap.explanation import column_importance

    views, truth = open_labelled(model, data, labels, model.nan, reading)
    found = column_importance(model, views.with_fixed_row_order(), truth, **asked)
    give(found, out, json)
    if out is None and not json:
        print(f"average precision {found['score'].iloc[0]:.4f}; what it loses by shuffling:")
        print_lines(found.drop(columns="score"), "")


def _find_nearest(
    model: MultiViewClassifier,
    views: ViewSet,
    reference: ViewSet,
    n: int,
    out: Path | None,
    json: bool,
) -> None:
    from viewgap.explanation import nearest_samples

    found = nearest_samples(model, views, reference, n=n)
    give(found, out, json)
    if out is None and not json:
        print_lines(found, "")


@reads_data
def suggest(
    model: Model,
    data: Data,
    reference: Annotated[
        str, typer.Option(help="Labelled data that the model was not fitted on, like DATA.")
    ],
    cost: Annotated[
        list[str] | None,
        typer.Option("--cost", help="Cost of a view, view=3; 1 for others; once per view."),
    ] = None,
    measure: Annotated[
        str | None,
        typer.Option(
            help="What is saved: average_precision (the default), brier or log_loss, per label."
        ),
    ] = None,
    sample: Samples = None,
    reference_labels: Annotated[
        Path | None, typer.Option(help="Table of the labels of --reference.")
    ] = None,
    out: Out = None,
    missing: MissingAsFitted = None,
    *,
    reading: Reading,
    json: AsJson = False,
) -> None:
    """Rank the views that samples of DATA lack by what measuring them should gain, per cost.

    What a view gains is learned from the samples of --reference that have it: it is hidden from
    them and shown.
    """
    from viewgap.cli.inputs import load_fitted, open_labelled
    from viewgap.explanation import suggest_view

    check_out(out)
    costs = _costs(cost or [])
    fitted = load_fitted(model, missing, on_empty="prior")
    given = _chosen(_open(fitted, data, reading), sample)
    known, truth = open_labelled(fitted, reference, reference_labels, fitted.nan, reading)
    found = suggest_view(fitted, given, known, truth, costs=costs, measure=measure)
    give(found, out, json)
    if out is None and not json:
        print_lines(found, "no sample lacks a view")
    complete = given.observed.all(axis=1)
    if sample and complete.any() and not complete.all():
        say(f"viewgap: note: {first_few(given.sample_ids[complete])}: no view is missing")


# ---------------------------------------------------------------------- input


def _open(fitted: MultiViewClassifier, data: str, reading: Reading) -> ViewSet:
    from viewgap.cli.inputs import open_views
    from viewgap.prediction.blocks import without_unknown_views

    return without_unknown_views(fitted, open_views(data, fitted, fitted.nan, reading))


def _chosen(views: ViewSet, ids: list[str] | None) -> ViewSet:
    """The samples with these ids, in the order of the command line."""
    if not ids:
        return views
    place = {str(own): row for row, own in enumerate(views.sample_ids)}
    unknown = [own for own in ids if own not in place]
    if unknown:
        raise SettingError(
            f"--sample must be an id of the data: {first_few(place)}; unknown: {first_few(unknown)}"
        )
    return views[[place[own] for own in dict.fromkeys(ids)]]


def _costs(entries: list[str]) -> dict[str, float]:
    costs: dict[str, float] = {}
    for entry in entries:
        name, sign, text = entry.rpartition("=")
        try:
            number = float(text)
        except ValueError:
            sign = ""
        if not sign or not name.strip() or name.strip() in costs:
            raise SettingError(f"--cost takes view=number, once per view; found {entry!r}")
        costs[name.strip()] = number
    return costs
