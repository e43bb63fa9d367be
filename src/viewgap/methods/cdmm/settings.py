"""The settings of CDMM, and its profiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from viewgap.constraints import Choice
from viewgap.parameters import (
    CheckedSettings,
    Fraction,
    NonNegative,
    Positive,
    Steps,
    Switch,
    Units,
    setting,
)


@dataclass(frozen=True)
class CDMMSettings(CheckedSettings):
    """Every number and switch of one fit; the values are those of the default profile."""

    kernel_width: Positive | None = setting(
        None, "Width s of the kernels; chosen for every view by leave-one-out if None."
    )
    error_weight: Positive | None = setting(
        None, "Weight E of the error, whose ridge is 1 / E; chosen like the width if None."
    )
    diversity_weight: NonNegative = setting(1e-5, "Weight α of the dependence on the other views.")
    weight_smoothness: Positive = setting(
        1.0, "Number λ: the larger, the more alike are the weights of the views."
    )
    label_share: Fraction = setting(0.8, "Share η of the labels themselves in their correlation.")
    cutoff: NonNegative = setting(0.01, "Correlation ε below which labels have nothing in common.")
    features: Annotated[str, Choice("auto", "plain", "rows")] = setting(
        "auto",
        "Views standardised after preparation as their values suggest, standardised, or with "
        "rows of length 1.",
    )
    masked: Switch = setting(True, "Whether missing views and labels are left out, or filled in.")
    max_exact_rows: Units = setting(
        5000, "Most rows with which systems over all rows are solved; Nyström features beyond."
    )
    landmarks: Units = setting(1000, "Rows of each view that the Nyström features are made of.")
    max_refills: Steps = setting(50, "Most steps that fill in labels not observed.")
    tolerance: NonNegative = setting(1e-4, "Largest change of a label filled in, to stop at.")


PROFILES = {
    "default": CDMMSettings(),
    "paper": CDMMSettings(
        kernel_width=0.01,
        error_weight=100.0,
        weight_smoothness=1e4,
        features="rows",
        masked=False,
    ),
}
