"""The settings of iMvWL, and its profiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from viewgap.constraints import Choice
from viewgap.parameters import CheckedSettings, Count, NonNegative, Positive, Steps, Units, setting


@dataclass(frozen=True)
class IMvWLSettings(CheckedSettings):
    """Every number and switch of one fit; the values are those of the default profile."""

    label_weight: Positive = setting(0.01, "Weight α of the labels.")
    rank_weight: NonNegative = setting(0.1, "Weight β of the rank of S.")
    subspace: Units | None = setting(
        100, "Number of columns of V; the width of the narrowest view in the paper's profile."
    )
    scaling: Annotated[str, Choice("columns", "rows")] = setting(
        "columns", "How values become non-negative, see the profiles."
    )
    hard_labels: Annotated[str, Choice("half", "top")] = setting(
        "half", "Whether scores are the answers, or ranks with the best labels above one half."
    )
    correlation_steps: Steps = setting(5, "Gradient steps on S per iteration.")
    code_steps: Steps = setting(100, "Updates of the code of a new sample.")
    tolerance: NonNegative = setting(
        1e-4, "Relative change of the objective at which the solver stops."
    )
    max_iter: Count = setting(100, "Most iterations.")


PROFILES = {
    "default": IMvWLSettings(),
    "paper": IMvWLSettings(
        label_weight=0.001,
        rank_weight=0.01,
        subspace=None,  # the width of the narrowest view
        scaling="rows",
        hard_labels="top",
        max_iter=50,
    ),
}
