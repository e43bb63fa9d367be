"""Settings of the training loop: how long and how fast to train."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from viewgap.constraints import Integer
from viewgap.parameters import (
    CheckedSettings,
    Count,
    CountOrZero,
    NonNegative,
    Positive,
    Share,
    Switch,
    setting,
)

_MOST_ROWS = 10**12  # of a batch; torch counts in 64 bits


@dataclass(frozen=True, kw_only=True)
class TrainingSettings(CheckedSettings):
    """What the training loop reads; the settings of every deep method inherit it."""

    optimiser: ClassVar[str] = "adamw"
    momentum: ClassVar[float] = 0.9

    learning_rate: Positive = setting(1e-3, "Step size of the optimiser.")
    weight_decay: NonNegative = setting(0.0, "Weight decay of the optimiser.")
    max_grad_norm: NonNegative = setting(0.0, "Largest norm of the gradient; 0: no limit.")
    ema_decay: Share = setting(
        0.0,
        "Share that the exponential moving average of the weights keeps per step; 0: no average. "
        "The averaged network is the one that is validated and kept.",
    )
    batch_size: Annotated[int, Integer(2, _MOST_ROWS)] = setting(128, "Samples per step.")
    max_epochs: Count = setting(300, "Most passes over the training rows.")
    patience: CountOrZero = setting(50, "Epochs to go on without a better validation score.")
    min_epochs: CountOrZero = setting(
        0, "Epochs whose validation scores do not count: a few rows can make any network look good."
    )
    ties_renew_patience: Switch = setting(
        False, "Whether the patience begins anew with an equal score; the later epoch is kept."
    )
    shuffle: Switch = setting(True, "A new order of the rows in every epoch.")
