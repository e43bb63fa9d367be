"""Tables with a line per answer, as commands print and write them: CSV, JSON and Parquet."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from viewgap.cli.output import print_json, say
from viewgap.errors import SettingError
from viewgap.strict_json import printed

if TYPE_CHECKING:
    import pandas as pd

_ENDINGS = (".csv", ".json", ".parquet")
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
