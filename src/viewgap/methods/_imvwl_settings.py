"""The settings of iMvWL: every number and switch, and the two profiles."""

from __future__ import annotations

from dataclasses import dataclass

from viewgap.errors import SettingError

_CHOICES = {"scaling": ("columns", "rows"), "hard_labels": ("half", "top")}


@dataclass(frozen=True)
class IMvWLSettings:
    """Every number and switch of one fit; the values are those of the default profile."""

    label_weight: float = 0.01
    rank_weight: float = 0.1
    subspace: int | None = 100
    scaling: str = "columns"
    hard_labels: str = "half"
    correlation_steps: int = 5
    code_steps: int = 100
    tolerance: float = 1e-4
    max_iter: int = 100

    def __post_init__(self) -> None:
        for name in ("label_weight", "correlation_steps", "code_steps", "max_iter"):
            if not getattr(self, name) > 0:
                raise SettingError(f"{name} must be above 0, found {getattr(self, name)!r}")
        if self.subspace is not None and self.subspace < 1:
            raise SettingError(f"subspace must be at least 1, found {self.subspace!r}")
        for name in ("rank_weight", "tolerance"):
            if not getattr(self, name) >= 0:
                raise SettingError(f"{name} must be at least 0, found {getattr(self, name)!r}")
        for name, allowed in _CHOICES.items():
            value = getattr(self, name)
            if value not in allowed:
                raise SettingError(f"{name} must be one of {allowed}, found {value!r}")


PROFILES = {
    "default": lambda n_labels: IMvWLSettings(),
    "paper": lambda n_labels: IMvWLSettings(
        label_weight=0.001,
        rank_weight=0.01,
        subspace=None,  # the width of the narrowest view
        scaling="rows",
        hard_labels="top",
        max_iter=50,
    ),
}
