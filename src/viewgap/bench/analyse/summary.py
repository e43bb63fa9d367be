"""Records become rows: mean and population standard deviation over folds, ranks, best and second.

A method whose tasks failed keeps its row, with dashes and never zeros. Rows are compared within
a condition only: the data set, its options, the rates at which views and labels are missing, and
the training share. Everything else in the settings (parameters, scaling, unlabelled rows) belongs
to the method: rows that differ in it are variants of the method and stand in one comparison.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from viewgap.bench.results.record import Record
from viewgap.errors import InputError
from viewgap.methods.catalogue import read_metadata
from viewgap.metrics import get_metric, registered_metrics
from viewgap.metrics.registry import Metric

MISSING = "–"
RECONSTRUCTION = "†"
FOOTNOTE = f"{RECONSTRUCTION} reconstruction: parts of the published method had to be inferred"
AVERAGE_RANK = "Ave.R"
PRINTED_DIGITS = 3

# What makes data easier or harder, with the values of the usual protocol for records without them.
RATES: Mapping[str, float | None] = {
    "view_rate": 0.5,
    "label_rate": 0.5,
    "train_share": 0.7,
    "test_view_rate": None,
    "cv": None,
}
OPTIONS = "dataset_options"
TRANSDUCTIVE = "unlabeled"

Key = tuple[str, str, str, str]
Settings = Mapping[str, Any]
T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True)
class Row:
    """One method under one setting on one data set, over its folds.

    `settings` are those of its records; `varied` names the ones by which rows of the same data
    set, method and profile differ, and `note` says those of the method in words. `condition` says
    the others, where the data set has rows of several conditions. `records` are its folds. A
    metric is averaged over the folds that have it, and `spread` needs two of them.
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
    condition: str = ""
    variant: str = "field"
    settings: Mapping[str, Any] = field(default_factory=dict)
    varied: tuple[str, ...] = ()
    records: tuple[Record, ...] = field(default=(), repr=False, compare=False)

    @property
    def title(self) -> str:
        """Method with its profile, and what sets it apart from its other variants."""
        return _title(self.method, self.profile, self.note)

    @property
    def base_title(self) -> str:
        """Method with its profile: the title that all its variants share."""
        return _title(self.method, self.profile, "")

    @property
    def heading(self) -> str:
        """The data set and the condition: rows are compared with those of the same heading."""
        return _heading(self.dataset, self.condition)

    @property
    def varied_by_method(self) -> tuple[str, ...]:
        """The names in `varied` that are no condition of the data."""
        conditions = condition_of(self.settings)
        return tuple(name for name in self.varied if name not in conditions)


@dataclass(frozen=True)
class Standing:
    """Where a row stands among the rows of its heading: its rank averaged over the metrics.

    `best` and `second` name the metrics, `Ave.R` among them, in which it is the best or second.
    """

    average_rank: float | None
    best: frozenset[str]
    second: frozenset[str]


def metrics_of(rows: Iterable[Row], table: str = "metrics") -> list[Metric]:
    """The metrics that some row has and that stand in this table, in the order of the registry."""
    names = dict.fromkeys(name for row in rows for name in row.mean)
    found = [metric for name in names if (metric := get_metric(name)).table == table]
    order = {metric.name: place for place, metric in enumerate(registered_metrics())}
    return sorted(found, key=lambda metric: order.get(metric.name, len(order)))


def one_variant(records: Sequence[Record]) -> str:
    """The metric variant of the records; records of different variants cannot be compared."""
    variants = sorted({record.variant for record in records})
    if len(variants) > 1:
        raise InputError(f"records of different metric variants cannot be mixed: {variants}")
    return variants[0] if variants else "field"


def summarise(records: Sequence[Record], failures: Sequence[Mapping[str, Any]] = ()) -> list[Row]:
    """One row per data set, method, profile and setting, in the order of first appearance.

    Rows of one heading stand together. Records of different metric variants cannot stand in one
    table.
    """
    variant = one_variant(records)
    groups = grouped(records, lambda record: row_key(vars(record)))
    broken = Counter(map(row_key, failures))
    for key in broken:
        groups.setdefault(key, [])
    words, varied = _words(groups), _varied(groups, _twins, flat_settings)
    rows = [
        _row(key, group, broken[key], words[key], varied[key], variant)
        for key, group in groups.items()
    ]
    return [row for own in by_heading(rows).values() for row in own]


def grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """The items of every key, in the order of first appearance."""
    found: dict[K, list[T]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return found


def row_key(task: Mapping[str, Any]) -> Key:
    """Which row a task belongs to: the fields of a record, a failure or a row itself."""
    settings = json.dumps(task["settings"], sort_keys=True)
    return task["dataset"], task["method"], task["profile"], settings


def by_heading(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """The rows that may be compared with each other."""
    return grouped(rows, lambda row: row.heading)


def by_method(rows: Iterable[Row]) -> dict[tuple[str, str], list[Row]]:
    """The rows of every method and profile."""
    return grouped(rows, lambda row: (row.method, row.profile))


@dataclass(frozen=True)
class Entry:
    """A record and what its row is called among all records.

    `condition` are its rates in words, without the data set and what is the same in all records.
    """

    record: Record
    title: str
    heading: str
    condition: str


def entries(records: Sequence[Record]) -> list[Entry]:
    """Every record with its title, the same under every heading, and its heading."""
    keys = [row_key(vars(record)) for record in records]
    distinct = dict.fromkeys(keys)
    words, rates = _words(distinct), _varied(distinct, lambda _: "", rates_of)
    return [
        Entry(
            record,
            _title(record.method, record.profile, words[key][0]),
            _heading(record.dataset, words[key][1]),
            assignments(rates_of(record.settings), rates[key]),
        )
        for record, key in zip(records, keys, strict=True)
    ]


def condition_of(settings: Settings) -> dict[str, Any]:
    """What the settings say about the data: missing rates, training share, options of the set."""
    options = settings.get(OPTIONS)
    return {**(options if isinstance(options, Mapping) else {}), **rates_of(settings)}


def rates_of(settings: Settings) -> dict[str, Any]:
    """The part of the condition that different data sets may share."""
    found = {name: settings.get(name, usual) for name, usual in RATES.items()}
    return {name: value for name, value in found.items() if value is not None}


def method_settings(settings: Settings) -> dict[str, Any]:
    """What the settings say about the method, without inner tables."""
    own = {name: value for name, value in settings.items() if name not in (*RATES, OPTIONS)}
    return flat_settings(own)


def flat_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings without their inner tables: parameters and options stand beside the rates."""
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        flat.update(value if isinstance(value, Mapping) else {name: value})
    return flat


def standings(rows: Sequence[Row]) -> list[Standing]:
    """The standing of every row among those of its heading, by the means as they are printed.

    Equal means share the mean of their ranks. (The SCSD paper gives them the best of these: its
    `Ave.R` is never above the one computed here.) A row without results has no rank.
    """
    found: dict[int, Standing] = {}
    for own in by_heading(row for row in rows if row.mean).values():
        found.update(zip(map(id, own), _standings(own), strict=True))
    none = Standing(None, frozenset(), frozenset())
    return [found.get(id(row), none) for row in rows]


def _standings(rows: Sequence[Row]) -> list[Standing]:
    columns = {
        metric.name: (1 if metric.greater_is_better else -1)
        * np.round([row.mean[metric.name] for row in rows], metric.digits)
        for metric in metrics_of(rows)
        if all(metric.name in row.mean for row in rows)
    }
    average = np.mean([descending_ranks(column) for column in columns.values()], axis=0)
    columns[AVERAGE_RANK] = np.asarray(-np.round(average, PRINTED_DIGITS))
    levels = {name: np.unique(column)[::-1] for name, column in columns.items()}
    return [
        Standing(
            float(average[i]),
            frozenset(name for name in columns if columns[name][i] == levels[name][0]),
            frozenset(name for name in columns if columns[name][i] in levels[name][1:2]),
        )
        for i in range(len(rows))
    ]


def descending_ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks along the last axis, 1 = highest; equal values share the mean of their ranks."""
    above = (values[..., None, :] > values[..., :, None]).sum(axis=-1)
    equal = (values[..., None, :] == values[..., :, None]).sum(axis=-1)
    return np.asarray(above + (equal + 1) / 2, dtype=np.float64)


def _title(method: str, profile: str, note: str) -> str:
    mark = RECONSTRUCTION if read_metadata(method).is_reconstruction else ""
    words = "" if profile == "default" else f" ({profile})"
    return f"{method}{mark}{words}" + (f" [{note}]" if note else "")


def _heading(dataset: str, condition: str) -> str:
    return f"{dataset}, {condition}" if condition else dataset


def _row(
    key: Key,
    group: list[Record],
    failed: int,
    words: tuple[str, str],
    varied: tuple[str, ...],
    variant: str,
) -> Row:
    names = dict.fromkeys(name for record in group for name in record.metrics)
    columns = {
        name: np.array([r.metrics[name] for r in group if name in r.metrics]) for name in names
    }
    return Row(
        dataset=key[0],
        method=key[1],
        profile=key[2],
        mean={name: float(column.mean()) for name, column in columns.items()},
        spread={name: float(column.std()) for name, column in columns.items() if len(column) > 1},
        seconds=float(np.mean([r.seconds for r in group])) if group else None,
        folds=len(group),
        failed=failed,
        note=words[0],
        condition=words[1],
        variant=variant,
        settings=json.loads(key[3]),
        varied=varied,
        records=tuple(group),
    )


def _words(keys: Iterable[Key]) -> dict[Key, tuple[str, str]]:
    """What sets a row apart: the variant of its method, and the condition of its data."""
    of_method = _varied(keys, _twins, method_settings)
    of_data = _varied(keys, lambda key: key[0], condition_of)
    found = {}
    for key in keys:
        settings = json.loads(key[3])
        own, condition = method_settings(settings), condition_of(settings)
        # a method that was given the test rows is told apart even where all its rows are alike
        names = sorted({*of_method[key], *({TRANSDUCTIVE} & own.keys())})
        found[key] = assignments(own, names), assignments(condition, of_data[key])
    return found


def assignments(settings: Settings, names: Iterable[str]) -> str:
    """The settings of these names in words: "alpha=0.1, teacher=false"."""
    return ", ".join(f"{name}={json.dumps(settings[name])}" for name in names if name in settings)


def _twins(key: Key) -> tuple[str, str, str]:
    return key[:3]


def _varied(
    keys: Iterable[Key], group_of: Callable[[Key], Any], part: Callable[[Settings], Settings]
) -> dict[Key, tuple[str, ...]]:
    """For every key the settings by which keys of its group differ."""
    groups: dict[Any, list[dict[str, str]]] = {}
    for key in keys:  # compared as text: 1 and 1.0 and true are three settings
        own = part(json.loads(key[3])).items()
        groups.setdefault(group_of(key), []).append({name: json.dumps(v) for name, v in own})
    names = {
        group: tuple(
            setting
            for setting in sorted(set().union(*members))
            if any(other.get(setting) != members[0].get(setting) for other in members[1:])
        )
        for group, members in groups.items()
    }
    return {key: names[group_of(key)] for key in keys}
