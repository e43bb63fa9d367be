"""The result record: the same one in the demo's results.json, in a journal and in `results/`.

A record says which cell it belongs to, what was measured, by which variant of the metrics, and on
which machine and versions. Reading is strict: a key too many or too few is an error.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from viewgap import strict_json
from viewgap.deprecation import current_names
from viewgap.errors import DataFileError, RunError
from viewgap.fsio import write_file
from viewgap.metrics import SIX

VARIANTS = ("field", "clean")


@dataclass(frozen=True)
class Record:
    """The result of one method on one fold.

    `metrics` has the six keys AP, 1-HL, 1-RL, AUC, 1-OE, 1-Cov; every one is better when higher.
    `seconds` is the time of fit and prediction, loading of data excluded. `settings` holds what
    else the cell was made of (missing rates, parameters, scaling), `cell` its content hash.
    `details` say more about the same prediction: figures of its probabilities and, in `labels`,
    lists with one number per label. Older records have none.
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
    cell: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse a record that could not be compared with others."""
        if tuple(sorted(self.metrics)) != tuple(sorted(SIX)):
            raise RunError(
                f"a record needs the metrics {', '.join(SIX)}; found {list(self.metrics)}"
            )
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
        plain["metrics"] = {name: float(self.metrics[name]) for name in SIX}
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any], where: str = "record") -> Self:
        """Inverse of `to_dict`; `where` names the place in the error message."""
        if not isinstance(plain, Mapping):
            raise DataFileError(f"{where}: expected an object, found {type(plain).__name__}")
        _check_entry(plain, _TYPES, where)
        if not all(isinstance(value, int | float) for value in plain["metrics"].values()):
            raise DataFileError(f"{where}: every metric must be a number")
        try:
            return cls(**{**plain, "settings": _with_current_names(plain["settings"])})
        except RunError as error:
            raise DataFileError(f"{where}: {error}") from None


_TYPES: dict[str, Any] = {
    "dataset": str,
    "method": str,
    "profile": str,
    "fold": int,
    "seed": int,
    "metrics": Mapping,
    "seconds": int | float,
    "variant": str,
    "epochs": int | None,
    "cell": str,
    "settings": Mapping,
    "provenance": Mapping,
    "details": Mapping,
}
_FAILURE_TYPES: dict[str, Any] = {
    **{name: _TYPES[name] for name in ("cell", "dataset", "method", "profile", "fold", "seed")},
    "settings": Mapping,
    "error": str,
    "traceback": str,
}
_LATER = {"details"}


def _with_current_names(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a record whose parameters may have been written under old names."""
    params = settings.get("params")
    if not isinstance(params, Mapping):
        return dict(settings)
    return {**settings, "params": current_names(params, warn=False)}


def checked_failure(plain: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return an entry of failures.jsonl; DataFileError if it is not one."""
    _check_entry(plain, _FAILURE_TYPES, where)
    return dict(plain)


def _check_entry(plain: Mapping[str, Any], types: Mapping[str, Any], where: str) -> None:
    unknown = sorted(set(plain) - set(types))
    absent = sorted(set(types) - _LATER - set(plain))
    if unknown or absent:
        raise DataFileError(f"{where}: unknown keys {unknown}, missing keys {absent}")
    for name, kind in types.items():
        if name not in plain:
            continue
        if not isinstance(plain[name], kind) or isinstance(plain[name], bool):
            found = str(plain[name])[:60]
            raise DataFileError(f"{where}: {name} has the wrong type, found {found!r}")


def save_records(records: list[Record], path: Path) -> None:
    """Write a results.json: a list of records."""
    write_file(path, strict_json.dumps([record.to_dict() for record in records]))


def load_records(path: Path) -> list[Record]:
    """Read a results.json."""
    try:
        plain = strict_json.loads(path.read_bytes())
    except OSError as error:
        raise DataFileError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise DataFileError(f"{path} is not JSON: {error}") from error
    if not isinstance(plain, list):
        raise DataFileError(f"{path}: expected a list of records, found {type(plain).__name__}")
    return [Record.from_dict(item, f"{path}, record {i}") for i, item in enumerate(plain)]
