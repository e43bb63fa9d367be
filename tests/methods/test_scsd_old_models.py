"""Models saved by version 0.1 load and answer as they did.

`tests/models/scsd_0.1` was written by that version, whose tensors and settings had other names:
a committee with log-odds pooling, the published profile, and frozen view qualities.
"""

import json
from pathlib import Path

import numpy as np
import pytest

import viewgap

FOLDER = Path(__file__).parents[1] / "models" / "scsd_0.1"
EXPECTED = json.loads((FOLDER / "expected.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("name", "pooling", "n_networks"),
    [("pooled", "log_odds", 2), ("published", "batch", 1), ("frozen", "network", 1)],
)
def test_a_model_of_version_0_1_answers_as_it_did(name: str, pooling: str, n_networks: int) -> None:
    model = viewgap.load_model(FOLDER / name)
    views = {view: np.array(rows, dtype=float) for view, rows in EXPECTED["views"].items()}
    then = EXPECTED[name]
    # Another processor may round the last bits differently.
    np.testing.assert_allclose(model.predict_proba(views), then["probabilities"], rtol=1e-5)
    np.testing.assert_array_equal(model.codes(views), then["codes"])
    assert model.view_weights_ == pytest.approx(then["view_weights"])
    assert (model.settings_.pooling, model.settings_.n_networks) == (pooling, n_networks)
    assert (model.get_params()["n_networks"] or 1) == n_networks
