"""`viewgap bench table`, `compare`, `plot` and `report`: what is in the records of a run."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from viewgap.cli.output import make_table, print_json, print_table

if TYPE_CHECKING:
    from viewgap.bench.record import Record

Folders = Annotated[list[Path], typer.Argument(help="Folders written by bench run.")]
Metric = Annotated[str, typer.Option(help="AP, 1-HL, 1-RL, AUC, 1-OE or 1-Cov.")]


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


def table(
    folders: Folders,
    style: Annotated[Style, typer.Option("--format", help="Form of the table.")] = Style.TERMINAL,
    out: Annotated[Path | None, typer.Option(help="Write the table to this file.")] = None,
    published: Annotated[
        bool, typer.Option("--published", help="Add the figures of the SCSD paper.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the records as JSON.")] = False,
) -> None:
    """Print mean ± standard deviation over folds.

    Failed cells show as holes. The best value of each column is bold, the second underlined.
    """
    from viewgap.bench.tables import as_rich, summarise

    records, failures = _read(folders)
    if json:
        print_json([record.to_dict() for record in records])
        return
    rows = summarise(records, failures)
    if style is Style.TERMINAL and out is None:
        print_table(as_rich(rows, published=published))
        return
    text = _table_text(style, rows, published)
    if out is None:
        print(text, end="")
    else:
        _write(out, text)


def compare(
    folders: Folders,
    metric: Metric = "AP",
    reference: Annotated[
        str | None, typer.Option(help="Row that the others are compared with [scsd (paper)].")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the tests as JSON.")] = False,
) -> None:
    """Test which differences are more than luck.

    Average ranks with Friedman's test and Nemenyi's critical difference over the folds that all
    methods have; the gap of every method to the reference with a corrected paired t-test.
    """
    from dataclasses import asdict

    from viewgap.bench.statistics import gaps_to, rank_test
    from viewgap.errors import InputError

    records, _ = _read(folders)
    gaps = [asdict(gap) for gap in gaps_to(records, reference, metric)]
    try:
        test = rank_test(records, metric)
    except InputError as error:  # two methods have a gap, but no ranks worth a test
        test = None
        print(f"viewgap: note: {error}", file=sys.stderr)
    if json:
        print_json({"ranks": None if test is None else asdict(test), "gaps": gaps})
        return
    if test is not None:
        order = sorted(zip(test.ranks, test.methods, strict=True))
        print_table(make_table([{"method": m, "average rank": r} for r, m in order], _RANKS))
        print(
            f"{metric} over {test.blocks} folds that all methods have ({test.left_out} left out): "
            f"Friedman χ² {test.statistic:.2f}, p {test.p_value:.2g}; critical difference "
            f"{test.critical_difference:.2f} (Nemenyi, {test.alpha:g})"
        )
    if not gaps:
        return
    print_table(make_table([_gap_words(gap) for gap in gaps], _GAPS))
    print(f"gap: method minus {gaps[0]['reference']}; adjusted: p-value after Holm's correction")


def plot(
    folders: Folders,
    out: Annotated[Path, typer.Option(help="Folder for the figures (SVG and PNG).")],
    kind: Annotated[Kind, typer.Option(help="What to draw.")] = Kind.AUTO,
    metric: Annotated[
        str | None, typer.Option(help="Draw this metric only: AP, 1-HL, 1-RL, AUC, 1-OE, 1-Cov.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the paths as JSON.")] = False,
) -> None:
    """Draw the results: methods, ranks, curves over a setting, maps over two.

    Without --kind, what varies in the records decides.
    """
    from viewgap.bench.figures import draw

    records, _ = _read(folders)
    paths = [str(path) for path in draw(records, out, kind.value, metric)]
    if json:
        print_json(paths)
    else:
        print("\n".join(paths))


def report(
    folders: Folders,
    out: Annotated[Path, typer.Option(help="Write the page to this file.")],
    title: Annotated[str | None, typer.Option(help="Heading of the page.")] = None,
) -> None:
    """Write one HTML file with tables, figures, tests and every cell.

    It needs no other file and no network: send it, print it, keep it.
    """
    from viewgap.report.experiment import render_experiment

    records, failures = _read(folders)
    _write(out, render_experiment(records, failures, title), "report")


def _gap_words(gap: dict[str, Any]) -> dict[str, Any]:
    words = {name: gap[name] for name in ("dataset", "method", "folds")}
    words |= {"gap": f"{gap['gap']:+.3f}", "left out": gap["left_out"]}
    for name, value in (("p-value", gap["p_value"]), ("adjusted", gap["adjusted"])):
        words[name] = value if value is None or value >= 0.001 else "< 0.001"
    return words


_RANKS = ("method", "average rank")
_GAPS = ("dataset", "method", "gap", "folds", "left out", "p-value", "adjusted")


def _read(folders: Sequence[Path]) -> tuple[list[Record], list[dict[str, Any]]]:
    """Records and failures of all folders; a cell that two folders have counts once."""
    from viewgap.bench.grid import RECORDS, read_failures, read_records
    from viewgap.errors import DataFileError

    records: dict[str, Record] = {}
    failures: dict[str, dict[str, Any]] = {}
    for folder in folders:
        found, broken = read_records(folder), read_failures(folder)
        if not found and not broken:
            raise DataFileError(f"no results in {folder}; expected {folder / RECORDS}")
        for record in found:
            known = records.setdefault(record.cell, record)
            if dict(known.metrics) != dict(record.metrics):
                raise DataFileError(
                    f"{folder}: cell {record.cell} ({record.method} on {record.dataset}, fold "
                    f"{record.fold}) is in another folder with different numbers"
                )
        failures.update({entry["cell"]: entry for entry in broken})
    open_failures = [entry for cell, entry in failures.items() if cell not in records]
    return list(records.values()), open_failures


def _table_text(style: Style, rows: Sequence[Any], published: bool) -> str:
    from viewgap.bench.table_formats import as_csv, as_latex
    from viewgap.bench.tables import as_markdown, as_text

    formats = {
        Style.TERMINAL: as_text,
        Style.MARKDOWN: as_markdown,
        Style.CSV: as_csv,
        Style.LATEX: as_latex,
    }
    return formats[style](rows, published)


def _write(path: Path, text: str, what: str = "table") -> None:
    from viewgap.fsio import write_file

    write_file(path, text.encode())
    print(f"{what}  {path}", file=sys.stderr)
