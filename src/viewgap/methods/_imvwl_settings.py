"""The settings of iMvWL: every number and switch, and the two profiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from viewgap.constraints import Choice
from viewgap.parameters import (
    CheckedSettings,
    Count,
    NonNegative,
    Positive,
    Steps,
    Units,
)


@dataclass(frozen=True)
class IMvWLSettings(CheckedSettings):
    """Every number and switch of one fit; the values are those of the default profile."""

    label_weight: Positive = 0.01
    rank_weight: NonNegative = 0.1
    subspace: Units | None = 100
    scaling: Annotated[str, Choice("columns", "rows")] = "columns"
    hard_labels: Annotated[str, Choice("half", "top")] = "half"
    correlation_steps: Steps = 5
    code_steps: Steps = 100
    tolerance: NonNegative = 1e-4
    max_iter: Count = 100


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
