"""`viewgap explain` and `suggest`: why an answer is what it is, and which view to measure next."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from viewgap.cli.line_files import check_lines_file, give_lines, plain_lines
from viewgap.cli.model import Data, MissingAsFitted, Model
from viewgap.cli.output import AsJson, make_table, print_table
from viewgap.cli.reading import (
    Decimal,
    IdColumn,
    LabelColumns,
    LabelSeparator,
    Views,
    read_options,
)
from viewgap.errors import SettingError, first_few, printable

if TYPE_CHECKING:
    import pandas as pd

    from viewgap.data.viewset import ViewSet
    from viewgap.methods.base import MultiViewClassifier

_BAR = 24

Samples = Annotated[
    list[str] | None, typer.Option("--sample", help="Id of a sample; may be repeated.")
]
Out = Annotated[
    Path | None, typer.Option(help="Write the lines to this file: .csv, .json or .parquet.")
]


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
    seed: Annotated[int, typer.Option(help="Seed, for samples with more than 10 views.")] = 0,
    out: Out = None,
    missing: MissingAsFitted = None,
    views: Views = None,
    label_columns: LabelColumns = None,
    label_separator: LabelSeparator = None,
    id_column: IdColumn = None,
    decimal: Decimal = ".",
    json: AsJson = False,
) -> None:
    """Say what each view contributes to the answer for a sample of DATA.

    Contributions (Shapley values over the views) add up to the probability minus the one without
    any view, which is the frequency of the label in training. A view that the sample lacks
    contributes nothing. Without --sample, all samples are explained, into --out or as --json.
    """
    from viewgap.explanation import explain as explain_views

    check_lines_file(out)
    if not sample and out is None and not json:
        raise SettingError("give --sample ID, or --out FILE (or --json) for all samples")
    fitted = _load(model, missing)
    options = read_options(views, label_columns, label_separator, id_column, decimal)
    given = _chosen(_open(fitted, data, options), sample)
    found = explain_views(
        fitted, given, labels=label or None, interactions=interactions, random_state=seed
    )
    give_lines(found, out, json)
    if out is None and not json:
        _print_contributions(found)


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
    sample: Samples = None,
    reference_labels: Annotated[
        Path | None, typer.Option(help="Table of the labels of --reference.")
    ] = None,
    out: Out = None,
    missing: MissingAsFitted = None,
    views: Views = None,
    label_columns: LabelColumns = None,
    label_separator: LabelSeparator = None,
    id_column: IdColumn = None,
    decimal: Decimal = ".",
    json: AsJson = False,
) -> None:
    """Rank the views that samples of DATA lack by the loss they are expected to save, per cost.

    What a view saves is learned from the samples of --reference that have it: it is hidden from
    them and shown.
    """
    from viewgap.cli.inputs import matching_labels, open_data
    from viewgap.explanation import suggest_view

    check_lines_file(out)
    costs = _costs(cost or [])
    fitted = _load(model, missing)
    options = read_options(views, label_columns, label_separator, id_column, decimal)
    given = _chosen(_open(fitted, data, options), sample)
    known = open_data(reference, reference_labels, fitted.nan, options)
    truth = matching_labels(known, fitted.label_names_)
    found = suggest_view(fitted, given, known.views, truth, costs=costs)
    give_lines(found, out, json)
    if out is None and not json:
        rows = plain_lines(found)
        if not rows:
            print("no sample lacks a view")
            return
        print_table(make_table(rows, list(rows[0])))


# ---------------------------------------------------------------------- input


def _load(model: Path, missing: Any) -> MultiViewClassifier:
    from viewgap.model_file import load_model

    fitted = load_model(model)
    fitted.set_params(nan=fitted.nan if missing is None else str(missing), on_empty="prior")
    return fitted


def _open(fitted: MultiViewClassifier, data: str, options: dict[str, Any]) -> ViewSet:
    from viewgap.cli.inputs import open_views
    from viewgap.prediction.blocks import without_unknown_views

    known = {name: fitted.feature_names_in_.get(name, ()) for name in fitted.view_names_}
    given = open_views(data, fitted.nan, fitted.label_names_, options, known)
    return without_unknown_views(fitted, given)


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


# ---------------------------------------------------------------------- output


def _print_contributions(found: pd.DataFrame) -> None:
    """A table with bars for every sample and label."""
    most = found["contribution"].abs().max()
    for (sample, label), own in found.groupby(["sample", "label"], sort=False):
        first = own.iloc[0]
        head = f"sample {sample}, label {label}: probability {first['probability']:.3f}"
        print(printable(f"{head}, without any view {first['base']:.3f}"))
        rows = [_line(line, most) for line in plain_lines(own)]
        print_table(make_table(rows, list(rows[0]), right=["contribution"]))


def _line(line: dict[str, Any], most: float) -> dict[str, Any]:
    value = line["contribution"]
    length = 0 if value is None or not most > 0 else round(_BAR * abs(value) / most)
    bar = "█" * length
    negative = value is not None and value < 0
    shown: dict[str, Any] = {"view": line["view"]}
    if "with_view" in line:
        shown["with"] = "alone" if line["with_view"] == line["view"] else line["with_view"]
    shown["contribution"] = "missing" if not line["observed"] else _signed(value)
    if line.get("standard_error"):
        shown["contribution"] += f" ± {line['standard_error']:.3f}"
    shown["against"] = (bar if negative else "").rjust(_BAR)
    shown["for"] = "" if negative else bar
    return shown


def _signed(value: float | None) -> str:
    return "–" if value is None else f"{value:+.3f}"
