"""Predictions as text: one line per sample, one column per label."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viewgap.data.viewset import ViewSet


def as_csv(views: ViewSet, names: Sequence[str], probabilities: NDArray[np.float64]) -> str:
    """CSV: sample, no_view (1 = answered by label frequencies), one column per label."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["sample", "no_view", *names])
    empty = ~views.has_view
    for sample, lost, row in zip(views.sample_ids, empty, probabilities, strict=True):
        cells = ("" if math.isnan(p) else f"{p:.6g}" for p in row.tolist())
        writer.writerow([sample, int(lost), *cells])
    return text.getvalue()


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
    return json.dumps(rows, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def _plain(sample: Any) -> int | str:
    value = sample.item() if isinstance(sample, np.generic) else sample
    return value if isinstance(value, int) else str(value)
