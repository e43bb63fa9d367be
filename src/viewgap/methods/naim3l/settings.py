"""The settings of NAIM3L, and its profiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from viewgap.constraints import Choice
from viewgap.parameters import CheckedSettings, Count, NonNegative, Positive, Switch, Units, setting


@dataclass(frozen=True)
class NAIM3LSettings(CheckedSettings):
    """Every number and switch of one fit; the values are those of the default profile."""

    rank_weight: NonNegative = setting(0.2, "Weight λ of the rank terms.")
    penalty: Positive = setting(5.0, "Penalty μ of ADMM.")
    components: Units = setting(50, "Most principal components of a view.")
    standardise: Switch = setting(
        True, "Whether columns are standardised on observed training values before."
    )
    guarded: Switch = setting(True, "Whether the two guards described above are used.")
    start: Annotated[str, Choice("zeros", "uniform")] = setting("zeros", "Where W starts.")
    ridge: Positive = setting(1e-6, "Ridge in the W step, relative to the mean of the diagonal.")
    tolerance: NonNegative = setting(
        1e-4, "Largest change of an entry of W or Z at which the solver stops."
    )
    max_iter: Count = setting(200, "Most iterations.")


PROFILES = {
    "default": NAIM3LSettings(),
    "paper": NAIM3LSettings(rank_weight=0.4, standardise=False, guarded=False, start="uniform"),
}
