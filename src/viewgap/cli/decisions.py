"""`viewgap calibrate` and `decide`: labels that are certain, possible or ruled out."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from viewgap.cli.options import Data, LabelFile, MissingAsFitted, Model, Reading, reads_data
from viewgap.cli.output import AsJson, print_json, print_rows, say
from viewgap.errors import SettingError, ViewgapWarning, first_few, printable

if TYPE_CHECKING:
    from viewgap.data.viewset import ViewSet
    from viewgap.decide import LabelSets
    from viewgap.methods.base import MultiViewClassifier

_MOST_LINES = 20


class Risk(StrEnum):
    """What is bounded."""

    MISSED_POSITIVES = "missed-positives"
    FALSE_ALARMS = "false-alarms"
    COVERAGE = "coverage"


@reads_data
def calibrate(
    model: Model,
    data: Data,
    out: Annotated[Path, typer.Option(help="File of the label sets to write (JSON).")],
    risk: Annotated[
        Risk,
        typer.Option(
            help="missed-positives: share of a sample's positives that are ruled out; "
            "false-alarms: share of negatives among its certain labels; coverage: any label of a "
            "sample decided wrongly."
        ),
    ] = Risk.MISSED_POSITIVES,
    target_level: Annotated[
        float, typer.Option(help="One minus the largest expected loss, between 0 and 1.")
    ] = 0.9,
    confidence_level: Annotated[
        float, typer.Option(help="How probable it is that the bound holds, between 0 and 1.")
    ] = 0.9,
    per_label: Annotated[
        bool,
        typer.Option(
            "--per-label", help="Promise it of every label by itself (missed-positives only)."
        ),
    ] = False,
    out_of_fold: Annotated[
        bool,
        typer.Option(
            "--out-of-fold",
            help="DATA are the training rows: fit the method without each part of them.",
        ),
    ] = False,
    folds: Annotated[int, typer.Option(min=2, help="Parts of --out-of-fold.")] = 5,
    pattern: Annotated[
        list[str] | None,
        typer.Option(
            "--pattern",
            help="Views that samples to decide may have, as in genes+proteins; may be repeated. "
            "Without it all patterns of up to 6 views, else those of the data and the training.",
        ),
    ] = None,
    labels: LabelFile = None,
    missing: MissingAsFitted = None,
    *,
    reading: Reading,
    json: AsJson = False,
) -> None:
    """Calibrate on labelled DATA when a label counts as certain, possible or ruled out.

    DATA are rows that the model was not fitted on, nor chosen by; rows of the training are warned
    of where they are found. A loss per sample is then bounded: with the probability
    --confidence-level, its expectation for new samples is at most 1 minus --target-level, for
    each pattern of missing views. Labels of DATA may be missing, at random.

    Prints what is promised, what that rests on, and how many rows each pattern and each label has.
    viewgap decide applies the file that is written.
    """
    from viewgap.cli.inputs import load_fitted, open_labelled
    from viewgap.decide import LabelSets
    from viewgap.fsio import check_file_writable

    check_file_writable(out)  # before the work, not after it
    fitted = load_fitted(model, missing)
    sets = LabelSets(
        fitted,
        risk=str(risk).replace("-", " "),
        target_level=target_level,
        confidence_level=confidence_level,
        per_label=per_label,
    )
    patterns = [_pattern(fitted, text) for text in pattern or []] or None
    known, truth = open_labelled(fitted, data, labels, fitted.nan, reading)
    if out_of_fold:
        sets.calibrate_out_of_fold(known, truth, cv=folds)
    else:
        sets.calibrate(known, truth)
    sets.save(out, patterns)
    _warn_of_telling_gaps(fitted, known, truth)
    if json:
        print_json({"model": str(model), "data": data, "sets": str(out), **_plain(sets)})
    else:
        _print(sets)
    say(f"{out}: thresholds for {len(sets.tables):,} patterns of missing views")


@reads_data
def decide(
    model: Model,
    data: Data,
    sets: Annotated[Path, typer.Option(help="File that viewgap calibrate wrote.")],
    out: Annotated[
        Path | None,
        typer.Option(
            help="File to write: .csv, .parquet, .json or .jsonl; without it, CSV on stdout."
        ),
    ] = None,
    *,
    reading: Reading,
    json: AsJson = False,
) -> None:
    """Say of every label of DATA whether it is certain, possible or ruled out.

    One line per sample, one column per label, as viewgap predict writes them. A sample without any
    view has "possible" throughout and is flagged in the column no_view; single missing values are
    taken as in the calibration. A pattern of missing views without thresholds is refused.
    """
    from viewgap.cli.inputs import open_views
    from viewgap.cli.output import note_missing_values
    from viewgap.cli.prediction import give_answers
    from viewgap.decide import LabelSets
    from viewgap.decide.blocks import decide_blocks
    from viewgap.fsio import check_file_writable
    from viewgap.model_file import load_model
    from viewgap.prediction.writers import writer_for

    if out is not None:
        check_file_writable(out)
    fitted = load_model(model)
    found = LabelSets.load(sets, fitted)
    names = fitted.label_names_
    kind = writer_for(out, json, names, "decisions")
    given = open_views(data, fitted, found.nan, reading)
    note_missing_values(given, found.nan)
    give_answers(kind, out, names, "decisions", decide_blocks(found, given))
    say(f"promise: {found.promise}")
    say(f"assumed: {found.assumption}")


def _pattern(fitted: MultiViewClassifier, text: str) -> str:
    """`"110"` from `"genes+proteins"`."""
    wanted = [name.strip() for name in text.split("+")]
    unknown = [name for name in wanted if name not in fitted.view_names_]
    if unknown:
        raise SettingError(
            f"--pattern takes names of views joined by +; found {first_few(unknown)}; the model "
            f"knows {first_few(fitted.view_names_)}"
        )
    return "".join("1" if name in wanted else "0" for name in fitted.view_names_)


def _warn_of_telling_gaps(fitted: MultiViewClassifier, views: ViewSet, truth: Any) -> None:
    """Where labels differ with the views that a sample has, the assumption is not met."""
    from viewgap.data.validation import as_labels
    from viewgap.inspection.missingness import labels_from_gaps

    labels = as_labels(truth, views, names=fitted.label_names_)
    telling = [own for own in labels_from_gaps(views, labels) if own.predicts]
    if telling:
        warnings.warn(
            f"what is missing predicts labels ({first_few(own.label for own in telling)}): it is "
            "not missing at random. The promise for a pattern of views is then one of samples that "
            "have at least these views, not of those that lack the others; viewgap report "
            "--label-sets tells how often it held for these",
            ViewgapWarning,
            stacklevel=2,
        )


# ---------------------------------------------------------------------- what is printed


def _views_of(sets: LabelSets, pattern: str) -> list[str]:
    names = zip(sets.model.view_names_, pattern, strict=True)
    return [name for name, flag in names if flag == "1"]


def _plain(sets: LabelSets) -> dict[str, Any]:
    settings = ("risk", "target_level", "confidence_level", "per_label", "out_of_fold")
    patterns = [
        {"views": _views_of(sets, pattern), **table.to_dict()}
        for pattern, table in sets.tables.items()
    ]
    return {
        **{name: getattr(sets, name) for name in settings},
        "promise": sets.promise,
        "assumption": sets.assumption,
        "labels": list(sets.model.label_names_),
        "patterns": patterns,
    }


def _print(sets: LabelSets) -> None:
    print(f"promise: {sets.promise}")
    print(f"assumed: {sets.assumption}")
    tables = sets.tables
    effective = "fewest positives" if sets.per_label else "effective"
    sides = {"lower": "can be ruled out", "upper": "can be certain"}
    sides.pop({"missed positives": "upper", "false alarms": "lower"}.get(sets.risk, ""), None)
    rows = [
        {
            "views": " + ".join(_views_of(sets, pattern)),
            "rows": table.n_rows,
            effective: round(table.n_effective),
            **{told: _decidable(getattr(table, side)) for side, told in sides.items()},
        }
        for pattern, table in sorted(tables.items(), key=lambda item: -item[1].n_rows)
    ]
    print_rows(rows, most=_MOST_LINES)
    for advice in _advice_on_too_few(sets):
        print(advice)
    pattern = max(tables, key=lambda own: (tables[own].n_rows, own))
    table = tables[pattern]
    print(printable(f"labels, with the views {' + '.join(_views_of(sets, pattern))}:"))
    limits = {"lower": "ruled out up to", "upper": "certain above"}
    lines = [
        {
            "label": name,
            "positives": table.n_positives[j],
            "negatives": table.n_negatives[j],
            **{limits[side]: getattr(table, side)[j] for side in sides},
        }
        for j, name in enumerate(sets.model.label_names_)
    ]
    lines.sort(key=lambda line: line["positives"])
    print_rows(lines, right=tuple(limits.values()), most=_MOST_LINES)


def _advice_on_too_few(sets: LabelSets) -> Iterator[str]:
    """How many rows a pattern needs, where some have fewer and decide nothing for that reason."""
    needed = math.ceil(math.log(1 - sets.confidence_level) / math.log(sets.target_level) - 1e-9)
    few = sum(
        table.n_effective < needed and not any(v is not None for v in (*table.lower, *table.upper))
        for table in sets.tables.values()
    )
    if few:
        what = "positives of a label" if sets.per_label else "effective rows"
        yield (
            f"{few} of {len(sets.tables)} patterns have too few rows to decide anything: this "
            f"promise takes at least {needed} {what} of a pattern, and more with every mistake; "
            "calibrate on more rows, or ask for a lower --target-level or --confidence-level"
        )


def _decidable(thresholds: list[float | None]) -> str:
    return f"{sum(value is not None for value in thresholds)} of {len(thresholds)} labels"
