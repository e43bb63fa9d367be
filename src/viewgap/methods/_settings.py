"""Settings of a deep method: what every one has, and the part that the training loop needs."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, ClassVar

from viewgap.constraints import Choice, Integer, Real, SequenceOf
from viewgap.errors import parameter
from viewgap.parameters import (
    CheckedSettings,
    Count,
    CountOrZero,
    NonNegative,
    Positive,
    Share,
    Switch,
)
from viewgap.training.steps import LoopSettings

_MOST_ROWS = 10**12  # of a batch; torch counts in 64 bits
_Weights = SequenceOf(Real(0, None), 3, 3, (1.0, 1.0, 1.0))


@dataclass(frozen=True, kw_only=True)
class DeepSettings(CheckedSettings):
    """Every number and switch of one fit; a method's own settings are a subclass.

    `scaling`: standardise on `"observed"` training cells, or `"none"`. `features`: what is
    standardised, the values as they are (`"plain"`), or prepared as the observed training cells of
    each view suggest (`"auto"`: counts as directions, all else by rank). `norm_rows`: normalisation
    statistics over `"observed"` rows, or over `"all"`, missing ones included. `shuffle`: a new
    order of the rows every epoch. `score_weights`: of AP, 1-RL and AUC in the validation score
    (see `training.scores` for data on which these say nothing). The rest is as in `LoopSettings`.
    """

    optimiser: ClassVar[str] = "adamw"

    scaling: Annotated[str, Choice("observed", "none")] = "observed"
    features: Annotated[str, Choice("plain", "auto")] = "plain"
    norm_rows: Annotated[str, Choice("observed", "all")] = "observed"
    learning_rate: Positive = 1e-3
    weight_decay: NonNegative = 0.0
    max_grad_norm: NonNegative = 0.0
    ema_decay: Share = 0.0
    batch_size: Annotated[int, Integer(2, _MOST_ROWS)] = 128
    max_epochs: Count = 300
    patience: CountOrZero = 50
    min_epochs: CountOrZero = 0
    ties_renew_patience: Switch = False
    shuffle: Switch = True
    score_weights: Annotated[tuple[float, float, float], _Weights] = (1.0, 1.0, 1.0)

    def _check_together(self) -> None:
        if self.features == "auto" and self.scaling == "none":
            # "none" is for values that come scaled: nothing about columns is learned then.
            none, observed = parameter("scaling", "none"), parameter("scaling", "observed")
            self._refuse("features", f"'plain' with {none}; or pass {observed}")
        if sum(self.score_weights) <= 0:
            self._refuse("score_weights", "three weights of AP, 1-RL and AUC, not all 0")

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
