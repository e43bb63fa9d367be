"""`viewgap inspect`: what is in the data, before anything is fitted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from viewgap.cli.options import Data, LabelFile, Missing, NanPolicy, Reading, reads_data
from viewgap.cli.output import AsJson, print_findings, print_json, print_rows, say

if TYPE_CHECKING:
    from viewgap.inspection import Inspection

_MOST_LINES = 12


@reads_data
def inspect(
    data: Data,
    labels: LabelFile = None,
    missing: Missing = NanPolicy.MEAN,
    html: Annotated[Path | None, typer.Option(help="Write one HTML page to this file.")] = None,
    *,
    reading: Reading,
    json: AsJson = False,
) -> None:
    """Look at DATA before a fit: findings first, then tables.

    Tells what fit would refuse, what is suspicious (copies, duplicates, filled-in rows, codes for
    unknown values, labels that the gaps alone predict) and what will be done about the rest. The
    exit code is 1 if fit would refuse the data, else 0.
    """
    from viewgap.cli.inputs import open_data
    from viewgap.fsio import check_file_writable, write_file
    from viewgap.inspection.inspection import inspect_checked
    from viewgap.inspection.reading import collected_notes, without_refused_values

    if html is not None:
        check_file_writable(html)  # before the work, not after it
    with collected_notes() as notes:
        given, refused = without_refused_values(
            lambda nan: open_data(data, labels, nan, reading), str(missing)
        )
    result = inspect_checked(given.views, given.labels, [*refused, *notes])
    if html is not None:
        write_file(html, result.to_html(f"Inspection of {Path(data).name or data}").encode())
        say(f"page {html}")
    if json:
        print_json(result.to_dict())
    else:
        _print(result)
    if result.count("error"):
        raise typer.Exit(1)


def _print(result: Inspection) -> None:
    from viewgap.errors import printable
    from viewgap.inspection.shown import shown_tables

    print(printable(result.summary))
    print_findings(result.findings)
    for own in shown_tables(result, _MOST_LINES):
        print(own.title)
        rows = [dict(zip(own.columns, line, strict=True)) for line in own.lines]
        right = [name for name, flag in zip(own.columns, own.numeric, strict=True) if flag]
        total = len(rows) + own.left_out
        print_rows(rows, right=right, total=total, rest="--json or --html has them")
