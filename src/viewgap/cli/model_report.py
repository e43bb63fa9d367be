"""`viewgap report`: a model on data as one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from viewgap.cli.options import Data, LabelFile, MissingAsFitted, Model, Reading, reads_data
from viewgap.cli.output import AsJson, print_findings, print_json, say


@reads_data
def report(
    model: Model,
    data: Data,
    out: Annotated[Path, typer.Option(help="HTML file to write.")] = Path("report.html"),
    labels: LabelFile = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of intervals and sampled rows.")] = 0,
    label_sets: Annotated[
        Path | None,
        typer.Option(help="File of viewgap calibrate: how often its promise held on DATA."),
    ] = None,
    missing: MissingAsFitted = None,
    *,
    reading: Reading,
    json: AsJson = False,
) -> None:
    """Measure a model on DATA and write one HTML page about it.

    Findings first; scores with intervals, every label, calibration, decisions, scores by pattern of
    missing views, the loss if a view disappears, contributions of views, some samples, and the
    model card. DATA should be samples that the model has not seen; the page says if it finds that
    they are not. Without labels in DATA it says what cannot be shown.
    """
    from viewgap.cli.inputs import load_fitted, matching_labels, open_data
    from viewgap.fsio import check_file_writable
    from viewgap.model_report import report as make_report
    from viewgap.prediction.blocks import without_unknown_views

    check_file_writable(out)  # before the work, not after it
    fitted = load_fitted(model, missing)
    given = open_data(data, labels, fitted.nan, reading)
    is_labelled = given.labels is not None and given.labels.n_observed > 0
    truth = matching_labels(given, fitted.label_names_) if is_labelled else None
    known = without_unknown_views(fitted, given.views)
    title = f"{model.resolve().name} on {Path(data).name or data}"
    sets = None
    if label_sets is not None:
        from viewgap.decide import LabelSets

        sets = LabelSets.load(label_sets, fitted)
    found = make_report(fitted, known, truth, out, title=title, random_state=seed, label_sets=sets)
    if json:
        print_json({"model": str(model), "data": data, "page": str(out), **found.to_dict()})
    else:
        print_findings(found.findings)
    say(f"page {out}")
