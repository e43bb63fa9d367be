"""The settings of ELSMML, and its profiles."""

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
    Switch,
    Units,
    setting,
)


@dataclass(frozen=True)
class ELSMMLSettings(CheckedSettings):
    """Every number and switch of one fit; the values are those of the default profile."""

    label_weight: Positive = setting(1.0, "Weight α of the labels.")
    sparsity: NonNegative = setting(1.0, "Weight β of the absolute values of W.")
    smoothness: NonNegative = setting(0.1, "Weight γ of the graphs.")
    ridge: Positive = setting(1.0, "Weight δ of the squares of P and M, and of R - I.")
    latent_share: Positive = setting(1.0, "Number of latent semantics, as a share of the labels.")
    projected_share: Positive = setting(
        0.2, "Most columns of a projected view, as a share of the training rows."
    )
    components: Units = setting(256, "Principal components of a view that has more columns.")
    features: Annotated[str, Choice("auto", "plain")] = setting(
        "auto", "Whether views are prepared as their values suggest before they are standardised."
    )
    masked: Switch = setting(True, "Whether missing views and labels are left out, or filled in.")
    proximal_steps: Steps = setting(20, "Gradient steps on W per iteration.")
    tolerance: NonNegative = setting(
        1e-3, "Relative change of the objective at which the solver stops."
    )
    max_iter: Count = setting(50, "Most iterations.")


PROFILES = {
    "default": ELSMMLSettings(),
    "paper": ELSMMLSettings(
        smoothness=1.0,
        latent_share=0.475,  # the re-implementation draws it, from 0.35 to 0.6
        features="plain",
        masked=False,
    ),
}
