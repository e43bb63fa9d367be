"""What to run: a cell is one method on one fold of one data set; an experiment file lists many.

[experiment]
dataset = "corel5k"
folds = 10

[[method]]
name = "scsd"
profile = "paper"
[method.params]
alpha = 0.1
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from viewgap import methods
from viewgap.errors import DataFileError, SettingError

SCALE_ON = ("training", "all")


@dataclass(frozen=True)
class Cell:
    """One method on one fold. Two cells with the same content have the same `id`.

    `scale_on` says which rows the standardisation may see. `"training"`: each method scales by
    itself, on observed training cells. `"all"` repeats the released SCSD code, whose scaler sees
    every row, test rows and values declared missing included: a leak, kept only so that the
    published protocol can be reproduced. `unlabeled` hands the views of validation and test rows
    to a semi-supervised method, without their labels: the transductive form of its paper.
    """

    dataset: str
    method: str
    profile: str = "default"
    params: Mapping[str, Any] = field(default_factory=dict)
    fold: int = 0
    seed: int = 1
    dataset_options: Mapping[str, Any] = field(default_factory=dict)
    view_rate: float = 0.5
    label_rate: float = 0.5
    train_share: float = 0.7
    scale_on: str = "training"
    unlabeled: bool = False

    def __post_init__(self) -> None:
        """Refuse what could not run."""
        if self.method not in methods.names():
            raise SettingError(
                f"unknown method {self.method!r}; available: {', '.join(methods.names())}"
            )
        if self.scale_on not in SCALE_ON:
            raise SettingError(f"scale_on must be 'training' or 'all', found {self.scale_on!r}")
        for name in ("view_rate", "label_rate"):
            if not 0 <= getattr(self, name) < 1:
                raise SettingError(f"{name} must be in [0, 1), found {getattr(self, name)!r}")
        if not 0 < self.train_share < 1:
            raise SettingError(f"train_share must be in (0, 1), found {self.train_share!r}")
        if self.fold < 0:
            raise SettingError(f"fold must be at least 0, found {self.fold!r}")

    @property
    def id(self) -> str:
        """Content hash: sixteen hexadecimal digits over all fields."""
        content = asdict(self)
        if not self.unlabeled:  # cells kept the ids they had before there was this field
            del content["unlabeled"]
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def settings(self) -> dict[str, Any]:
        """What a record keeps besides data set, method, profile, fold and seed."""
        return {
            "dataset_options": dict(self.dataset_options),
            "view_rate": self.view_rate,
            "label_rate": self.label_rate,
            "train_share": self.train_share,
            "scale_on": self.scale_on,
            "params": dict(self.params),
            **({"unlabeled": True} if self.unlabeled else {}),
        }

    @property
    def title(self) -> str:
        """Short text for progress lines."""
        return f"{self.dataset} · {self.method} ({self.profile}) · fold {self.fold}"


_EXPERIMENT_KEYS: dict[str, tuple[type, ...]] = {
    "dataset": (str,),
    "dataset_options": (dict,),
    "folds": (int,),
    "seed": (int,),
    "view_rate": (float, int),
    "label_rate": (float, int),
    "train_share": (float, int),
    "scale_on": (str,),
}
_METHOD_KEYS: dict[str, tuple[type, ...]] = {
    "name": (str,),
    "profile": (str,),
    "params": (dict,),
    "unlabeled": (bool,),
}


def read_experiment(path: Path) -> list[Cell]:
    """Cells of an experiment file, methods in file order, folds inside."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataFileError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataFileError(f"{path} is not valid TOML: {error}") from error
    return expand(content, str(path))


def expand(content: Mapping[str, Any], where: str = "experiment") -> list[Cell]:
    """Cells of a parsed experiment file; an unknown key is an error."""
    _check_keys(content, {"experiment": (dict,), "method": (list,)}, where)
    _require(content, ("experiment", "method"), where)
    experiment = dict(content["experiment"])
    _check_keys(experiment, _EXPERIMENT_KEYS, f"{where} [experiment]")
    _require(experiment, ("dataset",), f"{where} [experiment]")
    folds = experiment.pop("folds", 1)
    if folds < 1:
        raise SettingError(f"{where} [experiment]: folds must be at least 1, found {folds}")
    for name in ("view_rate", "label_rate", "train_share"):
        if name in experiment:  # 0 and 0.0 are the same cell
            experiment[name] = float(experiment[name])
    if not content["method"]:
        raise SettingError(f"{where}: there is no method to run; add a [[method]]")
    cells = []
    for number, entry in enumerate(content["method"], 1):
        method = _method_entry(entry, f"{where} [[method]] {number}")
        cells += [Cell(**experiment, **method, fold=fold) for fold in range(folds)]
    return _without_repeats(cells, where)


def _method_entry(entry: Any, where: str) -> dict[str, Any]:
    if not isinstance(entry, Mapping):
        raise SettingError(f"{where}: expected a table, found {type(entry).__name__}")
    _check_keys(entry, _METHOD_KEYS, where)
    _require(entry, ("name",), where)
    rest = {key: value for key, value in entry.items() if key != "name"}
    return {"method": entry["name"], **rest}


def _check_keys(
    table: Mapping[str, Any], expected: Mapping[str, tuple[type, ...]], where: str
) -> None:
    for key, value in table.items():
        if key not in expected:
            raise SettingError(f"{where}: unknown key {key!r}; known: {', '.join(expected)}")
        if type(value) not in expected[key]:
            wanted = " or ".join(kind.__name__ for kind in expected[key])
            raise SettingError(f"{where}: {key} must be {wanted}, found {value!r}")


def _require(table: Mapping[str, Any], keys: tuple[str, ...], where: str) -> None:
    for key in keys:
        if key not in table:
            raise SettingError(f"{where}: {key!r} is missing")


def _without_repeats(cells: list[Cell], where: str) -> list[Cell]:
    seen: set[str] = set()
    for cell in cells:
        if cell.id in seen:
            raise SettingError(f"{where}: {cell.title} is listed twice with the same settings")
        seen.add(cell.id)
    return cells
