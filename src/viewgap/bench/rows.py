"""Records become rows: mean and population standard deviation over folds, ranks, best and second.

A method whose cells failed keeps its row: a hole is a hole, never a zero.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.stats import rankdata

from viewgap import methods
from viewgap.bench.record import Record
from viewgap.errors import InputError
from viewgap.metrics import SIX

HOLE = "–"
RECONSTRUCTION = "†"
FOOTNOTE = f"{RECONSTRUCTION} reconstruction: parts of the published method had to be inferred"
AVERAGE_RANK = "Ave.R"
DIRECTION = "higher"  # every one of the six is a score; a record knows no other kind
PRINTED_DIGITS = 3

Key = tuple[str, str, str, str]


@dataclass(frozen=True)
class Row:
    """One method under one setting on one data set, over its folds.

    `settings` are those of its records; `varied` names the ones by which rows of the same data
    set, method and profile differ, and `note` says them in words. `records` are its folds.
    """

    dataset: str
    method: str
    profile: str
    mean: Mapping[str, float]
    spread: Mapping[str, float]
    seconds: float | None
    folds: int
    failed: int = 0
    note: str = ""
    variant: str = "field"
    settings: Mapping[str, Any] = field(default_factory=dict)
    varied: tuple[str, ...] = ()
    records: tuple[Record, ...] = field(default=(), repr=False, compare=False)

    @property
    def title(self) -> str:
        """Method with its profile, and what sets it apart from rows of the same name."""
        return _title(self.method, self.profile, self.note)


@dataclass(frozen=True)
class Standing:
    """Where a row stands among the rows of its data set: its rank averaged over the metrics.

    `best` and `second` name the columns, `Ave.R` among them, in which it is the best or second.
    """

    average_rank: float | None
    best: frozenset[str]
    second: frozenset[str]


def is_reconstruction(method: str) -> bool:
    """Whether parts of a published method had to be inferred to write it."""
    known = method in methods.names()
    return known and methods.get(method).certainty.startswith("reconstruction")


def one_variant(records: Sequence[Record]) -> str:
    """The metric variant of the records; records of different variants cannot be compared."""
    variants = sorted({record.variant for record in records})
    if len(variants) > 1:
        raise InputError(f"records of different metric variants cannot be mixed: {variants}")
    return variants[0] if variants else "field"


def summarise(records: Sequence[Record], failures: Sequence[Mapping[str, Any]] = ()) -> list[Row]:
    """One row per data set, method, profile and setting, in the order of first appearance.

    Records of different metric variants cannot stand in one table.
    """
    variant = one_variant(records)
    groups: dict[Key, list[Record]] = {}
    broken: dict[Key, int] = {}
    for record in records:
        groups.setdefault(_record_key(record), []).append(record)
    for failure in failures:
        key = _key(*(failure[name] for name in ("dataset", "method", "profile", "settings")))
        groups.setdefault(key, [])
        broken[key] = broken.get(key, 0) + 1
    varied = _varied(list(groups))
    return [
        _row(key, group, broken.get(key, 0), varied[key], variant) for key, group in groups.items()
    ]


def titles(records: Sequence[Record]) -> list[str]:
    """For every record the title of its row: the same on every data set with the same settings."""
    keys = [_record_key(record) for record in records]
    varied = _varied(list(dict.fromkeys(keys)))
    words = {key: _title(key[1], key[2], _note(key, names)) for key, names in varied.items()}
    return [words[key] for key in keys]


def flat_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings without their inner tables: parameters and options stand beside the rates."""
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        flat.update(value if isinstance(value, Mapping) else {name: value})
    return flat


def standings(rows: Sequence[Row]) -> list[Standing]:
    """The standing of every row within its data set, by the means as they are printed.

    Equal means share the mean of their ranks. (The SCSD paper gives them the best of these: its
    `Ave.R` is never above the one computed here.) A row without results has no rank.
    """
    found = [Standing(None, frozenset(), frozenset())] * len(rows)
    for dataset in dict.fromkeys(row.dataset for row in rows):
        places = [i for i, row in enumerate(rows) if row.dataset == dataset and row.mean]
        if places:
            for place, standing in zip(places, _standings([rows[i] for i in places]), strict=True):
                found[place] = standing
    return found


def _standings(rows: Sequence[Row]) -> list[Standing]:
    columns = {name: np.round([row.mean[name] for row in rows], PRINTED_DIGITS) for name in SIX}
    ranks = np.array([rankdata(-column, method="average") for column in columns.values()])
    average = ranks.mean(axis=0)
    columns[AVERAGE_RANK] = -np.round(average, PRINTED_DIGITS)
    levels = {name: np.unique(column)[::-1] for name, column in columns.items()}
    return [
        Standing(
            float(average[i]),
            frozenset(name for name in columns if columns[name][i] == levels[name][0]),
            frozenset(name for name in columns if columns[name][i] in levels[name][1:2]),
        )
        for i in range(len(rows))
    ]


def _title(method: str, profile: str, note: str) -> str:
    mark = RECONSTRUCTION if is_reconstruction(method) else ""
    words = "" if profile == "default" else f" ({profile})"
    return f"{method}{mark}{words}" + (f" [{note}]" if note else "")


def _record_key(record: Record) -> Key:
    return _key(record.dataset, record.method, record.profile, record.settings)


def _key(dataset: str, method: str, profile: str, settings: Mapping[str, Any]) -> Key:
    return dataset, method, profile, json.dumps(settings, sort_keys=True)


def _row(key: Key, group: list[Record], failed: int, varied: tuple[str, ...], variant: str) -> Row:
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
        note=_note(key, varied),
        variant=variant,
        settings=json.loads(key[3]),
        varied=varied,
        records=tuple(group),
    )


def _note(key: Key, varied: Sequence[str]) -> str:
    own = flat_settings(json.loads(key[3]))
    return ", ".join(f"{name}={json.dumps(own[name])}" for name in varied if name in own)


def _varied(keys: list[Key]) -> dict[Key, tuple[str, ...]]:
    """For rows of one name, the settings by which they differ."""
    twins: dict[tuple[str, str, str], list[dict[str, str]]] = {}
    for key in keys:  # compared as text: 1 and 1.0 and true are three settings
        own = flat_settings(json.loads(key[3])).items()
        twins.setdefault(key[:3], []).append({name: json.dumps(value) for name, value in own})
    names = {
        name: tuple(
            setting
            for setting in sorted(set().union(*group))
            if any(other.get(setting) != group[0].get(setting) for other in group[1:])
        )
        for name, group in twins.items()
    }
    return {key: names[key[:3]] for key in keys}
