"""`viewgap datasets`: what is there, beside Table 1, and how to get the rest; downloads."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from viewgap.cli.output import AsJson, print_json, print_paths, print_rows, print_table, say
from viewgap.errors import DataFileError, printable

if TYPE_CHECKING:
    from rich.table import Table

app = typer.Typer(help="List the data sets that can be named, and download them.")

Verify = Annotated[
    bool,
    typer.Option(
        "--verify",
        help="Read files up to 64 MB: are they the published ones, how wide are their views?",
    ),
]

_NUMBERS = ("samples", "labels", "per\nsample", "fold\nfiles")
_COMPARED = {"agrees": "agrees with Table 1", "differs": "differs from Table 1"}
_STEPS = 4


@app.callback(invoke_without_command=True)
def _group(context: typer.Context, json: AsJson = False, verify: Verify = False) -> None:
    if context.invoked_subcommand is None:
        _show(json, verify)


@app.command("list")
def list_(context: typer.Context, json: AsJson = False, verify: Verify = False) -> None:
    """List the data sets that can be named; without a command, the same.

    They are embedded, generated, or found in the folders of $VIEWGAP_DATA. Sizes of the benchmark
    sets are compared with Table 1 of the SCSD paper.
    """
    before = context.parent.params if context.parent else {}  # flags written before "list"
    _show(json or before.get("json", False), verify or before.get("verify", False))


@app.command()
def download(
    name: Annotated[str, typer.Argument(help="A data set that can be downloaded: corel5k.")],
    url: Annotated[
        str | None, typer.Option(help="Where the files lie, if not in the authors' repositories.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder to use instead of $VIEWGAP_DATA.")
    ] = None,
) -> None:
    """Download a data set into $VIEWGAP_DATA/NAME and verify its checksums.

    A download that broke off is continued. Prints the paths of the files.
    """
    from viewgap.datasets import download_dataset

    with _progress() as watch:
        files = download_dataset(name, url, out, watch)
    print_paths(files)
    say(f"{name}: complete and verified{_summary(files[0])}")


@app.command()
def info(
    name: Annotated[str, typer.Argument(help="A data set that is known by name.")],
    json: AsJson = False,
) -> None:
    """Say which files, names, shapes and values a data set is expected to have."""
    from viewgap.datasets.info import expectations

    rows = expectations(name)
    if json:
        print_json(dict(rows))
    else:
        print_table(_notes(name, rows))


@app.command()
def check(
    name: Annotated[str, typer.Argument(help="A data set that is known by name.")],
    file: Annotated[
        Path | None, typer.Option(help="Its data file, if not in $VIEWGAP_DATA/NAME.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Compare a data file with what is known of the data set; refuse one that differs.

    All of it is read: samples, labels, labels per sample, widths and values of the views, what is
    missing, and the fold files beside it.
    """
    from dataclasses import asdict

    from viewgap.datasets.checks import check_dataset
    from viewgap.datasets.info import file_to_check

    path = file_to_check(name) if file is None else file
    findings = check_dataset(name, path)
    wrong = [one for one in findings if not one.agrees]
    if json:
        print_json([asdict(one) for one in findings])
    else:
        rows = [{**asdict(one), "agrees": "yes" if one.agrees else "NO"} for one in findings]
        print_rows(rows)
    if wrong:
        reasons = "; ".join(f"{one.what} {one.found}, expected {one.expected}" for one in wrong)
        raise DataFileError(f"{path} is not {name}: {reasons}")
    say(f"{path} is {name}")


# ---------------------------------------------------------------------------------- the list


def _show(json: bool, verify: bool) -> None:
    from viewgap.datasets import describe

    rows = describe(verify=verify)
    if json:
        print_json(rows)
        return
    print_table(_table([_for_people(row) for row in rows]))
    here = [(row["name"], _details(row, verify)) for row in rows if row["present"]]
    print()
    print_table(_notes("Here", here))
    ways = list(_ways([row for row in rows if not row["present"]]))
    if ways:
        print_table(_notes("To get", ways))
    print_table(_notes("", list(_legend(verify))))


def _table(rows: Sequence[Mapping[str, str]]) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    # 80 columns are enough for it: narrow gaps, no frame
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for name in rows[0]:
        table.add_column(name, justify="right" if name in _NUMBERS else "left")
    for row in rows:
        table.add_row(*(Text(printable(text)) for text in row.values()))
    return table


def _for_people(row: Mapping[str, Any]) -> dict[str, str]:
    published = {} if row["present"] else row["published"] or {}
    size = {key: row[key] or published.get(key) for key in ("n", "c", "cardinality")}
    made = row["present"] and not Path(row["path"]).is_absolute()
    return {
        "name": row["name"],
        "here": "made" if made else "yes" if row["present"] else "no",
        "samples": _number(size["n"]),
        "labels": _number(size["c"]),
        "per\nsample": _number(size["cardinality"]),
        "Table 1": _comparison(row),
        "fold\nfiles": str(len(row["fold_files"]) or "–"),
        "views": _widths(row["views"]),
    }


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:.3f}"


def _comparison(row: Mapping[str, Any]) -> str:
    if row["published"] is None:
        return "–"
    if not row["present"]:
        return "quoted"
    if row["differences"] is None:
        return "unknown"
    return "differs" if row["differences"] else "agrees"


def _widths(views: Mapping[str, int] | None) -> str:
    if not views:
        return "–"
    runs = [(width, len(list(same))) for width, same in groupby(views.values())]
    return " ".join(f"{width}" if count == 1 else f"{width}×{count}" for width, count in runs)


def _details(row: Mapping[str, Any], verify: bool) -> str:
    """What the table has no room for, one line each."""
    lines = [row["problem"] or row["path"]]
    lines += [f"differs from Table 1: {text}" for text in row["differences"] or ()]
    for fold in row["fold_files"]:
        rates = [f"{100 * fold[key]:g} %" for key in ("view_rate", "label_rate", "train_share")]
        lines.append("folds: {} of views and {} of labels missing, {} training".format(*rates))
    for name, state in row["files"].items():
        if verify or state == "not here":
            lines.append(f"{name}: {state}")
    return "\n".join(lines)


def _ways(absent: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Sets that are got in the same way share one entry."""
    ways: dict[str, list[str]] = {}
    for row in absent:
        way = row["how"].replace(row["name"], "<name>")
        ways.setdefault(way, []).append(row["name"])
    for way, names in ways.items():
        yield "\n".join(names), way if len(names) > 1 else way.replace("<name>", names[0])


def _notes(title: str, entries: Sequence[tuple[str, str]]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    if title:
        table.add_row(Text(title, style="bold"), "")
    for name, text in entries:
        table.add_row(Text(printable(name)), Text(printable(text)))
    if title:
        table.add_row("", "")
    return table


def _legend(verify: bool) -> Iterator[tuple[str, str]]:
    from viewgap.datasets.local_files import VARIABLE, data_folder

    root = data_folder()
    if root is None:
        yield f"${VARIABLE}", "is not set; let it name the folder of the files"
    else:
        yield f"${VARIABLE}", str(root) if root.is_dir() else f"{root}, which is not a folder"
    yield "Table 1", "of the SCSD paper; quoted: the set is not here, its published figures are"
    if not verify:
        yield "--verify", "reads files up to 64 MB: the published ones? how wide are their views?"


# ---------------------------------------------------------------------------------- downloads


def _summary(file: Path) -> str:
    """Sizes of what came, beside Table 1: a right file that cannot be read is no data set."""
    from viewgap.datasets.listing import describe_file

    row = describe_file(file)
    if row["n"] is None:
        return f", but it cannot be read: {row['problem']}"
    sizes = f"{row['n']:,} samples, {row['c']} labels, {row['cardinality']:.3f} per sample"
    return f": {sizes}; {_COMPARED.get(_comparison(row), 'not in Table 1')}"


@contextmanager
def _progress() -> Iterator[Callable[[str, int, int | None], None]]:
    """A bar on stderr in a terminal, a few plain lines elsewhere."""
    if not sys.stderr.isatty():
        yield _Lines()
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )
    from rich.table import Column

    name = TextColumn("{task.description}", table_column=Column(no_wrap=True, ratio=1))
    columns = (BarColumn(20), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(name, *columns, console=Console(stderr=True), expand=True) as bar:
        tasks: dict[str, Any] = {}

        def watch(file: str, done: int, total: int | None) -> None:
            if file not in tasks:
                tasks[file] = bar.add_task(file, total=total)
            bar.update(tasks[file], completed=done, total=total)

        yield watch


class _Lines:
    """Says when a file begins, and then after every quarter of it."""

    def __init__(self) -> None:
        self._said: dict[str, int] = {}

    def __call__(self, file: str, done: int, total: int | None) -> None:
        step = _STEPS * done // total if total else 0
        if self._said.get(file) != step:
            self._said[file] = step
            whole = f" of {total / 1e6:.1f}" if total else ""
            print(f"{file}: {done / 1e6:.1f}{whole} MB", file=sys.stderr, flush=True)
