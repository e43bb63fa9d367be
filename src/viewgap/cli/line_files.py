"""Tables with a line per answer, as commands print and write them: files, JSON, bars, drawings."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from viewgap.cli.output import print_json, print_rows, say
from viewgap.errors import SettingError, printable

if TYPE_CHECKING:
    import pandas as pd

_ENDINGS = (".csv", ".json", ".parquet")
DRAWINGS = (".html", ".svg")
_BAR = 24
_PLAIN = (bool, int, float, str)


def check_lines_file(out: Path | None, others: Sequence[str] = ()) -> None:
    """Refuse a file that could not be written, before the work; `others`: further endings."""
    from viewgap.fsio import check_file_writable

    if out is None:
        return
    if out.suffix.lower() not in _ENDINGS:
        raise SettingError(
            f"{out}: written as {', '.join((*_ENDINGS, *others))}; found the ending {out.suffix!r}"
        )
    check_file_writable(out)


def give_lines(found: pd.DataFrame, out: Path | None, json: bool) -> None:
    """Print the lines as JSON and write them to a file, as far as this was asked for."""
    if json:
        print_json(plain_lines(found))
    if out is None:
        return
    from viewgap.fsio import write_file

    write_file(out, _bytes(found, out.suffix.lower()))
    say(f"{out}: {len(found):,} lines")


def _bytes(found: pd.DataFrame, ending: str) -> bytes:
    from viewgap.prediction.writers import csv_cell, pyarrow
    from viewgap.strict_json import printed

    if ending == ".json":
        return (printed(plain_lines(found), indent=1) + "\n").encode()
    texts = [name for name in found.columns if found[name].dtype.kind not in "bifu"]
    if ending == ".csv":
        safe = {name: [csv_cell(str(text)) for text in found[name]] for name in texts}
        return bytes(found.assign(**safe).to_csv(index=False, lineterminator="\n").encode())
    pyarrow("parquet")  # or an error that says what to install
    file = io.BytesIO()
    found.assign(**{name: found[name].astype(str) for name in texts}).to_parquet(file)
    return file.getvalue()


def plain_lines(found: pd.DataFrame) -> list[dict[str, Any]]:
    """The lines as plain values; None for NaN."""
    values: Any = found.astype(object)
    lines: Any = values.where(found.notna(), None).to_dict("records")
    return [
        {
            key: value if value is None or isinstance(value, _PLAIN) else str(value)
            for key, value in line.items()
        }
        for line in lines
    ]


# ---------------------------------------------------------------------- explanations


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
