"""Settings that every network has: of the training loop, of its input and of its answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from viewgap.constraints import Choice, Integer, Real, SequenceOf
from viewgap.errors import parameter
from viewgap.parameters import (
    MOST_NETWORKS,
    CheckedSettings,
    Count,
    CountOrZero,
    NonNegative,
    Positive,
    Share,
    Switch,
    setting,
)
from viewgap.search import Around, Options

_MOST_ROWS = 10**12  # of a batch; torch counts in 64 bits
_Weights = SequenceOf(Real(0, None), 3, 3, (1.0, 1.0, 1.0))


@dataclass(frozen=True, kw_only=True)
class TrainingSettings(CheckedSettings):
    """What the training loop reads; the settings of every deep method inherit it."""

    optimiser: ClassVar[str] = "adamw"
    momentum: ClassVar[float] = 0.9

    learning_rate: Positive = setting(1e-3, "Step size of the optimiser.", Around(4))
    weight_decay: NonNegative = setting(0.0, "Weight decay of the optimiser.", Around(30))
    max_grad_norm: NonNegative = setting(0.0, "Largest norm of the gradient; 0: no limit.")
    ema_decay: Share = setting(
        0.0,
        "Share that the exponential moving average of the weights keeps per step; 0: no average. "
        "The averaged network is the one that is validated and kept.",
    )
    batch_size: Annotated[int, Integer(2, _MOST_ROWS)] = setting(
        128, "Samples per step.", Options(64, 128, 256)
    )
    max_epochs: Count = setting(300, "Most passes over the training rows.")
    patience: CountOrZero = setting(50, "Epochs to go on without a better validation score.")
    min_epochs: CountOrZero = setting(
        0, "Epochs whose validation scores do not count: a few rows can make any network look good."
    )
    ties_renew_patience: Switch = setting(
        False, "Whether the patience begins anew with an equal score; the later epoch is kept."
    )
    shuffle: Switch = setting(True, "A new order of the rows in every epoch.")
    shuffle_window: CountOrZero = setting(
        0,
        "Rows that are shuffled together where views are read from disk, because they do not fit "
        "into memory: blocks of rows in random order, some of them mixed at a time. 0: as many as "
        "fit into 32 MiB; the number of rows or more: any order, which reads row by row.",
    )


@dataclass(frozen=True, kw_only=True)
class DeepSettings(TrainingSettings):
    """Every number and switch of one fit; a method's own settings are a subclass."""

    scaling: Annotated[str, Choice("observed", "none")] = setting(
        "observed",
        "Standardise the columns on observed training values, or leave them as they come.",
    )
    features: Annotated[str, Choice("plain", "auto")] = setting(
        "plain",
        "What is standardised: the values as they are, or prepared as the observed training"
        " values of each view suggest (counts as directions, all else by rank).",
        Options("plain", "auto"),
    )
    norm_rows: Annotated[str, Choice("observed", "all")] = setting(
        "observed",
        "Rows that normalisation statistics are over: observed ones, or all, missing ones "
        "included.",
    )
    score_weights: Annotated[tuple[float, float, float], _Weights] = setting(
        (1.0, 1.0, 1.0), "Weights of AP, 1-RL and AUC in the validation score."
    )
    n_networks: Annotated[int, Integer(1, MOST_NETWORKS)] = setting(
        1, "Number of networks that are trained side by side and answer together."
    )
    cross_fit: Switch = setting(
        False,
        "Whether each of several networks leaves out one part of the training rows, so that "
        "together they predict all rows out of fold. Epoch, pooling and thresholds then come from "
        "these predictions, and no rows are held out.",
    )
    pooling: Annotated[str, Choice("network", "log_odds")] = setting(
        "network",
        "How the views of a sample are combined in prediction: by the network, or by the log-odds"
        " of what it predicts from each view alone, with weights, calibration and thresholds"
        " fitted on held-out rows.",
    )

    def _check_together(self) -> None:
        if self.features == "auto" and self.scaling == "none":
            # "none" is for values that come scaled: nothing about columns is learned then.
            none, observed = parameter("scaling", "none"), parameter("scaling", "observed")
            self._refuse("features", f"'plain' with {none}; or pass {observed}")
        if sum(self.score_weights) <= 0:
            self._refuse("score_weights", "three weights of AP, 1-RL and AUC, not all 0")
        if self.cross_fit and self.prediction == "batch":
            self._refuse("cross_fit", "False where samples are predicted with their batch")
        if self.pooling == "log_odds" and self.prediction == "batch":
            self._refuse("pooling", "'network' where samples are predicted with their batch")

    @property
    def prediction(self) -> str:
        """`"row"`: every sample for itself. `"batch"`: as released, with its batch mates."""
        return "row"

    @property
    def fills_with_noise(self) -> bool:
        """Whether missing views are N(0, 1) noise in training, as in some released code."""
        return False
