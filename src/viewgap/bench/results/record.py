"""The record of a finished task, and the records and failures of result folders.

A record says which task it belongs to, what was measured, by which variant of the metrics, and on
which machine and versions. Reading is strict: a key too many or too few is an error.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from viewgap.bench.results.journal import read_lines
from viewgap.deprecation import current_names
from viewgap.errors import DataFileError, RunError

RECORDS = "records.jsonl"
FAILURES = "failures.jsonl"
VARIANTS = ("field", "clean")
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Record:
    """The result of one method on one fold.

    Attributes
    ----------
    metrics : mapping of str to float
        Any metrics by name; those of `viewgap.metrics.registered_metrics` know their direction.
    seconds : float
        Time of fit and prediction, loading of data excluded.
    task : str
        Content hash of the task.
    settings : mapping
        What else the task was made of: missing rates, parameters, scaling.
    labels : mapping of str to list
        Lists with one number (or None) per label: "positives" among the test rows, "AP",
        "calibration error". Older records have none.
    """

    dataset: str
    method: str
    profile: str
    fold: int
    seed: int
    metrics: Mapping[str, float]
    seconds: float
    variant: str = "field"
    epochs: int | None = None
    task: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    labels: Mapping[str, Sequence[float | None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse a record that could not be compared with others."""
        if not self.metrics:
            raise RunError("a record needs at least one metric")
        undefined = [name for name, value in self.metrics.items() if not math.isfinite(value)]
        if undefined:
            raise RunError(
                f"{', '.join(undefined)} of {self.method} on {self.dataset} fold {self.fold} "
                "is not a number: the fold has no row on which it is defined"
            )
        if self.variant not in VARIANTS:
            raise RunError(f"variant must be one of {', '.join(VARIANTS)}; found {self.variant!r}")

    def to_dict(self) -> dict[str, Any]:
        """Plain dict, ready for JSON, keys in the order of the fields."""
        plain = asdict(self)
        plain["metrics"] = {name: float(value) for name, value in self.metrics.items()}
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any], where: str = "record") -> Self:
        """Inverse of `to_dict`, older forms included; `where` names the source in an error."""
        if not isinstance(plain, Mapping):
            raise DataFileError(f"{where}: expected an object, found {type(plain).__name__}")
        plain = _current_form(plain, where)
        _check_types(plain, _TYPES, where)
        if not all(_is_number(value) for value in plain["metrics"].values()):
            raise DataFileError(f"{where}: every metric must be a number")
        _check_labels(plain.get("labels", {}), where)
        try:
            return cls(**{**plain, "settings": _with_current_names(plain["settings"])})
        except RunError as error:
            raise DataFileError(f"{where}: {error}") from None


_TASK_TYPES: dict[str, Any] = {
    "dataset": str,
    "method": str,
    "profile": str,
    "fold": int,
    "seed": int,
    "task": str,
    "settings": Mapping,
}
_TYPES: dict[str, Any] = {
    **_TASK_TYPES,
    "metrics": Mapping,
    "seconds": int | float,
    "variant": str,
    "epochs": int | None,
    "provenance": Mapping,
    "labels": Mapping,
}
_FAILURE_TYPES: dict[str, Any] = {**_TASK_TYPES, "error": str, "traceback": str}


def _current_form(plain: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Records used to call the task "cell", and to keep all but six metrics under "details"."""
    found = dict(plain)
    if "cell" in found and "task" not in found:
        found["task"] = found.pop("cell")
    details = found.pop("details", None)
    if details is None:
        return found
    if not isinstance(details, Mapping) or not isinstance(found.get("metrics"), Mapping):
        raise DataFileError(f"{where}: details and metrics must be objects")
    figures = {name: value for name, value in details.items() if name != "labels"}
    known = {name: value for name, value in figures.items() if value is not None}
    found["metrics"] = {**found["metrics"], **known}
    if "labels" in details:
        found["labels"] = details["labels"]
    return found


def _with_current_names(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a record whose parameters may have been written under old names."""
    params = settings.get("params")
    if not isinstance(params, Mapping):
        return dict(settings)
    return {**settings, "params": current_names(params, warn=False)}


def _check_types(plain: Mapping[str, Any], types: Mapping[str, Any], where: str) -> None:
    unknown = sorted(set(plain) - set(types))
    absent = sorted(set(types) - {"labels"} - set(plain))
    if unknown or absent:
        raise DataFileError(f"{where}: unknown keys {unknown}, missing keys {absent}")
    for name, kind in types.items():
        if name in plain and (not isinstance(plain[name], kind) or isinstance(plain[name], bool)):
            found = str(plain[name])[:60]
            raise DataFileError(f"{where}: {name} has the wrong type, found {found!r}")


def _check_labels(labels: Mapping[str, Any], where: str) -> None:
    lengths = set()
    for name, values in labels.items():
        if not isinstance(values, list | tuple) or not all(
            value is None or _is_number(value) for value in values
        ):
            raise DataFileError(f"{where}: {name} of the labels must be a list of numbers")
        lengths.add(len(values))
    if len(lengths) > 1:
        raise DataFileError(f"{where}: lists of figures per label differ in length")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def label_column(record: Record, name: str) -> Floats | None:
    """One number per label, NaN where it is not defined; None where the record has none."""
    if name not in record.labels:
        return None
    values = record.labels[name]
    return np.array([math.nan if value is None else value for value in values], dtype=np.float64)


# ---------------------------------------------------------------------- files


def read_records(folder: Path) -> list[Record]:
    """All records of a result folder, in an order that does not depend on who finished first.

    A task recorded twice must have the same numbers.
    """
    found: dict[str, Record] = {}
    for number, entry in enumerate(read_lines(folder / RECORDS), 1):
        where = f"{folder / RECORDS}, line {number}"
        record = Record.from_dict(entry, where)
        if _differ(found.setdefault(record.task, record), record):
            raise DataFileError(
                f"{where}: task {record.task} is recorded twice with different numbers; one of "
                "the two runs was not deterministic"
            )
    return sorted(found.values(), key=_order)


def read_failures(folder: Path) -> list[dict[str, Any]]:
    """Failed tasks of a result folder that have no record since."""
    finished = {record.task for record in read_records(folder)}
    return [entry for task, entry in _failures(folder).items() if task not in finished]


def _failures(folder: Path) -> dict[str, dict[str, Any]]:
    """The latest failure of every task that ever failed."""
    latest: dict[str, dict[str, Any]] = {}
    for number, entry in enumerate(read_lines(folder / FAILURES), 1):
        where = f"{folder / FAILURES}, line {number}"
        failure = _current_form(entry, where)
        _check_types(failure, _FAILURE_TYPES, where)
        latest[failure["task"]] = failure
    return latest


def read_folders(folders: Iterable[Path]) -> tuple[list[Record], list[dict[str, Any]]]:
    """Records and failures of all folders; a task that two folders have counts once."""
    records: dict[str, Record] = {}
    failures: dict[str, dict[str, Any]] = {}
    for folder in folders:
        own, failed = read_records(folder), _failures(folder)
        if not own and not failed:
            raise DataFileError(f"no results in {folder}; expected {folder / RECORDS}")
        for record in own:
            if _differ(records.setdefault(record.task, record), record):
                raise DataFileError(
                    f"{folder}: task {record.task} ({record.method} on {record.dataset}, fold "
                    f"{record.fold}) is in another folder with different numbers"
                )
        failures.update(failed)
    open_failures = [entry for task, entry in failures.items() if task not in records]
    return list(records.values()), open_failures


def _differ(one: Record, other: Record) -> bool:
    """Whether two records of a task disagree in a metric that both have."""
    both = one.metrics.keys() & other.metrics.keys()
    return any(one.metrics[name] != other.metrics[name] for name in both)


def _order(record: Record) -> tuple[str, str, str, str, int, int]:
    settings = json.dumps(record.settings, sort_keys=True)
    return record.dataset, record.method, record.profile, settings, record.seed, record.fold
