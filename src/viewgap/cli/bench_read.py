"""`viewgap bench table`, `compare`, `ranks`, `plot`, `report`: what is in the records."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from viewgap.cli.output import make_table, print_json, print_paths, print_rows, print_table, say

if TYPE_CHECKING:
    from viewgap.bench.analyse.data_sets import Comparison
    from viewgap.bench.analyse.statistics import RankTest
    from viewgap.bench.results.record import Record
    from viewgap.bench.show.tables import Table

Folders = Annotated[list[Path], typer.Argument(help="Folders written by bench run.")]
Metric = Annotated[str, typer.Option(help="A metric of the records: AP, 1-HL, 1-RL, AUC, ...")]
Reference = Annotated[
    str | None,
    typer.Option(
        help="Row that the others are compared with [scsd (paper), scsd or late_fusion_ridge, "
        "whichever is there first; else the row with most folds]."
    ),
]


class Style(StrEnum):
    """How a table is printed."""

    TERMINAL = "terminal"
    MARKDOWN = "markdown"
    CSV = "csv"
    LATEX = "latex"


class Kind(StrEnum):
    """What a figure shows; `auto` looks at what varies in the records."""

    AUTO = "auto"
    BARS = "bars"
    RADAR = "radar"
    HEATMAP = "heatmap"
    CURVE = "curve"
    RANKS = "ranks"
    CODEBOOK = "codebook"
    COST = "cost"
    CALIBRATION = "calibration"
    LABELS = "labels"


class Show(StrEnum):
    """What a table is about."""

    METRICS = "metrics"
    COST = "cost"
    CALIBRATION = "calibration"
    LABELS = "labels"


def table(
    folders: Folders,
    show: Annotated[
        Show,
        typer.Option(
            help="Ranking metrics; seconds and memory; calibration and F1; or AP label by label "
            "against --reference (as CSV one line per label)."
        ),
    ] = Show.METRICS,
    style: Annotated[Style, typer.Option("--format", help="Form of the table.")] = Style.TERMINAL,
    out: Annotated[Path | None, typer.Option(help="Write the table to this file.")] = None,
    published: Annotated[
        bool, typer.Option("--published", help="Add the figures of the SCSD paper.")
    ] = False,
    reference: Reference = None,
    json: Annotated[bool, typer.Option("--json", help="Print the records as JSON.")] = False,
) -> None:
    """Print mean ± standard deviation over folds.

    Failed tasks leave a dash. The best value of each column is bold, the second underlined: among
    the rows of one data set and condition (missing rates, training share).
    """
    from viewgap.bench.results.record import read_folders
    from viewgap.bench.show import tables
    from viewgap.fsio import check_file_writable

    if published and show is not Show.METRICS:
        raise typer.BadParameter("the paper prints metrics only", param_hint="--published")
    if reference is not None and show is not Show.LABELS:
        raise typer.BadParameter("only --show labels compares", param_hint="--reference")
    if out is not None:
        check_file_writable(out)
    records, failures = read_folders(folders)
    if json:
        print_json([record.to_dict() for record in records])
        return
    found = _contents(show, records, failures, published, reference)
    if style is Style.TERMINAL and out is None:
        print_table(tables.to_rich(found))
        return
    formats = {
        Style.TERMINAL: tables.to_text,
        Style.MARKDOWN: tables.to_markdown,
        Style.CSV: tables.to_csv,
        Style.LATEX: tables.to_latex,
    }
    text = formats[style](found)
    if out is None:
        print(text, end="")
    else:
        _write(out, text)


def compare(
    folders: Folders,
    metric: Metric = "AP",
    reference: Reference = None,
    json: Annotated[bool, typer.Option("--json", help="Print the tests as JSON.")] = False,
) -> None:
    """Test which differences are more than luck.

    Methods are compared within a condition (missing rates, training share). Average ranks with
    Friedman's test and Nemenyi's critical difference over the data sets that all methods have, or
    over the folds of the only one; the gap of every method to the reference with a corrected
    paired t-test.
    """
    from dataclasses import asdict

    from viewgap.bench.analyse.statistics import gaps_to, headings_without, rank_tests
    from viewgap.bench.results.record import read_folders

    records, _ = read_folders(folders)
    gaps = [asdict(gap) for gap in gaps_to(records, reference, metric)]
    tests, reasons = rank_tests(records, metric)
    for scope, reason in reasons.items():  # two methods have a gap, but no ranks worth a test
        _note(f"{scope}: {reason}" if scope else str(reason))
    for heading in headings_without(records, reference) if reference is not None else ():
        _note(f"no gaps on {heading}, which has no record of {reference}")
    if json:
        print_json({"ranks": [asdict(test) for test in tests], "gaps": gaps})
        return
    for test in tests:
        _print_ranks(test)
    _print_gaps(gaps)


class Missing(StrEnum):
    """What does not count where a method has no record on a data set."""

    METHODS = "methods"
    DATA_SETS = "data-sets"
    REFUSE = "refuse"


def ranks(
    folders: Folders,
    metric: Metric = "AP",
    control: Annotated[
        str | None,
        typer.Option(
            help="Method that the others are compared with [scsd (paper), scsd or "
            "late_fusion_ridge, whichever is there first; else the first]."
        ),
    ] = None,
    missing: Annotated[
        Missing,
        typer.Option(help="What to leave out where a method has no record on a data set."),
    ] = Missing.METHODS,
    alpha: Annotated[float, typer.Option(min=0.0001, max=0.5, help="Level of the tests.")] = 0.05,
    out: Annotated[Path | None, typer.Option(help="Folder for the diagram (SVG and PNG).")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the tests as JSON.")] = False,
) -> None:
    """Compare methods over data sets, as Demšar (2006) has it.

    The mean over folds is one score per method and data set. Average ranks with the data sets as
    blocks; Friedman's test with Iman and Davenport's correction; Nemenyi's critical difference;
    Wilcoxon's signed-rank test against a control with Holm's correction.
    """
    from viewgap.bench.analyse.data_sets import compare_over_data_sets
    from viewgap.bench.results.record import read_folders

    records, _ = read_folders(folders)
    policy = missing.value.replace("-", " ")
    found = compare_over_data_sets(records, metric, control, policy, alpha)
    kind = "data set" if missing is Missing.DATA_SETS else "method"
    note = f"Left out: {', '.join(found.left_out)}" if found.left_out else ""
    for name, where in found.left_out.items():
        _note(f"{kind} {name} left out: no record of {', '.join(where)}")
    paths: list[str] = []
    if out is not None:
        from viewgap.bench.show.figures import draw_rank_test

        paths = [str(path) for path in draw_rank_test(found.test, out, note)]
    if json:
        print_json({**_comparison_json(found), "figures": paths})
        return
    _print_comparison(found)
    print_paths(paths)


def _comparison_json(found: Comparison) -> dict[str, Any]:
    from dataclasses import asdict

    value, p_value = found.test.iman_davenport
    return {
        "ranks": asdict(found.test),
        "iman_davenport": {
            "statistic": value if value < float("inf") else None,
            "p_value": p_value,
        },
        "data_sets": dict(zip(found.data_sets, found.folds, strict=True)),
        "means": found.means.tolist(),
        "control": found.control,
        "against": [asdict(one) for one in found.against],
        "left_out": found.left_out,
    }


def _print_comparison(found: Comparison) -> None:
    test = found.test
    order = sorted(range(len(test.methods)), key=lambda place: test.ranks[place])
    rows = [
        {
            "method": test.methods[place],
            **dict(zip(found.data_sets, found.means[:, place].tolist(), strict=True)),
            "average rank": f"{test.ranks[place]:.2f}",
        }
        for place in order
    ]
    print_rows(rows)
    folds = ", ".join(map("{} {}".format, found.data_sets, found.folds))
    value, p_value = test.iman_davenport
    print(
        f"{test.metric}, means over the folds that all methods have ({_plain(folds)}). "
        f"{len(test.methods)} methods on {test.blocks} data sets: Friedman χ² "
        f"{test.statistic:.2f}, p {test.p_value:.2g}; Iman-Davenport F {value:.2f}, p "
        f"{p_value:.2g}; critical difference {test.critical_difference:.2f} (Nemenyi, "
        f"{test.alpha:g})"
    )
    against = [
        {
            "method": one.method,
            "gap": f"{one.gap:+.3f}",
            "wins": one.wins,
            "losses": one.losses,
            "p-value": one.p_value,
            "adjusted": one.adjusted,
        }
        for one in found.against
    ]
    print_rows(against)
    print(
        f"gap: method minus {_plain(found.control)}, mean over data sets; wins and losses: data "
        "sets on which the method is better or worse; p-value: Wilcoxon's signed-rank test, "
        "adjusted by Holm"
    )


def plot(
    folders: Folders,
    out: Annotated[Path, typer.Option(help="Folder for the figures (SVG and PNG).")],
    kind: Annotated[Kind, typer.Option(help="What to draw.")] = Kind.AUTO,
    metric: Annotated[
        str | None, typer.Option(help="Draw this metric only: AP, 1-HL, 1-RL, AUC, ...")
    ] = None,
    reference: Reference = None,
    json: Annotated[bool, typer.Option("--json", help="Print the paths as JSON.")] = False,
) -> None:
    """Draw the results: methods, ranks, curves, maps, cost, calibration, gains label by label.

    Without --kind, what varies in the records decides.
    """
    from viewgap.bench.results.record import read_folders
    from viewgap.bench.show.figures import draw

    records, _ = read_folders(folders)
    paths = [str(path) for path in draw(records, out, kind.value, metric, reference)]
    if json:
        print_json(paths)
    else:
        print_paths(paths)


def report(
    folders: Folders,
    out: Annotated[Path, typer.Option(help="Write the page to this file.")],
    title: Annotated[str | None, typer.Option(help="Heading of the page.")] = None,
) -> None:
    """Write one HTML file with tables, figures, tests and every task.

    It needs no other file and no network: send it, print it, keep it.
    """
    from viewgap.bench.results.record import read_folders
    from viewgap.bench.show.report import render_report
    from viewgap.fsio import check_file_writable

    check_file_writable(out)
    records, failures = read_folders(folders)
    _write(out, render_report(records, failures, title), "report")


def _print_ranks(test: RankTest) -> None:
    order = sorted(zip(test.ranks, test.methods, strict=True))
    print_rows([{"method": m, "average rank": r} for r, m in order])
    print(
        f"{test.metric} over {_plain(test.over)} that all methods have ({test.left_out} left out): "
        f"Friedman χ² {test.statistic:.2f}, p {test.p_value:.2g}; critical difference "
        f"{test.critical_difference:.2f} (Nemenyi, {test.alpha:g})"
    )


def _print_gaps(gaps: Sequence[dict[str, Any]]) -> None:
    """The gaps as a table; a reference that is not the same everywhere has a column."""
    if not gaps:
        return
    references = list(dict.fromkeys(gap["reference"] for gap in gaps))
    columns = list(_GAPS) if len(references) == 1 else [*_GAPS[:2], "reference", *_GAPS[2:]]
    print_table(make_table([_gap_words(gap) for gap in gaps], columns))
    words = _plain(references[0]) if len(references) == 1 else "the reference"
    print(f"gap: method minus {words}; adjusted: p-value after Holm's correction")


def _plain(text: str) -> str:
    from viewgap.bench.show.tables import printable

    return printable(text)


def _note(text: str) -> None:
    say(f"viewgap: note: {text}")


def _gap_words(gap: dict[str, Any]) -> dict[str, Any]:
    words = {name: gap[name] for name in ("dataset", "method", "reference", "folds")}
    words |= {"gap": f"{gap['gap']:+.3f}", "left out": gap["left_out"]}
    for name, value in (("p-value", gap["p_value"]), ("adjusted", gap["adjusted"])):
        words[name] = value if value is None or value >= 0.001 else "< 0.001"
    return words


_GAPS = ("dataset", "method", "gap", "folds", "left out", "p-value", "adjusted")


def _contents(
    show: Show,
    records: Sequence[Record],
    failures: Sequence[dict[str, Any]],
    published: bool,
    reference: str | None,
) -> Table:
    """The table that was asked for."""
    from viewgap.bench.analyse.label_gains import required_gains
    from viewgap.bench.analyse.summary import summarise
    from viewgap.bench.show.contents import (
        calibration_table,
        cost_table,
        gains_table,
        metrics_table,
    )

    if show is Show.LABELS:
        return gains_table(required_gains(records, reference))
    rows = summarise(records, failures)
    if show is Show.METRICS:
        return metrics_table(rows, published)
    return cost_table(rows) if show is Show.COST else calibration_table(rows)


def _write(path: Path, text: str, what: str = "table") -> None:
    from viewgap.fsio import write_file

    write_file(path, text.encode())
    say(f"{what} {path}")
