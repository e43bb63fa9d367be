"""Predictions as text: one line per sample, one column per label.

Ids and label names come from data files, and a CSV is opened by spreadsheets and printed by
terminals. Two rules make it harmless, and both can be taken back:

- text that a spreadsheet would take for a formula gets an apostrophe before it: `=A1` is written
  `'=A1`. To take it back: where a cell begins with an apostrophe, and `=`, `+`, `-`, `@` or a tab
  follows (after blanks or more apostrophes), remove the first apostrophe. Numbers stay as they are;
- control characters are written as `\\x1b`, and a backslash in such text as two.

JSON has its own rules for both and keeps every text as it is.
"""

from __future__ import annotations

import csv
import io
import math
import re
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viewgap.cli.output import json_text
from viewgap.data.viewset import ViewSet
from viewgap.errors import ViewgapWarning, is_control, printable

_FORMULA = re.compile(r"['\s]*[=+\-@＝＋－＠]|'*\t")  # Excel takes the wide signs, too
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", flags=re.ASCII | re.IGNORECASE)
_LOOKS_ESCAPED = re.compile(r"\\(\\|x[0-9a-f]{2}|u[0-9a-f]{4})")


def as_csv(views: ViewSet, names: Sequence[str], probabilities: NDArray[np.float64]) -> str:
    """CSV: sample, no_view (1 = answered by label frequencies), one column per label."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    samples = [str(sample) for sample in views.sample_ids]
    writer.writerow(["sample", "no_view", *map(csv_cell, names)])
    empty = ~views.has_view
    for sample, lost, row in zip(samples, empty, probabilities, strict=True):
        cells = ("" if math.isnan(p) else f"{p:.6g}" for p in row.tolist())
        writer.writerow([csv_cell(sample), int(lost), *cells])
    _note_changed([name for name in (*names, *samples) if csv_cell(name) != name])
    return text.getvalue()


def csv_cell(text: str) -> str:
    """Text for a CSV that neither a spreadsheet nor a terminal obeys; see the top of this file."""
    if any(map(is_control, text)) or _LOOKS_ESCAPED.search(text):
        text = printable(text.replace("\\", "\\\\"))
    is_formula = _FORMULA.match(text) and not _NUMBER.fullmatch(text)
    return f"'{text}" if is_formula else text


def _note_changed(texts: Sequence[str]) -> None:
    if texts:
        warnings.warn(
            f"{len(texts)} ids and label names begin like a formula or hold control characters "
            f"(first: {texts[0][:60]!r}); the CSV has {csv_cell(texts[0])[:60]} instead: see "
            "viewgap predict --help, or use --json",
            ViewgapWarning,
            stacklevel=3,
        )


def as_json(views: ViewSet, names: Sequence[str], probabilities: NDArray[np.float64]) -> str:
    """JSON: a list of {sample, no_view, probabilities}; null = the label was never observed."""
    empty = ~views.has_view
    rows = [
        {
            "sample": _plain(sample),
            "no_view": bool(lost),
            "probabilities": {
                name: None if math.isnan(p) else p
                for name, p in zip(names, row.tolist(), strict=True)
            },
        }
        for sample, lost, row in zip(views.sample_ids, empty, probabilities, strict=True)
    ]
    return json_text(rows, indent=1) + "\n"


def _plain(sample: Any) -> int | str:
    value = sample.item() if isinstance(sample, np.generic) else sample
    return value if isinstance(value, int) else str(value)
