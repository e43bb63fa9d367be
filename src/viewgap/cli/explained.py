"""What `viewgap explain` and `suggest` write and print: files, JSON, tables with bars, drawings."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from viewgap.cli.output import make_table, print_json, print_table, say
from viewgap.errors import SettingError, printable

if TYPE_CHECKING:
    import pandas as pd

_BAR = 24
_TABLES = (".csv", ".json", ".parquet")
DRAWINGS = (".html", ".svg")


def check_out(out: Path | None, drawings: bool = False) -> None:
    """Refuse a file that cannot be written, or has the ending of none of the forms."""
    from viewgap.fsio import check_file_writable

    if out is None:
        return
    endings = (*_TABLES, *(DRAWINGS if drawings else ()))
    if out.suffix.lower() not in endings:
        raise SettingError(
            f"{out}: written as {', '.join(endings)}; found the ending {out.suffix!r}"
        )
    check_file_writable(out)


def give(found: pd.DataFrame, out: Path | None, json: bool, title: str = "") -> None:
    """Write the lines to a file, and as JSON to stdout, where either is asked for."""
    if json:
        print_json(_plain(found))
    if out is None:
        return
    from viewgap.fsio import write_file

    ending = out.suffix.lower()
    if ending in DRAWINGS:
        write_file(out, _drawing(found, ending, title).encode())
        say(f"{out}: {found['sample'].nunique():,} samples")
        return
    write_file(out, _bytes(found, ending))
    say(f"{out}: {len(found):,} lines")


def _drawing(found: pd.DataFrame, ending: str, title: str) -> str:
    from viewgap.explanation.drawing import render_page, render_svg

    return render_page(found, title) if ending == ".html" else render_svg(found)


def _bytes(found: pd.DataFrame, ending: str) -> bytes:
    from viewgap.cli.output import json_text
    from viewgap.prediction.writers import csv_cell

    if ending == ".json":
        return (json_text(_plain(found), indent=1) + "\n").encode()
    texts = [name for name in found.columns if found[name].dtype.kind not in "bifu"]
    if ending == ".csv":
        safe = {name: [csv_cell(str(text)) for text in found[name]] for name in texts}
        return bytes(found.assign(**safe).to_csv(index=False, lineterminator="\n").encode())
    file = io.BytesIO()
    try:
        found.assign(**{name: found[name].astype(str) for name in texts}).to_parquet(file)
    except ImportError as error:
        raise SettingError(
            "a Parquet file needs the package pyarrow: pip install viewgap[files]"
        ) from error
    return file.getvalue()


def _plain(found: pd.DataFrame) -> list[dict[str, Any]]:
    """The lines as plain values; None for NaN."""
    lines: Any = found.astype(object).to_dict("records")
    return [
        {
            key: None if value != value else value if isinstance(value, _PLAIN) else str(value)
            for key, value in line.items()
        }
        for line in lines
    ]


_PLAIN = (bool, int, float, str)


def print_lines(found: pd.DataFrame, empty: str) -> None:
    """Print the lines as one table; `empty` where there is none."""
    rows = _plain(found)
    if rows:
        shown = [
            {key: _four(value) if isinstance(value, float) else value for key, value in row.items()}
            for row in rows
        ]
        print_table(make_table(shown, list(rows[0])))
    else:
        print(empty)


def _four(value: float) -> float:
    return float(f"{value:.4g}")


def print_contributions(found: pd.DataFrame) -> None:
    """A table with bars for every sample and label."""
    most = found["contribution"].abs().max()
    for (sample, label), own in found.groupby(["sample", "label"], sort=False):
        first = own.iloc[0]
        head = f"sample {sample}, label {label}: probability {first['probability']:.3f}"
        print(printable(f"{head}, without any view {first['base']:.3f}"))
        rows = [_line(line, most) for line in _plain(own)]
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
