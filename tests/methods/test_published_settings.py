"""What the published methods are set to: the paper's profiles, and where the default differs."""

from __future__ import annotations

from typing import Any

import pytest

from viewgap import methods

ADAM = {"optimiser": "adamw", "learning_rate": 1e-3, "weight_decay": 0.0}
EXPECTED: dict[str, dict[str, Any]] = {
    "simm default": ADAM | {"weight_decay": 1e-5, "batch_size": 128, "prediction": "row"},
    "simm paper": ADAM
    | {"embedding": 64, "alpha": 0.1, "beta": 1e-3, "weight_decay": 1e-5, "batch_size": 128}
    | {"incomplete": "filled", "max_epochs": 10, "min_epochs": 10, "prediction": "row"},
    "dvsm default": {"incomplete": "masked", "embedding": 256, "neighbours": 5, "layers": 2},
    "dvsm paper": {"embedding": 256, "neighbours": 5, "layers": 2, "incomplete": "filled"}
    | {"max_epochs": 200, "min_epochs": 200, "prediction": "row"},
    "sip default": ADAM | {"embedding": 512, "hidden": (1024,), "draws": 10, "prediction": "row"},
    "sip paper": ADAM
    | {"alpha": 1.0, "beta": 1e-3, "sigma": 1.0, "patience": 200, "max_epochs": 200}
    | {"score_weights": (0.25, 0.25, 0.25), "norm_rows": "all", "prediction": "batch"},
    "pcve default": ADAM
    | {"norm_rows": "observed", "rotations": "every step", "prediction": "row"},
    "pcve paper": ADAM
    | {"embedding": 512, "hidden": (1024,), "draws": 2, "masking": 0.25, "batch_size": 128}
    | {"alpha": 1.0, "beta": 1.0, "gamma": 0.1, "sigma": 0.1, "temperature": 0.1, "warm_up": 10}
    | {"patience": 150, "max_epochs": 150, "ties_renew_patience": True, "rotations": "once"}
    | {"score_weights": (1.0, 1.0, 1.0), "norm_rows": "all", "prediction": "batch"},
    "cdmm paper": {"diversity_weight": 1e-5, "weight_smoothness": 1e4, "error_weight": 100.0}
    | {"kernel_width": 0.01, "label_share": 0.8, "cutoff": 0.01},
    "naim3l default": {"guarded": True, "standardise": True, "start": "zeros"},
    "naim3l paper": {"guarded": False, "standardise": False, "start": "uniform"}
    | {"rank_weight": 0.4, "penalty": 5.0, "components": 50, "tolerance": 1e-4, "max_iter": 200},
    "elsmml paper": {"label_weight": 1.0, "sparsity": 1.0, "smoothness": 1.0}
    | {"tolerance": 1e-3, "max_iter": 50, "masked": False},
    "lmvcat paper": {"shuffle": False, "patience": 500, "score_weights": (0.25, 0.25, 0.5)},
}


@pytest.mark.parametrize("case", EXPECTED)
def test_settings_are_those_published(case: str) -> None:
    name, profile = case.split()
    settings = methods.get(name)(profile=profile)._resolve(260)
    assert {key: getattr(settings, key) for key in EXPECTED[case]} == EXPECTED[case]


@pytest.mark.parametrize("name", ["drls", "tdlsr"])
def test_of_some_nothing_is_known_that_a_profile_could_keep(name: str) -> None:
    default, paper = (methods.get(name)(profile=own)._resolve(260) for own in ("default", "paper"))
    assert default == paper
    assert (default.optimiser, default.weight_decay) == ("adamw", 1e-3)
    assert default.prediction == "row"
