"""The recipe for MLflow in docs/share.md, where MLflow is installed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import viewgap

PAGE = Path(__file__).parents[1] / "docs" / "share.md"


def recipe() -> str:
    found = re.findall(r"^```\n(import mlflow.*?)^```", PAGE.read_text(), re.M | re.S)
    assert len(found) == 1
    return str(found[0])


def test_the_recipe_is_python() -> None:
    compile(recipe(), "share.md", "exec")


def test_the_recipe_brings_the_model_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path / 'runs.db'}")
    x = np.random.default_rng(0).normal(size=(40, 2))
    before = viewgap.LateFusionRidge(random_state=0).fit({"a": x}, (x > 0).astype(float))
    names: dict[str, Any] = {"model": before, "X_test": {"a": x}, "y_test": (x > 0).astype(float)}
    exec(compile(recipe(), "share.md", "exec"), names)
    assert names["model"] is not before
    np.testing.assert_array_equal(
        names["model"].predict_proba({"a": x}), before.predict_proba({"a": x})
    )
