"""Tables of results: mean ± population standard deviation over folds, in a terminal or Markdown.

A method whose cells failed keeps its row: a hole is shown as a hole, never as a zero.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from viewgap import methods
from viewgap.bench.record import Record
from viewgap.errors import InputError
from viewgap.metrics import SIX

if TYPE_CHECKING:
    from rich.table import Table

HOLE = "–"
RECONSTRUCTION = "†"
FOOTNOTE = f"{RECONSTRUCTION} reconstruction: parts of the published method had to be inferred"


@dataclass(frozen=True)
class Row:
    """One method under one setting on one data set, over its folds."""

    dataset: str
    method: str
    profile: str
    mean: Mapping[str, float]
    spread: Mapping[str, float]
    seconds: float | None
    folds: int
    failed: int = 0
    note: str = ""

    @property
    def title(self) -> str:
        """Method with its profile, and what sets it apart from rows of the same name."""
        profile = "" if self.profile == "default" else f" ({self.profile})"
        mark = RECONSTRUCTION if is_reconstruction(self.method) else ""
        return f"{self.method}{mark}{profile}" + (f" [{self.note}]" if self.note else "")


def is_reconstruction(method: str) -> bool:
    """Whether parts of a published method had to be inferred to write it."""
    known = method in methods.names()
    return known and methods.get(method).certainty.startswith("reconstruction")


def summarise(records: Sequence[Record], failures: Sequence[Mapping[str, Any]] = ()) -> list[Row]:
    """One row per data set, method, profile and setting, in the order of first appearance.

    Records of different metric variants cannot stand in one table.
    """
    variants = sorted({record.variant for record in records})
    if len(variants) > 1:
        raise InputError(f"records of different metric variants cannot be mixed: {variants}")
    groups: dict[tuple[str, str, str, str], list[Record]] = {}
    broken: dict[tuple[str, str, str, str], int] = {}
    for record in records:
        key = _key(record.dataset, record.method, record.profile, record.settings)
        groups.setdefault(key, []).append(record)
    for failure in failures:
        key = _key(*(failure[name] for name in ("dataset", "method", "profile", "settings")))
        groups.setdefault(key, [])
        broken[key] = broken.get(key, 0) + 1
    notes = _notes(list(groups))
    return [_row(key, group, broken.get(key, 0), notes[key]) for key, group in groups.items()]


def best_of(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """Best mean per data set and metric, rounded as it is printed, so that equals share it."""
    best: dict[str, dict[str, float]] = {}
    for row in rows:
        place = best.setdefault(row.dataset, {})
        for name, value in row.mean.items():
            place[name] = max(place.get(name, -np.inf), round(value, 3))
    return best


def as_markdown(rows: Sequence[Row]) -> str:
    """GitHub table, best value per data set and metric in bold."""
    header = ["data set", "method", *SIX, "seconds", "folds"]
    lines = ["| " + " | ".join(header) + " |", "|---|---|" + "---:|" * (len(header) - 2)]
    best = best_of(rows)
    for row in rows:
        cells = [f"**{text}**" if bold else text for text, bold in _cells(row, best)]
        names = [_markdown(row.dataset), _markdown(row.title)]
        lines.append("| " + " | ".join([*names, *cells, *_tail(row)]) + " |")
    if any(is_reconstruction(row.method) for row in rows):
        lines += ["", FOOTNOTE]
    return "\n".join(lines) + "\n"


def as_rich(rows: Sequence[Row], title: str | None = None) -> Table:
    """Table for the terminal, best value per data set and metric in bold."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", caption_justify="left")
    if any(is_reconstruction(row.method) for row in rows):
        table.caption = FOOTNOTE
    several = len({row.dataset for row in rows}) > 1
    for name in (*(["data set"] if several else []), "method"):
        table.add_column(name, no_wrap=True)
    for name in (*SIX, "seconds", "folds"):
        table.add_column(name, justify="right", no_wrap=True)
    best = best_of(rows)
    for row in rows:
        names = [Text(row.dataset)] if several else []
        cells = [Text(text, style="bold" if bold else "") for text, bold in _cells(row, best)]
        table.add_row(*names, Text(row.title), *cells, *map(Text, _tail(row)))
    return table


def _key(
    dataset: str, method: str, profile: str, settings: Mapping[str, Any]
) -> tuple[str, str, str, str]:
    return dataset, method, profile, json.dumps(settings, sort_keys=True)


def _row(key: tuple[str, str, str, str], group: list[Record], failed: int, note: str) -> Row:
    columns = {name: np.array([r.metrics[name] for r in group]) for name in SIX} if group else {}
    return Row(
        dataset=key[0],
        method=key[1],
        profile=key[2],
        mean={name: float(column.mean()) for name, column in columns.items()},
        spread={name: float(column.std()) for name, column in columns.items()},
        seconds=float(np.mean([r.seconds for r in group])) if group else None,
        folds=len(group),
        failed=failed,
        note=note,
    )


def _notes(keys: list[tuple[str, str, str, str]]) -> dict[tuple[str, str, str, str], str]:
    """For rows of one name, the settings by which they differ."""
    notes = {}
    for key in keys:
        twins = [_flat(other[3]) for other in keys if other[:3] == key[:3]]
        own = _flat(key[3])
        differing = [
            name
            for name in sorted(set().union(*twins))
            if any(twin.get(name) != own.get(name) for twin in twins)
        ]
        notes[key] = ", ".join(f"{name}={own[name]}" for name in differing if name in own)
    return notes


def _flat(settings: str) -> dict[str, str]:
    flat: dict[str, str] = {}
    for name, value in json.loads(settings).items():
        if isinstance(value, dict):
            flat.update({inner: json.dumps(item) for inner, item in value.items()})
        else:
            flat[name] = json.dumps(value)
    return flat


def _cells(row: Row, best: Mapping[str, Mapping[str, float]]) -> list[tuple[str, bool]]:
    cells = []
    for name in SIX:
        if name not in row.mean:
            cells.append((HOLE, False))
            continue
        text = f"{row.mean[name]:.3f}"
        if row.folds > 1:
            text += f" ± {row.spread[name]:.3f}"
        cells.append((text, round(row.mean[name], 3) == best[row.dataset][name]))
    return cells


def _tail(row: Row) -> list[str]:
    seconds = HOLE if row.seconds is None else f"{row.seconds:.1f}"
    folds = f"{row.folds} of {row.folds + row.failed}" if row.failed else str(row.folds)
    return [seconds, folds]


def _markdown(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
