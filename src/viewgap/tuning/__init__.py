"""Settings of a method chosen on its out-of-fold score, by Optuna, in a study that can go on."""

from __future__ import annotations

from viewgap.tuning.result import Tuning
from viewgap.tuning.trials import tune

__all__ = ["Tuning", "tune"]
