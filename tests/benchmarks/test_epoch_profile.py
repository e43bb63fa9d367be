"""The profile of an epoch: what is counted, and that the fit is the one that ships."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import epoch_profile
from viewgap.bench.run.task import Task

pytestmark = pytest.mark.slow
CONFIG = """
[experiment]
dataset = "synthetic"
dataset_options = {n_samples = 100}

[[method]]
name = ["late_fusion_ridge", "dicnet", "ddinet"]
params = {}
"""


def test_first_tasks_of_the_networks(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(CONFIG)
    found = epoch_profile.networks_of(tmp_path / "config.toml", "synthetic", ())
    assert [(task.method, task.fold) for task in found] == [("dicnet", 0), ("ddinet", 0)]


def test_a_profile_of_a_few_epochs() -> None:
    params = {"wide": 16, "embedding": 8, "batch_size": 20}
    task = Task("synthetic", "dicnet", params=params, dataset_options={"n_samples": 100})
    line = epoch_profile.measure(task, "cpu")
    assert line["steps"] == 4  # 70 rows, three batches of 20 and one of 10
    assert line["kernels_per_step"] >= line["steps"]
    assert line["kernel_ms"] > 0
    assert "dicnet" in epoch_profile.as_text(line, top=2)
