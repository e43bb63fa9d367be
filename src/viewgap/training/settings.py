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
)

_MOST_ROWS = 10**12  # of a batch; torch counts in 64 bits


@dataclass(frozen=True, kw_only=True)
class TrainingSettings(CheckedSettings):
    """What the training loop reads; the settings of every deep method inherit it.

    Attributes
    ----------
    optimiser : {"adamw", "sgd"}
        Fixed by the method; `"sgd"` with `momentum`.
    learning_rate, weight_decay : float
        Of the optimiser.
    max_grad_norm : float
        Largest norm of the gradient of all weights, 0 = no limit.
    ema_decay : float
        Share that the running average of the weights keeps per step, 0 = no average. The averaged
        network is the one that is validated and kept.
    batch_size : int
        Samples per step.
    max_epochs : int
        Most passes over the training rows.
    patience : int
        Epochs to go on without a better validation score.
    min_epochs : int
        Scores of earlier epochs do not count: a few held-out rows can make a network look good that
        has hardly begun.
    ties_renew_patience : bool
        Of equal scores the later epoch is kept; with this the patience begins anew with it, as in
        the released code of SCSD.
    shuffle : bool
        A new order of the rows every epoch, or always the one they were given in.
    """

    optimiser: ClassVar[str] = "adamw"
    momentum: ClassVar[float] = 0.9

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
