"""The figures printed in the SCSD paper, to stand beside what was measured here.

They are figures of that paper (ICLR 2026), not results of this library: `published.csv` holds its
main table (nine methods, five data sets, six metrics) and its ablations, all with half of the
views and half of the labels missing, 70 % training rows and the `field` metrics. Only rows of
`profile="paper"` under that protocol are compared with them.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from viewgap.bench.analyse.summary import Row, flat_settings
from viewgap.errors import InputError

PROTOCOL: Mapping[str, float] = {"view_rate": 0.5, "label_rate": 0.5, "train_share": 0.7}

# What each ablation of the paper switches off, in the words of SCSD's settings.
ABLATIONS: Mapping[str, tuple[str, Any]] = {
    "L_dis": ("self_distillation", False),
    "L_dis_KL": ("teacher", False),
    "L_rec": ("reconstruction", False),
    "VQ": ("quantise", False),
    "cross_view_rec": ("cross_view", False),
    "S_fusion": ("fusion", "mean"),
}

# Rows with one of these were made by another protocol, or from other features.
_ANOTHER: Mapping[str, Any] = {
    "test_view_rate": None,
    "validation": "protocol",
    "features": "plain",
}

# Rows may differ in these and still be the published model: they say how it is computed, or its
# own value was checked before.
_NEUTRAL = {"precision", "device", "scale_on", "unlabeled", *PROTOCOL, *_ANOTHER}


@dataclass(frozen=True)
class Figure:
    """A printed mean, and its standard deviation over folds where one is printed."""

    mean: float
    std: float | None


@cache
def published_figures() -> Mapping[tuple[str, str, str], Mapping[str, Figure]]:
    """All printed figures: {(data set, method, what was left out): {metric: figure}}.

    Names of data sets and methods are in small letters, as they are spelled here.
    """
    text = files("viewgap.bench.analyse").joinpath("published.csv").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    found: dict[tuple[str, str, str], dict[str, Figure]] = {}
    for entry in csv.DictReader(lines):
        place = entry["dataset"].lower(), entry["method"].lower(), entry["without"]
        std = float(entry["std"]) if entry["std"] else None
        found.setdefault(place, {})[entry["metric"]] = Figure(float(entry["mean"]), std)
    return found


def published_for(row: Row) -> Mapping[str, Figure]:
    """Printed figures for a row, by metric; empty when the paper has none for it.

    A row counts when its profile is "paper" and its missing rates and training share are those
    of the printed tables. Among rows that vary other parameters of one method nobody can say
    which the printed one is, so that none of them has figures.
    """
    settings = flat_settings(row.settings)
    same_protocol = all(settings.get(name, value) == value for name, value in PROTOCOL.items())
    another = any(settings.get(name, usual) != usual for name, usual in _ANOTHER.items())
    if row.profile != "paper" or not same_protocol or another:
        return {}
    switches = ABLATIONS if row.method == "scsd" else {}
    left_out = [part for part, (name, value) in switches.items() if settings.get(name) == value]
    unclear = set(row.varied) - _NEUTRAL - {name for name, _ in switches.values()}
    if len(left_out) > 1 or unclear:
        return {}
    place = row.dataset.lower(), row.method.lower(), left_out[0] if left_out else ""
    return published_figures().get(place, {})


def published_beside(rows: Sequence[Row]) -> list[Mapping[str, Figure]]:
    """`published_for` every row; the printed figures are of the `field` variant and no other."""
    variants = sorted({row.variant for row in rows} - {"field"})
    if variants:
        raise InputError(
            "the published figures are of the metric variant 'field' and cannot stand beside "
            f"records of {variants}"
        )
    return [published_for(row) for row in rows]
