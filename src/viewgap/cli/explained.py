"""What `viewgap explain` and `suggest` write and print: files, JSON, tables with bars, drawings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from viewgap.cli.line_files import check_lines_file, give_lines, plain_lines
from viewgap.cli.output import print_rows, say
from viewgap.errors import printable

if TYPE_CHECKING:
    import pandas as pd

_BAR = 24
DRAWINGS = (".html", ".svg")


def check_out(out: Path | None, drawings: bool = False) -> None:
    """Refuse a file that cannot be written, or has the ending of none of the forms."""
    from viewgap.fsio import check_file_writable

    if drawings and out is not None and out.suffix.lower() in DRAWINGS:
        check_file_writable(out)
    else:
        check_lines_file(out, DRAWINGS if drawings else ())


def give(found: pd.DataFrame, out: Path | None, json: bool, title: str = "") -> None:
    """Write the lines, or a drawing of them, and print them as JSON, as far as asked for."""
    if out is None or out.suffix.lower() not in DRAWINGS:
        give_lines(found, out, json)
        return
    from viewgap.explanation.drawing import render_page, render_svg
    from viewgap.fsio import write_file

    give_lines(found, None, json)
    page = out.suffix.lower() == ".html"
    write_file(out, (render_page(found, title) if page else render_svg(found)).encode())
    n_samples = found["sample"].nunique()
    say(f"{out}: {n_samples:,} sample{'' if n_samples == 1 else 's'}")


def print_lines(found: pd.DataFrame, empty: str) -> None:
    """Print the lines as one table; `empty` where there is none."""
    rows = [
        {key: float(f"{v:.4g}") if isinstance(v, float) else v for key, v in row.items()}
        for row in plain_lines(found)
    ]
    print_rows(rows)
    if not rows:
        print(empty)


def print_contributions(found: pd.DataFrame) -> None:
    """A table with bars for every sample and label."""
    most = found["contribution"].abs().max()
    for (sample, label), own in found.groupby(["sample", "label"], sort=False):
        first = own.iloc[0]
        head = f"sample {sample}, label {label}: probability {first['probability']:.3f}"
        print(printable(f"{head}, without any view {first['base']:.3f}"))
        print_rows([_line(line, most) for line in plain_lines(own)], right=["contribution"])


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
