"""One task of an experiment: one method on one fold of one data set, with all its settings."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from viewgap import methods
from viewgap.errors import SettingError

SCALE_ON = ("training", "all")
VALIDATION = ("protocol", "none")
_CHOICES = {"scale_on": SCALE_ON, "validation": VALIDATION, "variant": ("field", "clean")}
# Fields that came later count only where they are used: older tasks keep the ids they had.
_LATER = ("unlabeled", "test_view_rate", "validation", "cv", "variant")
_IDENTITY = ("dataset", "method", "profile", "fold", "seed")
_IN_TITLE = ("seed", "view_rate", "label_rate", "train_share", "test_view_rate", "validation")
# Where the data lie is no part of the content: their fingerprint (`dataset_options`) is.
_NO_CONTENT = ("files",)


@dataclass(frozen=True)
class Task:
    """One method on one fold. Two tasks with the same content have the same `id`.

    `scale_on` says which rows the standardisation may see. `"training"`: each method scales by
    itself, on observed training entries. `"all"` repeats the released SCSD code, whose scaler sees
    every row, test rows and values declared missing included: a leak, kept only so that the
    published protocol can be reproduced. `unlabeled` hands the views of validation and test rows
    to a semi-supervised method, without their labels: the transductive form of its paper.
    `test_view_rate` is the missing rate of views in the test rows, where it differs from
    training: those rows get masks of their own, drawn by the protocol from the fold's number.
    `validation` says what `fit` gets as `validation=`: the validation rows of the fold with all
    their labels (`"protocol"`), or nothing (`"none"`), so that a method holds out rows of its own
    training part.

    With `cv`, the fold is one of a K-fold cross-validation on balanced parts of the rows (see
    `cross_validation_fold`): `fold` counts on over the repetitions, `train_share` is (K - 1) / K,
    and there are no validation rows. `variant` names the definitions of the metrics. `files` says
    where data of the user's own lie (see `task_data`); `dataset` is then their name in tables, and
    `dataset_options` hold their fingerprint.
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
    test_view_rate: float | None = None
    validation: str = "protocol"
    cv: int | None = None
    variant: str = "field"
    files: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse what could not run."""
        if self.method not in methods.names():
            raise SettingError(
                f"unknown method {self.method!r}; available: {', '.join(methods.names())}"
            )
        for name, (one, other) in _CHOICES.items():
            if getattr(self, name) not in (one, other):
                found = getattr(self, name)
                raise SettingError(f"{name} must be {one!r} or {other!r}, found {found!r}")
        for name in ("view_rate", "label_rate", "test_view_rate"):
            rate = getattr(self, name)
            if rate is not None and not 0 <= rate < 1:
                raise SettingError(f"{name} must be in [0, 1), found {rate!r}")
        if not 0 < self.train_share < 1:
            raise SettingError(f"train_share must be in (0, 1), found {self.train_share!r}")
        if self.fold < 0:
            raise SettingError(f"fold must be at least 0, found {self.fold!r}")
        if self.cv is not None:
            self._check_cv(self.cv)

    def _check_cv(self, cv: int) -> None:
        if cv < 2:
            raise SettingError(f"cv must be 2 or more, found {cv!r}")
        if self.validation != "none" or self.unlabeled:
            raise SettingError(
                "a cross-validation (cv) has no validation rows: validation must be 'none', and "
                "unlabeled false"
            )
        object.__setattr__(self, "train_share", (cv - 1) / cv)

    @property
    def id(self) -> str:
        """Content hash: sixteen hexadecimal digits over all fields."""
        content = asdict(self)
        for name in {*_LATER, *_NO_CONTENT} - self._unusual(_LATER).keys():
            del content[name]
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def identity(self) -> dict[str, Any]:
        """What a record and a failure call the task by."""
        return {**{name: getattr(self, name) for name in _IDENTITY}, "task": self.id}

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
            **self._unusual(_LATER),
        }

    def _unusual(self, names: Iterable[str]) -> dict[str, Any]:
        """The fields among `names` that differ from their default."""
        found = {name: getattr(self, name) for name in names}
        return {name: value for name, value in found.items() if value != getattr(Task, name)}

    def _in_title(self) -> tuple[str, ...]:
        """Names of what a title says; of a cross-validation, no artificial gaps are usual."""
        if self.cv is None:
            return _IN_TITLE
        return tuple(name for name in ("seed", "view_rate", "label_rate") if getattr(self, name))

    @property
    def title(self) -> str:
        """Short text for progress lines: parameters, and what differs from the usual protocol."""
        parts = [f"{self.dataset} · {self.method} ({self.profile}) · fold {self.fold}"]
        parts += [f"{name}={json.dumps(value)}" for name, value in self.params.items()]
        for name, value in self._unusual(self._in_title()).items():
            words = value if isinstance(value, str) else f"{value:g}"
            parts.append(f"{name.replace('_', ' ')} {words}")
        return " · ".join(parts)
