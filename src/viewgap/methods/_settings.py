"""Settings of a deep method: what every one has, how they are checked, and profiles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import ClassVar

from viewgap.errors import SettingError
from viewgap.training.steps import LoopSettings

Choices = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, kw_only=True)
class DeepSettings:
    """Every number and switch of one fit; a method's own settings are a subclass.

    `scaling`: standardise on `"observed"` training cells, or `"none"`. `features`: what is
    standardised, the values as they are (`"plain"`), or prepared as the observed training cells of
    each view suggest (`"auto"`: counts as directions, all else by rank). `norm_rows`: normalisation
    statistics over `"observed"` rows, or over `"all"`, missing ones included. `shuffle`: a new
    order of the rows every epoch. `score_weights`: of AP, 1-RL and AUC in the validation score.
    The rest is as in `LoopSettings`.
    """

    optimiser: ClassVar[str] = "adamw"
    choices: ClassVar[Choices] = {}
    positive: ClassVar[tuple[str, ...]] = ()
    shares: ClassVar[tuple[str, ...]] = ()

    scaling: str = "observed"
    features: str = "plain"
    norm_rows: str = "observed"
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    clip: float = 0.0
    weight_average: float = 0.0
    batch_size: int = 128
    max_epochs: int = 300
    patience: int = 50
    min_epochs: int = 0
    shuffle: bool = True
    score_weights: tuple[float, float, float] = (1.0, 1.0, 1.0)

    def __post_init__(self) -> None:
        common = {
            "features": ("plain", "auto"),
            "norm_rows": ("observed", "all"),
            "scaling": ("observed", "none"),
        }
        for name, allowed in {**common, **self.choices}.items():
            if getattr(self, name) not in allowed:
                self._refuse(name, f"one of {', '.join(map(repr, allowed))}")
        if self.features == "auto" and self.scaling == "none":
            # "none" is for values that come scaled: nothing about columns is learned then.
            self._refuse("features", "'plain' with scaling='none'; or pass scaling='observed'")
        for name in ("learning_rate", "max_epochs", *self.positive):
            if not getattr(self, name) > 0:
                self._refuse(name, "above 0")
        if self.batch_size < 2:
            self._refuse("batch_size", "at least 2")
        for name in ("weight_average", *self.shares):
            if not 0.0 <= getattr(self, name) < 1.0:
                self._refuse(name, "in [0, 1)")
        weights = self.score_weights
        if len(weights) != 3 or min(weights) < 0 or sum(weights) <= 0:
            self._refuse("score_weights", "three weights of AP, 1-RL and AUC, not all 0")

    def _refuse(self, name: str, expected: str) -> None:
        raise SettingError(f"{name} must be {expected}, found {getattr(self, name)!r}")

    @property
    def prediction(self) -> str:
        """`"row"`: every sample for itself. `"batch"`: as released, with its batch mates."""
        return "row"

    @property
    def fills_with_noise(self) -> bool:
        """Whether missing views are N(0, 1) noise in training, as in some released code."""
        return False

    def loop(self) -> LoopSettings:
        """The part that the training loop needs."""
        own = {"optimiser", *(f.name for f in fields(self))}
        names = [f.name for f in fields(LoopSettings) if f.name in own]
        return LoopSettings(**{name: getattr(self, name) for name in names})
