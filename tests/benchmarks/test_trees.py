"""The comparison of tree libraries runs, and keeps one figure of each kind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import viewgap
from benchmarks import trees


@pytest.fixture
def small_data(monkeypatch: Any, tmp_path: Path) -> Path:
    data = viewgap.load_dataset("synthetic", n_samples=60, seed=0)
    monkeypatch.setattr("viewgap.datasets.load_dataset", lambda name: data)
    monkeypatch.setattr(trees, "KEPT", tmp_path / "trees.json")
    monkeypatch.setattr(trees, "TREES", 3)
    return tmp_path / "trees.json"


@pytest.mark.parametrize("views", ["one by one", "side by side"])
@pytest.mark.parametrize("library", ["scikit-learn Extra", "scikit-learn Hist"])
def test_figures_are_measured_and_kept(
    small_data: Path, monkeypatch: Any, views: str, library: str
) -> None:
    command = ["trees", "small", "--folds", "10:11", "--libraries", library, "--views", views]
    monkeypatch.setattr("sys.argv", command)
    trees.main()
    trees.main()
    kept = json.loads(small_data.read_text())
    [figure] = kept["figures"]
    assert figure["views"] == views
    assert 0 < figure["ap_validation"] <= 1
    assert kept["installed_megabytes"][figure["library"]] > 1
