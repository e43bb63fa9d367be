"""`viewgap fit`, `predict` and `evaluate`: a model from data, answers from a model."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from viewgap.cli.output import make_table, print_json, print_table

Data = Annotated[
    str,
    typer.Argument(
        help="A named data set, a .mat or .npz file, or a folder of CSV or Parquet tables."
    ),
]
Model = Annotated[Path, typer.Argument(help="Folder of a saved model.")]
LabelFile = Annotated[
    Path | None, typer.Option(help="CSV or Parquet table of labels; first column = sample id.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


class NanPolicy(StrEnum):
    """What a NaN in an observed row means."""

    ERROR = "error"
    MISSING_VIEW = "missing_view"


class Variant(StrEnum):
    """Which definitions of the metrics to use."""

    FIELD = "field"
    CLEAN = "clean"


Missing = Annotated[
    NanPolicy,
    typer.Option(
        help="What a NaN among values means: an error, or that the view is missing for that sample."
    ),
]


def fit(
    data: Data,
    out: Annotated[Path, typer.Option(help="Folder of the new model.")],
    method: Annotated[str, typer.Option(help="A method (see viewgap methods).")] = "scsd",
    labels: LabelFile = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Parameter of the method, key=value.")
    ] = None,
    profile: Annotated[str, typer.Option(help="Profile of the method.")] = "default",
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    missing: Missing = NanPolicy.ERROR,
    overwrite: Annotated[bool, typer.Option(help="Replace an existing model.")] = False,
    json: AsJson = False,
) -> None:
    """Fit a method on DATA and save the model.

    Missing views and missing labels are taken as they come.
    """
    from viewgap.bench.runner import make_method
    from viewgap.cli.inputs import open_data, training_labels
    from viewgap.cli.settings import parse_settings
    from viewgap.model_file import save_model
    from viewgap.model_folder import check_destination

    automatic = {
        "random_state": seed,
        "nan": str(missing),
        "verbose": sys.stderr.isatty(),
    }
    model = make_method(method, profile, parse_settings(settings or []), automatic)
    check_destination(out, overwrite)  # before the work, not after it
    given = open_data(data, labels, str(missing))
    model.fit(given.views, training_labels(given))
    save_model(model, out, overwrite=overwrite)
    facts = {
        "model": str(out),
        "method": method,
        "samples": len(given.views),
        "views": list(model.view_names_),
        "labels": len(model.label_names_),
    }
    if json:
        print_json(facts)
    else:
        print(f"{out}: {method} fitted on {len(given.views):,} samples", file=sys.stderr)


def predict(
    model: Model,
    data: Data,
    out: Annotated[Path | None, typer.Option(help="File to write; without it, stdout.")] = None,
    missing: Missing = NanPolicy.ERROR,
    json: AsJson = False,
) -> None:
    """Predict label probabilities for DATA.

    The answer is CSV, or JSON with --json: one line per sample, one column per label.
    A sample without any view gets the label frequencies of the training data and is flagged in
    the column no_view. A label never observed in training has an empty cell (null in JSON).
    """
    from viewgap.cli.inputs import open_data
    from viewgap.cli.predictions import as_csv, as_json
    from viewgap.fsio import write_file
    from viewgap.model_file import load_model

    fitted = load_model(model)
    given = open_data(data, None, str(missing))
    fitted.set_params(nan=str(missing), on_empty="prior")
    probabilities = fitted.predict_proba(given.views)
    render = as_json if json else as_csv
    text = render(given.views, fitted.label_names_, probabilities)
    if out is None:
        sys.stdout.write(text)
    else:
        write_file(out, text.encode())
        print(f"{out}: {len(given.views):,} samples", file=sys.stderr)


def evaluate(
    model: Model,
    data: Data,
    labels: LabelFile = None,
    variant: Annotated[Variant, typer.Option(help="Definition of the metrics.")] = Variant.FIELD,
    missing: Missing = NanPolicy.ERROR,
    json: AsJson = False,
) -> None:
    """Measure a model on labelled DATA.

    Prints the six metrics of the field; labels that are not observed in DATA are left out.
    """
    from viewgap import metrics
    from viewgap.cli.inputs import matching_labels, open_data
    from viewgap.model_file import load_model

    fitted = load_model(model)
    given = open_data(data, labels, str(missing))
    truth = matching_labels(given, fitted.label_names_)
    fitted.set_params(nan=str(missing), on_empty="prior")
    found = metrics.evaluate(truth, fitted.predict_proba(given.views), variant=str(variant))
    if json:
        plain = {name: None if value != value else value for name, value in found.items()}
        facts = {"model": str(model), "data": data, "variant": str(variant)}
        print_json({**facts, "samples": len(given.views), "metrics": plain})
    else:
        print_table(make_table([found], list(found)))
