"""Models that earlier versions saved load and answer as they did, and so does every method's today.

`tests/models/release_0.1.0` was written by the code of that release (format 1 of the model file),
`format_3` by `tools/keep_models.py` as it is. Of format 2: tests/methods/test_scsd_old_models.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import viewgap
import viewgap.methods as methods
from keep_models import WITH_SETS, data
from viewgap.model_folder import FORMAT

MODELS = Path(__file__).parent / "models"
NEWEST = MODELS / f"format_{FORMAT}"
KEPT = sorted(
    path.with_suffix("") for path in MODELS.glob("*/*.json") if path.with_suffix("").is_dir()
)
X = data(8, 1)[0]


def answers(model: Path) -> Any:
    return json.loads(model.with_suffix(".json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("model", KEPT, ids=lambda path: f"{path.parent.name} {path.name}")
def test_a_kept_model_answers_as_it_did(model: Path) -> None:
    found = viewgap.load_model(model).predict_proba(X)
    # Another processor may round the last bits differently.
    np.testing.assert_allclose(found, answers(model)["probabilities"], rtol=1e-5, atol=1e-8)


def test_every_method_and_every_release_is_kept() -> None:
    kept = {path.name for path in KEPT if path.parent == NEWEST}
    assert kept == set(methods.names()), (
        f"run `python tools/keep_models.py tests/models/{NEWEST.name}`"
    )
    assert len([path for path in KEPT if path.parent.name == "release_0.1.0"]) == 5


def test_kept_label_sets_belong_to_their_model_and_decide_as_they_did() -> None:
    model = viewgap.load_model(NEWEST / WITH_SETS)
    sets = viewgap.LabelSets.load(NEWEST / f"{WITH_SETS}.sets.json", model)
    assert np.asarray(sets.predict(X)).tolist() == answers(NEWEST / WITH_SETS)["sets"]


def test_a_kept_model_can_be_saved_by_this_version(tmp_path: Path) -> None:
    for model in (MODELS / "release_0.1.0" / "random_forest", MODELS / "scsd_0.1" / "pooled"):
        old = viewgap.load_model(model)
        viewgap.save_model(old, tmp_path / model.name)
        described = json.loads((tmp_path / model.name / "model.json").read_text(encoding="utf-8"))
        assert described["format"] == FORMAT
        again = viewgap.load_model(tmp_path / model.name)
        views = {
            name: np.zeros((2, dim))
            for name, dim in zip(old.view_names_, old.view_dims_, strict=True)
        }
        np.testing.assert_array_equal(again.predict_proba(views), old.predict_proba(views))
