"""Answers as JSON: rows in the order of the request, labels by name, null for what is not known."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from viewgap.errors import printable
from viewgap.methods.estimator.numeric_checks import some_columns
from viewgap.prediction.blocks import Answers
from viewgap.serve.models import LoadedModel
from viewgap.serve.rows import Rows


def encoded(value: Any) -> bytes:
    """JSON in ASCII: ids may hold what UTF-8 cannot. Numbers read back to the same bits."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode()


def with_rows(head: dict[str, Any], rows: Iterable[dict[str, Any]], notes: list[str]) -> bytes:
    """The object of an answer, its rows encoded one by one: as Python values they take most."""
    parts = b",".join(encoded(row) for row in rows)
    return encoded(head)[:-1] + b',"rows":[' + parts + b'],"notes":' + encoded(notes) + b"}"


def prediction(loaded: LoadedModel, rows: Rows, answers: Answers) -> bytes:
    """The answer of `/predict`."""
    names = loaded.fitted.label_names_
    known = (~np.isnan(loaded.fitted.label_frequency_)).tolist()

    def line(i: int) -> dict[str, Any]:
        decided = zip(names, answers.decisions[i].tolist(), known, strict=True)
        return {
            "id": rows.ids[i],
            "no_view": bool(answers.no_view[i]),
            "probabilities": dict(
                zip(names, numbers(answers.probabilities[i].tolist()), strict=True)
            ),
            "decisions": {name: value if there else None for name, value, there in decided},
        }

    return with_rows(head(loaded), map(line, range(len(rows))), notes(loaded, rows))


def head(loaded: LoadedModel) -> dict[str, Any]:
    """The model that has answered."""
    return {"model": loaded.name, "version": loaded.version}


def numbers(values: Sequence[float]) -> list[float | None]:
    """Numbers, with null for NaN."""
    return [None if math.isnan(value) else value for value in values]


def notes(loaded: LoadedModel, rows: Rows) -> list[str]:
    """What the reader should know: values far outside of training, and what a class means."""
    fitted = loaded.fitted
    found = []
    if fitted.one_label_ and fitted.classes_.tolist() not in ([0, 1], [False, True]):
        other, own = (repr(value) for value in fitted.classes_.tolist())
        name = fitted.label_names_[0]
        found = [printable(f"{name} is the class {own}; probabilities are of it, not of {other}")]
    far = None if fitted.column_ranges_ is None else fitted.column_ranges_.farthest(rows.views)
    if far is None:
        return found
    column = some_columns(rows.views, far.view, [far.column])
    text = (
        f"{far.n_values} values in {far.n_samples} rows are far outside of what was seen in "
        f"training; the farthest: rows[{far.row}], view {far.view!r}, column {column}: "
        f"{far.value:g}, where training had {far.low:g} to {far.high:g}; answers for such rows "
        "cannot be trusted"
    )
    return [*found, printable(text)]
