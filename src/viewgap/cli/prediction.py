"""`viewgap predict`, `check` and `info`: what is done with a saved model."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from viewgap.cli.options import Data, MissingAsFitted, Model, Reading, reads_data
from viewgap.cli.output import AsJson, print_findings, print_json, print_rows, say

if TYPE_CHECKING:
    from viewgap.methods.base import MultiViewClassifier
    from viewgap.model_info import ModelInfo
    from viewgap.prediction.blocks import Answers
    from viewgap.prediction.contract import DataCheck

SUSPICIOUS = 3
_MOST_LINES = 20


class What(StrEnum):
    """What predictions consist of."""

    PROBABILITIES = "probabilities"
    DECISIONS = "decisions"
    BOTH = "both"


@reads_data
def predict(
    model: Model,
    data: Data,
    out: Annotated[
        Path | None,
        typer.Option(
            help="File to write: .csv, .parquet, .json or .jsonl; without it, CSV on stdout."
        ),
    ] = None,
    what: Annotated[What, typer.Option(help="What to write of every label.")] = What.PROBABILITIES,
    top: Annotated[
        int | None,
        typer.Option(min=1, help="Write so many labels per sample only, the most probable first."),
    ] = None,
    missing: MissingAsFitted = None,
    *,
    reading: Reading,
    json: AsJson = False,
) -> None:
    """Predict the labels of DATA.

    One line per sample, one column per label: its probability, the decision (1 above the threshold
    of the label, else 0), or both, the decisions then in columns decision:LABEL.
    A sample without any view gets the label frequencies of the training data and is flagged in
    the column no_view. A label never observed in training has an empty cell (null in JSON).
    Labels, views and columns that the model does not know are left out with a note; columns that it
    needs must be there.

    With --top there is one line per sample and label, of the most probable labels: sample, no_view,
    rank, label, and probability or decision (in JSON a list of labels per sample).

    Rows are read, predicted and written in blocks. FILE is complete or not there.

    In CSV an id or label name that a spreadsheet would run as a formula (it begins with =, +, -, @
    or a tab, and is no number) gets an apostrophe before it, and control characters are written as
    \\x1b. JSON and Parquet keep them.
    """
    from viewgap.cli.inputs import load_fitted, open_views
    from viewgap.cli.output import note_missing_values
    from viewgap.fsio import check_file_writable
    from viewgap.prediction.blocks import predict_blocks
    from viewgap.prediction.contract import shifted
    from viewgap.prediction.top_writers import top_writer_for
    from viewgap.prediction.writers import writer_for

    if out is not None:
        check_file_writable(out)  # before the work, not after it
    fitted = load_fitted(model, missing, on_empty="prior")
    kind: Any
    if top is None:
        kind = writer_for(out, json, fitted.label_names_, str(what))
    else:
        kind = top_writer_for(out, json, top)
    given = open_views(data, fitted, fitted.nan, reading)
    note_missing_values(given, fitted.nan)
    blocks = _with_progress(predict_blocks(fitted, given), len(given))
    for finding in shifted(fitted, given):
        say(f"viewgap: note: {finding.text}; {finding.remedy}")
    give_answers(kind, out, fitted.label_names_, str(what), blocks)


def give_answers(
    kind: Any, out: Path | None, names: Sequence[str], what: str, blocks: Iterable[Answers]
) -> None:
    """Write answers to a file, which is complete or not there, or to stdout."""
    from viewgap.fsio import replaced_file
    from viewgap.prediction.writers import write_answers

    if out is None:
        write_answers(kind, sys.stdout.buffer, names, what, blocks)
        return
    with replaced_file(out) as file:
        n_samples = write_answers(kind, file, names, what, blocks)
    say(f"{out}: {n_samples:,} samples")


def _with_progress(blocks: Iterable[Answers], n_samples: int) -> Iterator[Answers]:
    """The blocks, with a bar on stderr if that is a terminal."""
    if not sys.stderr.isatty():
        yield from blocks
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as TimeLeft

    columns = (TextColumn("samples"), BarColumn(), MofNCompleteColumn(), TimeLeft())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=n_samples)
        for answers in blocks:
            yield answers
            bar.advance(task, len(answers))


# ---------------------------------------------------------------------- check


@reads_data
def check(
    model: Model,
    data: Data,
    missing: MissingAsFitted = None,
    *,
    reading: Reading,
    json: AsJson = False,
) -> None:
    """Hold DATA against a model: would predict refuse it, and can its answers be trusted?

    Columns (absent, unknown, in another order), values far outside of training, ids, views that are
    absent throughout, patterns of missing views that training never had, and labels if there are
    any. Exit code 0: fine; 1: predict would refuse it; 3: suspicious.
    """
    from viewgap.cli.inputs import load_fitted

    result = _checked(load_fitted(model, missing, on_empty="prior"), data, reading)
    if json:
        print_json({"model": str(model), "data": data, **result.to_dict()})
    else:
        print_findings(result.findings)
        print(f"{result.verdict}: {result.n_samples:,} samples")
    codes = {"fine": 0, "refused": 1, "suspicious": SUSPICIOUS}
    raise typer.Exit(codes[result.verdict])


def _checked(fitted: MultiViewClassifier, data: str, reading: Reading) -> DataCheck:
    """The findings of reading and of the check; data that cannot be read is one of them."""
    from viewgap.cli.inputs import label_names_of, open_views
    from viewgap.errors import DataFileError, InputError
    from viewgap.inspection.findings import Finding, in_order
    from viewgap.inspection.reading import collected_notes
    from viewgap.prediction.contract import DataCheck
    from viewgap.prediction.contract import check as check_data

    try:
        with collected_notes() as notes:
            given = open_views(data, fitted, fitted.nan, reading)
            result = check_data(fitted, given, label_names_of(data, reading))
    except (DataFileError, InputError) as error:
        found = Finding("error", "refused", str(error), "predict refuses it, too")
        return DataCheck(0, [found])
    return DataCheck(result.n_samples, in_order([*result.findings, *notes]))


# ---------------------------------------------------------------------- info


def info(model: Model, json: AsJson = False) -> None:
    """Show what a saved model is: data, settings, scores, views and labels."""
    from viewgap.model_info import info as read_info

    found = read_info(model)
    if json:
        print_json(found.to_dict())
        return
    _print_info(found)


def _print_info(found: ModelInfo) -> None:
    from viewgap.errors import printable

    samples = "" if found.n_samples is None else f" on {found.n_samples:,} samples"
    early = "; a signal ended the fit early" if found.interrupted else ""
    print(printable(f"{found.model}: {found.method}{samples}{early}"))
    if found.interrupted:
        print(printable(f"  {_how_to_go_on(found)}"))
    print(printable(f"  {found.summary}"))
    print(printable(f"  viewgap {found.viewgap}, saved {found.saved}"))
    profile = "" if found.profile is None else f"profile {found.profile}; "
    changed = ", ".join(f"{name}={value!r}" for name, value in found.changed.items())
    print(printable(f"  {profile}{changed or 'all parameters at their defaults'}"))
    for line in _score_lines(found):
        print(printable(f"  {line}"))
    print_rows(found.views)
    if found.patterns:
        names = [view["view"] for view in found.views]
        rows = [
            {"views": _views_of(names, text), "samples": count}
            for text, count in found.patterns.items()
        ]
        print_rows(rows, most=_MOST_LINES, total=found.n_patterns)
    print_rows(found.labels, most=_MOST_LINES)


def _how_to_go_on(found: ModelInfo) -> str:
    if found.resume is None:
        return "it had no checkpoint and cannot go on: fit again, with --checkpoint DIR"
    return f"to go on, in the folder where it was begun: {found.resume}"


def _views_of(names: list[str], pattern: str) -> str:
    there = [name for name, flag in zip(names, pattern, strict=True) if flag == "1"]
    return " + ".join(there)


def _score_lines(found: ModelInfo) -> Iterator[str]:
    own = found.scores.get("out_of_fold")
    if own is not None:
        yield score_text(own)
    validation = found.scores.get("validation")
    if validation is not None:
        epoch = f"epoch {validation['best_epoch']} of {validation['epochs']}"
        yield f"validation score {validation['score']:.3f} ({epoch}, which was chosen by it)"
    for line in found.scores.get("members", ())[1:]:
        score = "–" if line["score"] is None else f"{line['score']:.3f}"
        note = f", {line['note']}" if line["note"] else ""
        yield f"member {line['method']}: {score}, weight {line['weight']:.2f}{note}"


def score_text(scores: dict[str, Any]) -> str:
    """Out-of-fold scores (`OutOfFoldScores` as a dict) in one line."""
    parts = []
    if scores["average_precision"] is not None:
        parts.append(f"average precision {scores['average_precision']:.3f}")
    if scores["macro_auc"] is not None:
        parts.append(f"macro AUC {scores['macro_auc']:.3f} over {scores['n_labels']:,} labels")
    told = ", ".join(parts) or "no score is defined"
    return f"out of fold: {told} ({scores['n_entries']:,} observed label entries)"
