"""Answers as JSON: rows in the order of the request, labels by name, null for what is not known."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from viewgap.errors import printable
from viewgap.methods._numeric_checks import some_columns
from viewgap.prediction.blocks import Answers
from viewgap.serve.models import LoadedModel
from viewgap.serve.rows import Rows


def encoded(value: Any) -> bytes:
    """JSON in ASCII: ids may hold what UTF-8 cannot. Numbers read back to the same bits."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode()


def prediction(loaded: LoadedModel, rows: Rows, answers: Answers) -> dict[str, Any]:
    """The answer of `/predict`."""
    names = loaded.fitted.label_names_
    known = ~np.isnan(loaded.fitted.label_frequency_)
    probabilities = map(numbers, answers.probabilities.tolist())
    decisions = (
        [value if there else None for value, there in zip(row, known, strict=True)]
        for row in answers.decisions.tolist()
    )
    lines = zip(rows.ids, answers.no_view.tolist(), probabilities, decisions, strict=True)
    return {
        **head(loaded),
        "rows": [
            {
                "id": own,
                "no_view": no_view,
                "probabilities": dict(zip(names, row, strict=True)),
                "decisions": dict(zip(names, decided, strict=True)),
            }
            for own, no_view, row, decided in lines
        ],
        "notes": notes(loaded, rows),
    }


def head(loaded: LoadedModel) -> dict[str, Any]:
    """The model that has answered."""
    return {"model": loaded.name, "version": loaded.version}


def numbers(values: Sequence[float]) -> list[float | None]:
    """Numbers, with null for NaN."""
    return [None if math.isnan(value) else value for value in values]


def notes(loaded: LoadedModel, rows: Rows) -> list[str]:
    """What the reader of the answers should know: values far outside of the training data."""
    ranges = loaded.fitted.column_ranges_
    far = None if ranges is None else ranges.farthest(rows.views)
    if far is None:
        return []
    column = some_columns(rows.views, far.view, [far.column])
    text = (
        f"{far.n_values} values in {far.n_samples} rows are far outside of what was seen in "
        f"training; the farthest: rows[{far.row}], view {far.view!r}, column {column}: "
        f"{far.value:g}, where training had {far.low:g} to {far.high:g}; answers for such rows "
        "cannot be trusted"
    )
    return [printable(text)]
